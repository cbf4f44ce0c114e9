"""Whether the walls around commands, hooks and MCP servers hold here: tried, not looked up."""

from __future__ import annotations

from ohmo.config.load import Config
from ohmo.doctor.check import Check, Facts, Finding, config, needs, note, ok, problem


def step(config: Config) -> str:
    """What helps where none holds."""
    match config.sandbox.backend:
        case "docker":
            return "start the engine (DOCKER_HOST says where), or set sandbox.backend: auto"
        case "landlock":
            return "set sandbox.backend: auto and install the package bubblewrap"
        case _:
            return "install the package bubblewrap, or mend what the line names"


@needs(config)
def holds(facts: Facts, config: Config) -> Finding:
    standing = facts.machine.walls(config, facts.environ)
    if lacking := standing.lacking(wanted=config.permissions.caged):
        return problem(lacking, f"{step(config)}; docs/sandbox.md says more")
    if standing.backend != "bubblewrap" or standing.why:
        return note(standing.words, "docs/sandbox.md says what that means")
    return ok(standing.words)


CHECKS = (Check("sandbox.holds", "commands run in a sandbox that holds", holds),)
