"""How tests call a tool: by name, with arguments, as the engine does."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from ohmo.contracts.messages import ToolResult

Call = Callable[..., Awaitable[ToolResult]]
