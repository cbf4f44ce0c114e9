"""What a person sees while a turn runs: typing, and the answer as it grows. Ephemeral, but for the
first text of a draft, which is a row.

A channel with previews shows them and nothing stays; a channel with edits gets one draft row per
turn, its revisions are edits that may be dropped, and every end of the turn is a row that takes its
place.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field, replace
from typing import Literal

import structlog

from channels.contract import Address, Channel, Outbound, Receipt
from channels.record import record
from channels.text import quote_thinking
from ohmo.ambient import NewId
from ohmo.contracts.agent import (
    Event,
    ModelDone,
    Status,
    TextDelta,
    TextReset,
    ToolDone,
    ToolRefused,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from ohmo.contracts.inwriter import in_writer
from ohmo.contracts.outbox import OutRow, PostRow
from ohmo.gateway.draft_updates import Activity, DraftUpdates, Typing
from ohmo.gateway.sending import Pace
from ohmo.lifecycle import failure_of, follow

log = structlog.get_logger("ohmo.delivery")
FIRST_AFTER = 0.7  # seconds of text before a draft is worth a message: short answers come whole
LEAST = 0.1  # seconds between previews
# seconds a turn runs before anything is shown of it: an answer that is there by then needs no
# typing
QUIET = 0.25
REMEMBERED = 1_000  # drafts that may belong to a turn nobody has heard of yet
_LAST_WORD = re.compile(r"[!-~]{1,400}\Z")
Way = Literal["off", "edits", "preview"]


@dataclass(slots=True)
class _Slot:
    """One running turn, begun at ``began`` (monotonic seconds). ``text`` is the newest; older
    versions are never sent."""

    turn: str
    answer: Outbound  # without its words
    began: float
    text: str = ""
    activity: Activity = field(default_factory=Activity)
    void: bool = False  # the next delta begins a new text
    row: str | None = None
    receipt: Receipt | None = None
    over: bool = False  # the row that takes the draft's place is on its way
    bell: asyncio.Event = field(default_factory=asyncio.Event)
    begins: asyncio.TimerHandle | None = None
    life: asyncio.Task[None] | None = None

    @property
    def address(self) -> Address:
        return self.answer.address

    def end(self) -> None:
        """The turn is over, or nobody looks any more."""
        if self.begins is not None:
            self.begins.cancel()
        if self.life is not None:
            self.life.cancel()

    def grown(self, most: int, redact: Callable[[str], str]) -> str:
        """The text alone, for what cannot be taken back: its last word may be half a secret still,
        and waits for what follows."""
        return _LAST_WORD.sub("", redact(quote_thinking(self.text)))[:most].rstrip()

    def shown(self, most: int, now: float, redact: Callable[[str], str], *, busy: bool) -> str:
        """Text, then what is being done (``busy``: by which tools); at most ``most`` characters,
        cut from the front of the text."""
        doing = self.activity.shown(now - self.began, tools=busy)
        if len(doing) > most:
            doing = ""
        room = most - len(doing) - 2 if doing else most
        text = redact(quote_thinking(self.text))  # before it is cut: half a token has no shape
        if len(text) > room:
            rest = text[len(text) - room + 1 :]
            text = f"…{rest}" if room > 1 else ""
        return "\n\n".join(part for part in (text, doing) if part)


@record
class DraftRows:
    """How a draft becomes durable. ``open`` writes the row of a turn that still runs in a thread
    (thread, turn, row; False: it does not). ``standing``: the draft an earlier run of a turn left,
    None: none."""

    open: Callable[[str, str, PostRow], Awaitable[bool]]
    new_id: NewId
    standing: Callable[[str], Awaitable[OutRow | None]]


@record
class Look:
    """What people see of a turn. ``way`` None: the best the platform offers. ``tools``: also which
    tools are at work. ``redact`` takes secrets out."""

    way: Way | None = None
    tools: bool = True
    redact: Callable[[str], str] = str


class Drafts:
    """For one connected channel, whose turns are heard by ``events``. ``pace`` is shared with what
    is sent: a platform that asks to wait is not revised meanwhile. ``sleep`` waits in real seconds,
    ``now`` tells them."""

    def __init__(
        self,
        channel: Channel,
        name: str,
        events: Callable[[], AbstractContextManager[AsyncIterator[tuple[str, Event]]]],
        rows: DraftRows,
        look: Look | None = None,
        *,
        pace: Pace | None = None,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        look = look or Look()
        self._channel = channel
        self._name = name
        self._events = events
        self._rows = rows
        # What was asked for where the platform can, else the best it offers.
        preview = channel.capabilities.preview
        edits = channel.capabilities.revise is not None
        self._way: Way = "off"
        if look.way != "off" and (preview or edits):
            self._way = "preview" if preview else "edits"
        if look.way == "edits" and edits:
            self._way = "edits"
        self._tools = look.tools
        self._redact = look.redact
        self._sleep = sleep
        self._now = now
        self._typing = Typing(channel, name, sleep)
        self._slots: dict[str, _Slot] = {}
        self._seen: dict[str, Receipt] = {}  # the newest drafts that became visible, by row
        self._updates = DraftUpdates(channel, name, pace)

    async def run(self) -> None:
        """Until cancelled."""
        async with asyncio.TaskGroup() as group:

            def note(thread: str, event: Event) -> None:
                self._note(thread, event, group)

            try:
                await follow(f"drafts of {self._name}", self._events, note)
            finally:
                for slot in self._slots.values():
                    slot.end()
                self._slots.clear()

    def shown(self, row: OutRow, receipts: Sequence[Receipt]) -> None:
        """Told by delivery: a row is visible now."""
        if row.row.kind != "draft" or not receipts:
            return
        self._seen[row.row.id] = receipts[0]
        if len(self._seen) > REMEMBERED:
            del self._seen[next(iter(self._seen))]
        for slot in self._slots.values():
            if slot.row == row.row.id:
                slot.receipt = receipts[0]
                slot.bell.set()

    @in_writer
    def newest(self, row: str) -> str | None:
        """What a person could read so far of the answer whose draft is ``row``; None: no such turn
        runs here."""
        # Over a copy: the loop may begin a turn meanwhile.
        for slot in list(self._slots.values()):
            if slot.row == row and slot.text.strip():
                return quote_thinking(slot.text)
        return None

    async def make_way(self, row: OutRow) -> None:
        """For delivery, before a row is sent: one that takes a draft's place is not overtaken by an
        older text of it, nor any by "is typing"."""
        target = row.row.target
        for slot in self._slots.values():
            if target is not None and slot.row == target:
                slot.over = True
        if target is not None:
            await self._updates.settled(target)
        await self._typing.settled(row.row.outbound.address)

    def _note(self, thread: str, event: Event, group: asyncio.TaskGroup) -> None:
        if isinstance(event, TurnStarted):
            self._start(thread, event, group)
            return
        slot = self._slots.get(thread)
        if slot is None or slot.turn != event.turn:
            return
        match event:
            case TurnEnded():
                slot.end()
                del self._slots[thread]
            case TextDelta(_, text):
                slot.text = text if slot.void else slot.text + text
                slot.void = False
                slot.activity.line = ""
            case ModelDone(_, _, usage, _):
                slot.void = True
                slot.activity.asked(usage)
                return  # nothing new to see: what it said is there, and a footer alone is no news
            case TextReset():
                slot.text = ""
            case ToolStarted(_, call, name, summary) | ToolRefused(_, call, name, summary):
                slot.activity.line = ""
                slot.activity.started(call, name, summary)
            case ToolDone(_, call, result):
                slot.activity.ended(call, result)
            case Status(_, text):
                slot.activity.line = text
            case _:
                return
        slot.bell.set()

    def _start(self, thread: str, event: TurnStarted, group: asyncio.TaskGroup) -> None:
        place = event.address
        if place is None:
            return
        if place.channel != self._name or place.account != self._channel.account:
            return
        answer = Outbound(place, "", mentions=event.mentions, reply_to=event.reply_to)
        earlier = self._slots.pop(thread, None)
        if earlier is not None:
            earlier.end()
        slot = _Slot(event.turn, answer, self._now())
        self._slots[thread] = slot

        def begin() -> None:
            slot.life = group.create_task(self._live(thread, slot), name=f"draft.{slot.turn}")

        slot.begins = asyncio.get_running_loop().call_later(QUIET, begin)

    async def _live(self, thread: str, slot: _Slot) -> None:
        """One turn's visible life: ends by cancellation at the turn's end."""
        typing = asyncio.create_task(self._typing.show(slot.address), name=f"typing.{slot.turn}")
        try:
            if self._way == "preview":
                interval = self._channel.capabilities.revise
                pause = max(LEAST, interval.total_seconds() if interval is not None else LEAST)
                await slot.bell.wait()
                await self._sleep(min(FIRST_AFTER, pause))
                async for text in self._news(slot, pause):
                    await self._updates.revise(slot.turn, slot.address, None, text)
            elif self._way == "edits":
                await self._edits(thread, slot)
            await asyncio.Event().wait()
        finally:
            typing.cancel()
            await asyncio.wait([typing])

    async def _edits(self, thread: str, slot: _Slot) -> None:
        """Until there is nothing more to revise: the draft was refused, or the row that replaces it
        is on its way."""
        interval = self._channel.capabilities.revise
        pause = max(FIRST_AFTER, interval.total_seconds() if interval is not None else FIRST_AFTER)
        await slot.bell.wait()
        await self._sleep(FIRST_AFTER)
        async for text in self._news(slot, pause):
            if slot.row is None:
                draft = replace(slot.answer, text=text, draft=True)
                row = PostRow(self._rows.new_id(), "draft", draft)
                slot.row = row.id  # before the row is written: delivery may be quick
                opened = await self._rows.open(thread, slot.turn, row)
                if not opened and not await self._take_up(slot):
                    return
            elif slot.over:
                return
            elif slot.receipt is not None:
                await self._updates.revise(slot.row, slot.address, slot.receipt, text)

    async def _take_up(self, slot: _Slot) -> bool:
        """A turn that goes on after a crash, an outage or a question grows in the draft it left."""
        draft: OutRow | None = None

        async def look() -> None:
            nonlocal draft
            draft = await self._rows.standing(slot.turn)

        error = await failure_of(look())
        if error is not None:
            log.warning("draft_lost", channel=self._name, turn=slot.turn, error=str(error))
        if draft is None:
            return False
        slot.row = draft.row.id
        slot.receipt = self._seen.get(draft.row.id)
        if slot.receipt is None and draft.state == "sent":
            receipts = [state.receipt for state in draft.parts if state.receipt is not None]
            slot.receipt = receipts[0] if receipts else None
        slot.bell.set()
        return True

    async def _news(self, slot: _Slot, pause: float) -> AsyncIterator[str]:
        """The newest text, at most once in ``pause`` seconds, when it is another one."""
        last_text = ""
        last_receipt = None
        most = self._channel.capabilities.max_text
        while True:
            while (wait := self._updates.wait(slot.address.chat)) > 0:
                await self._sleep(wait)
            slot.bell.clear()  # time alone is no news
            if self._channel.capabilities.appends:
                text = slot.grown(most, self._redact)
            else:
                text = slot.shown(most, self._now(), self._redact, busy=self._tools)
            if text and (text != last_text or slot.receipt is not last_receipt):
                last_text = text
                last_receipt = slot.receipt
                yield text
                await self._sleep(pause)
            await slot.bell.wait()


def way_of(streaming: str | None) -> Way | None:
    """As the configuration says it; what has no way of its own is the best the platform offers."""
    return streaming if streaming in ("off", "edits", "preview") else None
