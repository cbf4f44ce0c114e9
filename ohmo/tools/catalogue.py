"""Finds every tool of the house and builds it; two tools of one name stop the start."""

from __future__ import annotations

import importlib
import json
import pkgutil
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from importlib.metadata import EntryPoint
from typing import Any, cast

import ohmo.tools
from ohmo.contracts.errors import ConfigError
from ohmo.contracts.mcp import ToolSource
from ohmo.contracts.provider import ToolSpec
from ohmo.contracts.tool import Tool, Toolbox
from ohmo.discovery import from_packages
from ohmo.lifecycle import outcome
from ohmo.tools.results import description
from ohmo.tools.tool_search import Absent, ToolSearch, listed
from ohmo.tools.workbench import Workbench

Factory = Callable[[Workbench], Tool[Any]]
CORE = (
    "AskUser",
    "Bash",
    "Edit",
    "Glob",
    "Grep",
    "Read",
    "Skill",
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
    bring and take away. What a session is shown from its beginning on names servers and never their
    tools, so that it does not matter which came when."""

    def __init__(self, tools: Mapping[str, Tool[Any]], more: ToolSource) -> None:
        self._own = tools
        self._more = more
        self._made = -1  # revision of what follows
        self._tools: Mapping[str, Tool[Any]] = tools
        self._specs: tuple[ToolSpec, ...] = ()

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
        self._specs = (*tool_specs(self._own, self._more.servers), *found)


def catalogue(tools: Mapping[str, Tool[Any]], more: ToolSource | None) -> Toolbox:
    """Of the house alone where nobody brings others."""
    return Catalogue(tools) if more is None else GrowingCatalogue(tools, more)


def load_tools(workbench: Workbench) -> Mapping[str, Tool[Any]]:
    """All tools by name, sorted; ToolSearch says of those that are not set up what they want.
    Raises ConfigError when two modules export the same name."""
    tools: dict[str, Tool[Any]] = {}
    absent: list[Absent] = []
    home: dict[str, str] = {}
    for info in pkgutil.iter_modules(ohmo.tools.__path__):
        if info.ispkg:
            continue
        factory: Factory | None = getattr(
            importlib.import_module(f"ohmo.tools.{info.name}"), "TOOL", None
        )
        if factory is None:
            continue
        tool = _made(factory, workbench)
        if tool is None:
            if wants := getattr(factory, "wants", ""):
                name: str = getattr(factory, "name", "")
                purpose = description(name, names="none")  # of houses that are configured
                absent.append(Absent(ToolSpec(name, purpose, {}, deferred=True), wants))
            continue
        if tool.name in tools:
            raise ConfigError(
                f"tools: {home[tool.name]} and {info.name} both call themselves {tool.name!r};"
                " remove one"
            )
        tools[tool.name], home[tool.name] = tool, info.name
    if isinstance(search := tools.get(ToolSearch.name), ToolSearch):
        search.absent = tuple(absent)
    return dict(sorted(tools.items()))


def _made(factory: Factory, workbench: Workbench) -> Tool[Any] | None:
    """None: what it would speak to is not there."""
    ready: Callable[[Workbench], bool] | None = getattr(factory, "ready", None)
    return factory(workbench) if ready is None or ready(workbench) else None


def _checked(factory: Factory, workbench: Workbench) -> Tool[Any] | None:
    """Raises TypeError for what no model could be told."""
    tool = _made(factory, workbench)
    if tool is not None:
        if re.fullmatch(r"[A-Za-z0-9_-]{1,64}", tool.name) is None:
            raise TypeError(f"{tool.name!r} is no name of 1 to 64 letters, digits, _ and -")
        json.dumps([str(tool.description), dict(tool.schema)])
    return tool


def with_strangers(
    tools: Mapping[str, Tool[Any]], workbench: Workbench, points: Iterable[EntryPoint] | None = None
) -> tuple[Mapping[str, Tool[Any]], tuple[str, ...]]:
    """And those that other packages offer, with a line for each that is skipped. ``points``: None
    for those that are installed."""
    made = dict(tools)
    found = from_packages("ohmo.tools", "TOOL", type, taken=tools, points=points)
    broken = list(found.broken)
    for name, factory in found.found.items():
        tool = outcome(partial(_checked, cast("Factory", factory), workbench))
        if isinstance(tool, Exception):
            line = " ".join(f"{type(tool).__name__}: {tool}".split())
            broken.append(f"the tool {name} of another package is skipped: {line}")
        elif tool is not None:
            made[name] = tool
    return dict(sorted(made.items())), tuple(broken)


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
