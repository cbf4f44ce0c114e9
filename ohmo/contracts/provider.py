"""What a model is."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Mapping
from typing import Literal, Protocol

from channels.record import record
from ohmo.contracts.messages import Json, ModelStep, Step, Usage


@record
class Section:
    """A part of the system prompt."""

    name: str
    text: str
    breakpoint: bool = False  # a cache breakpoint after this section
    source: str = ""  # where its words came from; never sent


@record
class ToolSpec:
    """A tool as a model is told of it."""

    name: str
    description: str
    schema: Mapping[str, Json]
    deferred: bool = False  # its schema is not sent before ToolSearch has found it


@record
class Payer:
    """For whom a model is asked: whose budgets bear it. Empty: nobody of that kind."""

    turn: str = ""
    thread: str = ""
    person: str = ""  # CHANNEL:PERSON
    job: str = ""
    tab: str = ""  # within this process: one question with all its tries
    session: str = ""  # of the thread, as in ``CallContext``

    @property
    def conversation(self) -> str:
        """Whose budget ``thread`` is: what ``/new`` begins and ``/resume`` goes on with. The first
        session of a thread bears its name alone, as all were booked before."""
        return self.session.removesuffix(".0") or self.thread

    @property
    def spender(self) -> str:
        """Whose budget ``person`` is: the owner is one at the keyboard, on the page and by the
        API; no platform calls somebody so."""
        return "owner" if self.person.partition(":")[2] == "owner" else self.person


NOBODY = Payer()


#: What a model is asked for: a step of a turn, a summary of a conversation, notes, a hook's
#: judgement, the choice of a tier or agent, a trial of a profile, a foreign CLI, a look at a
#: picture.
Purpose = Literal["turn", "compaction", "memory", "hook", "choice", "check", "foreign", "image"]


@record
class ModelRequest:
    """What a model is asked."""

    model: str
    system: tuple[Section, ...]
    #: Those whose schema is sent: the core, then what was found, in the order it was found.
    tools: tuple[ToolSpec, ...]
    #: Pairs complete; each provider turns a step into bytes once and keeps them.
    steps: tuple[Step, ...]
    max_output: int  # tokens
    effort: Literal["low", "medium", "high"] | None  # None: the model's own
    purpose: Purpose  # what it is counted under
    #: Every tool that is or was kept back, found ones too, for endpoints that keep tools back
    #: themselves.
    deferred: tuple[ToolSpec, ...] = ()
    payer: Payer = NOBODY  # never part of the bytes that are sent, nor of their digest
    #: No turn waits for it: it stands behind people where calls queue. As little a part of them.
    patient: bool = False

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
    """A piece of the answer's text."""

    text: str


@record
class Notice:
    """A line for the person who waits: overloaded, trying again, another model is asked."""

    line: str


@record
class Queued:
    """Nothing is asked of the model before a rate limit allows it. Stays within the chain."""

    line: str  # for the person who waits; empty: it is asked now


@record
class Restarted:
    """The answer begins anew: every delta so far is void."""


@record
class Quota:
    """What an endpoint says of one of a model's rate limits."""

    kind: Literal["requests", "tokens"]
    left: int
    resets: float  # seconds until nothing of it is used any more
    full: int | None = None  # how much it is then


@record
class Began:
    """An endpoint answers one request that was sent, or refuses it. Stays within the chain."""

    quotas: tuple[Quota, ...] = ()


@record
class Billed:
    """What the endpoint says that this try took so far; the newest counts, also when no answer
    comes of it. Stays within the chain."""

    usage: Usage


@record
class Reply:
    """The whole answer."""

    step: ModelStep
    usage: Usage
    fault: str = ""  # the class of what repair could not mend; stays within the chain


#: Any number of the others, then exactly one Reply.
ModelEvent = Delta | Notice | Queued | Restarted | Began | Billed | Reply

#: Asks a model. Raises ProviderError subclasses only.
Call = Callable[[ModelRequest], AsyncIterator[ModelEvent]]


class AskOnce(Protocol):
    """Asks a model for one whole answer, for another purpose than the next step of a turn (a
    summary, notes, a choice). Goes through the same chain and budgets as a turn; what it took is
    counted for its payer, also when nobody uses the answer. Raises ProviderError subclasses
    only."""

    async def __call__(self, request: ModelRequest) -> Reply: ...


class Link(Protocol):
    """A piece of the chain around a model: sees the request, what is asked next, and what comes of
    it. Raises ProviderError subclasses only."""

    def __call__(self, request: ModelRequest, ask: Call) -> AsyncIterator[ModelEvent]: ...


class Provider(Protocol):
    @property
    def name(self) -> str: ...
    def window(self, model: str) -> int: ...
    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """Raises ProviderError subclasses only: Overloaded(retry_after), TimedOut, CutOff, TooLong,
        Refused, BadKey, NoSuchModel."""
        ...
