"""A conversation longer than the window on the real daemon: it goes on, also over kill -9 in the
middle of being made shorter; a person may ask for it; what was left out is found; and the log gives
the bytes that were sent."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.faults.daemon import until
from tests.journeys.at_keyboard import Keyboard, heard, keyboard
from tests.platforms.model.script import Asked, Call, Turn
from tests.platforms.model.server import ModelServer
from tests.platforms.model.validity import openai_fault

pytestmark = pytest.mark.timeout(300)
WORDS = " and so on" * 150
#: A window the size of the prompt and a few messages, as a small model at home has it.
SMALL = {"prompt": {"changing": [], "sections": ["role"]}}
RUSH = 4


async def says(home: Keyboard, thread: str, text: str) -> str:
    """The answer."""
    more = ("--resume", thread) if thread else ()
    said = await home.ohmo("-p", text, "--output", "json", *more)
    assert said.code == 0, said.err
    answer: dict[str, Any] = json.loads(said.out)
    return str(answer["thread"] if not thread else answer["text"])


def small(home: Keyboard) -> None:
    """Much is kept free, so that little is left for the conversation."""
    written: dict[str, Any] = {**home.written, **SMALL, "limits": {"compaction_reserve": 30_000}}
    written["profiles"]["default"]["models"] = ["local-1"]
    home.configure(written)


def summed(asked: Asked) -> Turn:
    return Turn(text="Facts:\n- a long talk\nDecided:\n- blue")


async def replayed(home: Keyboard, thread: str) -> None:
    shown = await home.ohmo("sessions", "replay", thread)
    assert shown.code == 0, shown.out


def valid(server: ModelServer) -> None:
    assert [fault for asked in server.asked if (fault := openai_fault(asked.body))] == []


async def test_a_long_conversation_goes_on_and_what_was_forbidden_stays(tmp_path: Path) -> None:
    server = ModelServer()
    server.summary = summed
    async with keyboard(tmp_path, server, running=False) as home:
        small(home)
        await home.daemon.start()
        thread = await says(home, "", "Never sell the boat. The gate code is 48213.")
        for number in range(24):
            await says(home, thread, f"message {number}{WORDS}")
        assert server.summaries
        last = server.asked[-1].raw.decode()
        assert "message 2 " not in last
        assert "48213" not in last.replace("Never sell the boat. The gate code is 48213.", "")
        assert "Never sell the boat." in last
        assert "Facts:\\n- a long talk" in last
        valid(server)
        await replayed(home, thread)

        server.next(Turn(calls=(Call("ArchiveSearch", {"query": "gate code"}),)), Turn(text="ok"))
        await says(home, thread, "what was the code?")
        assert "The gate code is 48213" in server.asked[-1].raw.decode()
        context = await home.ohmo("-p", "/context", "--resume", thread)
        assert "made shorter" in context.out
        await replayed(home, thread)


async def test_a_person_makes_it_shorter_and_reads_by_how_much(tmp_path: Path) -> None:
    server = ModelServer()
    server.summary = summed
    async with keyboard(tmp_path, server, running=False) as home:
        small(home)
        await home.daemon.start()
        thread = await says(home, "", f"message 0{WORDS}")
        for number in range(1, 14):
            await says(home, thread, f"message {number}{WORDS}")
        before = len(server.asked)
        answer = await says(home, thread, "/compact the colour of the boat")
        match = re.search(r"about ([\d,]+) tokens .* before it was ([\d,]+) ", answer)
        assert match is not None, answer
        now, then = (int(number.replace(",", "")) for number in match.groups())
        assert now < then
        assert len(server.asked) == before  # no turn of the model
        assert "the colour of the boat" in server.summaries[-1].raw.decode()
        await says(home, thread, "and now?")
        assert "message 0 " not in server.asked[-1].raw.decode()
        await replayed(home, thread)


@pytest.mark.parametrize("hit", [1, 2, 3])
async def test_a_kill_while_it_is_made_shorter_loses_nothing(tmp_path: Path, hit: int) -> None:
    server = ModelServer()
    server.summary = summed
    async with keyboard(tmp_path, server, running=False) as home:
        small(home)
        await home.daemon.start()
        thread = await says(home, "", "The gate code is 48213.")
        for number in range(3):
            await says(home, thread, f"message {number}{WORDS}")
        await home.daemon.stop()
        await home.daemon.start(f"compact.start=kill@{hit}")
        number = 3
        while home.daemon.alive and number < 30:
            process = await home.start("-p", f"message {number}{WORDS}", "--resume", thread)
            asking = asyncio.create_task(heard(process))
            while home.daemon.alive and not asking.done():
                await asyncio.sleep(0.05)
            if not asking.done():
                process.kill()
            await asking
            number += 1
        assert not home.daemon.alive, "it was never made shorter"
        await home.daemon.start()
        await until("what was asked is answered", home.daemon.idle)
        for later in range(RUSH):
            await says(home, thread, f"later {later}{WORDS}")
        valid(server)
        await replayed(home, thread)
        server.next(Turn(calls=(Call("ArchiveSearch", {"query": "gate code"}),)), Turn(text="ok"))
        await says(home, thread, "what was the code?")
        assert "The gate code is 48213" in server.asked[-1].raw.decode()
