"""A budget on the real daemon: most of it is told once, the end is friendly, /usage shows what is
left, and a raised key lets the same message through."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

import pytest

from ohmo_testing.house import eventually, house
from ohmo_testing.scripted import Says
from tests.faults.daemon import until
from tests.journeys.at_keyboard import Keyboard, keyboard
from tests.journeys.conftest import MakeWorld
from tests.platforms.model.script import Asked, Turn, last_user_text
from tests.platforms.model.server import ModelServer

pytestmark = pytest.mark.timeout(240)
LIMIT = 100_000
GUESTS = """owner: ['fake:ada']
access: {roles: {guest: ['fake:eve']}}
budgets: {person_day: {tokens: 60000}}
"""


def dear(asked: Asked) -> Turn:
    said = last_user_text(asked.body)
    tokens = {"one": 45_000, "two": 44_000}.get(said, 10)
    return Turn(text=f"heard {said}", usage={"output_tokens": tokens})


async def limit_is(home: Keyboard, tokens: int) -> None:
    """Until the daemon has taken over what was written."""
    async with asyncio.timeout(60):
        while True:
            status = await home.ohmo("status", "--json")
            if (
                status.code == 0
                and json.loads(status.out)["budget"]["day"]["tokens_limit"] == tokens
            ):
                return
            await asyncio.sleep(0.2)


async def told_to_the_owner(home: Keyboard) -> str:
    """What stands on the page where nobody else can be told."""
    listed = await home.ohmo("outbox", "list", "--json")
    rows = [item["row"]["outbound"] for item in json.loads(listed.out)]
    return "\n".join(row["text"] for row in rows if row["address"]["chat"] == "notices")


async def test_a_budget_ends_with_a_friendly_line_and_the_raised_key_lets_retry_succeed(
    tmp_path: Path,
) -> None:
    server = ModelServer(default=dear)
    budgets = {"day": {"tokens": LIMIT}}
    async with keyboard(tmp_path, server, budgets=budgets) as home:
        said = json.loads((await home.ohmo("-p", "one", "--output", "json")).out)
        thread = said["thread"]
        assert said["text"] == "heard one"
        assert (await home.ohmo("-p", "two", "--resume", thread)).out.strip() == "heard two"
        assert server.count == 2

        over = await home.ohmo("-p", "three", "--resume", thread)
        told = over.out + over.err
        assert server.count == 2  # nothing was asked
        assert "the budget of a day is used up" in told
        assert f"of {LIMIT:,} tokens (budgets.day.tokens)" in told
        assert "begins anew at 00:00 UTC" in told
        assert "/retry" not in told  # a word for chats
        assert "a shell: ohmo usage" in told
        again = re.search(r"to try it again: ohmo (inbox retry \S+/\d+)\n", told)
        assert again is not None, told
        await home.ohmo("-p", "four", "--resume", thread)

        notices = await told_to_the_owner(home)
        assert notices.count("% of the budget of a day is spent") == 1
        assert notices.count("The budget of a day is used up") == 1
        usage = (await home.ohmo("-p", "/usage", "--resume", thread)).out
        billed = server.billed
        assert f"everybody, today: {billed:,} tokens" in usage
        assert f"left: {LIMIT - billed:,} of {LIMIT:,} tokens" in usage
        assert f"this conversation: {billed:,} tokens" in usage
        listed = await home.ohmo("usage")
        assert f"budgets.day: {billed:,} of {LIMIT:,} tokens" in listed.out
        by_purpose = await home.ohmo("usage", "--by", "purpose", "--json")
        assert [(row["name"], row["calls"]) for row in json.loads(by_purpose.out)] == [("turn", 2)]

        async def known() -> bool:  # a status may be of a moment ago
            return f"{billed} tokens of {LIMIT}" in (await home.ohmo("status")).out

        await until("the status knows what was spent", known)

        home.configure(home.written | {"budgets": {"day": {"tokens": 2 * LIMIT}}})
        await limit_is(home, 2 * LIMIT)
        tried = await home.ohmo(*again[1].split())
        assert tried.code == 0, tried.err

        async def answered() -> bool:
            shown = (await home.ohmo("sessions", "show", thread)).out
            return shown.count("**ohmo:** heard") == 3

        async with asyncio.timeout(60):
            while not await answered():
                await asyncio.sleep(0.2)


async def test_a_budget_of_nothing_lets_nothing_be_asked_and_says_so(tmp_path: Path) -> None:
    server = ModelServer()
    async with keyboard(tmp_path, server, budgets={"turn": {"usd": 0}}) as home:
        said = await home.ohmo("-p", "hello")
        assert server.count == 0
        assert "budgets.turn.usd is 0, so no model may be asked" in said.out + said.err


async def test_new_begins_a_budget_of_a_conversation_and_resume_goes_on_with_the_old_one(
    world: MakeWorld,
) -> None:
    answers = [Says(f"heard {tokens}", usage=(tokens, 0)) for tokens in (19_000, 9, 8)]
    life = world(*answers, config="owner: ['fake:ada']\nbudgets: {thread: {tokens: 20000}}\n")
    async with house(life):
        await life.platform.says("one")
        await life.hears("heard 19000")
        await life.platform.says("two")
        over = await life.hears("I stop here: the budget of this conversation is used up")
        assert "/new begins one with a budget of its own" in over.text
        await life.platform.says("/new")
        await life.platform.says("/usage")
        await life.hears("this conversation: 0 tokens; left: 20,000 of 20,000 tokens")
        await life.platform.says("three")
        await life.hears("heard 9")
        await life.platform.says("/resume 1")
        await life.hears("one")
        await life.platform.says("/usage")
        await life.hears("this conversation: 19,000 tokens; left: 1,000 of 20,000 tokens")
    async with house(life):  # by the store alone
        await life.platform.says("four")
        await eventually(lambda: sum("I stop here" in text for text in life.texts()) == 2)


async def test_people_read_of_their_budget_where_they_speak_and_a_guest_no_amounts(
    world: MakeWorld,
) -> None:
    answers = [Says(f"heard {tokens}", usage=(tokens, 0)) for tokens in (9_000, 45_000, 55_000)]
    life = world(*answers, config=GUESTS)
    async with house(life):
        await life.platform.says("one")
        await life.hears("heard 9000")
        await life.platform.says("two")
        near = await life.hears("% of the budget of one person a day is spent")
        assert "of 60,000 tokens" in near.text
        await life.platform.says("three")
        over = await life.hears("I stop here: the budget of one person a day is used up")
        assert "/retry" in over.text
        await life.platform.says("one", chat="dm:eve", person="eve")
        await life.hears("heard 55000", chat="dm:eve")
        await life.platform.says("again", chat="dm:eve", person="eve")
        await life.hears("I could not finish this. The owner is told why.", chat="dm:eve")
        assert not any("tokens" in text for text in life.texts("dm:eve"))
    async with house(life):  # the totals are those of before
        await life.platform.says("four")
        await eventually(lambda: sum("I stop here" in text for text in life.texts()) == 2)
        assert sum("% of the budget" in text for text in life.texts()) == 1
