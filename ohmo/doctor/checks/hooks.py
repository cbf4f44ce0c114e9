"""Whether the hooks can be read, and what of them does not work here."""

from __future__ import annotations

from ohmo.config.load import Config
from ohmo.contracts.hooks import OWN_FILE
from ohmo.doctor.check import Check, Facts, Finding, config, needs, note, ok, problem, warning
from ohmo.hooks.files import project, read_file


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


@needs(config)
def counterparts(facts: Facts, config: Config) -> Finding:
    own = read_file(facts.home.root / OWN_FILE, OWN_FILE)
    theirs = project(config.workspace)
    lines = [*(own.findings if own is not None else ())]
    lines += theirs.file.findings if theirs is not None else ()
    if not lines:
        return ok()
    return warning("; ".join(lines), "docs/hooks.md says which events and types there are")


@needs(config)
def trusted(_: Facts, config: Config) -> Finding:
    found = project(config.workspace)
    if found is None or not found.file.hooks:
        return ok()
    return note(
        f"{config.workspace} brings {len(found.file.hooks)} hooks of its own; they run only once"
        f" somebody trusts exactly this content ({found.digest[:12]})",
        "ohmo hooks list shows them",
    )


CHECKS = (
    Check("hooks.readable", "the hooks can be read", readable),
    Check("hooks.counterparts", "all of the hooks work here", counterparts),
    Check("hooks.project", "no hooks of a project wait for trust", trusted),
)
