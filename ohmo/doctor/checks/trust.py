"""What takes no part, because nobody trusts it or because it is broken."""

from __future__ import annotations

import shlex

from ohmo.config.load import Config
from ohmo.doctor.check import (
    Check,
    Facts,
    Finding,
    Json,
    config,
    needs,
    note,
    ok,
    skipped,
    status,
    warning,
)

_UNUSED = (".ohmo/plugins", ".ohmo/agents")  # of a project


@needs(status)
def waiting(facts: Facts, _: Json) -> Finding:
    found = facts.ask("/api/v1/trust")
    if found is None:
        return skipped("it does not say; see daemon.version")
    waits = found.get("waiting", ())
    for one in waits:
        if broken := one.get("broken"):
            return warning(f"{one['name']}: {broken}", "mend the file; it does not count")
    there = [f"{one['kind']} {shlex.quote(one['name'])}" for one in waits]
    if not there:
        return ok()
    text = f"nobody trusts yet: {', '.join(there[:5])}{' and more' if len(there) > 5 else ''}"
    return note(text, f"look into it, then ohmo trust allow {there[0]}")


@needs(status)
def skills(facts: Facts, _: Json) -> Finding:
    found = facts.ask("/api/v1/skills")
    if found is None:
        return skipped("it does not say; see daemon.version")
    broken = [one for one in found.get("skills", ()) if one["state"] == "broken"]
    if not broken:
        return ok()
    first = broken[0]
    return warning(f"{first['path']}: {first['why']}", "ohmo skills list shows all of them")


@needs(status)
def plugins(facts: Facts, _: Json) -> Finding:
    found = facts.ask("/api/v1/plugins")
    if found is None:
        return skipped("it does not say; see daemon.version")
    broken = [one for one in found.get("plugins", ()) if one["state"] == "broken"]
    notes = [
        line if line.startswith("plugin ") else f"plugin {one['name']}: {line}"
        for one in found.get("plugins", ())
        for line in one["notes"]
    ]
    if broken:
        return warning(f"{broken[0]['path']}: {broken[0]['why']}", "ohmo plugins list shows all")
    return note("; ".join(notes[:5]), "docs/plugins.md says what counts") if notes else ok()


@needs(config)
def of_project(_: Facts, config: Config) -> Finding:
    there = [name for name in _UNUSED if (config.workspace / name).is_dir()]
    if not there:
        return ok()
    text = f"{config.workspace} has {' and '.join(there)}, which mean nothing here yet"
    return note(text, "copy plugins to $OHMO_HOME/plugins; docs/plugins.md")


CHECKS = (
    Check("trust.waiting", "nothing waits for your trust", waiting),
    Check("skills.sound", "every skill can be read and has what it needs", skills),
    Check("plugins.sound", "every plugin can be read and all of it works here", plugins),
    Check("plugins.project", "the project brings nothing that does not count", of_project),
)
