"""Slack beside messages: slash commands everywhere, the Home tab, assistant threads, and words for
one person only."""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from channels.contract import (
    About,
    Address,
    ChatId,
    Options,
    Outbound,
    PersonId,
    Receipt,
    TopicId,
    Whispering,
)
from channels.errors import Ambiguous, Unavailable
from channels.slack.adapter import Slack
from channels.slack.setup import EVENTS, SCOPES, manifest
from ohmo_testing.channels import FakeContext
from tests.channels.listening import on_socket
from tests.platforms.slack.rig import SlackRig, rig
from tests.platforms.slack.server import Fault
from tests.platforms.slack.surfaces import EVENT_SCOPES, METHOD_SCOPES

GROUP = Address("slack", "T0HOUSE", ChatId("C0GROUP"))
ABOUT = About((PersonId("U0BOB"),), "claude <big>")
COMMANDS = [("stop", "stops"), ("status", "tells"), ("help", "helps")]
SOURCE = Path(__file__).parents[3] / "channels" / "slack"


@pytest.fixture
async def slack() -> AsyncIterator[SlackRig]:
    async with rig() as one:
        yield one


@pytest.fixture
async def channel(slack: SlackRig, context: FakeContext) -> AsyncIterator[Slack]:
    channel = slack.channel(options=Options(about=lambda: ABOUT))
    await channel.menu(COMMANDS)
    async with on_socket(slack, channel, context):
        yield channel


async def say(channel: Slack, address: Address, text: str, key: str = "k.0", **more: object) -> str:
    (part,) = channel.render(Outbound(address, text, **more))  # pyright: ignore[reportArgumentType]
    return (await channel.send(part, key)).message


# slash commands


async def test_an_order_of_the_house_is_heard_as_one_and_other_words_as_words(
    slack: SlackRig, channel: Slack, context: FakeContext
) -> None:
    for words in ("stop", "STATUS now", "", "what is new?", "/etc/hosts is what?"):
        await slack.commands(words)
    assert await context.texts(5) == [
        "/stop",
        "/STATUS now",
        "/help",
        "what is new?",
        "/etc/hosts is what?",
    ]
    assert all(message.addressed and message.address.topic is None for message in context.messages)
    await slack.server.until(lambda server: len(server.acked) == 5)


async def test_a_question_by_slash_command_in_a_channel_gets_a_thread_of_its_own(
    slack: SlackRig, channel: Slack, context: FakeContext
) -> None:
    await slack.commands("who is on duty <today>?", chat="group")
    assert await context.texts(1) == ["who is on duty <today>?"]
    (root,) = await slack.visible("group")
    assert (root.text, root.by_bot) == ("<@U0ADA>: who is on duty <today>?", True)
    assert context.messages[0].address == Address(
        "slack", "T0HOUSE", ChatId("C0GROUP"), TopicId(root.id)
    )
    await slack.says("and tomorrow?", chat="group", topic=root.id, mention=False)
    await context.texts(2)
    assert context.messages[1].addressed


async def test_a_command_that_cannot_be_stored_is_not_acknowledged(
    slack: SlackRig, context: FakeContext
) -> None:
    channel = slack.channel()
    async with on_socket(slack, channel, context) as hearing:
        context.refuse()
        await slack.commands("stop")
        with pytest.raises(Unavailable):
            await asyncio.wait_for(hearing, 20)
    assert slack.server.acked == {}


async def test_the_words_of_somebody_who_is_not_heard_are_shown_to_nobody(
    slack: SlackRig, context: FakeContext
) -> None:
    channel = slack.channel(options=Options(invited=lambda place, person, private: False))
    await channel.menu(COMMANDS)
    async with on_socket(slack, channel, context):
        url = await slack.commands("buy cheap things", chat="group")
        await context.texts(1)
        await channel.whisper(context.messages[0].address, PersonId("U0ADA"), "not <here>")
    assert await slack.visible("group") == []
    assert slack.answers(url) == [{"response_type": "ephemeral", "text": "not &lt;here&gt;"}]


async def test_where_the_app_is_no_member_the_answer_goes_to_the_person_alone(
    slack: SlackRig, channel: Slack, context: FakeContext
) -> None:
    slack.server.workspace.add_chat("C0FAR", "far", member=False)
    url = await slack.commands("how are you?", chat="far", channel="C0FAR")
    await context.texts(1)
    place = context.messages[0].address
    assert place.topic is None
    message = await say(channel, place, "**fine**")
    assert slack.answers(url) == [{"response_type": "ephemeral", "text": "*fine*", "mrkdwn": True}]
    (edit,) = channel.render(
        Outbound(
            place,
            "better",
            replaces=((await channel.send(channel.render(Outbound(place, "well"))[0], "k.2")),),
        )
    )
    await channel.send(edit, "k.3")
    assert slack.answers(url)[-1] == {
        "response_type": "ephemeral",
        "replace_original": True,
        "text": "better",
        "blocks": [],
    }
    assert message.startswith("E")


# one person's eyes


async def test_a_whisper_is_seen_by_one_person_only(slack: SlackRig, channel: Slack) -> None:
    assert isinstance(channel, Whispering)
    await channel.whisper(
        Address("slack", "T0HOUSE", ChatId("C0GROUP"), TopicId("1.0")),
        PersonId("U0BOB"),
        "you & <me>",
    )
    assert slack.server.ephemeral == [
        {"channel": "C0GROUP", "user": "U0BOB", "text": "you &amp; &lt;me&gt;", "thread_ts": "1.0"}
    ]


# Home tab


async def test_the_home_tab_says_who_owns_it_and_which_model_answers(
    slack: SlackRig, channel: Slack
) -> None:
    slack.opens_home()
    await slack.server.until(lambda server: "U0ADA" in server.views)
    shown = " ".join(block["text"]["text"] for block in slack.server.views["U0ADA"]["blocks"])
    assert "<@U0BOB>" in shown
    assert "claude &lt;big&gt;" in shown
    assert "/ohmo" in shown


async def test_the_home_tab_is_published_again_only_when_it_changed(
    slack: SlackRig, context: FakeContext, tmp_path: Path
) -> None:
    told = [ABOUT]
    for life in range(2):  # also a new life knows what stands there: Slack brings it along
        channel = slack.channel(options=Options(about=lambda: told[0]))
        async with on_socket(slack, channel, context):
            slack.opens_home(tab="messages")
            slack.opens_home()
            await slack.server.until(lambda server: "U0ADA" in server.views)
            slack.opens_home()
            slack.opens_home("bob")
            await slack.server.until(lambda server: "U0BOB" in server.views)
            if life == 1:
                told[0] = About((), "another")
                slack.opens_home()
                await slack.server.until(lambda server: server.published.count("U0ADA") == 2)
        assert slack.server.published == ["U0ADA", "U0BOB"] + ["U0ADA"] * life


async def test_a_home_tab_that_slack_refuses_disturbs_nothing(
    slack: SlackRig, channel: Slack, context: FakeContext
) -> None:
    slack.server.home_enabled = False
    slack.opens_home()
    await slack.server.until(
        lambda server: any(method == "views.publish" for method, _ in server.calls)
    )
    await slack.says("still there?")
    assert await context.texts(1) == ["still there?"]


# assistant threads


async def test_an_assistant_thread_gets_prompts_once_and_its_first_words_as_title(
    slack: SlackRig, channel: Slack, context: FakeContext
) -> None:
    thread = slack.opens_assistant()
    await slack.server.until(lambda server: len(server.prompts) == 1)
    slack.opens_assistant(kind="assistant_thread_context_changed", thread=thread)
    await slack.says("plan my\n week " + "x" * 80, topic=thread)
    await slack.says("and the next", topic=thread)
    await slack.server.until(lambda server: len(server.titles) == 1)
    await context.texts(2)
    place = context.messages[1].address
    assert (place.topic, context.messages[1].private) == (thread, True)
    await channel.typing(place, True)
    assert slack.server.statuses[-1]["thread_ts"] == thread
    assert (len(slack.server.prompts), len(slack.server.titles)) == (1, 1)
    title = slack.server.titles[0]["title"]
    assert title.startswith("plan my week xxx")
    assert len(title) == 60


async def test_an_assistant_thread_gets_its_title_also_when_its_first_words_come_after_a_restart(
    slack: SlackRig, context: FakeContext
) -> None:
    threads: list[str] = []

    async def opened() -> None:
        threads.append(slack.opens_assistant())
        await slack.server.until(lambda server: len(server.prompts) == 1)

    async def spoken() -> None:
        await slack.says("plan my week", topic=threads[0])
        await slack.server.until(lambda server: len(server.titles) == 1)
        async with asyncio.timeout(20):
            while (context.state / "untitled.json").read_text() != "[]":
                await asyncio.sleep(0.02)  # between two looks

    async def spoken_again() -> None:
        await slack.says("and the next", topic=threads[0])
        await context.texts(2)

    for work in (opened, spoken, spoken_again):
        async with on_socket(slack, slack.channel(), context):
            await work()
    assert [one["title"] for one in slack.server.titles] == ["plan my week"]


# native streams


@pytest.fixture
async def native(slack: SlackRig, context: FakeContext) -> AsyncIterator[Slack]:
    channel = slack.channel(options=Options(streaming="native"))
    async with on_socket(slack, channel, context):
        yield channel


def calls(slack: SlackRig) -> list[str]:
    return [
        method.removeprefix("chat.")
        for method, _ in slack.server.calls
        if method.startswith("chat.")
    ]


async def begin(channel: Slack, place: Address, text: str) -> Receipt:
    (part,) = channel.render(Outbound(place, text, draft=True))
    return await channel.send(part, "d.0")


async def finish(channel: Slack, place: Address, text: str, draft: Receipt) -> None:
    (part,) = channel.render(Outbound(place, text, replaces=(draft,)))
    await channel.send(part, "f.0")


async def test_a_stream_grows_by_what_is_new_and_ends_as_the_whole_answer(
    slack: SlackRig, native: Slack, context: FakeContext
) -> None:
    assert native.capabilities.appends
    root = await slack.says("tell me", chat="group")
    await context.texts(1)
    place = context.messages[0].address
    draft = await begin(native, place, "One <!channel>")
    await native.revise(place, draft, "One <!channel> and **two**")
    await native.revise(place, draft, "Another")
    row = slack.server.workspace.rows["C0GROUP"][-1]
    assert (row["text"], row["thread_ts"]) == ("One <\u200b!channel> and **two**\n\nAnother", root)
    await finish(native, place, "**Done**", draft)
    assert (row["text"], slack.server.streaming) == ("*Done*", {})
    assert calls(slack) == ["startStream", "appendStream", "appendStream", "stopStream", "update"]


async def test_a_stream_that_slack_closed_is_finished_by_an_edit(
    slack: SlackRig, native: Slack
) -> None:
    thread = await slack.says("tell me")
    place = Address("slack", "T0HOUSE", ChatId("D0ADA"), TopicId(thread))
    draft = await begin(native, place, "One")
    slack.server.streaming.clear()
    await native.revise(place, draft, "One two")
    await native.revise(place, draft, "One two three")
    assert (await slack.visible())[-1].text == "One two three"
    await finish(native, place, "all", draft)
    assert (await slack.visible())[-1].text == "all"


async def test_a_stop_that_is_refused_still_ends_in_the_answer(
    slack: SlackRig, native: Slack
) -> None:
    thread = await slack.says("tell me")
    place = Address("slack", "T0HOUSE", ChatId("D0ADA"), TopicId(thread))
    draft = await begin(native, place, "One")
    slack.server.streaming.clear()  # so that the stop is refused
    await finish(native, place, "all", draft)
    assert calls(slack)[-2:] == ["stopStream", "update"]
    assert (await slack.visible())[-1].text == "all"


async def test_a_new_life_ends_the_stream_of_the_old_one(slack: SlackRig, native: Slack) -> None:
    thread = await slack.says("tell me")
    place = Address("slack", "T0HOUSE", ChatId("D0ADA"), TopicId(thread))
    draft = await begin(native, place, "One")
    second = slack.channel(options=Options(streaming="native"))
    async with second.connect():
        await second.revise(place, draft, "lost")
        await finish(second, place, "all", draft)
    assert [row.text for row in await slack.visible()][1:] == ["all"]


async def test_a_stream_whose_start_was_lost_is_found_and_not_begun_twice(
    slack: SlackRig, native: Slack
) -> None:
    thread = await slack.says("tell me")
    place, since = Address("slack", "T0HOUSE", ChatId("D0ADA"), TopicId(thread)), datetime.now(UTC)
    await say(native, place, "a notice of ours")
    (part,) = native.render(Outbound(place, "One", draft=True))
    assert await native.find(place, part, "d.0", None, since) is None
    slack.server.faults.append(Fault("lose", methods=frozenset({"chat.startStream"})))
    with pytest.raises(Ambiguous):
        await native.send(part, "d.0")
    found = await native.find(place, part, "d.0", None, since)
    assert found is not None
    assert found.message == slack.server.workspace.rows["D0ADA"][-1]["ts"]


async def test_where_no_stream_can_be_the_draft_is_a_message(
    slack: SlackRig, native: Slack
) -> None:
    place = Address(
        "slack",
        "T0HOUSE",
        ChatId("C0GROUP"),
        TopicId(await slack.says("x", chat="group", mention=False)),
    )
    # nobody asked there: Slack would not know whom to show it
    draft = await begin(native, place, "One")
    await begin(native, GROUP, "on its own")
    slack.server.faults.append(
        Fault("reject", "channel_type_not_supported", methods=frozenset({"chat.startStream"}))
    )
    await begin(native, Address("slack", "T0HOUSE", ChatId("D0ADA")), "direct")
    assert [call for call in calls(slack) if call != "startStream"] == ["postMessage"] * 3
    await native.revise(place, draft, "One two")
    assert calls(slack)[-1] == "update"


# the manifest


def test_the_manifest_names_every_scope_that_a_call_of_the_code_needs() -> None:
    source = "\n".join(path.read_text() for path in SOURCE.glob("*.py") if path.name != "setup.py")
    called = set(
        re.findall(
            r"\"((?:assistant|auth|apps|chat|conversations|files|reactions|users|views)(?:\.[a-zA-Z]+)+)\"",
            source,
        )
    )
    assert (
        set("chat.postMessage views.publish assistant.threads.setTitle files.info".split())
        <= called
    )
    for method in called & METHOD_SCOPES.keys():
        assert set(METHOD_SCOPES[method]) & set(SCOPES), method
    unscoped = {"auth.test", "apps.connections.open", "views.publish"}
    conversations = {"users.conversations", "conversations.history", "conversations.replies"}
    assert called - METHOD_SCOPES.keys() <= unscoped | conversations
    # these four pages name both for each kind of conversation
    for kind in ("channels", "groups", "im", "mpim"):
        assert {f"{kind}:history", f"{kind}:read"} <= set(SCOPES)


def test_the_manifest_subscribes_to_every_event_that_is_read_and_has_the_scope_for_it() -> None:
    source = "\n".join((SOURCE / name).read_text() for name in ("inbound.py", "surfaces.py"))
    for event in EVENTS:
        assert EVENT_SCOPES.get(event, "commands") in SCOPES, event
        assert (
            event.startswith("message.")
            or event == "assistant_thread_context_changed"
            or f'"{event}"' in source
        ), event
    assert {"message.im", "message.mpim", "message.channels", "message.groups"} <= set(EVENTS)
    text = manifest()
    assert all(f"- {name}\n" in text for name in (*SCOPES, *EVENTS))
    assert "command: /ohmo" in text


def test_the_manual_shows_the_manifest_that_is_written() -> None:
    manual = (SOURCE.parents[1] / "docs" / "channels" / "slack.md").read_text()
    assert manifest() in manual
