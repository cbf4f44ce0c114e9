"""What the rest of the house sees of MCP servers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, Protocol

from channels.record import record
from ohmo.contracts.tool import Tool

State = Literal["waiting", "connecting", "connected", "failed"]


@record
class ServerReport:
    """Of one server. ``off``: its tools that cannot be used, each with the reason."""

    name: str
    kind: Literal["stdio", "http", "sse"]
    state: State
    tools: tuple[str, ...] = ()
    off: tuple[str, ...] = ()
    error: str = ""  # why it last was not there, in one line


class ToolSource(Protocol):
    """Tools that come and go while the house runs."""

    #: Servers that may bring some, sorted: what is told of them before they are there.
    servers: tuple[str, ...]

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

    async def run(self) -> None:
        """Keeps them connected until it is cancelled."""
        ...

    def report(self) -> list[ServerReport]: ...

    async def test(self, name: str) -> ServerReport:
        """After it was asked for its tools anew. Raises KeyError: there is no such server."""
        ...

    async def approve(self, name: str) -> int:
        """Its changed tools may be used as they are now; how many these are. Raises KeyError,
        OSError."""
        ...
