"""What slash commands look at, and how it is told in words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
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
        own = [
            asked
            for asked in await self.store.open_questions(order.thread)
            if asked.state == "asked"
        ]
        said = order.said
        if said is None:
            return own[:1]
        anybodys = order.standing in ("owner", "admin")
        shown = [
            one
            for one in await self.cards.shown()
            if anybodys or self.access.may_answer(one.asked, said)
        ]
        if meant := [one.asked for one in shown if one.meant(said)]:
            return meant[:1]
        if own and await self._is_own(own[0], said):
            return own[:1]
        return [*own[:1], *(one.asked for one in shown if one.near(said) and one.asked not in own)]

    async def _is_own(self, asked: Asked, said: Inbound) -> bool:
        """The command replies to the card of the thread's own question."""
        row = await self.store.post_row(asked.ask.id) if said.reply_to is not None else None
        parts = row.parts if row is not None else ()
        return any(
            state.receipt is not None and state.receipt.message == said.reply_to for state in parts
        )

    async def lapsed(self, thread: str) -> Lapsed | None:
        return await self.store.lapsed(thread)

    async def failed(self, thread: str, turn: str | None = None) -> list[ArrivalInfo]:
        dead = [
            one
            for one in await self.reports.inbox(state="dead", limit=LATEST)
            if one.thread == thread
        ]
        last = turn or max(((one.seq, one.turn) for one in dead), default=(0, None))[1]
        return sorted(
            (one for one in dead if last is not None and one.turn == last), key=lambda one: one.seq
        )

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
        rows = await self.reports.usage(days=1)
        lines = [
            f"- {row.model}: {row.calls} calls, {row.sent} tokens in ({row.cached} from cache), "
            f"{row.output} out, {cost_words(row.micro_usd, row.unpriced)}"
            for row in rows
        ]
        return "Today:\n\n" + "\n".join(lines) if lines else "Nothing was spent today."

    async def jobs_of(self, order: Order) -> str:
        if self.clock is None:
            return "There is no clock here."
        everything = order.standing in ("owner", "admin")
        by = By(
            "owner" if everything else f"{order.address.channel}:{order.person}",
            order.address.account,
            everything,
        )
        verb, _, name = order.argument.partition(" ")
        try:
            return await _jobs(self.clock, by, verb, name.strip())
        except (BadJob, NoSuchJob) as error:
            return str(error)

    async def permissions_of(self, order: Order) -> str:
        """Owner and admin see everybody's."""
        everything = order.standing in ("owner", "admin")
        found = await remembered_by(
            self.store, "" if everything else f"{order.address.channel}:{order.person}"
        )
        verb, _, name = order.argument.partition(" ")
        if verb == "revoke" and name.strip():
            known = name.strip() in {one.id for one in found}
            return (
                "Revoked: it asks again."
                if known and await self.store.revoke_grant(name.strip())
                else "There is no such permission."
            )
        if verb:
            return "Say `/permissions`, or `/permissions revoke ID`."
        lines = [_permission_line(one, everything=everything) for one in found]
        return "\n".join(lines) if lines else "Nothing was allowed for longer than once."

    async def inbox_of(self, thread: str) -> str:
        found = [
            *await self.reports.inbox(state="waiting", limit=LATEST),
            *await self.reports.inbox(state="taken", limit=LATEST),
        ]
        here = sorted(
            (one for one in found if one.thread == thread and one.kind in ("message", "wake")),
            key=lambda one: one.seq,
        )
        if not here:
            return "Nothing waits here."
        return "\n".join(
            f"- {one.seq}: {one.state} since {wall(one.said_at, self.zone, '%H:%M:%S')}"
            for one in here
        )

    async def why(self, thread: str, number: str) -> str:
        if number and not (number.isascii() and number.isdigit() and len(number) <= 15):
            return f"`/why {number}`: a message has a number; `/inbox` shows them."
        if number:
            found = await self.reports.arrival(thread, int(number))
        else:
            said = [
                one
                for one in await self.reports.inbox(limit=LATEST)
                if one.thread == thread and one.kind in ("message", "wake")
            ]
            found = max(said, key=lambda one: one.seq, default=None)
        if found is None:
            return "There is no such message here."
        ending = (
            f"{found.ending}{': ' + found.reason if found.reason else ''}"
            if found.state == "ended"
            else found.state
        )
        return (
            f"Message {found.seq} of {wall(found.said_at, self.zone, '%Y-%m-%d %H:%M:%S')}:"
            f" {ending}."
        )


async def _jobs(clock: CronDesk, by: By, verb: str, name: str) -> str:
    """Raises BadJob, NoSuchJob. What is done twice after a crash is the same as done once."""
    match verb:
        case "":
            rows = [_job_line(row) for row in await clock.list(by)]
            return (
                "\n".join(rows)
                if rows
                else "There are no jobs. Say what shall be done and when, and I make one."
            )
        case "pause" if name:
            return _job_line(await clock.pause(name, by))
        case "resume" if name:
            return _job_line(await clock.resume(name, by))
        case "remove" if name:
            await clock.remove(name, by)
            return f"Removed `{name}`."
        case "history" if name:
            row, found = await clock.job(name, by), await clock.history(name, by, limit=10)
            runs = [
                f"- {when_words(one.due, row.body.spec.tz)}:"
                f" {one.state}{f' ({one.reason})' if one.reason else ''}"
                for one in found
            ]
            return "\n".join([_job_line(row), *runs])
        case _:
            return "Say `/cron`, or `/cron history|pause|resume|remove NAME`."


def _permission_line(one: Remembered, *, everything: bool) -> str:
    whose = f" (for {literal(one.person)})" if everything else ""
    until = "always" if one.until == "always" else "for its session"
    return (
        f"- {code_span(one.rule)}: {literal(one.means)}, {until}{whose}. `/permissions revoke"
        f" {one.id}`"
    )


def _job_line(row: JobRow) -> str:
    spec = row.body.spec
    return (
        f"- `{row.name}`: {rhythm(spec)}; next"
        f" {when_words(row.next_at, spec.tz) if row.enabled else 'paused'}"
    )
