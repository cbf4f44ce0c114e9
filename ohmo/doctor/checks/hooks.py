"""Whether the hooks can be read, and what of them does not work here."""

from __future__ import annotations

import sqlite3
from contextlib import closing

from ohmo.config.load import Config
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
from ohmo.hooks.files import project, read_file
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
    if not lines:
        return ok()
    return warning("; ".join(lines), "docs/hooks.md says which events and types there are")


@needs(config)
def projects(facts: Facts, config: Config) -> Finding:
    found = project(config.workspace)
    if found is None:
        return ok()
    path = facts.database
    allowed = False
    if found.digest and path is not None and path.exists():
        try:
            with closing(inspection.reading(path)) as connection:
                allowed = bool(run(connection, trusted("hook", str(found.root), found.digest)))
        except (sqlite3.Error, NewerSchema):
            return skipped("the store cannot be read; see store.sound")
    lines = found.file.findings
    if allowed and not lines:
        return ok(f"{len(found.file.hooks)} of {config.workspace}, allowed")
    if not allowed:
        lines = (f"hooks of {config.workspace} do not run: nobody allowed what is there", *lines)
    return note("; ".join(lines), "ohmo trust list shows them, docs/hooks.md what works here")


CHECKS = (
    Check("hooks.readable", "the hooks can be read", readable),
    Check("hooks.counterparts", "all of the hooks work here", counterparts),
    Check("hooks.project", "no hooks of a project are left out", projects),
)
