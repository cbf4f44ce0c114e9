"""Slack's payloads to arrivals, pure."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.contract import Answer, Edited, Inbound, Reacted
from channels.payloads import Malformed
from channels.slack.inbound import Place, chat_of, order, people_of, read
from channels.slack.mrkdwn import readable

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
NAMES = {"U1": "Ada", "U9": "ohmo"}
PLACE = Place("T1", "U9", lambda: NOW, NAMES, bot="B9")


def event(**fields: Any) -> dict[str, Any]:
    said = {
        "type": "message",
        "channel": "C1",
        "channel_type": "channel",
        "user": "U1",
        "ts": "1700000000.000100",
        "text": "hi",
        **fields,
    }
    return {"event": {name: value for name, value in said.items() if value is not None}}


def only(payload: dict[str, Any], place: Place = PLACE, kind: str = "events_api") -> Any:
    (arrival,) = read(kind, payload, place)
    return arrival


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("a &lt;b&gt; &amp;amp; c", "a <b> &amp; c"),
        ("<@U9> do it", "do it"),
        ("<@U9>: /stop", "/stop"),
        ("ask <@U9> and <@U1> and <@U7> and <@U8|bob>", "ask @ohmo and @Ada and @U7 and @bob"),
        ("in <#C1|general> or <#C2>", "in #general or #C2"),
        ("<!here> <!subteam^S1|@ops> <!date^1700000000^{date}|14 Nov>", "@here @ops 14 Nov"),
        (
            "<https://x.org> <https://x.org|words> <mailto:a@b.c|a@b.c>",
            "https://x.org words (https://x.org) a@b.c",
        ),
        ("nul\x00 and \u202eturned", "nul and turned"),
        ("1 < 2", "1 < 2"),
    ],
)
def test_text_reads_as_people_see_it(raw: str, shown: str) -> None:
    assert readable(raw, PLACE.user, PLACE.names) == shown


def test_a_message_is_named_by_channel_and_ts_and_also_by_its_client_id() -> None:
    twin = event(type="app_mention", text="<@U9> hi", channel_type=None)
    for payload in (event(text="<@U9> hi", client_msg_id="abc"), twin):
        said = only(payload)
        assert isinstance(said, Inbound)
        assert (said.key, said.text, said.addressed, said.address.topic) == (
            "C1/1700000000.000100",
            "hi",
            True,
            "1700000000.000100",
        )
    assert only(event(client_msg_id="abc")).aliases == ("client_msg_id/abc",)


def test_a_direct_message_is_private_addressed_and_has_no_topic() -> None:
    said = only(event(channel="D1", channel_type="im"))
    assert (said.private, said.addressed, said.address.topic) == (True, True, None)


def test_a_reply_to_us_is_addressed_and_a_root_that_got_replies_is_still_no_thread() -> None:
    reply = only(event(thread_ts="1600000000.000000", parent_user_id="U9"))
    assert (reply.addressed, reply.address.topic) == (True, "1600000000.000000")
    root = only(event(thread_ts="1700000000.000100"))
    assert (root.addressed, root.address.topic) == (False, None)


def test_order_sorts_like_the_numbers_for_ever() -> None:
    stamps = ["999999999.999999", "1700000000.000100", "1700000000.0002", "99999999999.000000"]
    assert sorted(stamps, key=order) == stamps


@pytest.mark.parametrize(
    "fields",
    [
        {"bot_id": "B9", "user": None, "subtype": "bot_message", "username": "ohmo in disguise"},
        {"user": "U9"},
        {"user": "U9", "bot_id": "B9"},
        {"user": None},
        {"user": "USLACKBOT"},
        {"subtype": "channel_join"},
        {"user": "USLACKBOT", "subtype": "bot_message", "bot_id": "B01"},
        {"hidden": True},
    ],
)
def test_what_no_person_said_to_us_is_no_arrival(fields: dict[str, Any]) -> None:
    assert read("events_api", event(**fields), PLACE) == []


def test_another_bot_is_a_person_that_says_it_is_a_bot() -> None:
    modern = only(event(user="U7", bot_id="B7", bot_profile={"name": "deploys"}))
    assert (modern.person.id, modern.person.name, modern.person.bot) == ("U7", "deploys", True)
    classic = only(event(user=None, bot_id="B8", subtype="bot_message", username="alarms"))
    assert (classic.person.id, classic.person.name, classic.person.bot) == ("B8", "alarms", True)
    assert only(changed(user="U7", bot_id="B7")).person.bot
    assert not only(event()).person.bot


@pytest.mark.parametrize("subtype", ["file_share", "thread_broadcast", "me_message"])
def test_subtypes_that_are_people_talking_are_messages(subtype: str) -> None:
    assert isinstance(only(event(subtype=subtype)), Inbound)


def changed(**fields: Any) -> dict[str, Any]:
    message = {
        "user": "U1",
        "ts": "1700000000.000100",
        "text": "new",
        "edited": {"user": "U1", "ts": "1700000009.000000"},
        **fields,
    }
    return event(
        subtype="message_changed",
        text=None,
        user=None,
        message=message,
        previous_message={"user": "U1", "text": "old"},
        ts="1700000010.000000",
    )


def test_an_edit_is_named_by_its_own_time() -> None:
    said = only(changed())
    assert isinstance(said, Edited)
    assert (said.key, said.text, said.message) == (
        "C1/1700000000.000100/edited/1700000009.000000",
        "new",
        "1700000000.000100",
    )


@pytest.mark.parametrize("fields", [{"text": "old"}, {"bot_id": "B9"}, {"user": "U9"}])
def test_changes_that_change_no_words_or_are_our_own_are_no_arrival(fields: dict[str, Any]) -> None:
    assert read("events_api", changed(**fields), PLACE) == []


def test_a_tombstone_is_a_deletion() -> None:
    said = only(changed(subtype="tombstone", user="USLACKBOT"))
    assert isinstance(said, Edited)
    assert (said.text, said.message) == (None, "1700000000.000100")


def test_a_reaction_stands_in_the_thread_of_its_message_when_that_is_known() -> None:
    place = Place(
        "T1",
        "U9",
        lambda: NOW,
        NAMES,
        topic_of=lambda chat, ts: "1.0" if (chat, ts) == ("C1", "1700000000.000100") else None,
    )
    item = {"type": "message", "channel": "C1", "ts": "1700000000.000100"}
    payload = {
        "event": {
            "type": "reaction_added",
            "user": "U1",
            "reaction": "eyes",
            "item": item,
            "event_ts": "1700000001.000000",
        }
    }
    said = only(payload, place)
    assert isinstance(said, Reacted)
    assert (said.emoji, said.added, said.address.topic) == ("eyes", True, "1.0")


def test_a_pressed_button_is_an_answer_and_other_interactions_are_none() -> None:
    payload = {
        "type": "block_actions",
        "user": {"id": "U1", "name": "ada"},
        "container": {"message_ts": "1700000000.000100", "channel_id": "C1", "thread_ts": "1.0"},
        "actions": [
            {"type": "button", "value": "yes", "action_ts": "1700000002.000000"},
            {"type": "overflow"},
        ],
    }
    said = only(payload, kind="interactive")
    assert isinstance(said, Answer)
    assert (said.choice, said.message, said.address.topic, said.person.id) == (
        "yes",
        "1700000000.000100",
        "1.0",
        "U1",
    )
    assert read("interactive", payload | {"type": "view_submission"}, PLACE) == []


@pytest.mark.parametrize(
    ("command", "text", "said"),
    [
        ("/ohmo", "stop", "/stop"),
        ("/ohmo", "/new", "/new"),
        ("/ohmo", "", "/help"),
        ("/status", "", "/status"),
        ("/approve", "7", "/approve 7"),
    ],
)
def test_slash_commands_say_what_a_person_meant(command: str, text: str, said: str) -> None:
    payload = {
        "command": command,
        "text": text,
        "channel_id": "C1",
        "channel_name": "general",
        "user_id": "U1",
        "trigger_id": "1.2",
    }
    arrival = only(payload, kind="slash_commands")
    assert (arrival.text, arrival.at, arrival.private) == (said, NOW, False)


def test_files_are_references_with_an_id_and_an_address() -> None:
    files = [
        {
            "id": "F1",
            "name": "a.png",
            "mimetype": "image/png",
            "size": 5,
            "url_private": "https://files.slack.com/a",
        },
        {"id": "F2", "file_access": "check_file_info"},
        {"id": "F3", "mode": "tombstone", "url_private": "https://files.slack.com/gone"},
    ]
    said = only(event(subtype="file_share", files=files))
    assert [
        (attachment.ref, attachment.name, attachment.size) for attachment in said.attachments
    ] == [("F1 https://files.slack.com/a", "a.png", 5), ("F2", "file", None)]


def test_a_forwarded_message_comes_with_its_author_its_words_and_its_files() -> None:
    """As Slack sends it: the words of whoever forwards may be empty, the rest stands in an
    attachment with ``is_share``."""
    file = {
        "id": "F1",
        "name": "log.txt",
        "mimetype": "text/plain",
        "url_private": "https://files.slack.com/F1",
        "size": 3,
    }
    share = {
        "is_share": True,
        "is_msg_unfurl": True,
        "author_name": "Bob",
        "text": "it <https://e.org|burns>",
        "fallback": "[9:00] Bob: it",
        "files": [file],
    }
    found = only(event(text="", attachments=[share]))
    assert (found.text, [attachment.name for attachment in found.attachments]) == (
        "[forwarded from Bob]\nit burns (https://e.org)",
        ["log.txt"],
    )
    assert only(event(text="look at this", attachments=[share])).text.startswith(
        "look at this\n[forwarded from Bob]\n"
    )
    unfurled = {"title": "A page", "text": "what stands there", "from_url": "https://e.org"}
    assert only(event(text="https://e.org", attachments=[unfurled])).text == "https://e.org", (
        "a link that Slack unfurled says nothing new"
    )
    forwarded = changed(text="look again", attachments=[share])
    assert only(forwarded).text == "look again\n[forwarded from Bob]\nit burns (https://e.org)"


def test_what_a_program_says_in_attachments_and_blocks_is_read() -> None:
    alert = {
        "color": "danger",
        "title": "deploy 17",
        "text": "failed",
        "fields": [{"title": "where", "value": "eu"}],
        "fallback": "deploy 17 failed",
    }
    program = {"subtype": "bot_message", "bot_id": "B8", "user": None, "text": ""}
    assert only(event(**program, attachments=[alert])).text == "deploy 17\nfailed\nwhere: eu"
    blocks = [
        {"type": "header", "text": {"type": "plain_text", "text": "Build"}},
        {
            "type": "section",
            "text": {"type": "mrkdwn", "text": "*red*"},
            "fields": [{"type": "mrkdwn", "text": "on main"}],
        },
        {
            "type": "rich_text",
            "elements": [
                {
                    "type": "rich_text_section",
                    "elements": [
                        {"type": "text", "text": "see "},
                        {"type": "link", "url": "https://e.org"},
                    ],
                }
            ],
        },
        {
            "type": "actions",
            "elements": [{"type": "button", "text": {"type": "plain_text", "text": "Retry"}}],
        },
    ]
    assert only(event(**program, blocks=blocks)).text == "Build\n*red*\non main\nsee https://e.org"
    assert only(event(text="own words", blocks=blocks)).text == "own words", (
        "a person's blocks say what their text says"
    )


def test_events_whose_channel_is_an_object_belong_to_no_chat() -> None:
    assert (
        chat_of("events_api", {"event": {"type": "channel_created", "channel": {"id": "C9"}}}) == ""
    )


_json = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.text(max_size=8)
    | st.sampled_from(["message", "block_actions", "1.0", "message_changed", "C1"]),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                """
                    event type subtype channel user ts text item message previous_message edited
                    files actions container event_ts deleted_ts thread_ts bot_id value action_ts
                """.split()
            ),
            inner,
            max_size=8,
        )
    ),
    max_leaves=25,
)


@settings(deadline=None, max_examples=300)
@given(
    st.dictionaries(
        st.sampled_from(["event", "type", "channel", "container", "user", "actions"]),
        _json,
        max_size=5,
    )
)
def test_any_payload_is_read_or_called_malformed(payload: dict[str, Any]) -> None:
    for kind in ("events_api", "interactive", "slash_commands", "x"):
        chat_of(kind, payload)
        people_of(kind, payload)
        try:
            read(kind, payload, PLACE)
        except Malformed:
            continue
