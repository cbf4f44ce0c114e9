"""A tool of an MCP server, as the house uses it."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from ohmo.contracts.messages import Json, ToolResult
from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.mcp.contract import Answer, Ask, Definition, ServerFailed
from ohmo.mcp.schemas import Schema

Finish = Callable[[CallContext, str, Answer], Awaitable[ToolOutput]]
"""Limits an answer of a server (by its name) and keeps the whole. Raises OSError."""
_LONGEST = 64  # characters of a tool's name: the OpenAI API's bound
_DESCRIPTION = 2_000  # characters
_UNFIT = re.compile(r"[^A-Za-z0-9_-]")


def tool_name(server: str, tool: str) -> str:
    """``mcp__SERVER__TOOL`` in what every endpoint takes."""
    name = f"mcp__{server}__{_UNFIT.sub('_', tool)}"
    if len(name) <= _LONGEST:
        return name
    return f"{name[: _LONGEST - 9]}_{hashlib.sha256(tool.encode()).hexdigest()[:8]}"


class McpTool:
    """``ask`` brings a call to the server's task."""

    def __init__(self, server: str, definition: Definition, ask: Ask, finish: Finish) -> None:
        """Raises BadSchema."""
        self.name = tool_name(server, definition.name)
        self.description = definition.description[:_DESCRIPTION] or definition.name
        self.definition = definition
        self._schema = Schema(definition.schema)
        self._server = server
        self._ask = ask
        self._finish = finish

    @property
    def schema(self) -> Mapping[str, Json]:
        return self._schema.shown

    def parse(self, arguments: Mapping[str, Json]) -> Mapping[str, Json]:
        """Raises BadArguments."""
        self._schema.check(self.name, arguments)
        return arguments

    def footprint(self, arguments: Mapping[str, Json], cwd: Path) -> Footprint:  # noqa: ARG002
        """Whatever the server says of it, nobody knows what it does."""
        claim = "; it says that it only reads" if self.definition.reads_only else ""
        note = f"{self.definition.name[:80]} of the MCP server {self._server}{claim}"
        return Footprint(effect="once", note=note, touches=None)

    async def run(self, arguments: Mapping[str, Json], context: CallContext) -> ToolOutput:
        taint = (f"mcp:{self._server}",)
        try:
            answer = await self._ask(self.definition, arguments)
            return await self._finish(context, self._server, answer)
        except ServerFailed as error:
            text = f"MCP server {self._server}: {error}"
        except TimeoutError:
            text = f"MCP server {self._server} did not answer in time; what the call did is unknown"
        except OSError as error:
            text = f"the answer of {self._server} could not be kept: {error.strerror or error}"
        return ToolOutput(ToolResult(context.call, text, error=True, taint=taint))
