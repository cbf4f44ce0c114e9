"""A request as the bytes of one wire, with a short digest of each of its parts: what a replay
compares."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise

from channels.record import record
from ohmo.contracts.provider import ModelRequest
from ohmo.providers.heads import Head, Heads, short
from ohmo.providers.pictures import read
from ohmo.providers.scroll import Scrolls, Wire

PARTS = ("parameters", "tools", "system", "conversation")
_ENDS = (
    1,
    7,
    13,
    19,
    31,
)  # a letter for the wire, six characters for each part of the head, twelve for the conversation
Joined = Callable[[bytes, bytearray, bytes], Sequence[bytes | bytearray]]


@record
class Rendered:
    body: bytes
    digest: str


class Rendering:
    """One wire. ``letter`` names it in digests; ``joined`` puts head, closed exchanges and the open
    one together; ``offered``: the request with the tools as this wire sends them, None: as they
    are."""

    def __init__(
        self,
        letter: str,
        wire: Wire,
        head: Callable[[ModelRequest], Head],
        joined: Joined,
        offered: Callable[[ModelRequest], ModelRequest] | None = None,
    ) -> None:
        self.letter = letter
        self._offered = offered
        self.scrolls = Scrolls(wire)
        self.heads = Heads(head)
        self._joined = joined

    async def __call__(self, request: ModelRequest) -> Rendered:
        opened = self.scrolls.open(request.steps)
        pictures = await read(self.scrolls.unseen_images(opened))
        closed, tail = self.scrolls.write(opened, lambda image: pictures.get(image.path))
        head = self.heads(self._offered(request) if self._offered is not None else request)
        digest = self.letter + head.digest + short(self.scrolls.sum_with(opened, tail), 12)
        return Rendered(b"".join(self._joined(head.body, closed, tail)), digest)


def differing(one: str, other: str) -> list[str]:
    """Which ``PARTS`` of two digests are not the same; all of them when the wires are not."""
    if one[:1] != other[:1]:
        return list(PARTS)
    return [
        part
        for part, (start, end) in zip(PARTS, pairwise(_ENDS), strict=True)
        if one[start:end] != other[start:end]
    ]
