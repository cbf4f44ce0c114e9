"""What programs, endpoints and prompts of the owner are told when something happens, and what those
asked before a tool runs may say."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, Protocol, get_args

from channels.record import record
from ohmo.contracts.agent import Event
from ohmo.contracts.messages import Json, ToolCall, ToolResult
from ohmo.contracts.tool import Standing
from ohmo.contracts.trust import Candidate

HookEvent = Literal[
    "session_start",
    "session_end",
    "pre_compact",
    "post_compact",
    "pre_tool_use",
    "post_tool_use",
    "turn_end",
    "subagent_end",
]
OWN_FILE = "hooks.yaml"  # in the home
GROUP = "ohmo.hooks"  # of entry points of other packages
PROJECT_FILES = (".ohmo/hooks.yaml", ".claude/settings.json", ".claude/settings.local.json")
EVENTS: tuple[HookEvent, ...] = get_args(HookEvent)


@record
class Hooked:
    """What happened, or is about to. ``approved``: a person allowed this very call. ``seconds``: it
    ran. ``detail``: of a session how it begins or ends, of a turn how it ended."""

    event: HookEvent
    turn: str
    thread: str
    cwd: Path
    call: ToolCall | None = None
    result: ToolResult | None = None
    approved: bool = False
    seconds: float = 0.0
    person: str = ""
    session: str = ""
    mode: str = "default"
    detail: str = ""
    text: str = ""  # what the turn answered
    again: bool = False  # it answered before, and hooks had it go on
    role: Standing = "user"  # of the person; of what is only observed none is known


@record
class Spoken:
    """What one hook tells the model."""

    hook: str
    words: str


@record
class HookWord:
    """What all hooks together say of a call. ``block``: why it is not run; ``ask``: why a person
    decides, whatever the rules say; ``arguments``: those it is judged and run with, None: the
    model's own; ``context``: what the model is told beside the result; ``by``: who said it;
    ``looked``: agents that let it go on."""

    block: str = ""
    ask: str = ""
    arguments: Mapping[str, Json] | None = None
    context: tuple[Spoken, ...] = ()
    by: str = ""
    looked: tuple[str, ...] = ()


@record
class PythonHook:
    """One that an installed package brings, its constant ``HOOK`` under the entry points
    ``ohmo.hooks``. ``run`` is handed the event as docs/hooks.md describes it, a copy, in a thread
    of its own; it returns the answer described there, or None: go on. What it raises is trouble.
    ``match`` and ``condition`` as ``match`` and ``if`` of the file; ``timeout`` in seconds."""

    name: str
    on: tuple[HookEvent, ...]
    run: Callable[[dict[str, Any]], Mapping[str, Any] | None]
    match: str = "*"
    condition: str = ""
    timeout: float = 5.0


class Inquire(Protocol):
    """A small agent looks into what ``text`` says, in the folder where ``what`` happened, with
    tools that only read, and answers; ``seconds``: it has. Raises OhmoError."""

    async def __call__(self, text: str, model: str, what: Hooked, seconds: float) -> str: ...


#: Whether a rule as in ``Bash(git push *)`` speaks of the call, made in this folder.
About = Callable[[str, ToolCall, Path], bool]


class Hooks(Protocol):
    def none_in(self, cwd: Path, /) -> bool:
        """Cheap: nobody has to be asked about work in this folder."""
        ...

    async def before(self, what: Hooked) -> HookWord:
        """Once for each call, before it is judged. Raises nothing: what fails is a block."""
        ...

    async def after(self, what: Hooked) -> Sequence[Spoken]:
        """Of a call that was run: what the model is told beside its result."""
        ...

    async def beginning(self, what: Hooked, summed_up: int) -> Sequence[Spoken]:
        """Before every call of the model; cheap but for the first of a session, in a life of the
        house, and the first since it was summed up (``summed_up``: its first step that is still
        sent whole; 0: never). Raises nothing."""
        ...

    async def ending(self, what: Hooked) -> Sequence[Spoken]:
        """Before an answer ends its turn: why the model shall go on instead; nothing: it may end.
        Raises nothing: what fails lets it end."""
        ...


class HookRoom(Hooks, Protocol):
    """What asks the hooks, as the daemon runs it."""

    @property
    def dropped(self) -> int:
        """Events that nobody was told of."""
        ...

    @property
    def skipped(self) -> Sequence[str]:
        """Hooks of other packages, a line for each that is broken."""
        ...

    def hear(self, thread: str, event: Event) -> None:
        """From a running turn."""
        ...

    def left(self, thread: str) -> None:
        """Somebody ended what was said there, and may have begun another session."""
        ...

    async def run(self) -> None:
        """Until cancelled: tells those that nobody waits for."""
        ...

    async def candidates(self, folder: Path) -> list[Candidate]:
        """Hooks of a project that nobody allowed, for work in this folder."""
        ...
