"""Builds what holds every model call against the budgets, and says to whom it is told that one is
nearly or wholly used up."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial

from channels.contract import Outbound
from channels.record import record
from ohmo.ambient import Ambient, derived
from ohmo.assembly.deps import Deps
from ohmo.config.agent import Budgets
from ohmo.context.window import request_tokens
from ohmo.contracts.messages import Usage
from ohmo.contracts.outbox import PostRow
from ohmo.contracts.provider import AskOnce, Call, Payer
from ohmo.contracts.spending import KEYS, Limit, Scope, Told, Total
from ohmo.providers.build import Model
from ohmo.providers.middleware.budget import Counting, Prices, SideCalls, Till


def limits_of(budgets: Budgets) -> Mapping[Scope, Limit]:
    """Those that are set."""
    limits: dict[Scope, Limit] = {}
    for scope, key in KEYS.items():
        budget = getattr(budgets, key)
        micro_usd = None if budget.usd is None else round(budget.usd * 1_000_000)
        limit = Limit(budget.tokens, micro_usd)
        if limit != Limit():
            limits[scope] = limit
    return limits


def asking(deps: Deps, model: Model, scripted: Call | None) -> tuple[Call, AskOnce]:
    """How the steps of turns are asked for, and everything else: through the chain, every try
    charged. ``scripted``: asked instead of a model."""
    environment = deps.environment
    till = Till(
        limits_of(deps.config.budgets),
        Counting(CountedBooks(deps), BudgetNotices(deps)),
        Prices(request_tokens, model.price),
        Ambient(environment.new_id, environment.clock, environment.failpoint),
    )
    inner = partial(till.charged, ask=scripted or model.call)
    if scripted is None and model.charged is not None:
        inner = model.charged(till.charged)
    call = partial(till.opened, ask=inner)
    return call, SideCalls(call, till.count)


@record
class CountedBooks:
    """The store's, and what monitoring is told; calls of turns tell it themselves."""

    deps: Deps

    async def spend(self, payer: Payer, usage: Usage) -> None:
        await self.deps.store.spend(payer, usage)
        self.deps.environment.metrics.spent(usage)

    async def spent(self, payer: Payer) -> Mapping[Scope, Total]:
        return await self.deps.store.spent(payer)


@record
class BudgetNotices:
    """Each once for each budget and its day. No amounts for guests."""

    deps: Deps

    async def __call__(self, told: Told) -> None:
        deps = self.deps
        info = await deps.store.thread(told.payer.thread) if told.payer.thread else None
        place = None if info is None else info.address
        channel, _, person = told.payer.person.partition(":")
        account = "" if place is None else place.account
        guest = deps.access.of_absent(channel, account, person) in (None, "guest")
        heard = place is not None and place.channel != "house" and not guest
        once = derived("budget", told.name)
        if told.state == "near" and place is not None and heard:
            row = PostRow(derived("near", once), "notice", Outbound(place, told.words))
            await deps.store.post([row])
        # what one turn or conversation takes is its people's affair, a job that fails is told as
        # such
        if (heard and told.scope in ("turn", "thread", "person")) or (
            told.state == "over" and told.payer.job
        ):
            return
        words = told.words[:1].upper() + told.words[1:]
        await deps.notices.tell(
            f"budget:{told.name}", words, heard_at=place if heard else None, once=once
        )
