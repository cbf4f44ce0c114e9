"""Whether the walls around commands, hooks and MCP servers hold here: tried, not looked up."""

from __future__ import annotations

from dataclasses import replace

from ohmo.assembly.walls import walls_of
from ohmo.config.load import Config
from ohmo.contracts.hooks import OWN_FILE
from ohmo.contracts.sandbox import Terms
from ohmo.doctor.check import Check, Facts, Finding, config, needs, note, ok, problem
from ohmo.hooks.hook import HookFile, Program
from ohmo.hooks.project import read_file


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
    if standing.backend == "none" or standing.note or standing.why:
        return note(standing.words, "docs/sandbox.md says what that means")
    return ok(standing.words)


async def _nobody(about: str, line: str) -> None:
    """Nothing starts here."""


@needs(config)
def places(facts: Facts, config: Config) -> Finding:
    """What hooks and servers of the owner's own have opened by their keys."""
    own = read_file(config.home.root / OWN_FILE, OWN_FILE) or HookFile()
    programs = [(hook.name, hook.action) for hook in own.hooks if isinstance(hook.action, Program)]
    named = [(f"the hook {name}", action.terms) for name, action in programs]
    for name, each in config.mcp.items():
        read, write = (tuple(map(str, keys)) for keys in (each.sandbox.read, each.sandbox.write))
        named.append((f"the MCP server {name}", Terms(read=read, write=write)))
    opened = [(what, terms) for what, terms in named if terms.read or terms.write]
    if not opened or config.sandbox.backend == "none":
        return ok()
    walled = walls_of(config, facts.environ, None, _nobody).programs()
    lines = [walled.refused(config.workspace, replace(terms, what=what)) for what, terms in opened]
    wrong = "; ".join(filter(None, lines))
    return problem(wrong, "mend the key sandbox of it; it cannot start") if wrong else ok()


CHECKS = (
    Check("sandbox.holds", "commands run in a sandbox that holds", holds),
    Check("sandbox.places", "what hooks and servers have opened can be opened", places),
)
