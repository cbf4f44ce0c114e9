"""Finds every tool of the house and builds it; two tools of one name stop the start."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from importlib.metadata import EntryPoint
from typing import Any, cast

import ohmo.tools
from ohmo.contracts.errors import ConfigError
from ohmo.contracts.provider import ToolSpec
from ohmo.contracts.tool import Tool
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

    def __init__(self, tools: Mapping[str, Tool[Any]], broken: Sequence[str] = ()) -> None:
        """``broken``: a line for each tool of another package that was skipped."""
        self._tools = tools
        self.broken = tuple(broken)

    def tools(self) -> Mapping[str, Tool[Any]]:
        return self._tools

    @cached_property
    def _specs(self) -> tuple[ToolSpec, ...]:
        return tool_specs(self._tools)

    def specs(self) -> tuple[ToolSpec, ...]:
        return self._specs


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


def with_strangers(
    tools: Mapping[str, Tool[Any]], workbench: Workbench, points: Iterable[EntryPoint] | None = None
) -> Catalogue:
    """And those that other packages offer. ``points``: None for those that are installed."""
    made = dict(tools)
    found = from_packages("ohmo.tools", "TOOL", type, taken=tools, points=points)
    broken = list(found.broken)
    for name, factory in found.found.items():
        tool = outcome(partial(_made, cast("Factory", factory), workbench))
        if isinstance(tool, Exception):
            line = " ".join(f"{type(tool).__name__}: {tool}".split())
            broken.append(f"the tool {name} of another package is skipped: {line}")
        elif tool is not None:
            made[name] = tool
    return Catalogue(dict(sorted(made.items())), broken)


def tool_specs(tools: Mapping[str, Tool[Any]]) -> tuple[ToolSpec, ...]:
    """What the model may use: short descriptions and flattened schemas, in a fixed order. All but
    ``CORE`` are deferred, and named by ToolSearch, which is left out when there is nothing to
    find."""
    specs = [
        ToolSpec(name, tool.description, tool.schema, deferred=name not in CORE)
        for name, tool in sorted(tools.items())
    ]
    kept_back = [spec for spec in specs if spec.deferred]
    described = [
        (
            replace(spec, description=f"{spec.description} {listed(kept_back)}")
            if spec.name == ToolSearch.name
            else spec
        )
        for spec in specs
    ]
    return tuple(spec for spec in described if kept_back or spec.name != ToolSearch.name)
