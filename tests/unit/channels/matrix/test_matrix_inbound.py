"""Matrix events into arrivals, without a homeserver."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from channels.contract import Attachment, Edited, Inbound, Reacted
from channels.matrix.inbound import (
    Original,
    Room,
    View,
    about,
    arrival_of,
    flaw,
    original,
    starts_here,
)

ME = "@ohmo:example.org"
ADA = "@ada:example.org"


def lens(*more: str, direct: bool = False) -> View:
    return View(
        ME, Room("!r", {ME: "Ohmo", ADA: "Ada", **{user: user for user in more}}, direct), "0001"
    )


GROUP = lens("@bob:example.org")
DM = lens()


def said(body: str, kind: str = "m.text", **content: Any) -> dict[str, Any]:
    return {
        "type": "m.room.message",
        "event_id": "$1",
        "sender": ADA,
        "origin_server_ts": 1_700_000_000_123,
        "content": {"msgtype": kind, "body": body, **content},
    }


def heard(event: dict[str, Any], where: View = DM, related: Original | None = None) -> Inbound:
    result = arrival_of(event, where, related)
    assert isinstance(result, Inbound)
    return result


def test_a_message_carries_who_where_and_when() -> None:
    message = heard(said("hello"))
    assert (message.key, message.message, message.text, message.order) == (
        "$1",
        "$1",
        "hello",
        "0001",
    )
    assert (
        message.address.channel,
        message.address.account,
        message.address.chat,
        message.address.topic,
    ) == ("matrix", ME, "!r", None)
    assert (message.person.id, message.person.name) == (ADA, "Ada")
    assert message.at == datetime(2023, 11, 14, 22, 13, 20, 123000, UTC)
    assert (message.private, message.addressed) == (True, True)


@pytest.mark.parametrize(
    ("body", "content"),
    [
        ("you", {"m.mentions": {"user_ids": [ME]}}),
        ("Ohmo", {"formatted_body": '<a href="https://matrix.to/#/@ohmo:example.org">Ohmo</a>'}),
        ("x", {"formatted_body": '<a href="https://matrix.to/#/%40ohmo%3Aexample.org">x</a>'}),
        ("hey @ohmo, help", {}),
        ("hey ohmo help", {"m.mentions": {}}),
        ("ask @ohmo:example.org.", {}),
    ],
)
def test_every_way_to_mention_the_bot_addresses_it(body: str, content: dict[str, Any]) -> None:
    assert heard(said(body, **content), GROUP).addressed


@pytest.mark.parametrize(
    "body", ["hello", "ohmology", "@ohmo:other.org hi", "mail x@ohmon.org", "@room"]
)
def test_what_only_looks_like_a_mention_does_not(body: str) -> None:
    assert not heard(said(body, **{"m.mentions": {"room": True}}), GROUP).addressed


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("ohmo: /status", "/status"),
        ("@ohmo:example.org: /status", "/status"),
        ("Ohmo, what is it?", "what is it?"),
        ("@ohmo /stop", "/stop"),
        ("is ohmo there?", "is ohmo there?"),
        ("ohmo", "ohmo"),
    ],
)
def test_the_name_in_front_is_taken_away_and_stays_elsewhere(body: str, text: str) -> None:
    assert heard(said(body), GROUP).text == text


def test_a_thread_is_a_topic_and_its_fallback_reply_is_no_reply() -> None:
    relation = {
        "rel_type": "m.thread",
        "event_id": "$root",
        "is_falling_back": True,
        "m.in_reply_to": {"event_id": "$last"},
    }
    event = said("in thread", **{"m.relates_to": relation})
    assert about(event) is None
    message = heard(event)
    assert (message.address.topic, message.reply_to) == ("$root", None)


def test_a_reply_is_stripped_of_its_fallback_and_quotes_what_it_answers() -> None:
    relation = {"m.in_reply_to": {"event_id": "$0"}}
    event = said("> <@bob:example.org> first\n> second\n\nmy answer", **{"m.relates_to": relation})
    assert about(event) == "$0"
    message = heard(event)
    assert (message.text, message.quoted, message.reply_to) == ("my answer", "first\nsecond", "$0")
    assert (
        heard(event, related=Original("@bob:example.org", "newest words", None)).quoted
        == "newest words"
    )


def test_a_quote_that_is_no_reply_stays_whole() -> None:
    assert heard(said("> wisdom\n\nindeed")).text == "> wisdom\n\nindeed"


def test_a_reply_to_us_addresses_us() -> None:
    event = said("why?", **{"m.relates_to": {"m.in_reply_to": {"event_id": "$0"}}})
    assert heard(event, GROUP, Original(ME, "because", None)).addressed
    assert not heard(event, GROUP, Original("@bob:example.org", "because", None)).addressed


def test_a_file_is_a_reference_and_its_body_a_caption_only_beside_a_name() -> None:
    info = {"mimetype": "image/png", "size": 7}
    bare = heard(said("cat.png", "m.image", url="mxc://e/1", info=info))
    assert (bare.text, bare.attachments) == (
        "",
        (Attachment("mxc://e/1", "cat.png", "image/png", 7),),
    )
    captioned = heard(said("my cat", "m.image", filename="cat.png", url="mxc://e/1"))
    assert (captioned.text, captioned.attachments) == (
        "my cat",
        (Attachment("mxc://e/1", "cat.png", "application/octet-stream", None),),
    )


def test_an_encrypted_file_is_not_taken_for_a_readable_one() -> None:
    assert arrival_of(said("cat.png", "m.image", file={"url": "mxc://e/1"}), DM, None) is None


def test_an_edit_counts_only_from_its_author_and_stays_in_the_thread_of_its_message() -> None:
    relation = {"rel_type": "m.replace", "event_id": "$0"}
    event = said(
        "* new", **{"m.relates_to": relation, "m.new_content": {"msgtype": "m.text", "body": "new"}}
    )
    edited = arrival_of(event, DM, Original(ADA, "old", "$root"))
    assert isinstance(edited, Edited)
    assert (edited.message, edited.text, edited.key, edited.address.topic) == (
        "$0",
        "new",
        "$1",
        "$root",
    )
    assert arrival_of(event, DM, Original("@bob:example.org", "old", None)) is None
    assert arrival_of(event, DM, None) is None


@pytest.mark.parametrize("event", [{"redacts": "$0"}, {"content": {"redacts": "$0"}}])
def test_a_redaction_of_any_room_version_is_a_deletion(event: dict[str, Any]) -> None:
    deleted = arrival_of(
        {"type": "m.room.redaction", "event_id": "$2", "sender": ADA, **event}, DM, None
    )
    assert isinstance(deleted, Edited)
    assert (deleted.message, deleted.text) == ("$0", None)


def test_reactions_are_given_and_withdrawn() -> None:
    relation = {"rel_type": "m.annotation", "event_id": "$0", "key": "👍"}
    event = {
        "type": "m.reaction",
        "event_id": "$2",
        "sender": ADA,
        "content": {"m.relates_to": relation},
    }
    given_one = arrival_of(event, DM, None)
    taken = arrival_of(
        {"type": "m.room.redaction", "event_id": "$3", "sender": ADA, "redacts": "$2"},
        DM,
        original(event),
    )
    assert isinstance(given_one, Reacted)
    assert isinstance(taken, Reacted)
    assert (given_one.message, given_one.emoji, given_one.added) == ("$0", "👍", True)
    assert (taken.message, taken.emoji, taken.added) == ("$0", "👍", False)


def test_own_words_notices_and_states_are_nothing_for_us() -> None:
    assert arrival_of({**said("x"), "sender": ME}, DM, None) is None
    assert arrival_of(said("x", "m.notice"), DM, None) is None
    assert arrival_of({**said("x"), "state_key": ""}, DM, None) is None


def test_members_come_and_go() -> None:
    room = Room("!r", {ME: "Ohmo"})
    room.learn(
        {
            "type": "m.room.member",
            "state_key": ADA,
            "content": {"membership": "join", "displayname": "Ada L."},
        }
    )
    room.learn({"type": "m.room.member", "state_key": "@bob:e", "content": {"membership": "join"}})
    assert (room.members, room.private) == ({ME: "Ohmo", ADA: "Ada L.", "@bob:e": "bob"}, False)
    room.learn({"type": "m.room.member", "state_key": "@bob:e", "content": {"membership": "leave"}})
    room.learn({"type": "m.room.encryption", "content": {}})  # Rooms sees to that
    assert (room.private, set(room.members)) == (True, {ME, ADA})


@pytest.mark.parametrize(
    ("membership", "before", "starts"),
    [
        ("invite", None, True),
        ("join", None, True),
        ("join", "leave", True),
        ("join", "invite", False),
        ("join", "join", False),
        ("leave", "join", False),
    ],
)
def test_our_part_in_a_room_starts_with_an_invitation_or_an_uninvited_join(
    membership: str, before: str | None, starts: bool
) -> None:
    unsigned = {"prev_content": {"membership": before}} if before else {}
    event = {
        "type": "m.room.member",
        "state_key": ME,
        "content": {"membership": membership},
        "unsigned": unsigned,
    }
    assert starts_here(event, ME) is starts
    assert not starts_here({**event, "state_key": ADA}, ME)


KEYS = st.sampled_from(
    """
        msgtype body m.relates_to rel_type event_id m.in_reply_to m.new_content m.mentions user_ids
        key url info size
    """.split()
)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=8)
    | st.sampled_from(["$0", ME, ADA, "m.text", "m.replace", "m.thread"]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=5),
    max_leaves=12,
)


@given(
    st.sampled_from(
        ["m.room.message", "m.reaction", "m.room.redaction", "m.room.member", "m.room.encryption"]
    ),
    st.dictionaries(
        st.sampled_from(
            "content event_id sender origin_server_ts redacts state_key unsigned".split()
        ),
        json_values,
    ),
)
@example("m.room.message", {"content": {"m.relates_to": {"rel_type": []}}})
@example(
    "m.room.member",
    {
        "state_key": ME,
        "content": {"membership": "join"},
        "unsigned": {"prev_content": {"membership": {}}},
    },
)
def test_no_event_whatever_its_shape_makes_the_reader_fall_over(
    kind: str, event: dict[str, Any]
) -> None:
    event = {"type": kind, **event}
    room = Room("!r", {ME: "Ohmo"})
    room.learn(event)
    about(event)
    starts_here(event, ME)
    arrival_of(event, View(ME, room, "1"), original(event))


@pytest.mark.parametrize(
    ("event", "where"),
    [
        ({}, "type"),
        ({"type": ["m.room.message"]}, "type"),
        ({"type": "m.room.message", "sender": "@a:b", "content": {}}, "event_id"),
        ({"type": "m.reaction", "event_id": "$1", "sender": 5, "content": {}}, "sender"),
        (
            {"type": "m.room.message", "event_id": "$1", "sender": "@a:b", "content": "words"},
            "content",
        ),
        (
            {
                "type": "m.room.message",
                "event_id": "$1",
                "sender": "@a:b",
                "content": {"msgtype": "m.text", "body": 5},
            },
            "content.body",
        ),
        ({"type": "m.room.message", "event_id": "$1", "sender": "@a:b", "content": {}}, ""),
        (
            {
                "type": "m.room.message",
                "event_id": "$1",
                "sender": "@a:b",
                "content": {"msgtype": "m.text", "body": "hello"},
            },
            "",
        ),
        ({"type": "m.poll.start"}, ""),
    ],
)
def test_what_keeps_an_event_from_being_read_is_named(event: dict[str, object], where: str) -> None:
    assert flaw(event) == where
