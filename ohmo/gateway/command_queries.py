"""What slash commands look at, and how it is told in words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from datetime import UTC, datetime, tzinfo

from channels.contract import Clock, Inbound
from channels.record import record
from channels.text import code_span, literal, wall
from ohmo.approvals.answering import remembered_by
from ohmo.approvals.questions import OpenQuestions
from ohmo.commands.contract import Command, Order
from ohmo.contracts.cron import BadJob, By, JobRow, NoSuchJob
from ohmo.contracts.messages import cost_words
from ohmo.contracts.outbox import Asked, Lapsed, Remembered
from ohmo.contracts.reports import ArrivalInfo, HouseStatus, Reports, ThreadInfo
from ohmo.contracts.store import Store
from ohmo.contracts.turns import FREE
from ohmo.cron.desk import CronDesk
from ohmo.cron.spec import rhythm, when_words
from ohmo.gateway.access import Access

LATEST = 1_000  # messages of the whole house that are looked through for those of one thread


@record
class CommandQueries:
    """Implements ``ohmo.commands.contract.Desk``."""

    store: Store
    reports: Reports
    house: Callable[[], Awaitable[HouseStatus]]
    turn_of: Callable[[str], str | None]
    known: Mapping[str, Command]
    cards: OpenQuestions
    access: Access
    now: Clock
    clock: CronDesk | None = None
    configured: tuple[str, ...] = ("offline",)
    zone: tzinfo = UTC  # in which times are told

    async def open_questions(self, thread: str) -> list[Asked]:
        return await self.store.open_questions(thread)

    async def meant(self, order: Order) -> list[Asked]:
        """The thread's own question, and those of jobs and webhooks whose card stands here and that
        this person may answer; the one whose card was replied to alone."""
        questions = await self.store.open_questions(order.thread)
        own = [asked for asked in questions if asked.state == "asked"][:1]
        said = order.said
        if said is None:
            return own
        anybodys = order.standing in ("owner", "admin")
        cards = [
            card
            for card in await self.cards.shown()
            if anybodys or self.access.may_answer(card.asked, said)
        ]
        for card in cards:
            if card.meant(said):
                return [card.asked]
        if own and said.reply_to is not None:
            row = await self.store.post_row(own[0].ask.id)
            for state in row.parts if row is not None else ():
                if state.receipt is not None and state.receipt.message == said.reply_to:
                    return own
        near = [card.asked for card in cards if card.near(said)]
        return [*own, *(asked for asked in near if asked not in questions)]

    async def lapsed(self, thread: str) -> Lapsed | None:
        return await self.store.lapsed(thread)

    async def failed(self, thread: str, turn: str | None = None) -> list[ArrivalInfo]:
        rows = await self.reports.inbox(state="dead", limit=LATEST)
        dead = sorted((row for row in rows if row.thread == thread), key=lambda row: row.seq)
        if not turn and dead:
            turn = dead[-1].turn
        return [row for row in dead if turn and row.turn == turn]

    async def thread(self, thread: str) -> ThreadInfo | None:
        return await self.reports.thread(thread)

    async def status(self) -> HouseStatus:
        return await self.house()

    def running_turn(self, thread: str) -> str | None:
        return self.turn_of(thread)

    def free_until(self) -> tuple[datetime, str]:
        until = self.now() + FREE
        return until, self.when(until)

    def when(self, at: datetime) -> str:
        return wall(at, self.zone)

    def commands(self) -> tuple[Command, ...]:
        return tuple(self.known.values())

    def models(self) -> tuple[str, ...]:
        return self.configured

    async def usage_today(self) -> str:
        lines = [
            f"- {row.model}: {row.calls} calls, {row.sent} tokens in ({row.cached} from cache), "
            f"{row.output} out, {cost_words(row.micro_usd, row.unpriced)}"
            for row in await self.reports.usage(days=1)
        ]
        return "Today:\n\n" + "\n".join(lines) if lines else "Nothing was spent today."

    async def jobs_of(self, order: Order) -> str:
        """What is done twice after a crash is the same as done once."""
        clock = self.clock
        if clock is None:
            return "There is no clock here."
        everything = order.standing in ("owner", "admin")
        by = By(
            "owner" if everything else f"{order.address.channel}:{order.person}",
            order.address.account,
            everything,
        )
        verb, _, name = order.argument.partition(" ")
        name = name.strip()
        try:
            match verb:
                case "":
                    lines = [_job_line(row) for row in await clock.list(by)]
                    if not lines:
                        return "There are no jobs. Say what shall be done and when, and I make one."
                    return "\n".join(lines)
                case "pause" if name:
                    return _job_line(await clock.pause(name, by))
                case "resume" if name:
                    return _job_line(await clock.resume(name, by))
                case "remove" if name:
                    await clock.remove(name, by)
                    return f"Removed `{name}`."
                case "history" if name:
                    job = await clock.job(name, by)
                    lines = [_job_line(job)]
                    for run in await clock.history(name, by, limit=10):
                        reason = f" ({run.reason})" if run.reason else ""
                        due = when_words(run.due, job.body.spec.tz)
                        lines.append(f"- {due}: {run.state}{reason}")
                    return "\n".join(lines)
                case _:
                    return "Say `/cron`, or `/cron history|pause|resume|remove NAME`."
        except (BadJob, NoSuchJob) as error:
            return str(error)

    async def permissions_of(self, order: Order) -> str:
        """Owner and admin see everybody's."""
        everything = order.standing in ("owner", "admin")
        person = "" if everything else f"{order.address.channel}:{order.person}"
        grants = await remembered_by(self.store, person)
        verb, _, id = order.argument.partition(" ")
        id = id.strip()
        if verb == "revoke" and id:
            theirs = any(grant.id == id for grant in grants)
            if theirs and await self.store.revoke_grant(id):
                return "Revoked: it asks again."
            return "There is no such permission."
        if verb:
            return "Say `/permissions`, or `/permissions revoke ID`."
        lines: list[str] = []
        for grant in grants:
            whose = f" (for {literal(grant.person)})" if everything else ""
            until = "always" if grant.until == "always" else "for its session"
            lines.append(
                f"- {code_span(grant.rule)}: {literal(grant.means)}, {until}{whose}."
                f" `/permissions revoke {grant.id}`"
            )
        return "\n".join(lines) if lines else "Nothing was allowed for longer than once."

    async def inbox_of(self, thread: str) -> str:
        waiting = await self.reports.inbox(state="waiting", limit=LATEST)
        taken = await self.reports.inbox(state="taken", limit=LATEST)
        rows = sorted(_messages([*waiting, *taken], thread), key=lambda row: row.seq)
        if not rows:
            return "Nothing waits here."
        return "\n".join(
            f"- {row.seq}: {row.state} since {wall(row.said_at, self.zone, '%H:%M:%S')}"
            for row in rows
        )

    async def why(self, thread: str, number: str) -> str:
        if number and not (number.isascii() and number.isdigit() and len(number) <= 15):
            return f"`/why {number}`: a message has a number; `/inbox` shows them."
        if number:
            row = await self.reports.arrival(thread, int(number))
        else:
            rows = _messages(await self.reports.inbox(limit=LATEST), thread)
            row = max(rows, key=lambda row: row.seq, default=None)
        if row is None:
            return "There is no such message here."
        ending = row.state
        if row.state == "ended":
            ending = f"{row.ending}: {row.reason}" if row.reason else f"{row.ending}"
        said_at = wall(row.said_at, self.zone, "%Y-%m-%d %H:%M:%S")
        return f"Message {row.seq} of {said_at}: {ending}."


def _messages(rows: Sequence[ArrivalInfo], thread: str) -> list[ArrivalInfo]:
    """Those of a thread that wait for a turn, or waited."""
    return [row for row in rows if row.thread == thread and row.kind in ("message", "wake")]


def _job_line(row: JobRow) -> str:
    spec = row.body.spec
    next_run = when_words(row.next_at, spec.tz) if row.enabled else "paused"
    return f"- `{row.name}`: {rhythm(spec)}; next {next_run}"
