"""What the rest of the house sees of MCP servers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, Protocol

from channels.record import record
from ohmo.contracts.tool import Tool

PROJECT_FILE = ".mcp.json"
Calm = Callable[[], Awaitable[object]]  # returns when a start beside holds up nobody
State = Literal["waiting", "connecting", "connected", "failed"]


def server_of(tool: str) -> str:
    """Which server brings a tool of this name; "" for one of the house."""
    return tool.removeprefix("mcp__").partition("__")[0] if tool.startswith("mcp__") else ""


def words_of(tools: Iterable[str]) -> tuple[str, ...]:
    """Where words about these tools come from, as results are marked: ``mcp:SERVER``."""
    servers = filter(None, map(server_of, tools))
    return tuple(dict.fromkeys(f"mcp:{server}" for server in servers))


@record
class ServerReport:
    """Of one server. ``off``: its tools that cannot be used, each with the reason. ``waiting``:
    tools that are not as they were approved, each with what it says now; ``digest``: SHA-256 over
    these, in hex."""

    name: str
    kind: Literal["stdio", "http", "sse"]
    state: State
    tools: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    error: str = ""  # why it last was not there, in one line
    waiting: tuple[str, ...] = ()
    digest: str = ""


class ToolSource(Protocol):
    """Tools that come and go while the house runs."""

    @property
    def servers(self) -> tuple[str, ...]:
        """Those that may bring some, sorted: what is told of them before they are there."""
        ...

    @property
    def revision(self) -> int:
        """Another one after every change."""
        ...

    def tools(self) -> Mapping[str, Tool[Any]]: ...


class McpServers(ToolSource, Protocol):
    """Those of the configuration, each under its own task."""

    async def prepare(self) -> None:
        """Before the first session: tools that were approved earlier are there."""
        ...

    async def run(self, calm: Calm) -> None:
        """Keeps them connected until it is cancelled; from the return of ``calm`` on, or from the
        first call of one of their tools."""
        ...

    def report(self) -> list[ServerReport]: ...

    def notes(self) -> Sequence[str]:
        """What of the workspace's file does not count, a line each."""
        ...

    async def test(self, name: str) -> ServerReport:
        """After it was asked for its tools anew. Raises KeyError: there is no such server."""
        ...

    async def approve(self, name: str) -> int:
        """Its tools may be used as ``report`` shows them at this moment; how many waited for that.
        Raises KeyError, OSError."""
        ...
