"""Finds every tool of the house and builds it; two tools of one name stop the start."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import ohmo.tools
from ohmo.contracts.errors import ConfigError
from ohmo.contracts.mcp import ToolSource
from ohmo.contracts.provider import ToolSpec
from ohmo.contracts.tool import Tool, Toolbox
from ohmo.tools.tool_search import ToolSearch, listed
from ohmo.tools.workbench import Workbench

CORE = (
    "AskUser",
    "Bash",
    "Edit",
    "Glob",
    "Grep",
    "Read",
    "TodoWrite",
    "ToolSearch",
    "WebFetch",
    "Write",
)
"""Tools the model is always shown (docs/decisions/0014); whatever is found beside them is
deferred."""


class Catalogue:
    """Implements ``ohmo.contracts.tool.Toolbox``: the tools of the house, which stay as they were
    found. Schemas are made when somebody first asks."""

    revision = 1

    def __init__(self, tools: Mapping[str, Tool[Any]]) -> None:
        self._tools = tools

    def tools(self) -> Mapping[str, Tool[Any]]:
        return self._tools

    @cached_property
    def _specs(self) -> tuple[ToolSpec, ...]:
        return tool_specs(self._tools)

    def specs(self) -> tuple[ToolSpec, ...]:
        return self._specs


class GrowingCatalogue:
    """Implements ``ohmo.contracts.tool.Toolbox``: the tools of the house, and those that servers
    bring and take away. What a session is shown from its beginning on names the servers of the
    configuration and never their tools, so that it does not matter which came when."""

    def __init__(self, tools: Mapping[str, Tool[Any]], more: ToolSource) -> None:
        self._own = tools
        self._more = more
        self._house = tool_specs(tools, more.servers)
        self._made = -1  # revision of what follows
        self._tools: Mapping[str, Tool[Any]] = tools
        self._specs = self._house

    @property
    def revision(self) -> int:
        return 1 + self._more.revision

    def tools(self) -> Mapping[str, Tool[Any]]:
        self._renew()
        return self._tools

    def specs(self) -> tuple[ToolSpec, ...]:
        self._renew()
        return self._specs

    def _renew(self) -> None:
        if self._made == self.revision:
            return
        self._made = self.revision
        brought = dict(sorted(self._more.tools().items()))
        self._tools = dict(sorted({**brought, **self._own}.items()))
        found = (
            ToolSpec(name, tool.description, tool.schema, deferred=True)
            for name, tool in brought.items()
            if name not in self._own
        )
        self._specs = (*self._house, *found)


def catalogue(tools: Mapping[str, Tool[Any]], more: ToolSource | None) -> Toolbox:
    """Of the house alone where nobody brings others."""
    return Catalogue(tools) if more is None else GrowingCatalogue(tools, more)


def load_tools(workbench: Workbench) -> Mapping[str, Tool[Any]]:
    """All tools by name, sorted. Raises ConfigError when two modules export the same name."""
    tools: dict[str, Tool[Any]] = {}
    home: dict[str, str] = {}
    for info in pkgutil.iter_modules(ohmo.tools.__path__):
        if info.ispkg:
            continue
        factory: Callable[[Workbench], Tool[Any]] | None = getattr(
            importlib.import_module(f"ohmo.tools.{info.name}"), "TOOL", None
        )
        if factory is None:
            continue
        ready: Callable[[Workbench], bool] | None = getattr(factory, "ready", None)
        if ready is not None and not ready(workbench):  # what it would speak to is not there
            continue
        tool = factory(workbench)
        if tool.name in tools:
            raise ConfigError(
                f"tools: {home[tool.name]} and {info.name} both call themselves {tool.name!r};"
                " remove one"
            )
        tools[tool.name], home[tool.name] = tool, info.name
    return dict(sorted(tools.items()))


def tool_specs(tools: Mapping[str, Tool[Any]], servers: Sequence[str] = ()) -> tuple[ToolSpec, ...]:
    """What the model may use: short descriptions and flattened schemas, in a fixed order. All but
    ``CORE`` are deferred, and named by ToolSearch, which is left out when there is nothing to
    find. ``servers``: whose tools can be found too."""
    specs = [
        ToolSpec(name, tool.description, tool.schema, deferred=name not in CORE)
        for name, tool in sorted(tools.items())
    ]
    kept_back = [spec for spec in specs if spec.deferred]
    names = listed(kept_back)
    if servers:
        names += f"; and tools of servers: {', '.join(f'mcp__{name}__*' for name in servers)}"
    described = [
        (
            replace(spec, description=f"{spec.description} {names}")
            if spec.name == ToolSearch.name
            else spec
        )
        for spec in specs
    ]
    return tuple(spec for spec in described if kept_back or servers or spec.name != ToolSearch.name)
