"""Budgets before every call of a model: what may be asked, what is reckoned while it runs, what is
counted when nobody uses the answer, and what people are told."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest

from channels.errors import Unavailable
from ohmo.ambient import Ambient, IdSource
from ohmo.contracts.errors import CutOff, Empty, OverBudget, Overloaded, ProviderError
from ohmo.contracts.messages import ModelStep, Text, Usage
from ohmo.contracts.provider import Billed, Call, Delta, ModelEvent, ModelRequest, Payer, Reply
from ohmo.contracts.spending import Limit, Scope, Told, Total
from ohmo.providers.middleware.budget import Counting, Prices, SideCalls, Till
from ohmo.providers.middleware.link import Patience
from ohmo.providers.middleware.retry import retry
from ohmo.providers.models import Price

ADA = Payer("t1", "th1", "slack:ada")
REQUEST = ModelRequest("m-1", (), (), (), 50, None, "turn", payer=ADA)
DEAR = Price(1.0, 0.1, 2.0, 10.0)  # micro USD a token


def reply(tokens: int = 60, micro_usd: int | None = None, purpose: str = "turn") -> Reply:
    usage = Usage("m-1", purpose, tokens - 10, 0, 0, 10, micro_usd)
    return Reply(ModelStep((Text("done"),), "m-1", "end"), usage)


class Books:
    """What the store keeps: a row per call, totals by scope."""

    def __init__(self) -> None:
        self.rows: list[tuple[Payer, Usage]] = []
        self.away = False

    async def spend(self, payer: Payer, usage: Usage) -> None:
        if self.away:
            raise Unavailable("the store is away")
        self.rows.append((payer, usage))

    async def spent(self, payer: Payer) -> Mapping[Scope, Total]:
        if self.away:
            raise Unavailable("the store is away")
        await asyncio.sleep(0)
        totals: dict[Scope, Total] = {}
        scopes: tuple[Scope, ...] = ("turn", "thread", "person", "job")
        for scope in scopes:
            if getattr(payer, scope):
                key = "conversation" if scope == "thread" else scope
                same = [
                    usage for who, usage in self.rows if getattr(who, key) == getattr(payer, key)
                ]
                totals[scope] = self._sum(same)
        return {**totals, "day": self._sum([usage for _, usage in self.rows])}

    def _sum(self, rows: list[Usage]) -> Total:
        return Total(sum(row.tokens for row in rows), sum(row.micro_usd or 0 for row in rows))


class Scene:
    def __init__(self, limits: Mapping[Scope, Limit], price: Price | None = None) -> None:
        self.books = Books()
        self.told: list[Told] = []
        self.now = datetime(2026, 1, 5, 9, tzinfo=UTC)
        self.asked = 0
        self.running = 0
        self.most_running = 0
        self.go = asyncio.Event()
        self.go.set()
        self.till = Till(
            limits,
            Counting(self.books, self.tell),
            Prices(lambda _: 100, lambda _: price),
            Ambient(IdSource(), lambda: self.now),
        )

    async def tell(self, told: Told) -> None:
        self.told.append(told)

    async def model(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.asked += 1
        self.running += 1
        self.most_running = max(self.running, self.most_running)
        try:
            yield Delta("do")
            await self.go.wait()
            yield reply(purpose=request.purpose)
        finally:
            self.running -= 1

    def charged(self, call: Call | None = None) -> Call:
        return partial(self.till.charged, ask=call or self.model)

    def whole(self, call: Call | None = None) -> Call:
        return partial(self.till.opened, ask=call or self.charged())

    async def turn(self, request: ModelRequest = REQUEST) -> Reply:
        """As a turn does: what the reply took is written with its step."""
        async for event in self.whole()(request):
            if isinstance(event, Reply):
                await self.books.spend(request.payer, event.usage)
                return event
        raise AssertionError


async def test_a_call_that_may_take_more_than_is_left_is_not_made() -> None:
    scene = Scene({"thread": Limit(tokens=300)})
    for _ in range(3):  # 60 tokens each, reckoned with 150
        await scene.turn()
    with pytest.raises(OverBudget) as refused:
        await scene.turn()
    assert scene.asked == 3
    assert str(refused.value) == (
        "the budget of this conversation is used up: 180 of 300 tokens (budgets.thread.tokens), and"
        " the next call may take 150 tokens. /new begins one with a budget of its own; to go on in"
        " this one, raise budgets.thread in config.yaml. /usage (in a shell: ohmo usage) shows what was"
        " spent"
    )
    await scene.turn(replace(REQUEST, payer=Payer("t2", "th2")))  # another conversation
    await scene.turn(replace(REQUEST, payer=replace(ADA, session="th1.7")))  # after /new
    with pytest.raises(OverBudget):
        await scene.turn(replace(REQUEST, payer=replace(ADA, session="th1.0")))  # after /resume


async def test_a_day_s_budget_begins_anew_at_midnight_utc() -> None:
    scene = Scene({"day": Limit(tokens=200)})
    await scene.turn()
    with pytest.raises(OverBudget, match="begins anew at 00:00 UTC"):
        await scene.turn()
    scene.now += timedelta(hours=15)
    scene.books.rows.clear()  # as the store answers for another day
    await scene.turn()


@pytest.mark.parametrize(
    ("limit", "key"),
    [(Limit(tokens=0), "budgets.turn.tokens"), (Limit(micro_usd=0), "budgets.turn.usd")],
)
async def test_a_budget_of_nothing_lets_nothing_be_asked(limit: Limit, key: str) -> None:
    scene = Scene({"turn": limit})
    with pytest.raises(OverBudget) as refused:
        await scene.turn()
    assert str(refused.value) == (f"{key} is 0, so no model may be asked; raise it in config.yaml")
    assert scene.asked == 0


async def test_dollars_are_reckoned_at_the_dearest_and_a_price_nobody_knows_is_no_reason() -> None:
    dear = Scene({"day": Limit(micro_usd=699)}, DEAR)  # 100 tokens put into the cache, 50 out
    with pytest.raises(OverBudget, match=r"\$0\.0000 of \$0\.0007 \(budgets\.day\.usd\)"):
        await dear.turn()
    unknown = Scene({"day": Limit(micro_usd=1)}, None)
    await unknown.turn()
    assert unknown.asked == 1


async def test_32_turns_at_once_pass_no_budget_and_wait_for_each_other_first() -> None:
    scene = Scene({"day": Limit(tokens=1_000)})
    scene.go.clear()
    turns = [
        asyncio.create_task(scene.turn(replace(REQUEST, payer=Payer(f"t{n}", f"th{n}"))))
        for n in range(32)
    ]
    for _ in range(50):
        await asyncio.sleep(0)
    assert scene.running == 6  # each may take 150 of 1 000
    scene.go.set()
    outcomes = await asyncio.gather(*turns, return_exceptions=True)
    answered = [outcome for outcome in outcomes if isinstance(outcome, Reply)]
    refused = [outcome for outcome in outcomes if isinstance(outcome, OverBudget)]
    assert len(answered) + len(refused) == 32
    total = sum(usage.tokens for _, usage in scene.books.rows)
    assert 1_000 - 150 < total <= 1_000
    assert len(answered) == total // 60


@pytest.mark.parametrize("error", [Overloaded(), CutOff()])
async def test_a_try_that_was_billed_and_broke_off_is_counted_and_the_next_one_held_against_it(
    error: ProviderError,
) -> None:
    scene = Scene({"turn": Limit(tokens=320)})

    async def breaks(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        scene.asked += 1
        yield Billed(reply(40, 7, request.purpose).usage)
        yield Billed(reply(90, 8, request.purpose).usage)  # cumulative
        raise error

    async def nothing(_: float) -> None: ...

    tried = partial(retry(Patience(sleep=nothing)), ask=scene.charged(breaks))
    with pytest.raises(OverBudget):
        async for _ in scene.whole(tried)(REQUEST):
            pass
    assert scene.asked == 2
    assert scene.books.rows == [(ADA, reply(90, 8).usage)] * 2


async def test_a_reply_that_is_thrown_away_is_counted_and_the_one_that_is_used_only_once() -> None:
    scene = Scene({})

    async def picky(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        async for event in scene.charged()(request):
            if isinstance(event, Reply) and scene.asked < 3:
                raise Empty
            yield event

    async def nothing(_: float) -> None: ...

    tried = partial(retry(Patience(sleep=nothing)), ask=picky)
    request = replace(REQUEST, purpose="memory")
    found = await SideCalls(scene.whole(tried), scene.till.count)(request)
    assert found.usage == reply(purpose="memory").usage
    assert scene.books.rows == [(ADA, found.usage)] * 3


async def test_who_leaves_in_the_middle_pays_what_was_billed_until_then_and_frees_the_rest() -> (
    None
):
    scene = Scene({"day": Limit(tokens=200)})

    async def slow(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield Billed(reply(40, None, request.purpose).usage)
        await scene.go.wait()
        yield reply()

    async def ask() -> None:
        async for _ in scene.whole(scene.charged(slow))(REQUEST):
            pass

    scene.go.clear()
    asking = asyncio.create_task(ask())
    for _ in range(10):
        await asyncio.sleep(0)
    asking.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert scene.books.rows == [(ADA, reply(40).usage)]
    scene.go.set()
    await scene.turn()  # 40 + 150 fit into 200: nothing is held any more


async def test_most_of_a_budget_is_told_once_for_each_period() -> None:
    scene = Scene({"day": Limit(tokens=220), "thread": Limit(tokens=10_000)})
    await scene.turn()
    await scene.turn(replace(REQUEST, max_output=0))
    assert scene.told == []
    await scene.turn(replace(REQUEST, max_output=-50))
    await scene.turn(replace(REQUEST, max_output=-100))
    (told,) = scene.told
    assert (told.state, told.scope, told.payer.thread) == ("near", "day", "th1")
    assert told.words.startswith("82% of the budget of a day is spent: 180 of 220 tokens")


async def test_totals_that_cannot_be_read_let_the_turn_wait_and_what_was_billed_is_kept() -> None:
    scene = Scene({"day": Limit(tokens=1_000)})
    side = SideCalls(scene.whole(), scene.till.count)
    scene.go.clear()
    asking = asyncio.create_task(side(REQUEST))
    for _ in range(10):
        await asyncio.sleep(0)
    scene.books.away = True
    scene.go.set()
    await asking
    assert scene.books.rows == []
    with pytest.raises(Overloaded) as waits:
        await side(REQUEST)
    assert waits.value.retry_after
    scene.books.away = False
    await side(REQUEST)
    assert scene.books.rows == [(ADA, reply().usage)] * 2
