"""Keeps the bytes of the part of a request that rarely changes: model, system prompt, tools."""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode
from collections import OrderedDict
from collections.abc import Callable
from hashlib import sha256

from channels.record import record
from ohmo.contracts.provider import ModelRequest, Section, ToolSpec

_Key = tuple[str, int, str | None]
_Held = tuple[tuple[Section, ...], tuple[ToolSpec, ...], "Head"]


@record
class Head:
    """``digest``: of parameters, tools and system prompt, six characters each."""

    body: bytes
    digest: str

    @staticmethod
    def of(body: bytes, parameters: object, tools: object, system: object) -> Head:
        parts = (
            json.dumps(part, ensure_ascii=True, separators=(",", ":")).encode()
            for part in (parameters, tools, system)
        )
        return Head(body, "".join(short(sha256(part).digest(), 6) for part in parts))


def short(digest: bytes, characters: int) -> str:
    return urlsafe_b64encode(digest)[:characters].decode()


class Heads:
    """The last few heads; equal parts give the same bytes without building them again. ``built``
    counts heads that were made."""

    def __init__(self, build: Callable[[ModelRequest], Head], *, limit: int = 64) -> None:
        self._build = build
        self._limit = limit
        self._held: OrderedDict[tuple[_Key, int], list[_Held]] = OrderedDict()
        self.built = 0

    def __call__(self, request: ModelRequest) -> Head:
        key = ((request.model, request.max_output, request.effort), hash(request.system))
        shelf = self._held.setdefault(key, [])
        self._held.move_to_end(key)
        for system, tools, made in shelf:
            if system == request.system and tools == request.tools:
                return made
        made = self._build(request)
        self.built += 1
        shelf[:] = [*shelf[-3:], (request.system, request.tools, made)]
        while len(self._held) > self._limit:
            self._held.popitem(last=False)
        return made

    def clear(self) -> None:
        self._held.clear()
