"""After words of others came into a conversation (a page, a server's answer), what could send
something away or outlive the conversation is asked about in every mode: a page can talk to the
model, but it cannot answer a card."""

from __future__ import annotations

from collections.abc import Iterable

from ohmo.contracts.mcp import words_of
from ohmo.contracts.tool import CallContext, Footprint
from ohmo.permissions.rules import Rule, Ruling, host_matches

_ALL = (None, "domain:*")  # patterns of rules for every host
_NAMED = 3  # origins that a person is told of


def told_by_others(
    tool: str, footprint: Footprint, context: CallContext, rules: Iterable[Rule]
) -> Ruling | None:
    """``rules``: that allow. A host is no news once the conversation has words of it, or where a
    rule names it; a rule for all hosts names none."""
    if not context.taint:
        return None
    origins = sorted(context.taint)
    whose = ", ".join(origins[:_NAMED])
    if len(origins) > _NAMED:
        whose += f" and {len(origins) - _NAMED} more"
    own = words_of((tool,))
    if own and context.taint != frozenset(own):
        why = f"words of {whose} are in this conversation, and {tool} may send or change anything"
        return Ruling("ask", "taint", whose, why, remember=False)
    if footprint.lasting:
        why = f"words of {whose} are in this conversation, and {footprint.lasting} outlive it"
        return Ruling("ask", "taint", whose, why, remember=False)
    for host in () if footprint.configured else footprint.hosts:
        named = any(rule.pattern not in _ALL and host_matches(rule, tool, host) for rule in rules)
        if not named and f"web:{host}" not in context.taint:
            why = f"words of {whose} are in this conversation, which had none of {host} so far"
            return Ruling("ask", "taint", whose, why)
    return None
