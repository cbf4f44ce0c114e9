"""What a tool is, and what the policy and a person may say about a call before it runs."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import field, replace
from pathlib import Path
from typing import Any, Generic, Literal, Protocol, TypeVar, get_args

from channels.contract import Choice, Outbound
from channels.record import record
from ohmo.contracts.messages import MOST_PLACES, Json, Layer, ToolCall, ToolResult, Usage
from ohmo.contracts.provider import ToolSpec

Input = TypeVar("Input")
Mode = Literal["default", "plan", "full_auto"]
Standing = Literal["guest", "user", "admin", "owner"]
_STANDINGS = get_args(Standing)  # the least first
_MODES: tuple[Mode, ...] = ("plan", "default", "full_auto")  # strictest first


@record
class PolicySnapshot:
    """Of one configuration."""

    allow: tuple[str, ...]  # rules as they are written, and so in the next two
    ask: tuple[str, ...]
    deny: tuple[str, ...]
    mode: Mode  # where people chose none
    read_outside: Literal["ask", "allow"]  # of the workspace
    workspace: Path
    closed: tuple[str, ...]  # patterns of what belongs to the agent's home and lies elsewhere
    busy: Literal["queue", "steer", "interrupt", "collect"]  # no rule; a turn keeps it too
    caged: bool = False  # ``mode`` holds only where a sandbox does

    def mode_where(self, *, walled: bool) -> Mode:
        """``walled``: a sandbox holds."""
        return self.mode if walled or not self.caged else "default"


@record
class BegunUnder:
    """Stored with a turn when it begins, gone when it ends: what a later configuration lets be
    done does not loosen it."""

    policy: PolicySnapshot
    role: Standing  # of the person it acts for


def least(one: Standing, other: Standing) -> Standing:
    """The lesser of two."""
    return one if _STANDINGS.index(one) <= _STANDINGS.index(other) else other


def strictest(modes: Iterable[Mode]) -> Mode:
    return min(modes, key=_MODES.index)


@record
class Question:
    kind: Literal["permission", "question"]
    title: str
    detail: str
    choices: tuple[Choice, ...]
    digest: str  # canonical hash of tool, arguments, cwd, person
    rule: str = ""  # what "session" and "always" would remember; empty: they are not offered
    wider: str = ""  # what "all edits in this workspace" would remember; empty: it is not offered
    #: Who has to answer at least; empty: also the person who asks.
    by: Literal["", "admin", "owner"] = ""
    tool: str = ""  # of a call: which one and with what; "" when it is about no call
    arguments: Mapping[str, Json] = field(default_factory=dict[str, Json])
    about: str = ""  # the argument that the title shows whole, letter for letter; "" for none
    why: str = ""  # of a call: the reason that somebody is asked, in one plain line
    layer: str = ""  # of the gate, which asks about a call


@record
class Verdict:
    """What a human said about one call. ``word``: free text or the chosen value. ``changed``: it
    was allowed, and is not the same call any more."""

    state: Literal["allowed", "denied", "expired", "changed"]
    scope: Literal["once", "rule", "session", "always", "workspace"] = "once"
    word: str = ""
    person: str = ""


@record
class Footprint:
    """What a call will touch, declared by the tool from validated arguments. Drives path locks,
    policy, carry-over and the sandbox."""

    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
    hosts: tuple[str, ...] = ()
    command: str | None = None
    #: ``none``: read-only; ``house``: only rows committed with the result
    effect: Literal["none", "house", "repeatable", "once"] = "once"
    note: str = ""  # what the arguments mean, for the person who is asked
    asks: str = ""  # why a person has to allow it, whatever rules and mode say
    network: bool = False  # its command needs it, and has it only when somebody allows it
    #: Where that is known to lead, as in ``Names``; empty: perhaps everywhere.
    names: tuple[str, ...] = ()
    said: tuple[str, ...] = ()  # of ``names``, those that its arguments add to its command's words
    apart: bool = True  # its cage can have just the names; else it has all of the network
    question: Question | None = None  # AskUser: what a person has to answer before the call may run
    standing: Standing = "guest"  # who may call it at least
    configured: bool = False  # its hosts stand in the configuration: no words choose them
    lasting: str = ""  # what it changes that acts when the conversation is over: "jobs"
    #: For the order within a step: what else it may open or change; None: perhaps everything.
    touches: tuple[Path, ...] | None = ()
    places: tuple[tuple[Path, ...], ...] = ()  # where its programs run; what its words may name

    def declared(self, result: ToolResult, media: str = "") -> ToolResult:
        """With what the call read and wrote, and whose words it brought in. ``media``:
        ``CallContext.media``: what people sent may have been written by anybody."""
        sent = [f"file:{path.name}" for path in self.reads if media and media in path.parts]
        words = (*result.taint, *(f"web:{host}" for host in self.hosts), *sent)
        writes = () if result.error else self.writes[:MOST_PLACES]
        return replace(
            result,
            reads=tuple(map(str, self.reads[:MOST_PLACES])),
            writes=tuple(map(str, writes)),
            taint=tuple(dict.fromkeys(words))[:MOST_PLACES],
        )


def _nothing(_: str) -> bool:
    return False


@record
class Opened:
    """What the cage of an allowed command is opened to beyond the workspace: places (absolute,
    without links) and the network, each of them named by what allowed it. ``names``, ``barred``:
    of the network only this, as in ``Names``; no names: all of it. ``house``: the requests that
    what the daemon runs may make of it."""

    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
    network: bool = False
    names: tuple[str, ...] = ()
    barred: tuple[str, ...] = ()
    house: bool = False
    offline: bool = False  # it has no network, whatever the configuration says
    foreign: bool = False  # after words of others nobody was asked: what agents obey is read-only


@record
class Judged:
    """What a call may open: the paths of its footprint in their order, as the gate resolved and
    judged them (absolute, without links). Tools open these and follow no link on the way.
    ``forbidden``: whether a deny rule is about a resolved path; asked of whatever is opened.
    ``command``: of its footprint; no other may be run, and ``opened`` is what its cage has.
    ``asked``: a person allowed it, because ``Footprint.asks``."""

    reads: tuple[Path, ...] = ()
    writes: tuple[Path, ...] = ()
    forbidden: Callable[[str], bool] = field(default=_nothing, compare=False, repr=False)
    command: str | None = None
    asked: bool = False
    opened: Opened = Opened()


@record
class PlanState:
    """Where the plan of the present work stands: ``step`` of ``total`` is being done (0: there is
    none; all done: the last)."""

    step: int
    total: int
    title: str


@record
class ToolOutput:
    """``posts`` are committed together with the result: they happen once or not at all. ``plan``:
    what it is from now on. ``plans``: plan mode holds, or not any more, from now on; None: as
    before. ``usage``: what a model took that the tool asked by itself."""

    result: ToolResult
    posts: tuple[Outbound, ...] = ()
    plan: PlanState | None = None
    plans: bool | None = None
    usage: Usage | None = None


async def _never() -> None:
    await asyncio.Event().wait()


@record
class CallContext:
    """``tools``: all that this turn may use, empty: every tool of the house. ``hidden``: those of
    them the model has not been shown yet."""

    turn: str
    call: str
    thread: str
    person: str
    cwd: Path
    deadline: float  # monotonic seconds
    mode: Literal["default", "plan", "full_auto"]
    role: Literal["guest", "user", "admin", "owner"]
    session: str  # id of the present session: scope of "allow for this session"
    progress: Callable[[str], None]
    word: str = ""  # what the person answered to ``Footprint.question``
    rules: tuple[str, ...] = ()  # approved with the job or webhook this turn runs for
    #: For the environment of its commands.
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    tools: tuple[ToolSpec, ...] = field(default=(), repr=False)
    hidden: frozenset[str] = frozenset()
    judged: Judged = Judged()  # nothing, until the gate has allowed the call
    policy: PolicySnapshot | None = None  # the one its turn began under, None: not known
    #: Where foreign words of this session came from so far (``ToolResult.taint``).
    taint: frozenset[str] = frozenset()
    #: Steps of the thread with a lower number are not sent any more, or not whole.
    archived: int = 0
    #: Returns when a message for the thread waits that no turn has read yet.
    message: Callable[[], Awaitable[object]] = field(default=_never, repr=False)
    agent: str = ""  # which subagent asks, empty: the person's own
    private: bool = False  # only ``person`` reads what is said in this thread
    asks: str = ""  # why a person decides though the rules allow it: a hook wants it
    media: str = ""  # name of the folder of files that people sent here, empty: there is none


class Tool(Protocol, Generic[Input]):
    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def schema(self) -> Mapping[str, Json]:
        """JSON Schema as the model is shown it: flat, without ``$ref``."""
        ...

    def parse(self, arguments: Mapping[str, Json]) -> Input:
        """Raises BadArguments."""
        ...

    def footprint(self, arguments: Input, cwd: Path) -> Footprint: ...
    async def run(self, arguments: Input, context: CallContext) -> ToolOutput:
        """May be cancelled at any await and must leave nothing running. Raises nothing it can
        express as an error result."""
        ...


class Toolbox(Protocol):
    """What tools there are now; it may change between turns. A session is shown the core it began
    with, so that its bytes stay."""

    @property
    def revision(self) -> int:
        """Another one after every change."""
        ...

    def tools(self) -> Mapping[str, Tool[Any]]:
        """By name, sorted."""
        ...

    def specs(self) -> tuple[ToolSpec, ...]:
        """As models are told of them, in a fixed order."""
        ...


@record
class Allow:
    layer: str
    word: str = ""  # the answer to a question
    judged: Judged = Judged()


@record
class Deny:
    source: str  # the layer and its rule, as people read it
    reason: str
    layer: Layer = Layer.POLICY


@record
class Ask:
    layer: str
    question: Question


Decision = Allow | Deny | Ask


class Gate(Protocol):
    """Policy, then what a human already answered. Never waits for a human: Ask parks the turn."""

    async def judge(
        self,
        call: ToolCall,
        footprint: Footprint,
        context: CallContext,
        answered: Callable[[str], Awaitable[Verdict | None]],
    ) -> Decision:
        """``answered(digest)`` consumes what a human said about this very call, once."""
        ...
