"""Whether the MCP servers are there, and whether something of them waits for a word."""

from __future__ import annotations

import shlex

from ohmo.doctor.check import Check, Facts, Finding, Json, needs, note, ok, skipped, status, warning


@needs(status)
def reached(facts: Facts, _: Json) -> Finding:
    found = facts.ask("/api/v1/mcp")
    if found is None:
        return skipped("it does not say; see daemon.version")
    lines = [f"{one['name']}: {one['error']}" for one in found.get("servers", ()) if one["error"]]
    if not lines:
        return ok()
    return warning("; ".join(lines), "ohmo mcp test NAME tries it now; docs/mcp.md says more")


@needs(status)
def approved(facts: Facts, _: Json) -> Finding:
    found = facts.ask("/api/v1/mcp")
    if found is None:
        return skipped("it does not say; see daemon.version")
    waiting = [one for one in found.get("servers", ()) if one["waiting"]]
    if not waiting:
        return ok()
    lines = [f"{one['name']}: {len(one['waiting'])} changed or new" for one in waiting]
    name = shlex.quote(waiting[0]["name"])
    return note("; ".join(lines), f"ohmo mcp test {name} shows them, then ohmo mcp approve {name}")


@needs(status)
def usable(facts: Facts, _: Json) -> Finding:
    found = facts.ask("/api/v1/mcp")
    lines = [
        f"{one['name']}: {tool}"
        for one in (found or {}).get("servers", ())
        for tool in one.get("off", ())
    ]
    if not lines:
        return ok()
    more = f" (and {len(lines) - 3} more)" if len(lines) > 3 else ""
    return note("; ".join(lines[:3]) + more, "its maker has to mend it; ohmo mcp list names all")


@needs(status)
def project(facts: Facts, _: Json) -> Finding:
    found = facts.ask("/api/v1/mcp")
    lines = [str(line) for line in (found or {}).get("notes", ())]
    return note("; ".join(lines), "docs/mcp.md says what counts of it") if lines else ok()


CHECKS = (
    Check("mcp.reached", "every MCP server can be reached", reached),
    Check("mcp.approved", "no tool of a server waits for your word", approved),
    Check("mcp.usable", "every tool of a server can be used", usable),
    Check("mcp.project", "all of the workspace's .mcp.json counts", project),
)
