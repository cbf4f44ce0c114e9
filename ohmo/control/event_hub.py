"""Hands what happens in the house to every open stream, and keeps the text of running turns for
streams that open later."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import groupby

from channels.record import record
from ohmo.contracts.agent import (
    Event,
    ModelDone,
    Status,
    TextDelta,
    TextReset,
    ToolRefused,
    ToolStarted,
    TurnEnded,
    TurnStarted,
)
from ohmo.contracts.store import Hint
from ohmo.control.ports import Watch
from ohmo.control.responses import dumps
from ohmo.lifecycle import follow, harmless

_LAG = 2048  # events one slow reader may have waiting; then it gets a snapshot instead
_KEPT = 4096  # entries of the journal


@record
class Snapshot:
    """A turn in progress: what it said since its last durable step. ``turn`` empty: none runs."""

    turn: str
    text: str
    status: str


NOTHING = Snapshot("", "", "")


@record
class Changed:
    """Something durable is different: ``what`` as in ``Hint.kind``. Lists that show it ask again;
    ``thread`` empty: any."""

    what: str
    thread: str


class Told:
    """What happened, as every stream tells it: put into JSON once. ``number``: in the journal, 0:
    it has none, it may be lost."""

    __slots__ = ("_data", "_joined", "event", "number", "thread")

    def __init__(self, number: int, thread: str, event: Event | Changed) -> None:
        self.number = number
        self.thread = thread
        self.event = event
        self._data = ""
        self._joined: tuple[Told, Told] | None = None

    @property
    def data(self) -> str:
        """One line: the event, with its thread."""
        if not self._data:
            line = dumps(self.event)
            if not isinstance(self.event, Changed):
                line = f'{{"thread":{dumps(self.thread)},{line[1:]}'
            self._data = line
        return self._data

    def joined(self, run: Sequence[Told]) -> Told:
        """The words of ``run``, which begins with this, as one event: put together for the first
        stream that has just these to tell."""
        assert isinstance(self.event, TextDelta)
        if self._joined is None or self._joined[0] is not run[-1]:
            words = [told.event.text for told in run if isinstance(told.event, TextDelta)]
            event = replace(self.event, text="".join(words))
            self._joined = (run[-1], Told(0, self.thread, event))
        return self._joined[1]


def with_words_joined(entries: Sequence[Told]) -> list[Told]:
    """Words of one turn that come one after the other are one event."""
    kept: list[Told] = []
    by_turn = groupby(entries, lambda told: isinstance(told.event, TextDelta) and told.event.turn)
    for turn, group in by_turn:
        run = list(group)
        if turn and len(run) > 1:
            run = [run[0].joined(run)]
        kept += run
    return kept


class Journal:
    """What a reader of the whole house must not miss, numbered; as much as fits. The numbers of
    another life of the daemon mean nothing here."""

    def __init__(self, epoch: str) -> None:
        self._epoch = epoch
        self._entries: deque[Told] = deque(maxlen=_KEPT)
        self.last = 0

    def add(self, thread: str, event: Event | Changed) -> Told:
        self.last += 1
        entry = Told(self.last, thread, event)
        self._entries.append(entry)
        return entry

    def mark(self, number: int) -> str:
        """The id a reader comes back with."""
        return f"{self._epoch}-{number}"

    def since(self, mark: str) -> list[Told] | None:
        """What came after a mark; None when that cannot be said any more."""
        epoch, _, text = mark.rpartition("-")
        if epoch != self._epoch or not text.isascii() or not text.isdigit() or len(text) > 18:
            return None
        number = int(text)
        first = self._entries[0].number if self._entries else self.last + 1
        if number > self.last or number + 1 < first:
            return None
        return [entry for entry in self._entries if entry.number > number]


class Listener:
    """One open stream. ``thread`` None: everything. ``bell`` rings when there is a reason to look;
    ``stirred``: because of a commit."""

    def __init__(self, thread: str | None, bell: asyncio.Event) -> None:
        self.thread = thread
        self.bell = bell
        self.lost = False
        self.stirred = True
        self._events: deque[Told] = deque()

    def hear(self, entry: Told) -> None:
        if self.thread is not None and entry.thread != self.thread:
            return
        if len(self._events) >= _LAG:
            self._events.clear()
            self.lost = True
        self._events.append(entry)
        self.bell.set()

    def take(self) -> list[Told]:
        events = list(self._events)
        self._events.clear()
        return events


class EventHub:
    """``also``: by name, told every event (metrics, the log). ``epoch``: a name of this life of the
    daemon."""

    def __init__(
        self, watch: Watch, also: Mapping[str, Callable[[str, Event], None]], epoch: str
    ) -> None:
        self._watch = watch
        self._also = [harmless(who, hear) for who, hear in also.items()]
        self.journal = Journal(epoch)
        self._turns: dict[str, Snapshot] = {}
        self._listeners: list[Listener] = []
        self.closing = False
        self.commits = 0  # of which this process has heard

    async def run(self) -> None:
        """Until cancelled."""
        stop = self._watch.listen(self._hint)
        try:
            await follow("streams", self._watch.events, self.hear)
        finally:
            stop()

    def hear(self, thread: str, event: Event) -> None:
        for listen in self._also:
            listen(thread, event)
        match event:
            case TurnStarted():
                self._turns[thread] = Snapshot(event.turn, "", "")
            case TurnEnded():
                self._turns.pop(thread, None)
            case TextDelta():
                now = self._turns.get(thread, NOTHING)
                text = now.text + event.text if now.turn == event.turn else event.text
                self._turns[thread] = Snapshot(event.turn, text, now.status)
            case ModelDone() | TextReset():  # its text is a durable step now, or void
                self._turns[thread] = Snapshot(event.turn, "", "")
            case ToolStarted():
                self._turns[thread] = replace(
                    self.snapshot(thread), turn=event.turn, status=event.summary
                )
            case ToolRefused():
                self._turns[thread] = replace(
                    self.snapshot(thread), turn=event.turn, status=f"{event.name} was not run"
                )
            case Status():
                self._turns[thread] = replace(
                    self.snapshot(thread), turn=event.turn, status=event.text
                )
            case _:
                pass
        entry = Told(0, thread, event)
        if isinstance(event, TurnStarted | TurnEnded):
            entry = self.journal.add(thread, event)
        for listener in self._listeners:
            listener.hear(entry)

    def snapshot(self, thread: str | None) -> Snapshot:
        return NOTHING if thread is None else self._turns.get(thread, NOTHING)

    @contextmanager
    def listen(self, thread: str | None) -> Generator[Listener]:
        """Events from now on; take the snapshot in the same breath."""
        listener = Listener(thread, asyncio.Event())
        self._listeners.append(listener)
        try:
            yield listener
        finally:
            self._listeners.remove(listener)

    def close(self) -> None:
        """Every stream ends soon; its client comes again."""
        self.closing = True
        for listener in self._listeners:
            listener.bell.set()

    def _hint(self, hints: Sequence[Hint]) -> None:
        self.commits += 1
        threads = {hint.thread for hint in hints}
        changes = [self.journal.add(hint.thread, Changed(hint.kind, hint.thread)) for hint in hints]
        for listener in self._listeners:
            if listener.thread is None:
                for change in changes:
                    listener.hear(change)
            elif "" in threads or listener.thread in threads:
                listener.stirred = True
                listener.bell.set()
