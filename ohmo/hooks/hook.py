"""One hook as it was written, whatever the shape of its file; and all that one file holds."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import field
from typing import Any, Literal

from channels.record import record
from ohmo.contracts.hooks import HookEvent
from ohmo.contracts.sandbox import Terms

USUAL, MOST = 5.0, 60.0  # seconds
Dialect = Literal["own", "claude", "seed"]


@record
class Program:
    """``argv`` as it is started; the event comes as JSON on its standard input. ``placed``: some of
    its words hold ``{file}``. ``plugin``: the folder of the one that brings it, told to it as
    ``CLAUDE_PLUGIN_ROOT``; ``data``: where that one keeps things, as ``CLAUDE_PLUGIN_DATA``.
    ``terms``: of its cage, as far as its file says them."""

    argv: tuple[str, ...]
    placed: bool = False
    plugin: str = ""
    data: str = ""
    terms: Terms = Terms()


@record
class Endpoint:
    """``headers`` may name variables as ``$NAME``, of which only ``variables`` are filled."""

    url: str
    headers: Mapping[str, str] = field(default_factory=dict[str, str])
    variables: tuple[str, ...] = ()


@record
class Prompt:
    """``model``: empty: the smallest. ``agent``: it may look into files before it answers."""

    text: str
    model: str = ""
    agent: bool = False


@record
class Python:
    """``run`` of an installed package; ``spec``: where it stands there."""

    run: Callable[[dict[str, Any]], Mapping[str, Any] | None]
    spec: str


Action = Program | Endpoint | Prompt | Python


@record
class Hook:
    """``tools`` and ``condition``: which calls it is about. ``may_block``: False: what it says is
    only reported. ``spelled``: its event as it is called there, for an imported one."""

    name: str
    file: str
    dialect: Dialect
    events: tuple[HookEvent, ...]
    action: Action
    tools: str = "*"
    condition: str = ""
    timeout: float = USUAL
    may_block: bool = True
    spelled: str = ""

    def waited_for(self, event: HookEvent) -> bool:
        """What it says then counts. Its owner's own hooks are told of an end when it is one."""
        match event:
            case "pre_tool_use" | "post_tool_use" | "session_start":
                return self.may_block
            case "turn_end":
                return self.may_block and self.dialect == "claude"
            case _:
                return False

    @property
    def strict(self) -> bool:
        """What it does not say plainly, before a tool runs, is a block."""
        return self.dialect == "own" or (self.dialect == "seed" and self.may_block)

    @property
    def type(self) -> Literal["command", "http", "prompt", "agent", "python"]:
        match self.action:
            case Program():
                return "command"
            case Endpoint():
                return "http"
            case Prompt():
                return "agent" if self.action.agent else "prompt"
            case Python():
                return "python"

    @property
    def does(self) -> str:
        """Its program, address or words."""
        match self.action:
            case Program(argv):
                return " ".join(argv[2:] if argv[:2] == SHELL else argv)
            case Endpoint(url):
                return url
            case Prompt(text):
                return text
            case Python(_, spec):
                return spec

    @property
    def may(self) -> str:
        """What it does, and when, whole, for whoever has to trust it."""
        match self.action:
            case Program() | Python():
                verb = "runs"
            case Endpoint():
                verb = "sends what it is told to"
            case Prompt(_, model):
                verb = f"asks {model or 'the smallest model'}"
        return f"{verb} at {'/'.join(self.events)}: {self.does}"


SHELL = ("/bin/sh", "-c")


@record
class HookFile:
    """``broken``: why nothing of it counts; empty: it was read. ``findings``: what of it does not
    work here, a line each."""

    hooks: tuple[Hook, ...] = ()
    findings: tuple[str, ...] = ()
    broken: str = ""


def bounded(seconds: float) -> float:
    return min(seconds, MOST)
