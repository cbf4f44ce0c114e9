"""``/usage``: what was spent here and today, and how much may be."""

from __future__ import annotations

from channels.text import some
from ohmo.commands.contract import MEMBERS, Command, Desk, Effect, Order, Reply
from ohmo.contracts.messages import cost_words
from ohmo.contracts.spending import Limit, Total, spent_words


async def run(order: Order, desk: Desk) -> Effect:
    found = await desk.usage_of(order)
    here = [
        f"- {spent_words(scope, total, found.limits.get(scope, Limit()))}"
        for scope, total in found.spent.items()
        if total != Total() or scope in found.limits
    ]
    models: list[str] = []
    for row in found.today:
        tokens = f"{row.sent} tokens in ({row.cached} from cache), {row.output} out"
        cost = cost_words(row.micro_usd, row.unpriced)
        models.append(f"- {row.model}: {some(row.calls, 'call')}, {tokens}, {cost}")
    today = ["Today:", "", *models] if models else ["Nothing was spent today."]
    return Reply("\n".join([*here, "", *today] if here else today))


COMMAND = Command("usage", "tokens, cost and budgets: here and today", run, MEMBERS, place=90)
