"""A second ohmo on the same bot is known by what it says; a script, a former life, another bot and
our own echo are not taken for one."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any

import pytest

from channels.contract import Address, ChatId, Options
from channels.discord.adapter import Discord
from channels.errors import InUse
from ohmo_testing.channels import FakeContext
from tests.channels.second import answers, key, note, posted, stopped
from tests.conformance.channels.stage import live, texts
from tests.platforms.discord.rig import QUICK, DiscordRig, rig
from tests.platforms.discord.world import BOT, DIRECT

ADA = DIRECT["dm:ada"]
HERE = Address("discord", BOT["id"], ChatId(ADA))


@pytest.fixture
async def discord() -> AsyncIterator[DiscordRig]:
    async with rig() as made:
        yield made


def channel(discord: DiscordRig, context: FakeContext) -> Discord:
    return discord.channel(options=Options(state=context.state), pace=QUICK)


async def posts(discord: DiscordRig, nonce: str | None) -> None:
    """Somebody with our token does."""
    body: dict[str, Any] = {"content": "an answer"} | (
        {"nonce": nonce} if nonce is not None else {}
    )
    await posted(
        f"{discord.server.url}/channels/{ADA}/messages", f"Bot {discord.server.token}", body
    )


async def test_the_one_whose_answer_comes_second_three_times_stops(
    discord: DiscordRig, context: FakeContext
) -> None:
    made = channel(discord, context)
    async with live(made, context) as task:
        for count in (1, 2, 3):
            await discord.says(f"question {count}")
            await texts(context, count, task)
            await posts(discord, key())
            await answers(made, HERE)
        with pytest.raises(
            InUse, match=r"another ohmo answers with this token \(3 times in a row\)"
        ):
            await asyncio.wait_for(task, 20)


@pytest.mark.parametrize("first", ["other, we, other", "we, other, other", "other, other, we"])
async def test_after_three_double_answers_the_one_that_came_second_in_most_of_them_stops(
    discord: DiscordRig, context: FakeContext, first: str
) -> None:
    made = channel(discord, context)
    async with live(made, context) as task:
        for count, who in enumerate(first.split(", "), 1):
            await discord.says(f"question {count}")
            await texts(context, count, task)
            if who == "we":
                await answers(made, HERE)
            await posts(discord, key())
            if who == "other":
                await answers(made, HERE)
        with pytest.raises(InUse, match="3 times in a row"):
            await asyncio.wait_for(task, 20)


async def test_words_between_the_two_answers_do_not_hide_that_there_are_two(
    discord: DiscordRig, context: FakeContext
) -> None:
    made = channel(discord, context)
    async with live(made, context) as task:
        for count in (1, 2, 3):
            await discord.says(f"question {count}")
            await texts(context, 2 * count - 1, task)
            await posts(discord, key())
            await discord.says("who asked?")
            await texts(context, 2 * count, task)
            await answers(made, HERE)
        with pytest.raises(InUse, match="3 times in a row"):
            await asyncio.wait_for(task, 20)


async def test_the_one_whose_answer_comes_first_stays(
    discord: DiscordRig, context: FakeContext
) -> None:
    made = channel(discord, context)
    async with live(made, context) as task:
        for count in (1, 2, 3, 4):
            await discord.says(f"question {count}")
            await texts(context, count, task)
            await answers(made, HERE)
            await posts(discord, key())
        await discord.says("still there?")
        await texts(context, 5, task)


@pytest.mark.parametrize(
    "who", ["a script", "a script with nonces", "a former life", "ourselves in many parts"]
)
async def test_others_that_speak_for_our_account_are_no_conflict(
    discord: DiscordRig, context: FakeContext, who: str
) -> None:
    # rows of a life that was killed while they were on their way
    former = [key() for _ in range(4)]
    await asyncio.sleep(0.002)  # the next millisecond
    made = channel(discord, context)
    async with live(made, context) as task:
        for count in (1, 2, 3, 4):
            await discord.says(f"question {count}")
            await texts(context, count, task)
            match who:
                case "a script":
                    await posts(discord, None)
                case "a script with nonces":
                    await posts(discord, f"report-{count}")
                case "a former life":
                    await posts(discord, former.pop())
                case _:
                    await answers(made, HERE)
            await answers(made, HERE)
        await discord.says("still there?")
        await texts(context, 5, task)
    assert not note(context.state).exists()


@pytest.mark.parametrize("silent", [True, False])
async def test_after_a_stop_what_our_account_said_meanwhile_ends_the_try_before_anything_is_stored(
    discord: DiscordRig, context: FakeContext, silent: bool
) -> None:
    async with live(channel(discord, context), context) as task:
        await discord.says("hello")
        await texts(context, 1, task)
    # nothing can be resumed: only the history tells, and it keeps no nonces
    discord.server.world.sessions.clear()
    stopped(context.state, silent=silent)
    await discord.says("who answers?")
    await posts(discord, key())
    async with live(channel(discord, context), context) as task:
        if silent:
            with pytest.raises(InUse, match=r"another ohmo answers with this token \(still\)"):
                await asyncio.wait_for(task, 20)
            assert [message.text for message in context.messages] == ["hello"]
        else:  # we spoke since: it may be ours
            assert await texts(context, 2, task) == ["hello", "who answers?"]


async def test_after_a_stop_one_word_of_the_other_one_is_enough(
    discord: DiscordRig, context: FakeContext
) -> None:
    stopped(context.state, silent=False)
    async with live(channel(discord, context), context) as task:
        await discord.says("hello")
        await texts(context, 1, task)
        await posts(discord, key())
        with pytest.raises(InUse, match="still"):
            await asyncio.wait_for(task, 20)


async def test_a_script_that_posts_with_our_token_does_not_hold_the_channel_for_ever(
    discord: DiscordRig, context: FakeContext
) -> None:
    async with live(channel(discord, context), context) as task:
        await discord.says("hello")
        await texts(context, 1, task)
    stopped(context.state, silent=True)
    for said in ("first try", "second try"):
        discord.server.world.sessions.clear()
        await discord.says(said)
        await posts(discord, "build 7 is green")
        async with live(channel(discord, context), context) as task:
            if said == "first try":  # history keeps no nonces: it may have been the other one
                with pytest.raises(InUse, match="still"):
                    await asyncio.wait_for(task, 20)
            else:
                assert await texts(context, 3, task) == ["hello", "first try", "second try"]
