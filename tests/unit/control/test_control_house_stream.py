"""Whoever watches the whole house misses nothing that counts, or is told that it did."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import aiohttp
import pytest

from channels.contract import Address, ChatId
from channels.web.client import place
from ohmo.contracts.agent import TextDelta, TurnEnded, TurnStarted
from ohmo.contracts.store import Hint
from ohmo.control.event_hub import Changed, Journal
from ohmo.control.event_stream import newest
from tests.unit.control.small_house import SmallHouse

Frame = tuple[str, dict[str, Any], str]  # kind, data, id


@asynccontextmanager
async def reading(
    session: aiohttp.ClientSession, query: str = "", last: str = ""
) -> AsyncIterator[aiohttp.ClientResponse]:
    async with session.get(
        f"/api/v1/events{query}", headers={"Last-Event-ID": last} if last else {}
    ) as response:
        assert response.status == 200, await response.text()
        yield response


async def read(response: aiohttp.ClientResponse, count: int = 1) -> list[Frame]:
    frames: list[Frame] = []
    while len(frames) < count:
        block = (await asyncio.wait_for(response.content.readuntil(b"\n\n"), 20)).decode()
        parts = dict(
            line.split(": ", 1) for line in block.strip().splitlines() if not line.startswith(":")
        )
        if "data" in parts:
            frames.append((parts["event"], json.loads(parts["data"]), parts.get("id", "")))
    return frames


async def test_commits_and_turns_are_told_with_ids_and_the_rest_without(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    thread = house.thread_at(place("c1"))
    async with reading(session) as response:
        ((kind, data, start),) = await read(response)
        assert (kind, data["since"]) == ("ready", start)
        house.emit(thread, TurnStarted("t", "owner"))
        house.emit(thread, TextDelta("t", "hi"))
        house.emit(thread, TurnEnded("t", "answered", "hi"))
        frames = await read(response, 3)
        assert [kind for kind, _, _ in frames] == ["turn_started", "text_delta", "turn_ended"]
        assert [bool(mark) for _, _, mark in frames] == [True, False, True]
        assert all(data["thread"] == thread for _, data, _ in frames)
        house.post(thread, "hello")
        ((kind, data, mark),) = await read(response)
        assert (kind, data["thread"]) == ("changed", thread)
        assert mark


async def test_a_reader_that_was_cut_off_gets_exactly_what_it_missed(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    threads = [house.thread_at(place(f"c{n}")) for n in range(3)]
    async with reading(session) as response:
        await read(response)
        house.emit(threads[0], TurnStarted("a", "owner"))
        ((_, _, last),) = await read(response)
    house.emit(threads[0], TurnEnded("a", "answered", ""))
    house.post(threads[1], "one")
    house.post(threads[1], "two")
    house.emit(threads[2], TurnStarted("b", "owner"))
    async with asyncio.timeout(20):
        while house.queued():
            await asyncio.sleep(0)
    for query, header in (("", last), (f"?since={last}", "")):
        async with reading(session, query, header) as response:
            frames = await read(response, 4)
            assert sorted(kind for kind, _, _ in frames[:3]) == [
                "changed",
                "turn_ended",
                "turn_started",
            ]
            assert [data["thread"] for kind, data, _ in frames if kind == "changed"] == [threads[1]]
            assert frames[3][0] == "ready"


@pytest.mark.parametrize("mark", ["otherlife-3", "nonsense", "-", "x" * 200])
async def test_a_mark_that_means_nothing_any_more_is_answered_with_reset(
    session: aiohttp.ClientSession, mark: str
) -> None:
    async with reading(session, f"?since={mark}") as response:
        frames = await read(response, 2)
        assert [kind for kind, _, _ in frames] == ["reset", "ready"]
        assert frames[0][2] == frames[1][1]["since"]


def test_the_journal_says_when_it_forgot() -> None:
    journal = Journal("life")
    start = journal.mark(0)
    for number in range(5000):
        journal.add(f"t{number}", Changed("post", f"t{number}"))
    assert journal.since(start) is None
    missed = journal.since(journal.mark(4990))
    assert missed is not None
    assert [told.number for told in missed] == list(range(4991, 5001))
    assert journal.since(journal.mark(5000)) == []
    assert journal.since(journal.mark(5001)) is None


def test_many_changes_of_one_thread_are_told_once_and_last() -> None:
    journal = Journal("life")
    told = [
        journal.add("a", Changed("post", "a")),
        journal.add("a", TurnStarted("t", "o")),
        journal.add("a", Changed("post", "a")),
    ]
    assert [entry.number for entry in newest(told)] == [2, 3]


async def test_a_posts_state_reaches_the_reader_of_its_thread_without_reload(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    thread = house.thread_at(Address("slack", "T1", ChatId("C1")))
    row = house.post(thread, "on its way", state="ready")
    async with reading(session, f"?thread={thread}") as response:
        frames = await read(response, 3)
        assert [kind for kind, _, _ in frames] == ["item", "snapshot", "ready"]
        house.settle(row, "dead", "the chat is gone")
        ((kind, data, _),) = await read(response)
        assert (kind, data["row"], data["state"], data["error"]) == (
            "post_state",
            row,
            "dead",
            "the chat is gone",
        )
        house.settle(row, "sent")
        ((kind, data, _),) = await read(response)
        assert (kind, data["state"], data["error"]) == ("post_state", "sent", None)


async def test_a_post_that_settled_while_the_reader_was_away_is_told_when_it_comes_back(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    thread = house.thread_at(Address("slack", "T1", ChatId("C1")))
    row = house.post(thread, "on its way", state="sending")
    house.settle(row, "sent")
    async with reading(session, f"?thread={thread}&since=1&open={row},nobody,<bad>") as response:
        frames = await read(response, 3)
        assert [kind for kind, _, _ in frames] == ["snapshot", "post_state", "ready"]
        assert frames[1][1]["state"] == "sent"


async def test_a_hint_without_a_thread_means_look_at_everything(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    async with reading(session) as response:
        await read(response)
        house.hint(Hint("any"))
        ((kind, data, _),) = await read(response)
        assert (kind, data["what"], data["thread"]) == ("changed", "any", "")
