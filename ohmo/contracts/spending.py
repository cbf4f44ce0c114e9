"""What was spent on calls of models, by whom it is borne, and how much may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Literal, Protocol

from channels.record import record
from ohmo.contracts.messages import Usage
from ohmo.contracts.provider import Payer
from ohmo.contracts.reports import UsageTotal

#: Whose budget bears a call: a turn, a conversation; of this UTC day a person, a job, everybody.
Scope = Literal["turn", "thread", "person", "job", "day"]
#: The key below ``budgets``, and whose budget that is in words.
KEYS: Mapping[Scope, str] = {
    "turn": "turn",
    "thread": "thread",
    "person": "person_day",
    "job": "job",
    "day": "day",
}
WHOSE: Mapping[Scope, str] = {
    "turn": "one turn",
    "thread": "this conversation",
    "person": "one person a day",
    "job": "a job a day",
    "day": "a day",
}
HERE: Mapping[Scope, str] = {
    "turn": "what runs now",
    "thread": "this conversation",
    "person": "you, today",
    "job": "this job, today",
    "day": "everybody, today",
}
DAILY: frozenset[Scope] = frozenset({"person", "job", "day"})
NEAR = 0.8  # of a budget, from which it is told


@record
class Total:
    """What was spent so far: tokens of both directions, and millionths of a US dollar as far as
    prices are known."""

    tokens: int = 0
    micro_usd: int = 0

    def and_then(self, other: Total) -> Total:
        return Total(self.tokens + other.tokens, self.micro_usd + other.micro_usd)

    def without(self, other: Total) -> Total:
        return Total(self.tokens - other.tokens, self.micro_usd - other.micro_usd)


@record
class Limit:
    """What may be spent; None: any amount."""

    tokens: int | None = None
    micro_usd: int | None = None

    def share(self, spent: Total) -> float:
        """How much of it is spent, of the kind that is nearer its end; 1.0: all."""
        shares = [0.0]
        for most, so_far in ((self.tokens, spent.tokens), (self.micro_usd, spent.micro_usd)):
            if most is not None:
                shares.append(so_far / most if most else 1.0)
        return max(shares)

    def passed(self, spent: Total, need: Total) -> Literal["tokens", "usd"] | None:
        """What ``need`` more would be too much of."""
        if self.tokens is not None and spent.tokens + need.tokens > self.tokens:
            return "tokens"
        if self.micro_usd is None:
            return None
        used_up = spent.micro_usd >= self.micro_usd  # then not even what has no known price
        return "usd" if used_up or spent.micro_usd + need.micro_usd > self.micro_usd else None

    def words(self, spent: Total) -> str:
        """``9,120 of 10,000 tokens and $0.8100 of $1.0000``."""
        told: list[str] = []
        if self.tokens is not None:
            told.append(f"{spent.tokens:,} of {self.tokens:,} tokens")
        if self.micro_usd is not None:
            told.append(f"${spent.micro_usd / 1e6:.4f} of ${self.micro_usd / 1e6:.4f}")
        return " and ".join(told)


_SPENT = "/usage (in a shell: ohmo usage) shows what was spent"  # who reads it may be at either


def over_words(scope: Scope, limit: Limit, kind: str, spent: Total, need: Total) -> str:
    """A turn that ends because of it: which budget, what was spent, how to go on."""
    key = f"budgets.{KEYS[scope]}.{kind}"
    if (limit.tokens if kind == "tokens" else limit.micro_usd) == 0:
        return f"{key} is 0, so no model may be asked; raise it in config.yaml"
    next_call = f"{need.tokens:,} tokens" if kind == "tokens" else f"${need.micro_usd / 1e6:.4f}"
    return (
        f"the budget of {WHOSE[scope]} is used up: {limit.words(spent)} ({key}), and the next call"
        f" may take {next_call}. {go_on(scope)} {_SPENT}"
    )


def near_words(scope: Scope, limit: Limit, spent: Total) -> str:
    """Told once when most of it is spent."""
    return (
        f"{limit.share(spent):.0%} of the budget of {WHOSE[scope]} is spent: {limit.words(spent)}"
        f" (budgets.{KEYS[scope]}). {go_on(scope)} {_SPENT}."
    )


def spent_words(scope: Scope, total: Total, limit: Limit) -> str:
    """``this conversation: 9,120 tokens, $0.0123; 880 tokens of its budget are left``."""
    line = f"{HERE[scope]}: {total.tokens:,} tokens"
    if total.micro_usd:
        line += f", ${total.micro_usd / 1e6:.4f}"
    left: list[str] = []
    if limit.tokens is not None:
        left.append(f"{max(0, limit.tokens - total.tokens):,} of {limit.tokens:,} tokens")
    if limit.micro_usd is not None:
        dollars = max(0, limit.micro_usd - total.micro_usd) / 1e6
        left.append(f"${dollars:.4f} of ${limit.micro_usd / 1e6:.4f}")
    return f"{line}; left: {' and '.join(left)}" if left else line


def go_on(scope: Scope) -> str:
    """What a person can do."""
    raise_it = f"raise budgets.{KEYS[scope]} in config.yaml."
    if scope in DAILY:
        return f"It begins anew at 00:00 UTC; to go on now, {raise_it}"
    if scope == "thread":
        return f"/new begins one with a budget of its own; to go on in this one, {raise_it}"
    return f"To go on, {raise_it}"


def as_rows(
    limits: Mapping[Scope, Limit], day: Mapping[str, int | float | None]
) -> list[Mapping[str, object]]:
    """Budgets that are set, by key; that of the day with what was spent of it."""
    rows: list[Mapping[str, object]] = []
    for scope, limit in limits.items():
        usd = None if limit.micro_usd is None else limit.micro_usd / 1_000_000
        spent = {"usd": day["usd"], "tokens": day["tokens"]} if scope == "day" else {}
        row = {"budget": KEYS[scope], "usd_limit": usd, "tokens_limit": limit.tokens}
        rows.append({**row, **spent})
    return rows


@record
class Told:
    """What people are told of a budget: ``near`` its end, or ``over`` it. ``name``: of this budget,
    whose it is and of which day, so that it is told once. ``words``: one sentence or two, with
    amounts."""

    state: Literal["near", "over"]
    scope: Scope
    name: str
    words: str
    payer: Payer


@record
class Spending:
    """What models took today, by model; what is borne here so far, and how much may be."""

    today: Sequence[UsageTotal]
    spent: Mapping[Scope, Total]
    limits: Mapping[Scope, Limit]


class Books(Protocol):
    """What calls of models cost, and whose budgets bear it."""

    async def spend(self, payer: Payer, usage: Usage) -> None:
        """Of a call whose answer is no step of a turn: its row, and the totals of everybody the
        payer names, in one transaction."""
        ...

    async def spent(self, payer: Payer) -> Mapping[Scope, Total]:
        """The totals of everybody the payer names, and of the day; of days: of this UTC day."""
        ...
