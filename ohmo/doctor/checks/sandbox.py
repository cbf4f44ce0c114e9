"""Whether the walls around commands, hooks and MCP servers hold here: tried, not looked up."""

from __future__ import annotations

from ohmo.config.load import Config
from ohmo.doctor.check import Check, Facts, Finding, config, needs, note, ok, problem


@needs(config)
def holds(facts: Facts, config: Config) -> Finding:
    standing = facts.machine.walls(config, facts.environ)
    if lacking := standing.lacking(wanted=config.permissions.caged):
        return problem(lacking, "install the package bubblewrap; docs/sandbox.md says more")
    if standing.backend == "none" or standing.note or standing.why:
        return note(standing.words, "docs/sandbox.md says what that means")
    return ok(standing.words)


CHECKS = (Check("sandbox.holds", "commands run in a sandbox that holds", holds),)
