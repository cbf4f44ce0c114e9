"""Telegram's updates as arrivals."""

from __future__ import annotations

from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.contract import Address, Answer, Attachment, ChatId, Edited, Inbound, Reacted, TopicId
from channels.telegram.inbound import Me, arrivals, fenced
from channels.telegram.updates import Malformed, number

ME = Me(7, "ohmo_bot")
NOW = datetime(2026, 5, 1, tzinfo=UTC)
ADA = {"id": 1001, "is_bot": False, "first_name": "Ada", "last_name": "L"}
GROUP = {"id": -100200, "type": "supergroup", "title": "G"}
Body = dict[str, Any]


def message(chat: Body | None = None, sender: Body = ADA, **fields: Any) -> Body:
    return {
        "message_id": 5,
        "date": 1_700_000_000,
        "chat": chat or {"id": 1001, "type": "private"},
        "from": sender,
        **fields,
    }


def heard(body: Body, kind: str = "message") -> Any:
    found = arrivals({"update_id": 1, kind: body}, ME, NOW)
    return found[0] if found else None


def entity(kind: str, text: str, part: str, **more: Any) -> Body:
    start = text.index(part)
    return {
        "type": kind,
        "offset": len(text[:start].encode("utf-16-le")) // 2,
        "length": len(part.encode("utf-16-le")) // 2,
        **more,
    }


def test_a_private_message_is_addressed_and_named_by_chat_and_message() -> None:
    found = heard(message(text="hi"))
    assert isinstance(found, Inbound)
    assert (found.key, found.message, found.text, found.private, found.addressed) == (
        "1001/5",
        "5",
        "hi",
        True,
        True,
    )
    assert found.address == Address("telegram", "7", ChatId("1001"))
    assert (found.person.id, found.person.name) == ("1001", "Ada L")
    assert found.at == datetime.fromtimestamp(1_700_000_000, UTC)


def test_the_key_is_the_same_whatever_the_update_number() -> None:
    one = arrivals({"update_id": 1, "message": message(text="x")}, ME, NOW)[0]
    two = arrivals({"update_id": 99, "message": message(text="x")}, ME, NOW)[0]
    assert one == two


@pytest.mark.parametrize(
    ("text", "entities", "addressed"),
    [
        ("just talk", [], False),
        ("😀 hey @ohmo_bot do it", ["mention:@ohmo_bot"], True),
        ("hey @Ohmo_Bot", ["mention:@Ohmo_Bot"], True),
        ("hey @other_bot", ["mention:@other_bot"], False),
        ("@ohmo_bot_2 x", ["mention:@ohmo_bot_2"], False),
        ("/stop", ["bot_command:/stop"], True),
        ("/stop@ohmo_bot now", ["bot_command:/stop@ohmo_bot"], True),
    ],
)
def test_in_a_group_a_mention_or_a_command_addresses_the_bot(
    text: str, entities: list[str], addressed: bool
) -> None:
    made = [entity(*(one.split(":")[0], text, one.split(":")[1])) for one in entities]
    found = heard(message(GROUP, text=text, entities=made))
    assert (found.addressed, found.private) == (addressed, False)


def test_an_order_to_another_bot_is_not_ours_not_even_as_a_reply_to_us() -> None:
    ours = message(GROUP, sender={"id": 7, "is_bot": True, "first_name": "ohmo"}, text="hello")
    assert (
        arrivals(
            {
                "update_id": 1,
                "message": message(
                    GROUP,
                    text="/stop@Other_Bot now",
                    entities=[entity("bot_command", "/stop@Other_Bot now", "/stop@Other_Bot")],
                    reply_to_message=ours,
                ),
            },
            ME,
            NOW,
        )
        == ()
    )
    assert heard(
        message(
            GROUP,
            text="see /stop@Other_Bot",
            entities=[entity("bot_command", "see /stop@Other_Bot", "/stop@Other_Bot")],
        )
    ).text


def test_a_text_mention_and_a_caption_mention_count() -> None:
    assert heard(
        message(
            GROUP,
            text="you",
            entities=[entity("text_mention", "you", "you", user={"id": 7, "is_bot": True})],
        )
    ).addressed
    caption = "see @ohmo_bot"
    photo = [{"file_id": "f", "file_unique_id": "u"}]
    assert heard(
        message(
            GROUP,
            caption=caption,
            caption_entities=[entity("mention", caption, "@ohmo_bot")],
            photo=photo,
        )
    ).addressed


def test_the_leading_mention_is_not_part_of_what_is_said() -> None:
    text = "@ohmo_bot, what time is it?"
    assert (
        heard(message(GROUP, text=text, entities=[entity("mention", text, "@ohmo_bot")])).text
        == "what time is it?"
    )


def test_words_said_to_a_picture_bring_the_picture_unless_they_bring_one_of_their_own() -> None:
    picture = message(
        GROUP, message_id=4, photo=[{"file_id": "big", "file_unique_id": "u", "file_size": 9}]
    )
    found = heard(message(GROUP, text="what is this?", reply_to_message=picture))
    assert [file.ref for file in found.attachments] == ["big"]
    own = heard(
        message(
            GROUP, photo=[{"file_id": "other", "file_unique_id": "o"}], reply_to_message=picture
        )
    )
    assert [file.ref for file in own.attachments] == ["other"]


def test_a_reply_to_the_bot_addresses_it_and_brings_what_was_said() -> None:
    bots = message(GROUP, {"id": 7, "is_bot": True, "first_name": "ohmo"}, text="the answer") | {
        "message_id": 4
    }
    found = heard(message(GROUP, text="why?", reply_to_message=bots))
    assert (found.addressed, found.reply_to, found.quoted) == (True, "4", "the answer")
    chosen = heard(message(GROUP, text="why?", reply_to_message=bots, quote={"text": "answer"}))
    assert chosen.quoted == "answer"


def test_a_topic_is_a_place_and_its_first_message_is_no_reply() -> None:
    root = message(GROUP, {"id": 7, "is_bot": True}, forum_topic_created={"name": "T"}) | {
        "message_id": 77
    }
    found = heard(
        message(GROUP, text="x", message_thread_id=77, is_topic_message=True, reply_to_message=root)
    )
    assert (found.address.topic, found.reply_to, found.addressed) == (TopicId("77"), None, False)


def test_a_reply_chain_outside_of_a_forum_is_no_topic() -> None:
    assert heard(message(GROUP, text="x", message_thread_id=70)).address.topic is None


@pytest.mark.parametrize(
    ("fields", "attachment"),
    [
        (
            {
                "photo": [
                    {"file_id": "s", "file_unique_id": "a", "file_size": 9},
                    {"file_id": "l", "file_unique_id": "b", "file_size": 99},
                ]
            },
            Attachment("l", "photo-b.jpg", "image/jpeg", 99),
        ),
        (
            {
                "document": {
                    "file_id": "d",
                    "file_unique_id": "x",
                    "file_name": "a.pdf",
                    "mime_type": "application/pdf",
                    "file_size": 3,
                }
            },
            Attachment("d", "a.pdf", "application/pdf", 3),
        ),
        (
            {"voice": {"file_id": "v", "file_unique_id": "x"}},
            Attachment("v", "voice-x.ogg", "audio/ogg", None),
        ),
        (
            {"audio": {"file_id": "m", "file_unique_id": "x", "file_name": "song.mp3"}},
            Attachment("m", "song.mp3", "audio/mpeg", None),
        ),
        (
            {"video": {"file_id": "w", "file_unique_id": "x"}},
            Attachment("w", "video-x.mp4", "video/mp4", None),
        ),
        (
            {"video_note": {"file_id": "n", "file_unique_id": "x"}},
            Attachment("n", "video-x.mp4", "video/mp4", None),
        ),
        (
            {
                "animation": {"file_id": "g", "file_unique_id": "x"},
                "document": {"file_id": "g", "file_unique_id": "x"},
            },
            Attachment("g", "animation-x.mp4", "video/mp4", None),
        ),
    ],
)
def test_files_are_references(fields: Body, attachment: Attachment) -> None:
    found = heard(message(caption="look", media_group_id="album-1", **fields))
    assert (found.attachments, found.text, found.album) == ((attachment,), "look", "album-1")


@pytest.mark.parametrize(
    ("fields", "text"),
    [
        ({"sticker": {"file_id": "s", "emoji": "😀"}}, "[sticker 😀]"),
        ({"sticker": {"file_id": "s"}}, "[sticker]"),
        ({"location": {"latitude": 1.5, "longitude": 2.0}}, "[location: 1.5, 2.0]"),
        (
            {
                "venue": {"title": "Café", "address": "Street 1"},
                "location": {"latitude": 1, "longitude": 2},
            },
            "[place: Café, Street 1]",
        ),
        ({"contact": {"phone_number": "+1", "first_name": "Bob"}}, "[contact: Bob, +1]"),
        (
            {"poll": {"question": "Tea?", "options": [{"text": "yes"}, {"text": "no"}]}},
            "[poll: Tea? — yes / no]",
        ),
        ({"dice": {"emoji": "🎲", "value": 4}}, "[🎲 4]"),
        (
            {
                "text": "news",
                "forward_origin": {"type": "user", "sender_user": {"id": 5, "first_name": "Bob"}},
            },
            "[forwarded from Bob]\nnews",
        ),
        (
            {
                "text": "news",
                "forward_origin": {
                    "type": "channel",
                    "chat": {"id": -5, "type": "channel", "title": "The Paper"},
                },
            },
            "[forwarded from The Paper]\nnews",
        ),
        (
            {
                "text": "news",
                "forward_origin": {"type": "hidden_user", "sender_user_name": "Somebody"},
            },
            "[forwarded from Somebody]\nnews",
        ),
        (
            {
                "text": "😀 the site.",
                "entities": [
                    {"type": "text_link", "offset": 3, "length": 8, "url": "https://x.org"}
                ],
            },
            "😀 the site (https://x.org).",
        ),
        ({"text": "a\x00b\u202ec\U000e0041"}, "abc"),
    ],
)
def test_what_is_no_text_is_said_in_words(fields: Body, text: str) -> None:
    assert heard(message(**fields)).text == text


@pytest.mark.parametrize(
    "body",
    [
        message(new_chat_title="x"),
        message(sender={"id": 7, "is_bot": True, "first_name": "me"}, text="own echo"),
        message(
            GROUP,
            {"id": 1087968824, "is_bot": True, "first_name": "Group"},
            text="x",
            sender_chat={"id": -100, "type": "supergroup"},
        ),
        message(text="from a linked channel", is_automatic_forward=True),
        {key: value for key, value in message(text="anonymous").items() if key != "from"},
    ],
)
def test_service_messages_we_ourselves_and_chats_that_speak_say_nothing(body: Body) -> None:
    assert heard(body) is None


def test_another_bot_is_a_person_that_says_it_is_a_bot() -> None:
    said = heard(message(GROUP, {"id": 8, "is_bot": True, "first_name": "other bot"}, text="x"))
    assert (said.person.id, said.person.name, said.person.bot) == ("8", "other bot", True)
    assert not heard(message(text="x")).person.bot


def test_an_edit_carries_the_new_text_and_two_edits_have_two_names() -> None:
    first = heard(message(text="the", edit_date=1_700_000_050), "edited_message")
    second = heard(message(text="them", edit_date=1_700_000_050), "edited_message")
    assert isinstance(first, Edited)
    assert (first.message, first.text, first.at.timestamp()) == ("5", "the", 1_700_000_050)
    assert first.key != second.key
    assert first == heard(message(text="the", edit_date=1_700_000_050), "edited_message")


def test_reactions_come_one_by_one() -> None:
    both = [{"type": "emoji", "emoji": "👍"}, {"type": "emoji", "emoji": "🔥"}]
    body = {
        "chat": GROUP,
        "message_id": 5,
        "user": ADA,
        "date": 1_700_000_000,
        "old_reaction": both[:1],
        "new_reaction": both[1:],
    }
    found = arrivals({"update_id": 1, "message_reaction": body}, ME, NOW)
    assert all(isinstance(one, Reacted) for one in found)
    assert {(one.emoji, one.added) for one in found if isinstance(one, Reacted)} == {
        ("👍", False),
        ("🔥", True),
    }
    assert (
        arrivals(
            {
                "update_id": 1,
                "message_reaction": {key: value for key, value in body.items() if key != "user"},
            },
            ME,
            NOW,
        )
        == ()
    )


def test_a_press_is_an_answer_even_under_a_message_that_cannot_be_read_any_more() -> None:
    body = {
        "id": "77",
        "from": ADA,
        "data": "yes:1",
        "message": {"message_id": 5, "date": 0, "chat": {"id": 1001, "type": "private"}},
    }
    found = heard(body, "callback_query")
    assert isinstance(found, Answer)
    assert (found.choice, found.token, found.message, found.at, found.key) == (
        "yes:1",
        "77",
        "5",
        NOW,
        "press/77",
    )
    assert (
        heard({"id": "78", "from": ADA, "inline_message_id": "x", "data": "y"}, "callback_query")
        is None
    )


@pytest.mark.parametrize(
    "kind",
    "my_chat_member chat_member channel_post poll_answer inline_query from_the_future".split(),
)
def test_other_updates_are_passed_over_safely(kind: str) -> None:
    assert arrivals({"update_id": 1, kind: {"anything": [1, 2]}}, ME, NOW) == ()


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(
                ["message", "message_id", "chat", "id", "from", "date", "text", "type", "x"]
            ),
            inner,
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(
    JSON
    | st.fixed_dictionaries({"update_id": st.integers(), "message": JSON})
    | st.fixed_dictionaries({"update_id": st.integers(), "callback_query": JSON})
)
def test_no_frame_whatever_can_raise_anything_but_malformed(raw: object) -> None:
    number(raw)
    with suppress(Malformed):
        assert isinstance(arrivals(raw, ME, NOW), tuple)


@given(
    st.sampled_from(
        ["message_id", "date", "chat", "from", "text", "entities", "photo", "reply_to_message"]
    ),
    JSON,
)
def test_a_message_with_one_wrong_field_is_malformed_or_read(field: str, value: object) -> None:
    with suppress(Malformed):
        assert isinstance(
            arrivals({"update_id": 1, "message": message(text="x") | {field: value}}, ME, NOW),
            tuple,
        )


def test_what_is_malformed_is_said_in_one_line() -> None:
    with pytest.raises(Malformed, match=r"^cannot be read at message\.chat\.id$"):
        arrivals({"update_id": 1, "message": message({"id": "x"}, text="x")}, ME, NOW)


def test_order_sorts_as_the_platform_sorts() -> None:
    one = heard(message(text="x") | {"message_id": 9})
    two = heard(message(text="y") | {"message_id": 10})
    assert one.order < two.order


def test_the_fence_keeps_one_message_per_place_and_names_the_others() -> None:
    old = [heard(message(text=f"m{n}") | {"message_id": n}) for n in (1, 2, 3)]
    other = heard(message({"id": 5, "type": "private"}, text="alone"))
    kept = fenced([*old, other], NOW)
    assert [one.text.split("\n")[-1] for one in kept if isinstance(one, Inbound)] == ["m3", "alone"]
    assert kept[0].aliases == ("1001/1", "1001/2")
    assert kept[1] == other
    assert fenced([*old, other], old[0].at) == [*old, other]
