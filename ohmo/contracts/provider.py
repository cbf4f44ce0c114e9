"""What a model is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Literal, Protocol

from channels.record import record
from ohmo.contracts.messages import Json, ModelStep, Step, Usage


@record
class Section:
    name: str
    text: str
    breakpoint: bool = False  # a cache breakpoint after this section


@record
class ToolSpec:
    """``deferred``: its schema is not sent before ToolSearch has found it."""

    name: str
    description: str
    schema: Mapping[str, Json]
    deferred: bool = False


@record
class ModelRequest:
    """``tools``: those whose schema is sent: the core, then what was found, in the order it was
    found. ``deferred``: every tool that is or was kept back, found ones too, for endpoints that
    keep tools back themselves."""

    model: str
    system: tuple[Section, ...]
    tools: tuple[ToolSpec, ...]
    steps: tuple[
        Step, ...
    ]  # pairs complete; each provider turns a step into bytes once and keeps them
    max_output: int
    effort: Literal["low", "medium", "high"] | None
    purpose: str
    deferred: tuple[ToolSpec, ...] = ()

    @property
    def core(self) -> tuple[ToolSpec, ...]:
        """Tools that are always sent."""
        return tuple(tool for tool in self.tools if not tool.deferred)

    @property
    def every(self) -> tuple[ToolSpec, ...]:
        """All tools the model may call."""
        return (*self.core, *self.deferred)


@record
class Delta:
    text: str


@record
class Reply:
    step: ModelStep
    usage: Usage


@record
class Notice(Delta):
    """A line for the person who waits: overloaded, trying again, another model is asked. An empty
    delta to whoever does not know it."""

    text: str = ""
    line: str = ""


@record
class Restarted(Delta):
    """The answer begins anew: every delta so far is void."""

    text: str = ""


ModelEvent = Delta | Reply  # any number of Delta, then exactly one Reply


class Provider(Protocol):
    @property
    def name(self) -> str: ...
    def window(self, model: str) -> int: ...
    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Raises ProviderError subclasses only: Overloaded(retry_after), TimedOut, CutOff, TooLong,
        Refused, BadKey, NoSuchModel."""
        ...
