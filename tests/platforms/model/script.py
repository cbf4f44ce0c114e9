"""What the scripted model server is told to do with one request, and what it remembers of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from ohmo.context.surroundings import BEGINS
from ohmo.providers.wire_parts import SUMMARY_BEFORE


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call. ``arguments`` as text is sent as it is (broken JSON). ``id`` empty: the server
    makes one; None: none is sent (OpenAI)."""

    name: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)
    id: str | None = ""

    @property
    def text(self) -> str:
        return self.arguments if isinstance(self.arguments, str) else json.dumps(self.arguments)


@dataclass(frozen=True, slots=True)
class Turn:
    """One answer. Everything is off by default: an empty Turn is the default behaviour, ``echo:
    <last user text>``.

    ``status`` other than 200 answers with an error of ``kind`` and ``message``. ``delay``: seconds
    before the first byte; ``between``: seconds between chunks. ``stall``: say so many chunks, then
    keep the connection open and say nothing. ``cut``: the same, then drop the connection. ``hold``:
    say so many events of the wire, then nothing until the server is told to go on."""

    text: str | None = None
    calls: tuple[Call, ...] = ()
    thinking: str | None = None
    chunks: int = 3
    delay: float = 0.0
    between: float = 0.0
    stall: int | None = None
    cut: int | None = None
    hold: int | None = None
    stop: str | None = None  # the wire's own word, instead of the natural one
    status: int = 200
    kind: str = ""
    message: str = ""
    retry_after: float | None = None
    in_stream: bool = False  # the error comes as an event of a stream that began well
    empty: bool = False
    no_end: bool = False  # everything but the closing event
    usage: Mapping[str, int] = field(default_factory=dict)
    # OpenAI wire: "no_ids", "object_arguments", "no_usage", "no_index", "names_in_pieces"; what a
    # gateway calls thoughts: "reasoning", "reasoning_details"
    # Responses: "phases", "only_output" (items stand in the completed response alone)
    quirks: frozenset[str] = frozenset()

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Turn:
        calls = tuple(Call(**call) for call in data.get("calls", ()))
        return Turn(**{**data, "calls": calls, "quirks": frozenset(data.get("quirks", ()))})

    def to_json(self) -> dict[str, Any]:
        return {**asdict(self), "quirks": sorted(self.quirks)}


@dataclass(frozen=True, slots=True)
class Asked:
    """One request as it came over the wire."""

    path: str
    headers: Mapping[str, str]
    raw: bytes
    at: float  # monotonic seconds

    @property
    def body(self) -> dict[str, Any]:
        return json.loads(self.raw)

    @property
    def said(self) -> str:
        return last_user_text(self.body)


Script = Callable[[Asked], Turn]


def last_user_text(body: Mapping[str, Any]) -> str:
    """The newest text a person said; tool results are not a person's words."""
    for message in reversed(body.get("messages") or body.get("input", ())):
        if message.get("role") != "user":
            continue
        content = message.get("content")
        if isinstance(content, str):
            # one text of all that stands there; how things stand comes before the words, and a
            # record of what is not sent any more before both
            if content.startswith(SUMMARY_BEFORE):
                return content.rpartition("\n\n")[2]
            return content.partition("\n\n")[2] if content.startswith(BEGINS) else content
        texts = [part["text"] for part in content if part.get("type") in ("text", "input_text")]
        if texts:
            return str(texts[-1])
    return ""


def echo(asked: Asked) -> Turn:
    return Turn(text="echo: " + asked.said)
