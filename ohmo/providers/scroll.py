"""Keeps the bytes of a conversation: each step is turned into bytes once, and what can no longer
change is never touched again.

A request of turn 500 costs what a request of turn 20 costs: one comparison of tuples in C, the
bytes of the new steps, one join. The byte prefix of consecutive requests is equal, which is also
what every provider's prompt cache wants.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from typing import Protocol

from channels.record import record
from ohmo.contracts.messages import Image, Step
from ohmo.providers.exchanges import images, last_model_step, split

# rough bytes that a step holds beside its words: those of a conversation that is over are kept by
# its scroll alone
STEP = 600
Picture = Callable[[Image], str | None]  # base64 of its bytes; None when the file is gone


class Running(Protocol):
    """A hash that goes on (``hashlib``)."""

    def update(self, data: bytes, /) -> None: ...
    def copy(self) -> Running: ...
    def digest(self) -> bytes: ...


@dataclass(slots=True)
class Scroll:
    """One conversation on one wire. ``body``: the bytes of ``steps``, closed exchanges only."""

    shelf: int
    next: Step | None  # the first step of the open exchange when this was last written
    steps: tuple[Step, ...] = ()
    body: bytearray = field(default_factory=bytearray)
    fragments: dict[int, tuple[Step, bytes]] = field(
        default_factory=dict[int, tuple[Step, bytes]]
    )  # of the open exchange, by id()
    ids: dict[str, str] = field(
        default_factory=dict[str, str]
    )  # the house's call id -> the id on this wire
    used: set[str] = field(default_factory=set[str])
    plain_until: int = 0  # thinking of model steps before this index is left out
    sum: Running = field(default_factory=sha256)  # of ``body``


class Wire(Protocol):
    def fragment(
        self, step: Step, scroll: Scroll, picture: Picture, *, thinking: bool
    ) -> bytes: ...
    def assemble(self, steps: Sequence[Step], fragments: Sequence[bytes], scroll: Scroll) -> bytes:
        """The messages of one exchange, joined by commas; ``fragments`` in the order of
        ``steps``."""
        ...


@record
class Opened:
    """A scroll found for a request, and how its steps divide."""

    scroll: Scroll
    closed: tuple[Step, ...]
    open: tuple[Step, ...]


class Scrolls:
    """Bounded by bytes, of bodies and, roughly, of the steps they keep alive; the conversation that
    was quiet longest goes first, which is how an evicted session's bytes leave, too. ``rendered``
    counts steps turned into bytes since the start (tests count work, not time)."""

    def __init__(self, wire: Wire, *, limit: int = 6 << 20) -> None:
        self._wire = wire
        self._limit = limit
        self._scrolls: OrderedDict[int, Scroll] = OrderedDict()  # by id(), oldest use first
        self._shelves: dict[int, list[Scroll]] = {}
        self._bytes = 0
        self.rendered = 0

    def open(self, steps: tuple[Step, ...]) -> Opened:
        cut = last_model_step(steps)
        return Opened(self._find(steps, cut), steps[:cut], steps[cut:])

    def unseen_images(self, opened: Opened) -> list[Image]:
        """What has to be read from disk before ``write``."""
        new = (*opened.closed[len(opened.scroll.steps) :], *opened.open)
        return list(images([step for step in new if id(step) not in opened.scroll.fragments]))

    def write(self, opened: Opened, picture: Picture) -> tuple[bytearray, bytes]:
        """Bytes of the closed and of the open exchanges. The first grows by appending only; the
        caller must not change it."""
        scroll = opened.scroll
        index = len(scroll.steps)
        before = _weight(scroll)
        for piece in split(opened.closed[index:]):
            written = self._assemble(piece, index, scroll, picture)
            if scroll.body and written:
                written = b"," + written
            scroll.body += written
            scroll.sum.update(written)
            index += len(piece)
        scroll.steps = opened.closed
        tail = self._assemble(opened.open, index, scroll, picture)
        scroll.next = opened.open[0] if opened.open else None
        keep = {id(step) for step in opened.open}
        scroll.fragments = {key: value for key, value in scroll.fragments.items() if key in keep}
        self._bytes += _weight(scroll) - before
        self._trim()
        return scroll.body, tail

    def sum_with(self, opened: Opened, tail: bytes) -> bytes:
        """The digest of what ``write`` gave; costs what is new, however long the conversation
        is."""
        whole = opened.scroll.sum.copy()
        whole.update(b"," + tail)
        return whole.digest()

    def without_thinking(self, steps: tuple[Step, ...]) -> None:
        """Forget the thinking of these steps: the endpoint does not accept it any more. Later
        thinking is sent again."""
        self._drop(self.open(steps).scroll)
        self._add(steps).plain_until = len(steps)

    def _assemble(
        self, piece: tuple[Step, ...], index: int, scroll: Scroll, picture: Picture
    ) -> bytes:
        fragments: list[bytes] = []
        for offset, step in enumerate(piece):
            kept = scroll.fragments.get(id(step))
            if kept is None or kept[0] is not step:
                kept = (
                    step,
                    self._wire.fragment(
                        step, scroll, picture, thinking=index + offset >= scroll.plain_until
                    ),
                )
                scroll.fragments[id(step)] = kept
                self.rendered += 1
            fragments.append(kept[1])
        return self._wire.assemble(piece, fragments, scroll) if piece else b""

    def _find(self, steps: tuple[Step, ...], cut: int) -> Scroll:
        best: Scroll | None = None
        for scroll in self._shelves.get(_shelf(steps), ()):
            size = len(scroll.steps)
            if size > cut or (best is not None and size <= len(best.steps)):
                continue
            if (
                steps[size : size + 1] == ((scroll.next,) if scroll.next is not None else ())
                and steps[:size] == scroll.steps
            ):
                best = scroll
        if best is None:
            return self._add(steps)
        self._scrolls.move_to_end(id(best))
        return best

    def _add(self, steps: tuple[Step, ...]) -> Scroll:
        scroll = Scroll(_shelf(steps), steps[0] if steps else None)
        self._scrolls[id(scroll)] = scroll
        self._shelves.setdefault(scroll.shelf, []).append(scroll)
        return scroll

    def _drop(self, scroll: Scroll) -> None:
        del self._scrolls[id(scroll)]
        self._bytes -= _weight(scroll)
        shelf = [each for each in self._shelves[scroll.shelf] if each is not scroll]
        if shelf:
            self._shelves[scroll.shelf] = shelf
        else:
            del self._shelves[scroll.shelf]

    def _trim(self) -> None:
        while len(self._scrolls) > 1 and (self._bytes > self._limit or len(self._scrolls) > 1024):
            self._drop(next(iter(self._scrolls.values())))


def _weight(scroll: Scroll) -> int:
    return len(scroll.body) + STEP * len(scroll.steps)


def _shelf(steps: tuple[Step, ...]) -> int:
    """Conversations with equal first steps share a shelf; so do those whose first step cannot be
    hashed (a model step with calls)."""
    try:
        return hash(steps[0]) if steps else 0
    except TypeError:
        return 1
