"""What slash commands may look at, in words."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass

from ohmo.commands.contract import Command
from ohmo.contracts.reports import Reports, ThreadInfo
from ohmo.contracts.status import HouseStatus
from ohmo.contracts.store import Asked, Store

LATEST = 1_000  # messages of the whole house that are looked through for those of one thread


@dataclass(frozen=True, slots=True)
class HouseDesk:
    """Implements ``ohmo.commands.contract.Desk``."""

    store: Store
    reports: Reports
    house: Callable[[], Awaitable[HouseStatus]]
    turn_of: Callable[[str], str | None]
    known: Mapping[str, Command]

    async def open_questions(self, thread: str) -> list[Asked]:
        return await self.store.open_questions(thread)

    async def thread(self, thread: str) -> ThreadInfo | None:
        return await self.reports.thread(thread)

    async def status(self) -> HouseStatus:
        return await self.house()

    def running_turn(self, thread: str) -> str | None:
        return self.turn_of(thread)

    def commands(self) -> tuple[Command, ...]:
        return tuple(self.known.values())

    async def usage_today(self) -> str:
        rows = await self.reports.usage(days=1)
        lines = [
            f"- {row.model}: {row.calls} calls, {row.input + row.cached + row.written} tokens in ({row.cached} from cache), "
            f"{row.output} out, ${row.micro_usd / 1e6:.4f}"
            for row in rows
        ]
        return "Today:\n\n" + "\n".join(lines) if lines else "Nothing was spent today."

    async def inbox_of(self, thread: str) -> str:
        found = [*await self.reports.inbox(state="waiting", limit=LATEST), *await self.reports.inbox(state="taken", limit=LATEST)]
        here = sorted((one for one in found if one.thread == thread and one.kind in ("message", "wake")), key=lambda one: one.seq)
        if not here:
            return "Nothing waits here."
        return "\n".join(f"- {one.seq}: {one.state} since {one.said_at:%H:%M:%S} UTC" for one in here)

    async def why(self, thread: str, number: str) -> str:
        if number and not (number.isascii() and number.isdigit() and len(number) <= 15):
            return f"`/why {number}`: a message has a number; `/inbox` shows them."
        if number:
            found = await self.reports.arrival(thread, int(number))
        else:
            said = [one for one in await self.reports.inbox(limit=LATEST) if one.thread == thread and one.kind in ("message", "wake")]
            found = max(said, key=lambda one: one.seq, default=None)
        if found is None:
            return "There is no such message in this thread."
        ending = f"{found.ending}{': ' + found.reason if found.reason else ''}" if found.state == "ended" else found.state
        return f"Message {found.seq} of {found.said_at:%Y-%m-%d %H:%M:%S} UTC: {ending}."
