"""No model is asked for more than the budgets of those who bear it leave; and what an endpoint says
it took is counted, also where nobody uses the answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Mapping, Sequence
from dataclasses import replace
from datetime import UTC
from itertools import count
from typing import Any, Literal

import structlog

from channels.errors import Unavailable
from channels.record import Recent, record
from ohmo.ambient import Ambient
from ohmo.contracts.errors import CutOff, OverBudget, Overloaded, StoreError
from ohmo.contracts.messages import Usage
from ohmo.contracts.provider import Billed, Call, ModelEvent, ModelRequest, Payer, Reply
from ohmo.contracts.spending import (
    DAILY,
    NEAR,
    Books,
    Limit,
    Scope,
    Told,
    Total,
    near_words,
    over_words,
)
from ohmo.lifecycle import unbroken
from ohmo.providers.middleware.link import LinkManifest
from ohmo.providers.models import Price
from ohmo.providers.wire_parts import streaming

log = structlog.get_logger("ohmo.budgets")
BEARERS = 4_096  # whose totals are remembered beside the store's
OWED = 1_000  # calls that wait for a store that is away
AGAIN = 5.0  # seconds
Bearer = tuple[Scope, str]  # a scope, and whose it is there with its day


@record
class Held:
    """What one try was reckoned to take, and by whom it is borne."""

    bearers: tuple[Bearer, ...] = ()
    need: Total = Total()


@record
class Prices:
    """What a call is reckoned to take before it is made: tokens of a request, price of a model."""

    tokens: Callable[[ModelRequest], int]
    price: Callable[[str], Price | None]

    def most(self, request: ModelRequest) -> Total:
        """Rather too much: everything as input, nothing of it cached, and the longest answer."""
        tokens, longest = self.tokens(request), request.max_output
        price = self.price(request.model)
        dearest = 0 if price is None else price.micro_usd(0, 0, tokens, longest)
        plain = 0 if price is None else price.micro_usd(tokens, 0, 0, longest)
        return Total(tokens + longest, max(dearest, plain))


@record
class Counting:
    """Where spending is kept, and who is told of budgets that are used up."""

    books: Books
    tell: Callable[[Told], Awaitable[None]]


class Till:
    """Two links of the chain: ``opened`` around everything, ``charged`` around each try.

    Before a try the totals of everybody who bears it, what is being asked at this moment, and the
    most this try may take are held against the limits. A try that would fit if nothing else ran
    waits until those have ended. Totals come from the store; what is not committed yet is
    remembered beside it, so that none is ever smaller than what was spent here."""

    def __init__(
        self, limits: Mapping[Scope, Limit], counting: Counting, prices: Prices, ambient: Ambient
    ) -> None:
        self._limits = limits
        self._books = counting.books
        self._tell = counting.tell
        self._prices = prices
        self._ambient = ambient
        self._known = Recent[Bearer, Total](BEARERS)
        self._held: dict[Bearer, Total] = {}
        self._ended = asyncio.Event()  # a try ended; each waits for the next one
        self._told = Recent[Bearer, None](BEARERS)
        self._tabs: dict[str, list[Usage]] = {}
        self._numbers = count()  # of tabs
        self._owed: list[tuple[Payer, Usage]] = []

    async def opened(self, request: ModelRequest, ask: Call) -> AsyncIterator[ModelEvent]:
        """What was billed and is not the usage of the reply is counted here; that of the reply by
        who asked."""
        tab = str(next(self._numbers))
        self._tabs[tab] = []
        wanted = replace(request, payer=replace(request.payer, tab=tab))
        kept: Usage | None = None
        try:
            async with streaming(ask, wanted) as events:
                async for event in events:
                    if isinstance(event, Reply):
                        kept = event.usage
                    yield event
        finally:
            billed = self._tabs.pop(tab)
            if kept in billed:
                billed.remove(kept)
            if billed or self._owed:
                await unbroken(self._write_off(request.payer, billed))

    async def charged(self, request: ModelRequest, ask: Call) -> AsyncIterator[ModelEvent]:
        """One try. Raises OverBudget before anything is asked; Overloaded when the totals cannot
        be read."""
        held = await self._admitted(request)
        took: Usage | None = None
        charged = False
        try:
            async with streaming(ask, request) as events:
                async for event in events:
                    if isinstance(event, Billed):
                        took = event.usage
                        continue
                    if isinstance(event, Reply):  # known here before anybody can store it
                        charged = True
                        self._charge(request.payer, held, event.usage)
                        await self._warn(request.payer, held)
                    yield event
        finally:
            if not charged:
                self._charge(request.payer, held, took)

    async def count(self, payer: Payer, usage: Usage) -> None:
        """A call whose answer is no step of a turn."""
        await self._write_off(payer, [usage])

    async def _admitted(self, request: ModelRequest) -> Held:
        bearers = self._bearers(request.payer)
        if not bearers:
            return Held()
        need = self._prices.most(request)
        while True:
            ended = self._ended
            await self._look(request.payer, bearers)
            full = False
            for (scope, whose), limit in bearers.items():
                spent = self._known[scope, whose]
                kind = limit.passed(spent, need)
                if kind is not None:
                    words = over_words(scope, limit, kind, spent, need)
                    await self._say(_told("over", (scope, whose), limit, words, request.payer))
                    raise OverBudget(words)
                asked = self._held.get((scope, whose), Total())
                full = full or limit.passed(spent.and_then(asked), need) is not None
            if not full:
                break
            await ended.wait()
        for bearer in bearers:
            self._held[bearer] = self._held.get(bearer, Total()).and_then(need)
        return Held(tuple(bearers), need)

    def _bearers(self, payer: Payer) -> dict[Bearer, Limit]:
        """Whose budgets bear it, as far as there are any."""
        today = self._ambient.clock().astimezone(UTC).date().isoformat()
        bearers: dict[Bearer, Limit] = {}
        for scope, limit in self._limits.items():
            key = {"thread": "conversation", "person": "spender"}.get(scope, scope)
            whose = "" if scope == "day" else getattr(payer, key)
            if whose or scope == "day":
                bearers[scope, f"{whose} {today}" if scope in DAILY else whose] = limit
        return bearers

    async def _look(self, payer: Payer, bearers: Mapping[Bearer, Limit]) -> None:
        try:
            stored = await self._books.spent(payer)
        except (StoreError, Unavailable) as error:
            raise Overloaded(
                f"what was spent cannot be read ({error})", retry_after=AGAIN
            ) from error
        for bearer in bearers:
            known, total = self._known.get(bearer, Total()), stored[bearer[0]]
            self._known[bearer] = Total(
                max(known.tokens, total.tokens), max(known.micro_usd, total.micro_usd)
            )

    def _charge(self, payer: Payer, held: Held, took: Usage | None) -> None:
        """What was reckoned becomes what it was."""
        real = Total()
        if took is not None:
            real = Total(took.tokens, took.micro_usd or 0)
            if payer.tab in self._tabs:
                self._tabs[payer.tab].append(took)
        for bearer in held.bearers:
            asked = self._held.pop(bearer).without(held.need)
            if asked != Total():
                self._held[bearer] = asked
            self._known[bearer] = self._known.get(bearer, Total()).and_then(real)
        self._ended.set()
        self._ended = asyncio.Event()

    async def _warn(self, payer: Payer, held: Held) -> None:
        for scope, whose in held.bearers:
            limit, spent = self._limits[scope], self._known[scope, whose]
            if limit.share(spent) >= NEAR and (scope, whose) not in self._told:
                self._told[scope, whose] = None
                words = near_words(scope, limit, spent)
                await self._say(_told("near", (scope, whose), limit, words, payer))

    async def _say(self, told: Told) -> None:
        """Nothing is lost with a line that cannot be said."""
        try:
            await self._tell(told)
        except (StoreError, Unavailable) as error:
            log.warning("budget_not_told", words=told.words, error=str(error))

    async def _write_off(self, payer: Payer, billed: Sequence[Usage]) -> None:
        """Kept here while the store is away."""
        self._owed = [*self._owed, *((payer, usage) for usage in billed)][-OWED:]
        while self._owed:
            owed = self._owed.pop(0)
            try:
                self._ambient.failpoint("usage.before")
                await self._books.spend(*owed)
                self._ambient.failpoint("usage.counted")
            except (StoreError, Unavailable) as error:
                self._owed.insert(0, owed)
                log.warning("usage_not_counted_yet", calls=len(self._owed), error=str(error))
                return


class SideCalls:
    """Implements ``ohmo.contracts.provider.AskOnce``. ``call``: the chain. ``spend``: counts what
    it took."""

    def __init__(
        self, call: Call, spend: Callable[[Payer, Usage], Coroutine[Any, Any, None]]
    ) -> None:
        self._call = call
        self._spend = spend

    async def __call__(self, request: ModelRequest) -> Reply:
        reply: Reply | None = None
        async with streaming(self._call, request) as events:
            async for event in events:
                if isinstance(event, Reply):
                    reply = event
        if reply is None:
            raise CutOff
        await unbroken(self._spend(request.payer, reply.usage))
        return reply


def _told(
    state: Literal["near", "over"], bearer: Bearer, limit: Limit, words: str, payer: Payer
) -> Told:
    """A limit that was raised is another one."""
    scope, whose = bearer
    name = f"{state} {scope} {whose} {limit.tokens} {limit.micro_usd}"
    return Told(state, scope, name, words, payer)


LINK = LinkManifest(
    "budget",
    lambda parts: parts.budget,
    after=("waiting", "fallback", "tiers", "retry", "repair", "hints"),
    required=True,
)
