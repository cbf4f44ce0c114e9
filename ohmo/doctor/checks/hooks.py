"""Whether the hooks can be read, and what of them does not work here."""

from __future__ import annotations

from ohmo.config.load import Config
from ohmo.contracts.hooks import OWN_FILE
from ohmo.doctor.check import Check, Facts, Finding, config, needs, note, ok, problem, warning
from ohmo.hooks.files import PROJECT_FILES, read_file


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
def projects(_: Facts, config: Config) -> Finding:
    """Looked at by name only: whatever stands in a project was written by anybody."""
    found = [name for name in PROJECT_FILES if (config.workspace / name).is_file()]
    if not found:
        return ok()
    return note(
        f"hooks in {', '.join(found)} of {config.workspace} do not run: those of a project come in"
        " a later version",
        f"write those you want into {OWN_FILE}",
    )


CHECKS = (
    Check("hooks.readable", "the hooks can be read", readable),
    Check("hooks.counterparts", "all of the hooks work here", counterparts),
    Check("hooks.project", "no hooks of a project are left out", projects),
)
