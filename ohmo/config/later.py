"""Keys that are read and checked but whose part of ohmo is not built yet: asking for one is an
error, not a silence."""

from __future__ import annotations

from ohmo.config.models import UNBUILT, Budget, Sandbox, Written
from ohmo.config.source import Path, Problem, Source

UNCAGED = (
    "full lets everything run unasked inside a sandbox, which comes in a later version; write"
    " balanced, and mode: full_auto if everything may run unasked without one"
)


def not_yet(written: Written, source: Source) -> list[Problem]:
    """One problem for each thing that was asked for in vain."""
    asked: list[tuple[Path, str]] = []
    for name, profile in written.profiles.items():
        if profile.provider in UNBUILT:
            asked.append((("profiles", name, "provider"), f"{profile.provider} as a provider"))
        if profile.weak_model_hints:
            asked.append(
                (("profiles", name, "weak_model_hints"), "a set of hints for small models")
            )
    for key, default in Sandbox():
        wanted = getattr(written.sandbox, key)
        if wanted != default and not (
            key == "backend" and wanted == "none"
        ):  # which is what there is
            asked.append((("sandbox", key), "a sandbox"))
    if written.mcp:
        asked.append((("mcp",), "the use of MCP servers"))
    if written.web_search.provider is not None:
        asked.append((("web_search", "provider"), "web search"))
    if written.remote is not None:
        asked.append((("remote",), "remote storage"))
    for name in type(written.budgets).model_fields:
        budget: Budget = getattr(written.budgets, name)
        if budget.usd is not None or budget.tokens is not None:
            asked.append((("budgets", name), "a budget"))
    found = [
        source.problem(path, f"{what} comes in a later version; remove this")
        for path, what in asked
    ]
    if written.permissions.preset == "full":
        found.append(source.problem(("permissions", "preset"), UNCAGED))
    return found
