"""Questions to a model beside a turn: one whole answer, counted for whoever bears it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator

import pytest

from ohmo.contracts.errors import CutOff, Overloaded
from ohmo.contracts.messages import ModelStep, Text, Usage
from ohmo.contracts.provider import Delta, ModelEvent, ModelRequest, Notice, Payer, Reply
from ohmo.providers.middleware.budget import SideCalls

ADA = Payer("t1", "th1", "slack:ada")
REQUEST = ModelRequest("m-1", (), (), (), 100, None, "compaction", payer=ADA)
USAGE = Usage("m-1", "compaction", 10, 0, 0, 3, 7)
REPLY = Reply(ModelStep((Text("short"),), "m-1", "end"), USAGE)


class Books:
    def __init__(self) -> None:
        self.counted: list[tuple[Payer, Usage]] = []
        self.may = asyncio.Event()
        self.may.set()

    async def spend(self, payer: Payer, usage: Usage) -> None:
        await self.may.wait()
        self.counted.append((payer, usage))


async def answers(_: ModelRequest) -> AsyncIterator[ModelEvent]:
    yield Notice("waiting")
    yield Delta("short")
    yield REPLY


async def test_the_whole_answer_comes_back_and_is_counted_for_its_payer() -> None:
    books = Books()
    assert await SideCalls(answers, books.spend)(REQUEST) == REPLY
    assert books.counted == [(ADA, USAGE)]


async def test_who_gives_up_while_it_is_counted_does_not_keep_it_from_being_counted() -> None:
    books = Books()
    books.may.clear()
    asked = asyncio.create_task(SideCalls(answers, books.spend)(REQUEST))
    await asyncio.sleep(0)
    asked.cancel()
    books.may.set()
    with pytest.raises(asyncio.CancelledError):
        await asked
    assert books.counted == [(ADA, USAGE)]


async def test_an_error_goes_through_and_nothing_is_counted() -> None:
    async def overloaded(_: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield Delta("sh")
        raise Overloaded

    async def breaks_off(_: ModelRequest) -> AsyncIterator[ModelEvent]:
        yield Delta("sh")

    books = Books()
    with pytest.raises(Overloaded):
        await SideCalls(overloaded, books.spend)(REQUEST)
    with pytest.raises(CutOff):
        await SideCalls(breaks_off, books.spend)(REQUEST)
    assert books.counted == []
