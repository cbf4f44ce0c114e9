"""What a call of a model took, as a row of its own, and the totals of those who bear it: written in
one transaction, so that no total ever says anything else than its rows."""

# ruff: noqa: S608  # statements are put together from constants of this room, values are always
# bound

from __future__ import annotations

from collections.abc import Mapping

from ohmo.contracts.messages import Usage
from ohmo.contracts.provider import Payer
from ohmo.contracts.spending import Scope, Total
from ohmo.store.codec import column
from ohmo.store.statements import Moment, Op, Value, instant

_USAGE = """INSERT INTO usage (id, at, day, thread, turn, person, job, model, purpose, input,
cached, written, output, micro_usd)
VALUES (?, ?, ?, ?, ?, COALESCE((SELECT person FROM turns WHERE turn = ?), ?), ?, ?, ?, ?, ?, ?, ?,
?)"""
_ROW = "(?, ?, ?, ?, ?)"
_TOTALS = """INSERT INTO spending (scope, name, day, tokens, micro_usd) VALUES {rows}
ON CONFLICT (scope, name, day) DO UPDATE SET tokens = spending.tokens + excluded.tokens,
micro_usd = spending.micro_usd + excluded.micro_usd"""
_TOTAL = "(scope = ? AND name = ? AND day = ?)"


def _scopes(payer: Payer, day: str) -> list[tuple[Scope, str, str]]:
    """Whose totals a call counts in: scope, name, and the day where they begin anew each day.
    Always in this order: two transactions that write the same rows never wait for each other."""
    named: list[tuple[Scope, str, str]] = [
        ("turn", payer.turn, ""),
        ("thread", payer.conversation, ""),
        ("person", column(payer.spender), day),
        ("job", payer.job, day),
    ]
    return [*(scope for scope in named if scope[1]), ("day", "", day)]


def _day(at: Moment) -> str:
    return instant(at.now).date().isoformat()


def spend(at: Moment, payer: Payer, usage: Usage) -> Op[None]:
    day = _day(at)
    _, _, person = payer.person.partition(":")  # the books of people name the channel by the thread
    who = (payer.thread or None, payer.turn or None, payer.turn, column(person) or None)
    what = (payer.job or None, column(usage.model), usage.purpose)
    cost = (usage.input, usage.cached, usage.written, usage.output, usage.micro_usd)
    yield _USAGE, (at.instance.new_id(), at.now, day, *who, *what, *cost)
    totals: list[Value] = []
    scopes = _scopes(payer, day)
    for scope in scopes:
        totals += (*scope, usage.tokens, usage.micro_usd or 0)
    yield _TOTALS.format(rows=", ".join([_ROW] * len(scopes))), tuple(totals)


def spent(at: Moment, payer: Payer) -> Op[Mapping[Scope, Total]]:
    scopes = _scopes(payer, _day(at))
    named = [value for scope in scopes for value in scope]
    wanted = " OR ".join([_TOTAL] * len(scopes))
    rows = yield f"SELECT scope, tokens, micro_usd FROM spending WHERE {wanted}", tuple(named)
    totals: dict[Scope, Total] = {scope: Total() for scope, _, _ in scopes}
    for scope, tokens, micro_usd in rows:
        totals[scope] = Total(int(tokens), int(micro_usd))
    return totals
