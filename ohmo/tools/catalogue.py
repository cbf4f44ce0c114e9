"""Finds every tool of the house and builds it; two tools of one name stop the start."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping
from typing import Any

import ohmo.tools
from ohmo.contracts.errors import ConfigError
from ohmo.contracts.provider import ToolSpec
from ohmo.contracts.tool import Tool
from ohmo.tools.schema import schema_for_model
from ohmo.tools.workbench import Workbench


def load_tools(workbench: Workbench) -> Mapping[str, Tool[Any]]:
    """All tools by name, sorted. Raises ConfigError when two modules export the same name."""
    found: dict[str, Tool[Any]] = {}
    home: dict[str, str] = {}
    for info in pkgutil.iter_modules(ohmo.tools.__path__):
        if info.ispkg:
            continue
        factory: Callable[[Workbench], Tool[Any]] | None = getattr(importlib.import_module(f"ohmo.tools.{info.name}"), "TOOL", None)
        if factory is None:
            continue
        ready: Callable[[Workbench], bool] | None = getattr(factory, "ready", None)
        if ready is not None and not ready(workbench):  # what it would speak to is not there
            continue
        tool = factory(workbench)
        if tool.name in found:
            raise ConfigError(f"tools: {home[tool.name]} and {info.name} both call themselves {tool.name!r}; remove one")
        found[tool.name], home[tool.name] = tool, info.name
    return dict(sorted(found.items()))


def tool_specs(tools: Mapping[str, Tool[Any]]) -> tuple[ToolSpec, ...]:
    """What the model is shown: short descriptions and flattened schemas, in a fixed order."""
    return tuple(ToolSpec(name, tool.description, schema_for_model(tool.input)) for name, tool in sorted(tools.items()))
