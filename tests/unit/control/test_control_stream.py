"""Whoever comes back gets exactly what was missed, wherever the line was cut."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from channels.web.client import place
from ohmo.contracts.agent import TextDelta, TextReset, TurnEnded, TurnStarted
from ohmo.control.server import Doors
from tests.unit.control.small_house import SmallHouse

ANSWER = "one two three — four 🎉 five"


@dataclass
class Frame:
    kind: str
    data: dict[str, Any]
    id: int | None


@dataclass
class Reader:
    """A client as the WHATWG text describes it, with nothing forgiven."""

    session: aiohttp.ClientSession
    frames: list[Frame] = field(default_factory=list[Frame])
    last: str = ""

    @asynccontextmanager
    async def open(self, query: str) -> AsyncIterator[aiohttp.ClientResponse]:
        headers = {"Last-Event-ID": self.last} if self.last else {}
        async with self.session.get(f"/api/v1/events?{query}", headers=headers) as response:
            assert response.status == 200, await response.text()
            assert response.content_type == "text/event-stream"
            yield response

    async def next(self, response: aiohttp.ClientResponse) -> Frame:
        while True:
            block = (await asyncio.wait_for(response.content.readuntil(b"\n\n"), 10)).decode()
            parts = dict(
                line.split(": ", 1)
                for line in block.strip().splitlines()
                if not line.startswith(":")
            )
            if "data" not in parts:
                continue
            number = int(parts["id"]) if "id" in parts else None
            if number is not None:
                self.last = parts["id"]
            frame = Frame(parts["event"], json.loads(parts["data"]), number)
            self.frames.append(frame)
            return frame

    async def until(self, response: aiohttp.ClientResponse, kind: str) -> None:
        while (await self.next(response)).kind != kind:
            pass

    def transcript(self) -> bytes:
        return json.dumps([frame.data for frame in self.frames if frame.kind == "item"]).encode()


async def test_items_come_first_with_their_numbers_then_the_state_then_ready(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    thread = house.thread_at(place("c"))
    await house.turn(thread, "hi")
    reader = Reader(session)
    async with reader.open(f"thread={thread}") as response:
        await reader.until(response, "ready")
    kinds = [frame.kind for frame in reader.frames]
    assert kinds == ["item"] * (len(kinds) - 2) + ["snapshot", "ready"]
    assert [frame.id for frame in reader.frames if frame.kind == "item"] == [
        item.seq for item in house.history_of[thread]
    ]


async def one_turn(
    house: SmallHouse, session: aiohttp.ClientSession, query: str, cut: int | None
) -> tuple[bytes, int]:
    """A streamed turn while somebody reads and loses the line at frame ``cut``; returns the
    transcript and how many frames there were."""
    thread = house.thread_at(place("c"))
    reader, gate = Reader(session), asyncio.Semaphore(0)
    turn: asyncio.Task[None] | None = None
    seen, open_again = 0, True
    async with asyncio.timeout(30):
        while open_again:
            async with reader.open(query) as response:
                while True:
                    frame = await reader.next(response)
                    seen += 1
                    gate.release()
                    if frame.kind == "ready" and turn is None:
                        turn = asyncio.create_task(
                            house.turn(thread, ANSWER, tool=True, pace=gate.acquire)
                        )
                    ended = (
                        turn is not None
                        and turn.done()
                        and reader.last == str(house.history_of[thread][-1].seq)
                    )
                    if ended:
                        open_again = False
                        break
                    if seen == cut:
                        break
            for _ in range(50):
                gate.release()  # the turn goes on, whoever listens
    assert turn is not None
    await turn
    return reader.transcript(), seen


def stable(transcript: bytes) -> bytes:
    """Times and row ids differ between two houses; everything else is compared byte for byte."""
    items = json.loads(transcript)

    def strip(value: Any) -> Any:
        if isinstance(value, dict):
            return {
                k: strip(v)
                for k, v in value.items()
                if k not in ("at", "started", "ready_at", "expires")
                and not (k == "id" and "outbound" in value)
            }
        return [strip(v) for v in value] if isinstance(value, list) else value

    return json.dumps(strip(items)).encode()


@pytest.mark.parametrize("query", ["thread=t1", "chat=c"])
async def test_a_line_cut_at_every_event_of_a_turn_loses_and_repeats_nothing(
    tmp_path: Path, query: str
) -> None:
    async def run(cut: int | None) -> tuple[bytes, int, bytes]:
        house = SmallHouse()
        async with (
            house.open(tmp_path / f"run{cut}") as doors,
            aiohttp.ClientSession(
                "http://localhost", connector=aiohttp.UnixConnector(str(doors.socket))
            ) as session,
        ):
            house.thread_at(place("c"))
            transcript, frames = await one_turn(house, session, query, cut)
            reader = Reader(session)
            async with reader.open(query) as response:
                await reader.until(response, "ready")
            return transcript, frames, reader.transcript()

    whole, frames, again = await run(None)
    assert whole == again
    assert frames > 10
    for cut in range(1, frames):
        transcript, _, again = await run(cut)
        assert transcript == again, f"cut at {cut}: not what the history says"
        assert stable(transcript) == stable(whole), f"cut at {cut}"


async def test_a_reader_that_comes_in_the_middle_sees_the_text_so_far_and_no_word_twice(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    thread = house.thread_at(place("c"))
    house.emit(thread, TurnStarted("t", "owner"))
    for word in ("a", "b", "c"):
        house.emit(thread, TextDelta("t", word))
    reader = Reader(session)
    async with reader.open(f"thread={thread}") as response:
        await reader.until(response, "ready")
        house.emit(thread, TextDelta("t", "d"))
        assert (await reader.next(response)).data["text"] == "d"
    snapshot = next(frame.data for frame in reader.frames if frame.kind == "snapshot")
    assert (snapshot["turn"], snapshot["text"]) == ("t", "abc")


async def test_an_answer_that_begins_anew_forgets_what_was_said(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    thread = house.thread_at(place("c"))
    for event in (
        TurnStarted("t", "owner"),
        TextDelta("t", "wrong"),
        TextReset("t"),
        TextDelta("t", "right"),
    ):
        house.emit(thread, event)
    await asyncio.sleep(0)
    reader = Reader(session)
    async with reader.open(f"thread={thread}") as response:
        while (frame := await reader.next(response)).kind != "snapshot":
            pass
    assert frame.data["text"] == "right"


async def test_a_turns_end_comes_after_its_answer(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    thread = house.thread_at(place("c"))
    reader = Reader(session)
    async with reader.open(f"thread={thread}") as response:
        await reader.until(response, "ready")
        await house.turn(thread, "the answer")
        while (frame := await reader.next(response)).kind != "turn_ended":
            pass
    assert frame.data == {
        "thread": thread,
        "type": "turn_ended",
        "turn": "turn1",
        "outcome": "answered",
        "text": "the answer",
    }
    rows = [f for f in reader.frames if f.kind == "item" and f.data["type"] == "out_row"]
    assert rows[-1].data["row"]["outbound"]["text"] == "the answer"


async def test_previews_come_as_growth_and_end_with_the_post(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    thread = house.thread_at(place("c"))
    reader, said = Reader(session), ""
    async with reader.open("chat=c") as response:
        await reader.until(response, "ready")
        for text in ("one", "one 🎉", "one 🎉 two", "other", ""):
            await house.web.revise(place("c"), None, text)
            while (frame := await reader.next(response)).kind != "preview" or (
                text and not frame.data["text"]
            ):
                pass
            units = said.encode("utf-16-le")[: 2 * frame.data["keep"]]
            said = units.decode("utf-16-le") + frame.data["text"]
            assert said == text
        house.emit(thread, TurnEnded("t", "answered", ""))


async def test_a_chat_that_does_not_exist_yet_is_followed_from_its_first_word(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    reader = Reader(session)
    async with reader.open("chat=fresh") as response:
        await reader.until(response, "ready")
        await house.web.browser.say("fresh", "hello", "0123456789")
        while (frame := await reader.next(response)).kind != "item":
            pass
    assert frame.data["arrival"]["text"] == "hello"


async def test_an_unknown_thread_is_refused_with_one_line(session: aiohttp.ClientSession) -> None:
    async with session.get("/api/v1/events?thread=nowhere") as response:
        assert response.status == 404
    async with session.get("/api/v1/events?thread=t1&since=-3") as response:
        assert response.status == 400


async def test_open_streams_do_not_hold_the_door(tmp_path: Path) -> None:
    house = SmallHouse()
    house.thread_at(place("c"))
    async with asyncio.timeout(10):
        async with house.open(tmp_path / "run") as doors:
            session = aiohttp.ClientSession(
                "http://localhost", connector=aiohttp.UnixConnector(str(doors.socket))
            )
            reader = Reader(session)
            response = await session.get("/api/v1/events?chat=c")
            await reader.until(response, "ready")
        assert (await response.content.read()).endswith(b"\n\n"), (
            "the stream ends between two events"
        )
        response.close()
        await session.close()


async def test_a_reader_that_begins_with_the_end_is_told_where_the_rest_is(
    house: SmallHouse, doors: Doors, session: aiohttp.ClientSession
) -> None:
    thread = house.thread_at(place("long"))
    for number in range(30):
        house.post(thread, f"answer {number}")
    reader = Reader(session)
    async with reader.open("chat=long&last=10") as response:
        first = await reader.next(response)
        assert (first.kind, first.data, first.id) == (
            "earlier",
            {"thread": thread, "before": 21},
            None,
        )
        for number in range(20, 30):
            item = await reader.next(response)
            assert (item.id, item.data["row"]["outbound"]["text"]) == (
                number + 1,
                f"answer {number}",
            )
    house.post(thread, "answer 30")
    # it comes back: nothing is left out, however little it asked for at first
    async with reader.open("chat=long&last=1") as response:
        missed = await reader.next(response)
        assert (missed.kind, missed.id) == ("item", 31)
    whole = Reader(session)
    async with whole.open("chat=long&last=32") as response:
        begun = await whole.next(response)
        assert (begun.kind, begun.id) == ("item", 1)


async def test_twenty_readers_of_a_thread_ask_the_store_once_after_a_commit(
    house: SmallHouse, session: aiohttp.ClientSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    thread = house.thread_at(place("c"))
    looks = 0
    answer = house.history

    async def history(*given: Any, **named: Any) -> Any:
        nonlocal looks
        looks += 1
        await asyncio.sleep(0.01)  # as long as it takes the others to ask
        return await answer(*given, **named)

    async with AsyncExitStack() as stack:
        readers = [Reader(session) for _ in range(20)]
        streams = [await stack.enter_async_context(one.open(f"thread={thread}")) for one in readers]
        for reader, stream in zip(readers, streams, strict=True):
            await reader.until(stream, "ready")
        monkeypatch.setattr(house, "history", history)
        await house.turn(thread, "hi")
        for reader, stream in zip(readers, streams, strict=True):
            await reader.until(stream, "turn_ended")
    transcripts = {reader.transcript() for reader in readers}
    assert len(transcripts) == 1
    assert json.loads(transcripts.pop())[-1]["seq"] == house.history_of[thread][-1].seq
    assert looks <= 6, "a commit of the turn each, not one for each reader"


async def test_words_that_come_together_are_told_together(
    house: SmallHouse, session: aiohttp.ClientSession
) -> None:
    thread = house.thread_at(place("c"))
    reader = Reader(session)
    words = [f"word{number} " for number in range(300)]
    async with reader.open(f"thread={thread}") as response:
        await reader.until(response, "ready")
        house.emit(thread, TurnStarted("t", "message"))
        for word in words:
            house.emit(thread, TextDelta("t", word))
        house.emit(thread, TurnEnded("t", "answered", "".join(words)))
        await reader.until(response, "turn_ended")
    deltas = [frame.data["text"] for frame in reader.frames if frame.kind == "text_delta"]
    assert "".join(deltas) == "".join(words)
    assert len(deltas) < 10
