"""How tests call a tool: by name, with arguments, as the engine does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from ohmo.contracts.messages import ToolResult
from ohmo.contracts.tool import CallContext, Judged, Tool
from ohmo.permissions.policy import paths_of
from ohmo.permissions.sensitive_paths import SensitivePaths
from ohmo.tools.files import Opening
from ohmo.tools.workbench import Workbench
from tests.makers import call_context

Call = Callable[..., Awaitable[ToolResult]]
SENSITIVE = SensitivePaths(Path("/home/nobody"))


def opening(sensitive: SensitivePaths = SENSITIVE, judged: Judged | None = None) -> Opening:
    """How a tool with nothing but sensitive places opens its files."""
    context = call_context(Path("/"), judged=judged or Judged())
    return Workbench(Path("/nowhere"), sensitive).opening(context)


def judged(tool: Tool[Any], arguments: BaseModel, context: CallContext) -> CallContext:
    """As if a gate that forbids nothing had just allowed the call."""
    footprint = tool.footprint(arguments, context.cwd)
    paths = paths_of(footprint, context.cwd)
    reads = tuple(map(Path, paths.reads))
    writes = tuple(map(Path, paths.writes))
    return replace(context, judged=Judged(reads, writes, command=footprint.command))
