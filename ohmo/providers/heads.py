"""Keeps the bytes of the part of a request that rarely changes: model, system prompt, tools."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable

from ohmo.contracts.provider import ModelRequest, Section, ToolSpec

_Key = tuple[str, int, str | None]
_Held = tuple[tuple[Section, ...], tuple[ToolSpec, ...], bytes]


class Heads:
    """The last few heads; equal parts give the same bytes without building them again. ``built`` counts heads that were made."""

    def __init__(self, build: Callable[[ModelRequest], bytes], *, limit: int = 64) -> None:
        self._build = build
        self._limit = limit
        self._held: OrderedDict[tuple[_Key, int], list[_Held]] = OrderedDict()
        self.built = 0

    def __call__(self, request: ModelRequest) -> bytes:
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
