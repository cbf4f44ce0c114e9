"""A turn's life between its start and its end: what it records, says, and how it ends."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from ohmo.contracts.cron import Report
from ohmo.contracts.errors import LeaseLost
from ohmo.contracts.inwriter import Closing, Rest, no_rest
from ohmo.contracts.messages import (
    CallResult,
    CallStarted,
    Compaction,
    ModelStep,
    Step,
    Usage,
    UserStep,
)
from ohmo.contracts.outbox import PostRow
from ohmo.contracts.provider import NOBODY, Payer
from ohmo.contracts.turns import Claim, End, Ending, TurnCost
from ohmo.store.codec import column, read_settings, read_step, write_settings, write_step
from ohmo.store.cron_jobs import settle
from ohmo.store.outbox import close, open_drafts, say_more, speak, take_draft
from ohmo.store.spending import spend
from ohmo.store.statements import Moment, Op, Undo, instant
from ohmo.store.threads import (
    TAKEN,
    WAITING,
    Home,
    Numbers,
    find_home,
    give_back,
    hold,
    lock_thread,
    more,
    other_session,
    reserve,
)

_INTERRUPTED = "interrupted by a newer message"


def home_of(claim: Claim) -> Home:
    return Home(claim.thread, claim.address)


def record(
    at: Moment,
    claim: Claim,
    turn: str,
    steps: Sequence[Step],
    *,
    posts: Sequence[PostRow] = (),
    usage: Usage | None = None,
    payer: Payer = NOBODY,
    plans: bool | None = None,
) -> Op[tuple[int, ...]]:
    home = home_of(claim)
    _, numbers = yield from reserve(
        at, home, posts, len(steps), lambda count: hold(claim, count, turn)
    )
    written = yield from append(at, claim.thread, numbers, turn, steps)
    yield from speak(at, home, numbers, posts, turn)
    if usage is not None:
        yield from spend(at, replace(payer, turn=turn, thread=claim.thread), usage)
    if plans is not None:
        rows = yield "SELECT settings FROM threads WHERE thread = ?", (claim.thread,)
        chosen = read_settings(rows[0][0]).plans(claim.session_seq, plans)
        body = write_settings(chosen)
        yield "UPDATE threads SET settings = ? WHERE thread = ?", (body, claim.thread)
    return tuple(written)


_END_TURN = """UPDATE turns SET state = ?, ended = ?, reason = ?, cause = ?, begun_under = NULL
WHERE turn = ?"""
_END_TAKEN = f"""UPDATE inbox SET state = 'ended', ending = ?, reason = ?, ended_at = ?
WHERE thread = ? AND turn = ? AND {TAKEN}"""


def end_turn(at: Moment, turn: str, how: End) -> Op[None]:
    yield _END_TURN, (how.state, at.now, column(how.reason) or None, how.cause, turn)


def end_taken(at: Moment, thread: str, turn: str, ending: Ending, reason: str = "") -> Op[None]:
    yield _END_TAKEN, (ending, column(reason) or None, at.now, thread, turn)


def finish(
    at: Moment,
    claim: Claim,
    turn: str,
    steps: Sequence[Step],
    posts: Sequence[PostRow],
    end: End,
    *,
    usage: Usage | None = None,
    payer: Payer = NOBODY,
) -> Op[tuple[int, ...]]:
    home = home_of(claim)
    _, numbers = yield from reserve(
        at, home, posts, len(steps), lambda count: hold(claim, count, turn)
    )
    written = yield from append(at, claim.thread, numbers, turn, steps)
    posts = list(posts)
    draft = yield from take_draft(at, turn)
    first = next((i for i, post in enumerate(posts) if home.destination(post) == home.thread), None)
    if draft is not None and first is not None and posts[first].target is None:
        posts[first] = replace(posts[first], kind="edit", target=draft)
    yield from speak(at, home, numbers, posts, turn)
    if end.state == "done":
        yield (
            f"""UPDATE inbox SET state = 'ended', ending = 'answered', ended_at = ? WHERE thread = ?
    AND seq =
            (SELECT seq FROM inbox WHERE thread = ? AND turn = ? AND {TAKEN} ORDER BY sort, seq
            LIMIT 1)""",
            (at.now, claim.thread, claim.thread, turn),
        )
        yield from end_taken(at, claim.thread, turn, "merged")
    else:
        yield from end_taken(
            at, claim.thread, turn, "dead" if end.state == "failed" else "stopped", end.reason
        )
    yield from end_turn(at, turn, end)
    if end.report is not None:
        yield from settle(at, claim.thread, end.report)
    yield from give_back(at, claim.thread)
    if usage is not None:
        yield from spend(at, replace(payer, turn=turn, thread=claim.thread), usage)
    return tuple(written)


_HEAD = f"SELECT seq, album FROM inbox WHERE thread = ? AND {WAITING} ORDER BY sort, seq LIMIT 1"
_DEAD = f"""UPDATE inbox SET state = 'ended', ending = 'dead', reason = ?, ended_at = ?
WHERE thread = ? AND {WAITING} AND"""


def bury(at: Moment, claim: Claim, reason: str, posts: Sequence[PostRow]) -> Op[bool]:
    """Reads no body: what cannot be read must not hold up what follows it for ever."""
    home, thread = home_of(claim), claim.thread
    _, numbers = yield from reserve(at, home, posts, 0, lambda count: hold(claim, count))
    opened = yield "SELECT turn FROM turns WHERE thread = ? AND state = 'running'", (thread,)
    head = yield _HEAD, (thread,)
    if opened:
        yield from end_taken(at, thread, opened[0][0], "dead", reason)
        yield from end_turn(at, opened[0][0], End("failed", reason))
    elif head and head[0][1]:
        yield f"{_DEAD} album = ?", (column(reason), at.now, thread, head[0][1])
    elif head:
        yield f"{_DEAD} seq = ?", (column(reason), at.now, thread, head[0][0])
    else:
        raise Undo(False)
    yield from speak(at, home, numbers, posts, None)
    yield from settle(at, thread, Report(reason, failed=True))
    yield from give_back(at, thread)
    return True


def _cut(at: Moment, home: Home, turn: str, closing: Closing, rest: Rest) -> Op[None]:
    """``closing``: what takes the place of its drafts and cards; ``rest``: what is kept of it. Its
    thread is locked."""
    left, numbers = rest(turn), Numbers()
    yield from more(home, numbers, len(left.steps))
    yield from append(at, home.thread, numbers, turn, left.steps)
    shown = yield from close(at, home, (yield from open_drafts(turn)), closing)
    if left.post is not None and not shown:
        yield from say_more(at, home, [left.post], turn)


def interrupt(
    at: Moment, claim: Claim, turn: str, closing: Closing, rest: Rest = no_rest
) -> Op[None]:
    yield from hold(claim, 0, turn)
    yield from _cut(at, home_of(claim), turn, closing, rest)
    yield from end_taken(at, claim.thread, turn, "merged")
    report = Report(_INTERRUPTED, failed=True, cause="interrupted")
    yield from end_turn(at, turn, End("stopped", _INTERRUPTED, cause="interrupted"))
    yield from settle(at, claim.thread, report)
    yield from give_back(at, claim.thread)


def draft(at: Moment, claim: Claim, turn: str, row: PostRow) -> Op[bool]:
    """One at a time, and only in the turn's own thread: the end of the turn takes the place of
    exactly that one."""
    rows = yield (
        """SELECT generation, owner, EXISTS (SELECT 1 FROM turns WHERE turn = ?
    AND turns.thread = threads.thread AND state = 'running')
        FROM threads WHERE thread = ?""",
        (turn, claim.thread),
    )
    if not rows or rows[0][0] != claim.generation:
        raise LeaseLost
    home = home_of(claim)
    if rows[0][1] != claim.owner or not rows[0][2] or home.destination(row) != home.thread:
        raise Undo(False)
    _, numbers = yield from reserve(at, home, [row], 0, lambda count: hold(claim, count, turn))
    if (yield from open_drafts(turn)):
        raise Undo(False)
    yield from speak(at, home, numbers, [replace(row, kind="draft")], turn)
    return True


_STOP_SAID = """UPDATE inbox SET state = 'ended', ending = 'stopped', reason = ?, ended_at = ?
WHERE thread = ? AND seq < ? AND ended_at IS NULL AND state = ?
AND kind IN ('message','wake','edit') RETURNING seq"""


def stop(
    at: Moment,
    thread: str,
    seq: int,
    *,
    person: str,
    fresh: bool,
    posts: Sequence[PostRow],
    closing: Closing,
    rest: Rest = no_rest,
    resumes: int | None = None,
) -> Op[int]:
    """What is stopped is defined by the number of the command: done again after a crash, it stops
    nothing that was said later."""
    home = yield from find_home(thread)
    if home is None:
        raise Undo(0)
    away = [post for post in posts if home.destination(post) != thread]
    _, numbers = yield from reserve(at, home, away, 0, lambda count: lock_thread(thread, count))
    own = yield (
        """UPDATE inbox SET state = 'ended', ending = 'answered', ended_at = ? WHERE thread = ?
    AND seq = ? AND state <> 'ended'
        RETURNING seq""",
        (at.now, thread, seq),
    )
    if not own:
        raise Undo(0)
    reason = f"stopped by {person}"
    turn = yield from _turn_begun_before(thread, seq)
    count = 0
    for rows in (
        (yield _STOP_SAID, (column(reason), at.now, thread, seq, "waiting")),
        (
            (yield _STOP_SAID, (column(reason), at.now, thread, seq, "taken"))
            if turn is not None
            else []
        ),
    ):
        count += len(rows)
    yield "UPDATE threads SET generation = generation + 1 WHERE thread = ?", (thread,)
    if turn is not None:
        yield from _stop_turn(at, home, turn, reason, closing, rest)
    yield from settle(at, thread, Report(reason, failed=True, cause="stopped"))
    yield from more(home, numbers, len(posts) - len(away))  # behind what is kept of the turn
    yield from speak(at, home, numbers, posts, None)
    yield from _stopped_lease(at, thread, fresh, resumes)
    return count


def _turn_begun_before(thread: str, seq: int) -> Op[str | None]:
    """The open turn, when it took something that was said before the command."""
    rows = yield (
        "SELECT turn FROM turns WHERE thread = ? AND state IN ('running','parked')",
        (thread,),
    )
    if not rows:
        return None
    older = yield (
        f"SELECT 1 FROM inbox WHERE thread = ? AND turn = ? AND {TAKEN} AND seq < ? LIMIT 1",
        (thread, rows[0][0], seq),
    )
    return rows[0][0] if older else None


def _stop_turn(
    at: Moment, home: Home, turn: str, reason: str, closing: Closing, rest: Rest
) -> Op[None]:
    # What was said after the command and had been steered into the turn waits again: it must not be
    # lost with it.
    yield (
        f"""UPDATE inbox SET state = 'waiting', turn = NULL WHERE thread = ? AND turn = ?
        AND {TAKEN}""",
        (home.thread, turn),
    )
    yield from end_turn(at, turn, End("stopped", reason, cause="stopped"))
    yield from _cut(at, home, turn, closing, rest)
    cards = yield (
        "SELECT id FROM approvals WHERE turn = ? AND thread = ? AND state = 'asked'",
        (turn, home.thread),
    )
    yield (
        """UPDATE approvals SET state = 'void', answered_at = ? WHERE turn = ? AND thread = ?
        AND state IN ('queued','asked')""",
        (at.now, turn, home.thread),
    )
    yield from close(at, home, [row[0] for row in cards], closing)
    if cards:
        at.asked(home.thread)


def _stopped_lease(at: Moment, thread: str, fresh: bool, resumes: int | None) -> Op[None]:
    """A turn that is still open began after the command: it goes on under a new claim, and belongs
    to the other session."""
    opened = yield (
        "SELECT turn, state FROM turns WHERE thread = ? AND state IN ('running','parked')",
        (thread,),
    )
    if fresh:
        yield from other_session(at, thread, opened[0][0] if opened else None, resumes)
    if not opened:
        yield from give_back(at, thread)
    elif opened[0][1] == "running":
        yield (
            "UPDATE threads SET owner = NULL, until = 0, ready_at = ? WHERE thread = ?",
            (at.now, thread),
        )
        at.ready(thread)


_KINDS: dict[type, str] = {
    UserStep: "user",
    ModelStep: "model",
    CallStarted: "started",
    CallResult: "result",
    Compaction: "compaction",
}


def call_of(step: Step) -> str | None:
    """The call that a step starts or ends; once each, for ever."""
    match step:
        case CallStarted():
            return column(step.call)
        case CallResult():
            return column(step.result.call)
        case _:
            return None


def append(
    at: Moment, thread: str, numbers: Numbers, turn: str, steps: Sequence[Step]
) -> Op[list[int]]:
    written: list[int] = []
    for step in steps:
        seq = numbers.take(thread)
        yield (
            """INSERT INTO steps (thread, seq, turn, kind, call, body, at)
            VALUES (?, ?, ?, ?, ?, ?, ?)""",
            (thread, seq, turn, _KINDS[type(step)], call_of(step), write_step(step), at.now),
        )
        written.append(seq)
    return written


def steps(thread: str, since: int, *, limit: int | None = None) -> Op[list[tuple[int, Step]]]:
    rows = yield (
        "SELECT seq, body FROM steps WHERE thread = ? AND seq >= ? ORDER BY seq LIMIT ?",
        (thread, since, ALL if limit is None else limit),
    )
    return [(seq, read_step(body)) for seq, body in rows]


ALL = 1 << 62  # rows
_SPENT = """SELECT CAST(COALESCE(SUM(input + cached + written), 0) AS BIGINT),
CAST(COALESCE(SUM(output), 0) AS BIGINT) FROM usage
WHERE day BETWEEN ? AND ? AND turn = ?"""


def turn_cost(at: Moment, thread: str, turn: str) -> Op[TurnCost]:
    """Bounded by the turn itself: what came before its first message, or was spent on other days,
    is not looked at. For a turn that is taken up again."""
    known = yield "SELECT began FROM turns WHERE turn = ?", (turn,)
    if not known:
        return TurnCost((), 0, 0, 0.0)
    began = known[0][0]
    first = yield (
        f"SELECT MIN(seq) FROM inbox WHERE thread = ? AND turn = ? AND {TAKEN}",
        (thread, turn),
    )
    rows = yield (
        "SELECT body FROM steps WHERE thread = ? AND seq > ? AND turn = ? ORDER BY seq",
        (thread, first[0][0] if first[0][0] is not None else 0, turn),
    )
    days = (instant(began).date().isoformat(), instant(max(began, at.now)).date().isoformat())
    spent = yield _SPENT, (*days, turn)
    tokens_in, tokens_out = spent[0]
    return TurnCost(
        tuple(read_step(row[0]) for row in rows),
        tokens_in,
        tokens_out,
        max(0, at.now - began) / 1000,
    )
