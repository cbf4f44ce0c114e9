"""The bytes of a model request: its head (model, system prompt, tools) and its conversation are
kept, each step is turned into bytes once, and what can no longer change is never touched again.

A request of turn 500 costs what a request of turn 20 costs: one comparison of tuples in C, the
bytes of the new steps, one join. The byte prefix of consecutive requests is equal, which is also
what every provider's prompt cache wants. A short digest of each part is what a replay compares.
"""

from __future__ import annotations

import asyncio
import base64
import json
from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable, Sequence
from copy import copy
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import pairwise
from pathlib import Path
from typing import Protocol

from channels.record import record
from ohmo.contracts.messages import Image, Step, UserStep
from ohmo.contracts.provider import ModelRequest, Section, ToolSpec
from ohmo.providers.wire_parts import images, last_model_step, split

_Key = tuple[str, int, str | None]
_Held = tuple[tuple[Section, ...], tuple[ToolSpec, ...], "Head"]


@record
class Head:
    """Everything before the messages."""

    body: bytes
    digest: str  # of parameters, tools and system prompt, six characters each

    @staticmethod
    def of(body: bytes, parameters: object, tools: object, system: object) -> Head:
        parts = (
            json.dumps(part, ensure_ascii=True, separators=(",", ":")).encode()
            for part in (parameters, tools, system)
        )
        return Head(body, "".join(short(sha256(part).digest(), 6) for part in parts))


def short(digest: bytes, characters: int) -> str:
    return urlsafe_b64encode(digest)[:characters].decode()


class HeadCache:
    """The last few heads; equal parts give the same bytes without building them again. ``built``
    counts heads that were made."""

    def __init__(self, build: Callable[[ModelRequest], Head], *, limit: int = 64) -> None:
        self._build = build
        self._limit = limit
        self._held: OrderedDict[tuple[_Key, int], list[_Held]] = OrderedDict()
        self.built = 0

    def __call__(self, request: ModelRequest) -> Head:
        key = ((request.model, request.max_output, request.effort), hash(request.system))
        bucket = self._held.setdefault(key, [])
        self._held.move_to_end(key)
        for system, tools, made in bucket:
            if system == request.system and tools == request.tools:
                return made
        made = self._build(request)
        self.built += 1
        bucket[:] = [*bucket[-3:], (request.system, request.tools, made)]
        while len(self._held) > self._limit:
            self._held.popitem(last=False)
        return made

    def clear(self) -> None:
        self._held.clear()


# Rough bytes that a step holds beside its words: the steps of a conversation that is over are kept
# alive by this cache alone.
STEP = 600


@record
class Unseen:
    """Why a picture is not sent; the model is told."""

    why: str


ReadImage = Callable[[Image], str | Unseen]  # base64 of its bytes
GONE = Unseen("is no longer there")


class Running(Protocol):
    """A hash that goes on (``hashlib``)."""

    def update(self, data: bytes, /) -> None: ...
    def copy(self) -> Running: ...
    def digest(self) -> bytes: ...


@dataclass(slots=True)
class Conversation:
    """One conversation on one wire."""

    bucket: int  # see ``_bucket``
    next: Step | None  # the first step of the open exchange when this was last written
    steps: tuple[Step, ...] = ()  # those of closed exchanges
    body: bytearray = field(default_factory=bytearray)  # their bytes
    #: Of the open exchange, by id().
    fragments: dict[int, tuple[Step, bytes]] = field(default_factory=dict[int, tuple[Step, bytes]])
    ids: dict[str, str] = field(default_factory=dict[str, str])  # ohmo's call id -> the wire's
    used: set[str] = field(default_factory=set[str])  # ids of the wire
    plain_until: int = 0  # thinking of model steps before this index is left out
    unseen_until: int = 0  # pictures of steps before this index are only told of
    sum: Running = field(default_factory=sha256)  # of ``body``


class Wire(Protocol):
    def fragment(
        self, step: Step, conversation: Conversation, read_image: ReadImage, *, thinking: bool
    ) -> bytes: ...
    def assemble(
        self, steps: Sequence[Step], fragments: Sequence[bytes], conversation: Conversation
    ) -> bytes:
        """The messages of one exchange, joined by commas; ``fragments`` in the order of
        ``steps``."""
        ...


@record
class Opened:
    """A conversation found for a request, and how its steps divide."""

    conversation: Conversation
    closed: tuple[Step, ...]
    open: tuple[Step, ...]


class ConversationCache:
    """Bounded by bytes, of bodies and, roughly, of the steps they keep alive; the conversation that
    was quiet longest goes first, which is how an evicted session's bytes leave, too. ``rendered``
    counts steps turned into bytes since the start (tests count work, not time)."""

    def __init__(self, wire: Wire, *, limit: int = 6 << 20) -> None:
        self._wire = wire
        self._limit = limit
        # By id(), oldest use first.
        self._conversations: OrderedDict[int, Conversation] = OrderedDict()
        self._buckets: dict[int, list[Conversation]] = {}
        self._bytes = 0
        self.rendered = 0

    def open(self, steps: tuple[Step, ...]) -> Opened:
        cut = last_model_step(steps)
        return Opened(self._find(steps, cut), steps[:cut], steps[cut:])

    def unseen_images(self, opened: Opened) -> list[Image]:
        """What has to be read from disk before ``write``."""
        new = (*opened.closed[len(opened.conversation.steps) :], *opened.open)
        return list(images([step for step in new if id(step) not in opened.conversation.fragments]))

    def write(self, opened: Opened, read_image: ReadImage) -> tuple[bytearray, bytes]:
        """Bytes of the closed and of the open exchanges. The first grows by appending only; the
        caller must not change it."""
        conversation = opened.conversation
        index = len(conversation.steps)
        before = _weight(conversation)
        for piece in split(opened.closed[index:]):
            written = self._assemble(piece, index, conversation, read_image)
            if conversation.body and written:
                written = b"," + written
            conversation.body += written
            conversation.sum.update(written)
            index += len(piece)
        conversation.steps = opened.closed
        tail = self._assemble(opened.open, index, conversation, read_image)
        conversation.next = opened.open[0] if opened.open else None
        keep = {id(step) for step in opened.open}
        conversation.fragments = {
            key: value for key, value in conversation.fragments.items() if key in keep
        }
        self._bytes += _weight(conversation) - before
        while len(self._conversations) > 1 and (
            self._bytes > self._limit or len(self._conversations) > 1024
        ):
            self._drop(next(iter(self._conversations.values())))
        return conversation.body, tail

    def sum_with(self, opened: Opened, tail: bytes) -> bytes:
        """The digest of what ``write`` gave; costs what is new, however long the conversation
        is."""
        whole = opened.conversation.sum.copy()
        whole.update(b"," + tail)
        return whole.digest()

    def without_thinking(self, steps: tuple[Step, ...]) -> bool:
        """Forget the thinking of these steps: the endpoint does not accept it any more. Later
        thinking is sent again. False: that is done already."""
        held = self.open(steps).conversation
        if held.plain_until >= len(steps):
            return False
        self._anew(steps, held, plain=len(steps), unseen=held.unseen_until)
        return True

    def without_pictures(self, steps: tuple[Step, ...]) -> bool:
        """Only tell of the pictures in these steps: the model does not see, or one of them is not
        accepted. False: there are none, or that is done already."""
        held = self.open(steps).conversation
        if not any(images(steps[held.unseen_until :])):
            return False
        self._anew(steps, held, plain=held.plain_until, unseen=len(steps))
        return True

    def _anew(
        self, steps: tuple[Step, ...], held: Conversation, *, plain: int, unseen: int
    ) -> None:
        self._drop(held)
        fresh = self._add(steps)
        fresh.plain_until = plain
        fresh.unseen_until = unseen

    def _assemble(
        self, piece: tuple[Step, ...], index: int, conversation: Conversation, read_image: ReadImage
    ) -> bytes:
        fragments: list[bytes] = []
        for offset, step in enumerate(piece):
            kept = conversation.fragments.get(id(step))
            if kept is None or kept[0] is not step:
                at = index + offset
                read = read_image if at >= conversation.unseen_until else _told
                thinking = at >= conversation.plain_until
                written = self._wire.fragment(step, conversation, read, thinking=thinking)
                kept = (step, written)
                conversation.fragments[id(step)] = kept
                self.rendered += 1
            fragments.append(kept[1])
        return self._wire.assemble(piece, fragments, conversation) if piece else b""

    def _find(self, steps: tuple[Step, ...], cut: int) -> Conversation:
        best: Conversation | None = None
        for conversation in self._buckets.get(_bucket(steps), ()):
            size = len(conversation.steps)
            if size > cut or (best is not None and size <= len(best.steps)):
                continue
            after = (conversation.next,) if conversation.next is not None else ()
            if steps[size : size + 1] == after and steps[:size] == conversation.steps:
                best = conversation
        if best is None:
            return self._add(steps)
        self._conversations.move_to_end(id(best))
        return best

    def _add(self, steps: tuple[Step, ...]) -> Conversation:
        conversation = Conversation(_bucket(steps), steps[0] if steps else None)
        self._conversations[id(conversation)] = conversation
        self._buckets.setdefault(conversation.bucket, []).append(conversation)
        return conversation

    def _drop(self, conversation: Conversation) -> None:
        del self._conversations[id(conversation)]
        self._bytes -= _weight(conversation)
        bucket = [each for each in self._buckets[conversation.bucket] if each is not conversation]
        if bucket:
            self._buckets[conversation.bucket] = bucket
        else:
            del self._buckets[conversation.bucket]


def _weight(conversation: Conversation) -> int:
    return len(conversation.body) + STEP * len(conversation.steps)


def _bucket(steps: tuple[Step, ...]) -> int:
    """Conversations share one that begin with the same words, or with what cannot be hashed."""
    told = ("context", "memory")  # to all of a day alike
    first = (step for step in steps if not (isinstance(step, UserStep) and step.source in told))
    try:
        return hash(next(first, None))
    except TypeError:
        return 1


# What the first characters of base64 say an image is. A platform may announce every image as PNG;
# both model services refuse a wrong name.
_TRUE_TYPES = {
    "/9j/": "image/jpeg",
    "iVBORw": "image/png",
    "R0lGOD": "image/gif",
    "UklGR": "image/webp",
}


def true_type(data: str, announced: str) -> str:
    """The media type of a base64 image by its own first bytes, else as announced."""
    return next((kind for head, kind in _TRUE_TYPES.items() if data.startswith(head)), announced)


def picture_line(image: Image, unseen: Unseen) -> str:
    """What a model is told instead of a picture."""
    return f"(the image {image.path.name} {unseen.why})"


def _told(image: Image) -> Unseen:
    return Unseen(f"is not shown: this model cannot take it; the file is {image.path}")


async def read_images(images: Sequence[Image], largest: int) -> dict[Path, str | Unseen]:
    """Base64 by path. ``largest``: bytes of it that the endpoint takes."""
    if not images:
        return {}
    return await asyncio.to_thread(
        lambda: {image.path: _encoded(image.path, largest) for image in images}
    )


def _encoded(path: Path, largest: int) -> str | Unseen:
    try:
        size = path.stat().st_size
        if size * 4 > largest * 3:
            return Unseen(
                f"is not shown: {size / 2**20:.1f} MiB are more than the model's service takes"
                f" ({largest * 3 / 4 / 2**20:.1f}); the file is {path}"
            )
        return base64.b64encode(path.read_bytes()).decode("ascii")
    except OSError:
        return GONE


PARTS = ("parameters", "tools", "system", "conversation")
# Where the parts of a digest end: a letter for the wire, six characters for each part of the head,
# twelve for the conversation.
_ENDS = (1, 7, 13, 19, 31)
Joined = Callable[[bytes, bytearray, bytes], Sequence[bytes | bytearray]]


@record
class Rendered:
    """A request as it is sent."""

    body: bytes
    digest: str  # of its ``PARTS``


class Rendering:
    """One wire. ``letter`` names it in digests; ``joined`` puts head, closed exchanges and the open
    one together; ``offered``: the request with the tools as this wire sends them, None: as they
    are; ``closing``: what stands behind it all, in no digest; ``largest``: bytes of a picture in
    base64."""

    def __init__(
        self,
        letter: str,
        wire: Wire,
        head: Callable[[ModelRequest], Head],
        joined: Joined,
        offered: Callable[[ModelRequest], ModelRequest] | None = None,
        closing: Callable[[ModelRequest], bytes] = lambda _: b"",
        largest: int = 20 << 20,
    ) -> None:
        self.letter = letter
        self._offered = offered
        self.conversations = ConversationCache(wire)
        self.heads = HeadCache(head)
        self._joined = joined
        self._closing = closing
        self._largest = largest

    def prepared(self, change: Callable[[ModelRequest], ModelRequest]) -> Rendering:
        """The same, for requests whose head a link of the chain changes before they are sent."""
        offered = self._offered

        def both(request: ModelRequest) -> ModelRequest:
            changed = change(request)
            return changed if offered is None else offered(changed)

        after = copy(self)
        after._offered = both  # noqa: SLF001 - of its own class
        return after

    async def __call__(self, request: ModelRequest) -> Rendered:
        opened = self.conversations.open(request.steps)
        new = self.conversations.unseen_images(opened)
        images = await read_images(new, self._largest)
        closed, tail = self.conversations.write(opened, lambda image: images.get(image.path, GONE))
        head = self.heads(self._offered(request) if self._offered is not None else request)
        digest = self.letter + head.digest + short(self.conversations.sum_with(opened, tail), 12)
        pieces = (*self._joined(head.body, closed, tail), self._closing(request))
        return Rendered(b"".join(pieces), digest)


def differing(one: str, other: str) -> list[str]:
    """Which ``PARTS`` of two digests are not the same; all of them when the wires are not."""
    if one[:1] != other[:1]:
        return list(PARTS)
    parts = zip(PARTS, pairwise(_ENDS), strict=True)
    return [part for part, (start, end) in parts if one[start:end] != other[start:end]]
