"""What a conversation is made of: blocks for the model, steps for the log."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from pathlib import Path
from typing import Literal

from channels.record import record
from channels.text import some

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]

MOST_PLACES = 8
"""Paths or hosts that one result names of what it read or wrote."""

UNREADABLE = "unreadable_arguments"
"""The one key of arguments that nobody could read; its value is what the model wrote."""


@record
class Text:
    text: str


@record
class Image:
    path: Path
    media_type: str


@record
class Thinking:
    provider: str
    opaque: str  # JSON as the provider sent it; goes back byte for byte, only to that provider


@record
class ToolCall:
    id: str  # the house's own: turn.n; the model's id lives in ``foreign``
    name: str
    arguments: Mapping[str, Json]
    foreign: str


class Layer(StrEnum):
    """Which layer kept a call from running, or from being run again."""

    POLICY = "policy"  # a rule, a role, a mode or a protected place
    HOOK = "hook"
    UNJUDGED = "unjudged"  # the gate itself failed
    PERSON = "person"  # said no
    LAPSED = "lapsed"  # nobody answered in time
    CHANGED = "changed"  # a person allowed it, and it is another call by now
    NO_TOOL = "no_tool"  # there is none of this name
    ARGUMENTS = "arguments"  # they cannot be read, or do not fit
    RESTART = "restart"  # the process ended before it ran
    STOPPED = "stopped"  # a person stopped the turn before it ran
    UNKNOWN = "unknown"  # it was running when the process or the turn ended: its effect is unknown

    @property
    def forbids(self) -> bool:
        """The gate judged the call and did not let it run."""
        return self in (Layer.POLICY, Layer.HOOK, Layer.UNJUDGED) or self.asked

    @property
    def interrupts(self) -> bool:
        """The turn was cut off: nobody judged the call."""
        return self in (Layer.RESTART, Layer.STOPPED, Layer.UNKNOWN)

    @property
    def asked(self) -> bool:
        """A person was asked about the call."""
        return self in (Layer.PERSON, Layer.LAPSED, Layer.CHANGED)


@record
class ToolResult:
    call: str
    text: str
    error: bool = False
    images: tuple[Image, ...] = ()
    spill: Path | None = None
    tools: tuple[str, ...] = ()  # names of tools the model is shown from now on in this session
    refused: Layer | None = None  # None: the call ran
    allowed: str = ""  # the layer and its rule that let it run, as people read it
    reads: tuple[str, ...] = ()  # what it looked at, of the footprint; at most ``MOST_PLACES``
    writes: tuple[str, ...] = ()  # what it changed, alike
    #: Where foreign words came from: ``web:HOST``, ``mcp:SERVER``, ``file:NAME``, ``agent:ID``.
    taint: tuple[str, ...] = ()
    unreached: tuple[str, ...] = ()  # names of the network (``HOST:PORT``) it was not let to


Block = Text | Image | Thinking | ToolCall | ToolResult


@record
class UserStep:
    blocks: tuple[Text | Image, ...]
    person: str
    #: ``context``: what was overheard, or how things stand (date, branch) as the turn began;
    #: ``memory``: notes that were recalled for it; ``hook``: what the hook ``person`` said.
    source: Literal["message", "steer", "wake", "notice", "context", "memory", "hook"]
    bot: bool = False  # another program said it

    @property
    def taint(self) -> tuple[str, ...]:
        """As of a result."""
        return (self.person,) if self.source == "hook" else ()


@record
class ModelStep:
    """``request``: digest of the request this answers, as it was sent; empty: none was kept
    (``ohmo.providers.request_bytes``)."""

    blocks: tuple[Text | Thinking | ToolCall, ...]
    model: str
    stop: Literal["end", "tools", "length", "refusal"]
    request: str = ""


@record
class CallStarted:
    """Committed before a tool that may have an effect runs; its absence proves that it did not."""

    call: str
    digest: str


@record
class CallResult:
    result: ToolResult


@record
class Compaction:
    """From here on a request sends less; in the log, so that a restart sends the same bytes."""

    summary: str  # of everything before ``keeps_from``; empty: nothing was summed up
    keeps_from: int  # seq of the first step that is still sent whole
    clears_before: int = 0  # results with a lower seq are sent as one line each
    carry: str = ""  # what was carried over, as the model is told it
    tokens: tuple[int, ...] = ()  # estimated, of the conversation before and after


Step = UserStep | ModelStep | CallStarted | CallResult | Compaction


class Tokens:
    """``input`` went in, besides what the provider had in its cache (``cached``) or put there
    (``written``); ``output`` came out."""

    __slots__ = ()
    input: int
    cached: int
    written: int
    output: int

    @property
    def sent(self) -> int:
        """Tokens that went in, also those the provider had in its cache."""
        return self.input + self.cached + self.written

    @property
    def tokens(self) -> int:
        """Tokens of both directions."""
        return self.sent + self.output


@record
class Usage(Tokens):
    """What one call of a model took, and its price in millionths of a US dollar; None: nobody knows
    it."""

    model: str
    purpose: str
    input: int
    cached: int
    written: int
    output: int
    micro_usd: int | None


def cost_words(micro_usd: int | None, unpriced: int) -> str:
    """``$0.0123``; ``price unknown``; or both, where the price of ``unpriced`` of the calls is not
    known."""
    if unpriced and not micro_usd:
        return "price unknown"
    known = f"${(micro_usd or 0) / 1e6:.4f}"
    return f"{known} and {some(unpriced, 'call')} of unknown price" if unpriced else known
