"""Slash commands: who may say them, what each effect does, and what commands look at, told in
words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import UTC, datetime, tzinfo
from pathlib import Path

from channels.contract import Clock, Inbound, Outbound
from channels.record import record
from channels.text import wall
from ohmo.ambient import NewId
from ohmo.approvals.cards import closing
from ohmo.approvals.permission_orders import permissions_in_words
from ohmo.approvals.questions import OpenQuestions
from ohmo.approvals.trust_orders import TrustOrders
from ohmo.checkpoints.taking_back import TakingBack
from ohmo.commands.contract import (
    Choose,
    Command,
    Decide,
    Desk,
    Effect,
    Order,
    Reply,
    Restart,
    Retry,
    RunNow,
    Standing,
    Stop,
    TakeBack,
    is_order,
    of_plugin,
    parse,
    unknown,
)
from ohmo.context.archive import sessions_with
from ohmo.context.usage import ContextUsage
from ohmo.contracts.cron import BadJob, By, NoSuchJob
from ohmo.contracts.errors import ConfigError
from ohmo.contracts.inwriter import Rest, no_rest
from ohmo.contracts.messages import Step, Text, UserStep
from ohmo.contracts.outbox import Asked, Lapsed, PostRow
from ohmo.contracts.provider import Payer
from ohmo.contracts.reports import (
    ArrivalInfo,
    HouseStatus,
    Reports,
    SessionInfo,
    StepInfo,
    ThreadInfo,
)
from ohmo.contracts.spending import Limit, Scope, Spending
from ohmo.contracts.store import Store
from ohmo.contracts.turns import FREE, Accepted, ThreadSettings
from ohmo.cron.desk import CronDesk
from ohmo.cron.spec import job_line, when_words
from ohmo.gateway.access import Access
from ohmo.gateway.answering import Answering, Ended, notice
from ohmo.sessions.exporting import Exporting, Form


@record
class Turns:
    """What the running turns are told, and tell."""

    stopped: Callable[[str], Awaitable[None]]  # what was said in a thread has been ended
    arrived: Callable[[str, bool], None]  # a message; whether the running turn shall read it now
    chose: Callable[[str, ThreadSettings], None] = lambda _, __: None  # what holds from now on
    # How far a draft has grown: stopping it takes nothing away that was read.
    drafted: Callable[[str], str | None] = lambda _: None
    # What a turn in a thread was saying, which is shown with that note.
    rest: Callable[[str, str], Rest] = lambda _, __: no_rest


@record
class OrdersDeps:
    """What commands need of the house."""

    store: Store
    commands: Mapping[str, Command]
    desk: Desk
    turns: Turns
    answering: Answering
    new_id: NewId
    clock: Clock
    restart: Callable[[], None] = lambda: None
    checkpoints: TakingBack | None = None


class Orders:
    """Each effect, its reply and the command's ending are one transaction."""

    def __init__(self, deps: OrdersDeps) -> None:
        self._deps = deps

    async def carry_out(
        self, accepted: Accepted, said: Inbound, standing: Standing
    ) -> Ended | None:
        """How the command ends; None: its effect's own transaction ended it."""
        commands = self._deps.commands
        parsed = parse(said.text)
        if parsed is None or (parsed[0] not in commands and not is_order(said.text, commands)):
            # Somebody who was let in between the words and their handling.
            reason = "said before this person was let in"
            return self._refused(said, reason, "Please say that again.")
        name, argument = parsed
        name = of_plugin(said.text) or name
        command = commands.get(name)
        if command is None:
            return self._refused(said, f"there is no /{name}", unknown(name, commands))
        if standing not in command.standings:
            reason = f"/{command.name} is not for a {standing}"
            return self._refused(said, reason, f"`/{command.name}` is not for a {standing}.")
        info = await self._deps.desk.thread(accepted.thread)
        settings = info.settings.at(self._deps.clock()) if info is not None else ThreadSettings()
        order = Order(
            accepted.thread, said.address, said.person.id, standing, argument, settings, said
        )
        try:
            effect = await command.run(order, self._deps.desk)
        except ConfigError as error:  # theirs to mend: to try again brings nothing
            return self._refused(said, str(error), f"This cannot be carried out: {error}.")
        effect = command.heeded(effect, argument)
        return await self._apply(accepted, said, effect, owner=standing == "owner")

    async def _apply(
        self, accepted: Accepted, said: Inbound, effect: Effect, *, owner: bool
    ) -> Ended | None:
        match effect:
            case Reply(text, files):
                post = PostRow(
                    self._deps.new_id(), "notice", Outbound(said.address, text, files=files)
                )
                return Ended("answered", posts=(post,))
            case TakeBack(kind, back, force):
                assert self._deps.checkpoints is not None
                where = (accepted.thread, accepted.seq)
                taken = await self._deps.checkpoints.take_back(*where, kind, back, force=force)
                told = UserStep((Text(taken.told),), "house", "notice") if taken.told else None
                return replace(self._answered(said, taken.text), told=told)
            case Choose(text, chosen):

                async def chose() -> None:
                    self._deps.turns.chose(accepted.thread, chosen)

                posts = (self._notice(said, text),)
                return Ended("answered", posts=posts, settings=chosen, then=chose)
            case Stop(text, fresh, resumes):
                thread = accepted.thread
                turns = self._deps.turns
                note = f"stopped by {said.person.name or said.person.id}"
                await self._deps.store.stop(
                    thread,
                    accepted.seq,
                    person=said.person.id,
                    fresh=fresh,
                    posts=[self._notice(said, text)],
                    closing=closing(self._deps.new_id, note, turns.drafted),
                    rest=turns.rest(thread, note),
                    resumes=resumes,
                )
                await turns.stopped(thread)
                return None
            case RunNow(lapsed):
                _, text = await self._deps.answering.run_late(said, lapsed, owner=owner)
                return self._answered(said, text)
            case Retry(letters):
                for seq in letters:
                    await self._deps.store.retry_arrival(accepted.thread, seq)
                return Ended("answered")
            case Restart(text):

                async def restart() -> None:
                    self._deps.restart()

                return Ended("answered", posts=(self._notice(said, text),), then=restart)
            case Decide() as decision:
                return await self._deps.answering.decide(accepted, said, decision, owner=owner)

    def _answered(self, said: Inbound, text: str) -> Ended:
        return Ended("answered", posts=(self._notice(said, text),))

    def _refused(self, said: Inbound, reason: str, text: str) -> Ended:
        return Ended("refused", reason, (self._notice(said, text),))

    def _notice(self, said: Inbound, text: str) -> PostRow:
        return notice(self._deps.new_id, said.address, text)


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
    context: Callable[[ThreadInfo], Awaitable[ContextUsage]] | None = None
    memory: Callable[[Order], Awaitable[str]] | None = None
    trust: TrustOrders | None = None
    checkpoints: TakingBack | None = None
    limits: Mapping[Scope, Limit] = field(default_factory=dict[Scope, Limit])
    exporting: Exporting | None = None

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
        dead = [row for row in rows if row.thread == thread]
        dead.sort(key=lambda row: row.seq)
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

    async def context_of(self, thread: str) -> str:
        info = await self.reports.thread(thread)
        if info is None or self.context is None:
            return "Nothing was said here yet."
        lines = (await self.context(info)).lines()
        return "\n".join([lines[0], "", *(f"- {line}" for line in lines[1:])])

    async def memory_of(self, order: Order) -> str:
        if self.memory is None:
            return "There is no memory here."
        return await self.memory(order)

    async def diff_of(self, thread: str, back: int) -> tuple[str, tuple[Path, ...]]:
        assert self.checkpoints is not None
        return await self.checkpoints.shown(thread, back)

    async def sessions_of(self, thread: str) -> list[SessionInfo]:
        return await self.reports.sessions(thread)

    async def holding(self, thread: str, words: str) -> set[int]:
        info = await self.reports.thread(thread)
        return await sessions_with(words, info, self.store.steps) if info is not None else set()

    async def exported(self, order: Order, form: Form) -> tuple[str, tuple[Path, ...]]:
        info = await self.reports.thread(order.thread)
        if info is None or self.exporting is None:
            return "Nothing was said here yet.", ()
        return await self.exporting(info, form, tools=order.standing != "guest")

    async def usage_of(self, order: Order) -> Spending:
        turn, person = self.turn_of(order.thread) or "", f"{order.address.channel}:{order.person}"
        info = await self.reports.thread(order.thread)
        session = f"{order.thread}.{info.session_seq}" if info is not None else ""
        spent = await self.store.spent(Payer(turn, order.thread, person, session=session))
        return Spending(await self.reports.usage(days=1), spent, self.limits)

    async def jobs_of(self, order: Order) -> str:
        """What is done twice after a crash is the same as done once."""
        clock = self.clock
        if clock is None:
            return "There is no clock here."
        everything = order.standing in ("owner", "admin")
        who = "owner" if everything else f"{order.address.channel}:{order.person}"
        by = By(who, order.address.account, everything)
        verb, _, name = order.argument.partition(" ")
        name = name.strip()
        try:
            match verb:
                case "":
                    lines = [job_line(row) for row in await clock.list(by)]
                    if not lines:
                        return "There are no jobs. Say what shall be done and when, and I make one."
                    return "\n".join(lines)
                case "pause" if name:
                    return job_line(await clock.pause(name, by))
                case "resume" if name:
                    return job_line(await clock.resume(name, by))
                case "remove" if name:
                    await clock.remove(name, by)
                    return f"Removed `{name}`."
                case "history" if name:
                    job = await clock.job(name, by)
                    lines = [job_line(job)]
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
        return await permissions_in_words(self.store, order)

    async def trust_of(self, order: Order) -> str:
        if self.trust is None:
            return "There is nothing to trust here."
        return await self.trust(order)

    async def inbox_of(self, thread: str) -> str:
        waiting = await self.reports.inbox(state="waiting", limit=LATEST)
        taken = await self.reports.inbox(state="taken", limit=LATEST)
        rows = sorted(_messages([*waiting, *taken], thread), key=lambda row: row.seq)
        lines = [
            f"- {row.seq}: {row.state} since {wall(row.said_at, self.zone, '%H:%M:%S')}"
            for row in rows
        ]
        return "\n".join(lines) or "Nothing waits here."

    async def why(self, thread: str, number: int | None) -> tuple[str, list[Step]]:
        if number is not None:
            row = await self.reports.arrival(thread, number)
        else:
            rows = _messages(await self.reports.inbox(limit=LATEST), thread)
            row = max(rows, key=lambda row: row.seq, default=None)
        if row is None:
            return "There is no such message here.", []
        ended = row.state == "ended"
        ending = ": ".join(filter(None, (row.ending, row.reason))) if ended else row.state
        said_at = wall(row.said_at, self.zone, "%Y-%m-%d %H:%M:%S")
        said = await self.reports.history(thread, since=row.seq) if row.turn else []
        steps = [one for one in said if isinstance(one, StepInfo) and one.turn == row.turn]
        return f"Message {row.seq} of {said_at}: {ending}.", [one.step for one in steps]


def _messages(rows: Sequence[ArrivalInfo], thread: str) -> list[ArrivalInfo]:
    """Those of a thread that wait for a turn, or waited."""
    return [row for row in rows if row.thread == thread and row.kind in ("message", "wake")]
