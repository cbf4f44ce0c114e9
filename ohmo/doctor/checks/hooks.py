"""Whether the hooks can be read, and what of them does not work here."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from ohmo.config.load import Config
from ohmo.config.rules import tool_names
from ohmo.contracts.hooks import OWN_FILE
from ohmo.database.migrations import NewerSchema
from ohmo.database.writer import run
from ohmo.doctor.check import (
    Check,
    Facts,
    Finding,
    config,
    needs,
    note,
    ok,
    problem,
    skipped,
    warning,
)
from ohmo.hooks.hook import Hook
from ohmo.hooks.matching import names
from ohmo.hooks.project import Project, Projects, read_file
from ohmo.store.trusts import trusted
from ohmo.storefile import inspection


def readable(facts: Facts) -> Finding:
    file = read_file(facts.home.root / OWN_FILE, OWN_FILE)
    if file is None:
        return ok("there are none")
    if file.broken:
        return problem(
            f"{file.broken}; a house that starts with it runs no tool",
            "mend it; ohmo hooks list reads it again",
        )
    return ok(f"{len(file.hooks)} of your own")


def counterparts(facts: Facts) -> Finding:
    own = read_file(facts.home.root / OWN_FILE, OWN_FILE)
    lines = [*(own.findings if own is not None else ())]
    lines += [] if own is None else filter(None, map(_about_nobody, own.hooks))
    if not lines:
        return ok()
    return warning("; ".join(lines), "docs/hooks.md says which events and types there are")


def _about_nobody(hook: Hook) -> str:
    """One that no tool can match guards nothing, silently."""
    if not {"pre_tool_use", "post_tool_use"} & {*hook.events}:
        return ""
    if "mcp__" not in hook.tools and not any(names(hook.tools, tool) for tool in tool_names()):
        return f"{hook.name}: no tool is called {hook.tools}"
    tool = hook.condition.partition("(")[0].strip()
    if tool and not tool.startswith("mcp__") and tool not in tool_names():
        return f"{hook.name}: no tool is called {tool}"
    return ""


def allowed(database: Path | None, found: Project) -> bool | None:
    """Whether somebody trusts exactly these; None: the store cannot say so here."""
    if not found.digest:
        return False
    if database is None:
        return None
    if not database.exists():
        return False
    try:
        with closing(inspection.reading(database)) as connection:
            return run(connection, trusted("hook", str(found.root), found.digest))
    except (sqlite3.Error, NewerSchema):
        return None


@needs(config)
def projects(facts: Facts, config: Config) -> Finding:
    found = Projects().read(config.workspace)
    if found is None:
        return ok()
    counts = allowed(facts.database, found)
    if counts is None:
        return skipped("the store cannot be read here; ohmo trust list asks the daemon")
    lines = found.file.findings
    if counts and not lines:
        return ok(f"{len(found.file.hooks)} of {config.workspace}, allowed")
    if not counts:
        lines = (f"hooks of {config.workspace} do not run: nobody allowed what is there", *lines)
    return note("; ".join(lines), "ohmo trust list shows them, docs/hooks.md what works here")


CHECKS = (
    Check("hooks.readable", "the hooks can be read", readable),
    Check("hooks.counterparts", "all of the hooks work here", counterparts),
    Check("hooks.project", "no hooks of a project are left out", projects),
)
