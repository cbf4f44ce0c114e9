"""What people do and what ohmo says, through the real slack_sdk and the loopback workspace."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

from channels.contract import (
    Address,
    Answer,
    Attachment,
    ChatId,
    Choice,
    Edited,
    MessageId,
    Options,
    Outbound,
    PersonId,
    Reacted,
    Receipt,
    TopicId,
)
from channels.errors import Ambiguous, Rejected
from channels.slack.adapter import Slack
from ohmo_testing.channels import FakeContext
from tests.channels.listening import on_socket
from tests.platforms.slack.rig import SlackRig, rig
from tests.platforms.slack.server import Fault
from tests.platforms.slack.workspace import BOT

DM = Address("slack", "T0HOUSE", ChatId("D0ADA"))
GROUP = Address("slack", "T0HOUSE", ChatId("C0GROUP"))


@pytest.fixture
async def slack() -> AsyncIterator[SlackRig]:
    async with rig() as one:
        yield one


@pytest.fixture
async def channel(slack: SlackRig, context: FakeContext) -> AsyncIterator[Slack]:
    channel = slack.channel()
    async with on_socket(slack, channel, context):
        yield channel


async def say(channel: Slack, outbound: Outbound, key: str = "k") -> list[Receipt]:
    receipts: list[Receipt] = []
    for number, part in enumerate(channel.render(outbound)):
        handle = await channel.upload(part) if part.kind == "file" else None
        receipts.append(await channel.send(part, f"{key}.{number}", handle))
    return receipts


# hearing


async def test_a_call_in_a_channel_arrives_once_although_slack_tells_it_twice(
    slack: SlackRig, channel: Slack, context: FakeContext
) -> None:
    ts = await slack.says("look at this", chat="group")
    await slack.server.until(lambda server: len(server.acked) == 2)
    (message,) = context.messages
    assert (message.text, message.addressed, message.private, message.address.topic) == (
        "look at this",
        True,
        False,
        ts,
    )
    assert message.key == f"C0GROUP/{ts}"
    assert message.person.name == "Ada"
    assert {envelope["payload"]["event"]["type"] for envelope in slack.server.acked.values()} == {
        "app_mention",
        "message",
    }


async def test_replies_in_a_thread_we_were_called_into_are_addressed_and_elsewhere_they_are_not(
    slack: SlackRig, channel: Slack, context: FakeContext
) -> None:
    ours, theirs = (
        await slack.says("help", chat="group"),
        await slack.says("lunch?", chat="group", mention=False),
    )
    await slack.says("more", chat="group", topic=ours, mention=False)
    await slack.says("yes", chat="group", topic=theirs, mention=False)
    await context.texts(4)
    assert [message.addressed for message in context.messages] == [True, False, True, False]
    assert [message.address.topic for message in context.messages] == [ours, None, ours, theirs]


async def test_a_thread_we_posted_into_is_ours_to_hear(
    slack: SlackRig, channel: Slack, context: FakeContext
) -> None:
    root = await slack.says("report here", chat="group", mention=False)
    await context.texts(1)
    await say(
        channel,
        Outbound(Address("slack", "T0HOUSE", ChatId("C0GROUP"), TopicId(root)), "the report"),
    )
    await slack.says("thanks, and tomorrow?", chat="group", topic=root, mention=False)
    await context.texts(2)
    assert context.messages[-1].addressed


@pytest.mark.fault(69)
async def test_our_own_posts_are_acknowledged_and_no_arrivals_and_other_bots_say_that_they_are_bots(
    slack: SlackRig, channel: Slack, context: FakeContext
) -> None:
    await say(channel, Outbound(GROUP, "mine"))
    slack.server.workspace.says(
        "C0GROUP", "U0OTHER", f"<@{BOT}> hello from a bot", bot_id="B0OTHER"
    )
    await slack.says("hello from Ada", chat="group")
    await slack.server.until(lambda server: len(server.acked) == 5 - 1)
    assert [(message.text, message.person.bot) for message in context.messages] == [
        ("hello from a bot", True),
        ("hello from Ada", False),
    ]


async def test_edits_deletions_and_reactions_name_the_message_they_are_about(
    slack: SlackRig, channel: Slack, context: FakeContext
) -> None:
    ts = await slack.says("draft")
    await slack.edits(ts, "final & <good>")
    slack.server.workspace.unfurls("D0ADA", ts)
    slack.server.workspace.reacts("D0ADA", ts, "U0BOB", "thumbsup")
    slack.server.workspace.reacts("D0ADA", ts, "U0BOB", "thumbsup", added=False)
    await slack.deletes(ts)
    await slack.server.until(lambda server: len(server.acked) == 6)
    edited, added, removed, deleted = context.arrivals[1:]
    assert isinstance(edited, Edited)
    assert (edited.message, edited.text) == (ts, "final & <good>")
    assert isinstance(added, Reacted)
    assert (added.message, added.emoji, added.added, added.person.id) == (
        ts,
        "thumbsup",
        True,
        "U0BOB",
    )
    assert isinstance(removed, Reacted)
    assert not removed.added
    assert isinstance(deleted, Edited)
    assert (deleted.message, deleted.text) == (ts, None)
    assert len({arrival.key for arrival in context.arrivals}) == 5
    assert [arrival.order for arrival in context.arrivals] == sorted(
        arrival.order for arrival in context.arrivals
    )


async def test_a_pressed_button_is_an_answer_and_can_be_acknowledged_visibly_to_its_person_only(
    slack: SlackRig, channel: Slack, context: FakeContext
) -> None:
    root = await slack.says("delete it", chat="group")
    place = Address("slack", "T0HOUSE", ChatId("C0GROUP"), TopicId(root))
    (card,) = await say(
        channel,
        Outbound(
            place,
            "Really?",
            choices=(Choice("allow-1", "Allow", "good"), Choice("deny-1", "Deny", "danger")),
        ),
    )
    assert (await slack.visible("group"))[-1].choices == ("allow-1", "deny-1")
    await slack.presses(card.message, "deny-1", chat="group", person="bob")
    await context.until(lambda now: any(isinstance(arrival, Answer) for arrival in now.arrivals))
    answer = next(arrival for arrival in context.arrivals if isinstance(arrival, Answer))
    assert (answer.choice, answer.message, answer.person.id, answer.address) == (
        "deny-1",
        card.message,
        "U0BOB",
        place,
    )
    await channel.acknowledge(answer, "only Ada may <answer>")
    (seen,) = slack.server.ephemeral
    assert (seen["user"], seen["thread_ts"], seen["text"]) == (
        "U0BOB",
        root,
        "only Ada may &lt;answer&gt;",
    )
    (done,) = await say(channel, Outbound(place, "Denied.", replaces=(card,)))
    assert done.message == card.message
    assert (await slack.visible("group"))[-1].choices == ()


async def test_a_slash_command_is_a_message_that_starts_with_a_slash(
    slack: SlackRig, channel: Slack, context: FakeContext
) -> None:
    base = {
        "channel_id": "D0ADA",
        "channel_name": "directmessage",
        "user_id": "U0ADA",
        "user_name": "ada",
        "trigger_id": "1.2.x",
    }
    slack.server.envelope("slash_commands", base | {"command": "/ohmo", "text": "stop now"})
    slack.server.envelope(
        "slash_commands", base | {"command": "/status", "text": "", "trigger_id": "1.3.x"}
    )
    assert await context.texts(2) == ["/stop now", "/status"]
    assert all(message.private and message.addressed for message in context.messages)


async def test_a_shared_file_is_a_reference_that_is_fetched_later(
    slack: SlackRig, channel: Slack, context: FakeContext, tmp_path: Path
) -> None:
    file = slack.server.host_file("../no/tes.txt", b"line\n" * 10)
    file["url_private"] = f"http://127.0.0.1:{slack.server.port}/files/{file['id']}/notes.txt"
    slack.server.workspace.says("D0ADA", "U0ADA", "see file", files=[file])
    await context.texts(1)
    (attachment,) = context.messages[0].attachments
    assert (attachment.size, attachment.media_type) == (50, "text/plain")
    path = await channel.fetch(attachment, tmp_path, limit=50)
    assert path.parent == tmp_path
    assert path.read_bytes() == b"line\n" * 10
    path.unlink()
    with pytest.raises(Rejected, match="has 50 bytes, at most 49"):
        await channel.fetch(attachment, tmp_path, limit=49)
    # Slack's word about the size is not all that is trusted
    with pytest.raises(Rejected, match="more than 49"):
        await channel.fetch(replace(attachment, size=5), tmp_path, limit=49)
    assert list(tmp_path.iterdir()) == []


async def test_the_bot_token_is_never_shown_to_a_foreign_host(
    slack: SlackRig, channel: Slack, tmp_path: Path
) -> None:
    with pytest.raises(Rejected, match="token stays here"):
        await channel.fetch(
            Attachment("F1 https://slack.com.example.org/x", "x", "text/plain", 1), tmp_path, 10
        )


# speaking


async def test_long_answers_go_out_in_parts_that_slack_accepts_and_lose_nothing(
    slack: SlackRig, channel: Slack
) -> None:
    words = [f"word{number}" for number in range(3000)]
    receipts = await say(channel, Outbound(DM, " ".join(words)))
    rows = await slack.visible()
    assert len(rows) == len(receipts) > 1
    assert " ".join(row.text for row in rows).split() == words
    assert all(len(row.text) < 4000 for row in rows)


async def test_a_replacement_edits_posts_the_rest_and_deletes_the_surplus(
    slack: SlackRig, channel: Slack
) -> None:
    first = await say(channel, Outbound(DM, "short"))
    long = await say(channel, Outbound(DM, "long " * 1500, replaces=tuple(first)))
    assert long[0].message == first[0].message
    assert len(await slack.visible()) == len(long) == 2
    again = await say(channel, Outbound(DM, "short again", replaces=tuple(long)))
    (row,) = await slack.visible()
    assert (row.text, row.id) == ("short again", again[0].message)
    await channel.send(
        channel.render(Outbound(DM, "x", replaces=(*again, Receipt(MessageId("1.0")))))[-1], "k.9"
    )  # already gone: no error


async def test_files_are_uploaded_without_being_seen_then_shown_in_their_thread(
    slack: SlackRig, channel: Slack, tmp_path: Path
) -> None:
    root = await slack.says("send it", chat="group")
    place, path = (
        Address("slack", "T0HOUSE", ChatId("C0GROUP"), TopicId(root)),
        tmp_path / "report.txt",
    )
    path.write_text("42")
    text, file = channel.render(Outbound(place, "Here it is.", files=(path,)))
    assert (text.kind, file.kind) == ("post", "file")
    handle = await channel.upload(file)
    assert len(await slack.visible("group")) == 1
    since = datetime.now(UTC)
    assert await channel.find(place, file, "k.1", handle, since) is None
    slack.lose_next_response()
    with pytest.raises(Ambiguous):
        await channel.send(file, "k.1", handle)
    assert await channel.find(place, file, "k.1", handle, since) == Receipt(MessageId(handle))
    last = (await slack.visible("group"))[-1]
    assert (last.files, last.topic) == (("report.txt",), root)
    await say(channel, Outbound(place, "", files=(), replaces=(Receipt(MessageId(handle)),)))
    assert [row.files for row in await slack.visible("group") if row.files] == []


async def test_a_file_that_cannot_be_read_is_rejected_with_its_name(
    channel: Slack, tmp_path: Path
) -> None:
    (part,) = channel.render(Outbound(DM, "", files=(tmp_path / "gone.txt",)))
    with pytest.raises(Rejected, match=r"gone\.txt"):
        await channel.upload(part)


async def test_a_post_is_found_in_its_thread_on_any_page_and_survives_an_edit(
    slack: SlackRig, channel: Slack
) -> None:
    since = datetime.now(UTC)
    root = await slack.says("start", chat="group")
    place = Address("slack", "T0HOUSE", ChatId("C0GROUP"), TopicId(root))
    (receipt,) = await say(channel, Outbound(place, "draft"), key="row1")
    slack.server.rules.page = 15
    for number in range(40):
        await slack.says(f"noise {number}", chat="group", topic=root, mention=False)
    (late,) = await say(channel, Outbound(place, "late"), key="row2")
    await say(channel, Outbound(place, "final", replaces=(receipt,)), key="row3")
    (part,) = channel.render(Outbound(place, "draft"))
    for key, expected in (("row1.0", receipt), ("row2.0", late)):
        found = await channel.find(place, part, key, None, since)
        assert found is not None
        assert found.message == expected.message
    assert await channel.find(place, part, "row9.0", None, since) is None


async def test_nobody_can_write_a_call_to_everybody_but_a_wanted_mention_arrives(
    slack: SlackRig, channel: Slack
) -> None:
    await say(
        channel,
        Outbound(
            GROUP,
            "hey <!channel> <!here> <@U0BOB> & **go**",
            mentions=(PersonId("U0ADA"), PersonId("!channel")),
        ),
    )
    assert (
        slack.server.workspace.rows["C0GROUP"][-1]["text"]
        == "<@U0ADA> hey &lt;!channel&gt; &lt;!here&gt; &lt;@U0BOB&gt; &amp; *go*"
    )


@pytest.mark.fault(23)
async def test_revisions_rest_after_a_rate_limit_and_never_fail(
    slack: SlackRig, channel: Slack
) -> None:
    (draft,) = await say(channel, Outbound(DM, "…"))
    await channel.revise(DM, draft, "one")
    assert (await slack.visible())[0].text == "one"
    slack.server.faults.append(Fault("limit", 60))
    await channel.revise(DM, draft, "two")
    await channel.revise(DM, draft, "three")
    assert [method for method, _ in slack.server.calls].count("chat.update") == 2
    await channel.revise(DM, None, "no preview here")
    (final,) = await say(channel, Outbound(DM, "done", replaces=(draft,)))
    assert [(row.text, row.id) for row in await slack.visible()] == [("done", final.message)]


async def test_typing_shows_in_threads_and_an_app_that_may_not_is_asked_once(
    slack: SlackRig, channel: Slack
) -> None:
    place = Address("slack", "T0HOUSE", ChatId("C0GROUP"), TopicId("1.0"))
    await channel.typing(DM, True)
    await channel.typing(place, True)
    await channel.typing(place, False)
    assert [bool(status["status"]) for status in slack.server.statuses] == [True, False]
    slack.server.scopes_missing["assistant.threads.setStatus"] = "chat:write"
    for _ in range(3):
        await channel.typing(place, True)
    assert [method for method, _ in slack.server.calls].count("assistant.threads.setStatus") == 3


async def test_a_person_is_an_address_too(slack: SlackRig, channel: Slack) -> None:
    address = channel.parse_address("U0BOB")
    (receipt,) = await say(channel, Outbound(address, "a notice"))
    await say(channel, Outbound(address, "a better notice", replaces=(receipt,)))
    assert [row.text for row in await slack.visible("dm:bob")] == ["a better notice"]
    found = await channel.find(
        address, channel.render(Outbound(address, "a notice"))[0], "k.0", None, datetime.now(UTC)
    )
    assert found is not None
    assert found.message == receipt.message


async def test_addresses_are_parsed_and_wrong_ones_get_a_clear_line(channel: Slack) -> None:
    assert channel.parse_address("C0GROUP") == GROUP
    assert channel.parse_address("C0GROUP/1700000000.000100").topic == "1700000000.000100"
    for wrong in ("", "general", "#general", "C1/", "C1/x", "C1/1.2/3"):
        with pytest.raises(ValueError, match="no Slack address"):
            channel.parse_address(wrong)


async def test_an_unwanted_stream_means_no_revisions(slack: SlackRig) -> None:
    assert slack.channel(options=Options(streaming="off")).capabilities.revise is None
    assert slack.channel(options=Options()).capabilities.revise is not None
