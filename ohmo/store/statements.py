"""The words between operations and drivers: an operation is a generator that yields statements and
is sent their rows."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Protocol, TypeVar

from channels.record import record
from ohmo.ambient import IdSource, NewId
from ohmo.contracts.outbox import OutRow
from ohmo.contracts.store import Hint

Value = str | int | None
Statement = tuple[str, tuple[Value, ...]]
"""SQL with ``?`` for every value; the text is the same on both engines. ``/*skip locked*/`` is the
one dialect word."""
Row = tuple[Any, ...]
Rows = list[Row]
T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
Op = Generator[Statement, Rows, T]


@record
class Instance:
    """This process, as the rows it writes name it."""

    clock: Callable[[], datetime]
    writer: str  # whose chain of the audit log this is
    new_id: NewId = field(default_factory=IdSource)  # for operations only: they run one by one
    monotonic: Callable[[], float] = time.monotonic

    def moment(self) -> Moment:
        return Moment(milliseconds(self.clock()), self.monotonic(), self)


@dataclass(slots=True)
class Moment:
    """When an operation was asked for, by whom, and what it will have changed once it is
    committed."""

    now: int  # ms UTC, from the injected clock
    monotonic: float  # seconds: a lease counted from here never lasts longer than the store says
    instance: Instance
    hints: list[Hint] = field(default_factory=list[Hint])

    def later(self, seconds: float) -> int:
        return self.now + round(seconds * 1000)

    def ready(self, thread: str, channel: str = "", account: str = "") -> None:
        self.hints.append(Hint("ready", thread, channel, account))

    def spoke(self, thread: str, channel: str, account: str, row: OutRow | None = None) -> None:
        self.hints.append(Hint("post", thread, channel, account, row))

    def scheduled(self) -> None:
        self.hints.append(Hint("job"))

    def asked(self, thread: str) -> None:
        self.hints.append(Hint("approval", thread))

    def changed(self, thread: str) -> None:
        """Nobody has to act, but whoever watches will want to see it."""
        self.hints.append(Hint("state", thread))


class Undo(Exception):
    """Roll this operation back and return ``value``: it turned out that nothing may be written."""

    def __init__(self, value: object) -> None:
        super().__init__()
        self.value = value


class MakeOp(Protocol[T_co]):
    """Starts an operation afresh; a driver may do so again when the engine asks to repeat the
    transaction."""

    def __call__(self, at: Moment, /) -> Op[T_co]: ...  # pyright: ignore[reportInvalidTypeVarUse]


Hear = Callable[[Sequence[Hint]], None]


class Listeners:
    """Who wants to hear that something was committed. Called on the event loop, once per group of
    commits."""

    def __init__(self) -> None:
        self._hear: dict[int, Hear] = {}
        self._next = 0

    def listen(self, hear: Hear) -> Callable[[], None]:
        """Returns what ends it."""
        key = self._next
        self._next += 1
        self._hear[key] = hear

        def end() -> None:
            self._hear.pop(key, None)

        return end

    def tell(self, hints: Sequence[Hint]) -> None:
        if hints:
            distinct = list(dict.fromkeys(hints))
            for hear in list(self._hear.values()):
                hear(distinct)


class Driver(Protocol):
    """An engine. Raises Unavailable, LeaseLost, Conflict, Damaged."""

    @property
    def listeners(self) -> Listeners: ...

    async def write(self, make: MakeOp[T], lock: str = "") -> T:
        """One transaction of its own, all or nothing; returns after the commit. ``lock``: the only
        thread it will lock, when that is known."""
        ...

    async def read(self, make: MakeOp[T], *, slow: bool = False, hot: bool = False) -> T:
        """One consistent snapshot. ``slow``: a report, kept away from the short reads, never
        waiting for the writer. ``hot``: a few rows that were written this moment; whoever wrote
        them has them at hand."""
        ...


def query(sql: str, *values: Value) -> Op[Rows]:
    """An operation of one statement."""
    return (yield sql, values)


def milliseconds(moment: datetime) -> int:
    return round(moment.timestamp() * 1000)


def instant(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, UTC)
