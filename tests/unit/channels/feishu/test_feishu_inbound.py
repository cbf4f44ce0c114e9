"""Feishu's events to arrivals, pure."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from channels.contract import Answer, Edited, Inbound, Reacted
from channels.feishu import inbound
from channels.feishu.inbound import EventContext
from channels.payloads import Malformed

PLACE = EventContext("cli_1", "ou_bot", {"ou_ada": "Ada"})


def event(kind: str, body: dict[str, Any]) -> dict[str, Any]:
    header = {
        "event_id": "e1",
        "event_type": kind,
        "create_time": "1700000000123",
        "app_id": "cli_1",
        "tenant_key": "t",
        "token": "",
    }
    return {"schema": "2.0", "header": header, "event": body}


def message(kind: str, content: dict[str, Any], **more: Any) -> dict[str, Any]:
    row = {
        "message_id": "om_1",
        "chat_id": "oc_1",
        "chat_type": "group",
        "message_type": kind,
        "content": json.dumps(content),
    }
    sender = {"sender_id": {"open_id": "ou_ada"}, "sender_type": "user"}
    return event(
        "im.message.receive_v1",
        {"sender": sender, "message": {**row, "create_time": "1700000000123", **more}},
    )


def heard(payload: dict[str, Any], place: EventContext = PLACE) -> Inbound:
    (said,) = inbound.read(payload, place)
    assert isinstance(said, Inbound)
    return said


US = {"key": "@_user_1", "id": {"open_id": "ou_bot"}, "name": "ohmo"}
BOB = {"key": "@_user_2", "id": {"open_id": "ou_bob"}, "name": "Bob"}


def test_a_mention_of_the_bot_addresses_it_and_is_no_part_of_the_words() -> None:
    said = heard(message("text", {"text": "@_user_1 ask @_user_2"}, mentions=[US, BOB]))
    assert (said.text, said.addressed, said.private) == ("ask @Bob", True, False)
    assert (said.key, said.message, said.person.name, said.order) == (
        "om_1",
        "om_1",
        "Ada",
        "001700000000123",
    )
    assert (said.address.account, said.address.chat, said.address.topic) == ("cli_1", "oc_1", None)


def test_other_peoples_mentions_and_a_call_of_everybody_do_not_address_the_bot() -> None:
    assert not heard(message("text", {"text": "@_user_2 hi @_all"}, mentions=[BOB])).addressed
    assert heard(message("text", {"text": "@_all look"})).text == "@all look"


def test_a_private_message_addresses_the_bot() -> None:
    said = heard(message("text", {"text": "hi"}, chat_type="p2p"))
    assert (said.private, said.addressed) == (True, True)


def test_a_thread_is_named_by_its_root_also_on_the_root_itself() -> None:
    assert (
        heard(
            message("text", {"text": "x"}, root_id="om_0", parent_id="om_0", thread_id="omt_1")
        ).address.topic
        == "om_0"
    )
    assert heard(message("text", {"text": "x"}, thread_id="omt_1")).address.topic == "om_1"
    reply = heard(message("text", {"text": "x"}, root_id="om_0", parent_id="om_5"))
    assert (reply.address.topic, reply.reply_to) == (None, "om_5")


def test_an_answer_to_our_own_message_addresses_us_and_carries_what_it_quotes() -> None:
    place = EventContext(
        "cli_1", "ou_bot", is_ours=lambda one: one == "om_5", quoted={"om_5": "the question"}
    )
    said = heard(message("text", {"text": "yes"}, root_id="om_5", parent_id="om_5"), place)
    assert (said.addressed, said.quoted) == (True, "the question")


@pytest.mark.parametrize(
    ("kind", "content", "text", "file"),
    [
        ("image", {"image_key": "img_1"}, "", ("om_1 img_1 image", "image.png", "image/png")),
        (
            "file",
            {"file_key": "file_1", "file_name": "a.pdf"},
            "",
            ("om_1 file_1 file", "a.pdf", "application/pdf"),
        ),
        (
            "audio",
            {"file_key": "file_1", "duration": 2},
            "",
            ("om_1 file_1 file", "voice.opus", "audio/ogg"),
        ),
        (
            "media",
            {"file_key": "file_1", "file_name": "v.mp4", "image_key": "img_1"},
            "",
            ("om_1 file_1 file", "v.mp4", "video/mp4"),
        ),
        ("sticker", {"file_key": "file_1"}, "[sticker]", None),
        ("share_user", {"user_id": "ou_x"}, "[shared contact ou_x]", None),
        (
            "location",
            {"name": "Park", "longitude": "1", "latitude": "2"},
            "[location Park 1, 2]",
            None,
        ),
        ("vote", {"topic": "Lunch?", "options": ["A", "B"]}, "[vote] Lunch?\n- A\n- B", None),
        (
            "merge_forward",
            {"content": "Merged and Forwarded Message"},
            "[forwarded messages]",
            None,
        ),
        ("something_new", {"text": "hi"}, "[something_new] hi", None),
        (
            "interactive",
            {"title": "T", "elements": [[{"tag": "text", "text": "words"}]]},
            "T\nwords",
            None,
        ),
    ],
)
def test_every_type_of_message_says_something(
    kind: str, content: dict[str, Any], text: str, file: tuple[str, ...] | None
) -> None:
    said = heard(message(kind, content))
    assert said.text == text
    found = [
        (attachment.ref, attachment.name, attachment.media_type) for attachment in said.attachments
    ]
    if file is not None:
        assert found[0][:2] == file[:2]
        assert found[0][2].split("/")[0] == file[2].split("/")[0] or kind == "audio"
    else:
        assert found == []


def test_a_post_keeps_its_lines_links_code_pictures_and_mentions() -> None:
    content = {
        "title": "Plan",
        "content": [
            [
                {"tag": "text", "text": "see "},
                {"tag": "a", "text": "docs", "href": "https://x.org"},
                {"tag": "at", "user_id": "@_user_2"},
            ],
            [{"tag": "img", "image_key": "img_9"}],
            [{"tag": "code_block", "language": "PYTHON", "text": "a = 1\n"}],
        ],
    }
    said = heard(message("post", content, mentions=[BOB]))
    assert said.text == "Plan\nsee docs (https://x.org)@Bob\n\n```python\na = 1\n```"
    assert [attachment.ref for attachment in said.attachments] == ["om_1 img_9 image"]


def test_bots_are_not_heard() -> None:
    payload = message("text", {"text": "x"})
    payload["event"]["sender"]["sender_type"] = "app"
    assert inbound.read(payload, PLACE) == []


def test_a_recalled_message_is_a_deletion_in_its_thread() -> None:
    place = EventContext("cli_1", "ou_bot", topic_of=lambda _: "om_0")
    body = {
        "message_id": "om_1",
        "chat_id": "oc_1",
        "recall_time": "1700000001000",
        "recall_type": "message_owner",
    }
    (said,) = inbound.read(event("im.message.recalled_v1", body), place)
    assert isinstance(said, Edited)
    assert (said.message, said.text, said.address.topic, said.key) == (
        "om_1",
        None,
        "om_0",
        "om_1/recalled",
    )


def test_reactions_come_and_go_and_those_of_apps_are_nobodys() -> None:
    body = {
        "message_id": "om_1",
        "chat_id": "oc_1",
        "reaction_type": {"emoji_type": "OK"},
        "operator_type": "user",
        "user_id": {"open_id": "ou_ada"},
        "action_time": "1700000001000",
    }
    (came,) = inbound.read(event("im.message.reaction.created_v1", body), PLACE)
    (went,) = inbound.read(event("im.message.reaction.deleted_v1", body), PLACE)
    assert isinstance(came, Reacted)
    assert isinstance(went, Reacted)
    assert (came.emoji, came.added, went.added, came.key != went.key) == ("OK", True, False, True)
    assert (
        inbound.read(
            event("im.message.reaction.created_v1", body | {"operator_type": "app"}), PLACE
        )
        == []
    )


def test_a_press_is_an_answer_in_the_thread_its_button_names() -> None:
    value = {"choice": "ask:yes", "topic": "om_0"}
    body = {
        "operator": {"open_id": "ou_ada"},
        "token": "c-1",
        "action": {"value": value, "tag": "button"},
        "context": {"open_message_id": "om_7", "open_chat_id": "oc_1"},
    }
    payload = event("card.action.trigger", body)
    payload["header"]["create_time"] = "1700000000123000"  # microseconds there
    (said,) = inbound.read(payload, PLACE)
    assert isinstance(said, Answer)
    assert (said.choice, said.message, said.address.topic, said.person.id, said.order) == (
        "ask:yes",
        "om_7",
        "om_0",
        "ou_ada",
        "001700000000123",
    )


def test_events_nobody_asked_for_say_nothing() -> None:
    for kind in (
        "im.message.message_read_v1",
        "im.chat.member.bot.added_v1",
        "something.new_v9",
        "",
    ):
        assert inbound.read(event(kind, {}), PLACE) == []


junk = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=12),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["text", "content", "chat_id", "tag", "message_id", "image_key"]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@settings(max_examples=200, deadline=None)
@given(
    st.sampled_from(
        """
            sender message message_id chat_id content create_time mentions operator action context
        """.split()
    ),
    junk,
    st.sampled_from(
        [
            "im.message.receive_v1",
            "im.message.recalled_v1",
            "im.message.reaction.created_v1",
            "card.action.trigger",
        ]
    ),
    st.booleans(),
)
def test_a_payload_of_any_shape_is_read_or_named_as_malformed(
    name: str, value: Any, kind: str, inside: bool
) -> None:
    payload = message("post", {"content": [[{"tag": "text", "text": "x"}]]})
    payload["header"]["event_type"] = kind
    (payload["event"]["message"] if inside else payload["event"])[name] = value
    try:
        found = inbound.read(payload, PLACE)
    except Malformed:
        return
    assert len(found) <= 1
