"""Who may speak, command and answer, and where it belongs: the whole table, and nothing but what is
handed in."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest
from gateway_words import BIRTH, choices, ident, place

from channels.contract import (
    Address,
    Answer,
    Attachment,
    ChatId,
    Edited,
    Inbound,
    MessageId,
    Person,
    PersonId,
    Reacted,
)
from ohmo.assembly.house import commands
from ohmo.commands.contract import parse
from ohmo.contracts.arrivals import Wake
from ohmo.contracts.outbox import Ask, Asked
from ohmo.contracts.tool import Question
from ohmo.contracts.turns import PersonRow, Seat
from ohmo.gateway.access import ALBUM_HOLD, Access, Policy, Roles

KNOWN = frozenset(commands())
OPEN_GROUP = Policy(groups="allowlist", chats=frozenset({"group"}))


def access(
    policy: Policy | None = None,
    *,
    asked: Sequence[Asked] = (),
    per_person: bool = False,
    default: Any = "user",
    **named: Any,
) -> Access:
    """``named``: people of the channel ``fake`` with their roles in the configuration."""
    roles = Roles({f"fake:{person}": role for person, role in named.items()}, default)
    return Access(
        lambda channel, account: policy or Policy(),
        roles,
        is_command=lambda text: (said := parse(text)) is not None and said[0] in KNOWN,
        open_question=lambda at: [one for one in asked if one.address == at],
        per_person=per_person,
    )


def said(
    text: str = "hello",
    *,
    person: str = "ada",
    at: Address | None = None,
    private: bool | None = None,
    **fields: Any,
) -> Inbound:
    where = at or place()
    alone = where.chat.startswith("dm:") if private is None else private
    usual: dict[str, Any] = {
        "key": f"k-{text}",
        "address": where,
        "person": Person(PersonId(person), person.title()),
        "at": BIRTH,
        "order": "1",
        "message": MessageId("m1"),
        "text": text,
        "private": alone,
        "addressed": True,
    }
    return Inbound(**{**usual, **fields})


def group(text: str = "hello", **fields: Any) -> Inbound:
    return said(text, at=place("group"), **fields)


def row(person: str, role: Any) -> PersonRow:
    return PersonRow("fake", "bot", person, person.title(), role)


def asking(kind: Any = "question", *, person: str = "ada", at: Address | None = None) -> Asked:
    question = Question(kind, "Which?", "", choices("red", "blue"), digest="d")
    return Asked(
        Ask(ident("q"), "t.1", question, "/"),
        "thread",
        "turn",
        at or place(),
        person,
        "asked",
        None,
        BIRTH,
    )


def spoken(seat: Seat) -> str:
    """``kind``, or the ending a message has at once."""
    return seat.ending or seat.kind


STRANGER = "command"  # handled by intake: a pairing card


@pytest.mark.parametrize(
    ("dm", "stranger", "allowed", "paired", "named"),
    [
        ("pairing", STRANGER, "message", "message", "message"),
        ("allowlist", "refused", "message", "message", "message"),
        ("open", "message", "message", "message", "message"),
        ("off", "refused", "refused", "refused", "refused"),
    ],
)
def test_who_is_heard_in_private(
    dm: Any, stranger: str, allowed: str, paired: str, named: str
) -> None:
    house = access(Policy(dm=dm, people=frozenset({"ann"})), ned="admin")
    house.learn([row("pam", "user")])
    heard = [spoken(house.seat(said(person=person))) for person in ("eve", "ann", "pam", "ned")]
    assert heard == [stranger, allowed, paired, named]


@pytest.mark.parametrize(
    ("groups", "chats", "people", "stranger", "named"),
    [
        ("allowlist", (), (), "noted", "noted"),
        ("allowlist", ("group",), (), "message", "message"),
        ("allowlist", ("group",), ("ann",), "refused", "message"),
        ("open", (), (), "message", "message"),
        ("open", (), ("ann",), "refused", "message"),
        ("off", ("group",), (), "noted", "noted"),
    ],
)
def test_who_is_heard_in_a_group(
    groups: Any, chats: Sequence[str], people: Sequence[str], stranger: str, named: str
) -> None:
    house = access(
        Policy(groups=groups, chats=frozenset(chats), people=frozenset(people)), ned="owner"
    )
    assert [spoken(house.seat(group(person=person))) for person in ("eve", "ned")] == [
        stranger,
        named,
    ]


@pytest.mark.parametrize(
    ("required", "addressed", "heard"),
    [(True, True, "message"), (True, False, "noted"), (False, False, "message")],
)
def test_in_a_group_a_mention_may_be_required(required: bool, addressed: bool, heard: str) -> None:
    house = access(replace(OPEN_GROUP, mention_required=required), ned="owner")
    assert spoken(house.seat(group(person="ned", addressed=addressed))) == heard


def test_a_group_never_hears_of_pairing() -> None:
    house = access(OPEN_GROUP)
    assert not house.may_ask_in(group(person="eve"))
    assert house.may_ask_in(said(person="eve"))


@pytest.mark.parametrize("dm", ["allowlist", "open", "off"])
def test_strangers_may_ask_only_where_pairing_is_offered(dm: Any) -> None:
    assert not access(Policy(dm=dm)).may_ask_in(said(person="eve"))


def test_bots_are_noted_whoever_they_are() -> None:
    bot = Person(PersonId("ada"), "Ada", bot=True)
    assert access(Policy(dm="open")).seat(replace(said(), person=bot)).ending == "noted"
    assert access(ada="owner").seat(replace(said("/stop"), person=bot)).ending == "noted"


@pytest.mark.parametrize(
    "policy", [Policy(dm="open"), Policy(dm="allowlist", people=frozenset({"ada"}))]
)
def test_who_was_revoked_is_refused_although_the_door_is_open(policy: Policy) -> None:
    house = access(policy)
    house.learn([row("ada", "revoked")])
    assert house.seat(said()).ending == "refused"
    assert house.seat(said("/help")).ending == "refused"
    assert not house.may_ask_in(said())
    assert not house.may_answer(asking(), said())


def test_the_configuration_wins_over_what_was_said_at_run_time() -> None:
    house = access(ada="guest")
    house.learn([row("ada", "revoked"), row("bob", "admin")])
    assert house.standing("fake", "bot", "ada") == "guest"
    assert house.standing("fake", "bot", "bob") == "admin"
    assert house.seat(said()).kind == "message"


def test_who_still_asks_to_be_let_in_is_a_stranger() -> None:
    house = access()
    house.learn([row("ada", "asking")])
    assert house.standing("fake", "bot", "ada") is None
    assert house.let_in(said(), private=True) is None


def test_somebody_of_another_account_is_somebody_else() -> None:
    house = access()
    house.learn([row("ada", "admin")])
    assert house.standing("fake", "other", "ada") is None


@pytest.mark.parametrize("channel", ["web", "console", "house"])
def test_whoever_is_at_the_machine_is_the_owner(channel: str) -> None:
    house = access(Policy(dm="off", groups="off"))
    here = said(at=Address(channel, "local", ChatId("main")), private=True)
    assert (house.standing(channel, "local", "ada"), house.seat(here).kind) == ("owner", "message")


@pytest.mark.parametrize("default", ["guest", "user", "admin"])
def test_people_let_in_by_an_open_door_have_the_default_role(default: Any) -> None:
    assert access(Policy(dm="open"), default=default).let_in(said(), private=True) == default
    assert access(OPEN_GROUP, default=default).let_in(group(), private=False) == default


# commands


@pytest.mark.parametrize(
    "text",
    [
        "/stop",
        "/STOP",
        " /stop ",
        "/stop@ohmo_bot",
        "/stop@ohmo_bot now",
        "/approve session",
        "/mode\nplan",
    ],
)
def test_a_command_is_known_in_all_its_spellings(text: str) -> None:
    assert access(ada="user").seat(said(text)).kind == "command"


@pytest.mark.parametrize(
    "text",
    [
        "/stopp",
        "/etc/passwd",
        "/usr/bin is full",
        "//stop",
        "stop",
        "please /stop",
        "/",
        "/stop!",
        "/stop-it",
    ],
)
def test_what_is_no_command_of_ours_is_a_message(text: str) -> None:
    assert access(ada="user").seat(said(text)).kind == "message"


def test_a_guest_may_command_too_and_intake_says_what() -> None:
    assert access(ada="guest").seat(said("/mode plan")).kind == "command"


# answers in words


def test_words_answer_the_open_question_of_the_person_who_is_asked() -> None:
    house = access(asked=[asking()], ada="user", bob="user", ned="admin", gus="guest")
    heard = [house.seat(said("red", person=person)).kind for person in ("ada", "bob", "ned", "gus")]
    # an admin's words are their own; their button would count
    assert heard == ["answer", "message", "message", "message"]


def test_a_message_with_a_file_is_no_answer() -> None:
    picture = Attachment("f1", "a.png", "image/png", 1)
    assert (
        access(asked=[asking()], ada="user").seat(replace(said(""), attachments=(picture,))).kind
        == "message"
    )


def test_words_never_answer_a_permission() -> None:
    assert access(asked=[asking("permission")], ada="owner").seat(said("yes")).kind == "message"


def test_words_to_somebody_else_in_the_group_are_no_answer() -> None:
    house = access(
        replace(OPEN_GROUP, mention_required=False), asked=[asking(at=place("group"))], ada="user"
    )
    assert [house.seat(group("red", addressed=addressed)).kind for addressed in (True, False)] == [
        "answer",
        "message",
    ]


def test_words_elsewhere_are_no_answer() -> None:
    assert (
        access(asked=[asking(at=place("dm:ada", "7"))], ada="user").seat(said("red")).kind
        == "message"
    )


def test_a_command_is_a_command_although_a_question_is_open() -> None:
    assert access(asked=[asking()], ada="user").seat(said("/stop")).kind == "command"


# who may answer


@pytest.mark.parametrize(
    ("role", "own", "others"),
    [
        ("owner", True, True),
        ("admin", True, True),
        ("user", True, False),
        ("guest", False, False),
        (None, False, False),
    ],
)
def test_who_may_answer_whose_question(role: Any, own: bool, others: bool) -> None:
    house = access(**({"ada": role} if role else {}))
    assert (
        house.may_answer(asking(person="ada"), said()),
        house.may_answer(asking(person="bob"), said()),
    ) == (own, others)


def test_a_person_of_the_same_name_behind_another_door_is_somebody_else() -> None:
    house = access(ada="user")
    elsewhere = asking(at=place(channel="elsewhere"))
    assert not house.may_answer(elsewhere, said())


def test_a_closed_group_makes_nobody_an_admin() -> None:
    """A pressed button does not say whether its chat is private; the kinder reading must not be
    kinder than the owner."""
    pressed = Answer(
        key="p",
        address=place("dm:eve"),
        person=Person(PersonId("eve"), "Eve"),
        at=BIRTH,
        order="1",
        message=MessageId("m"),
        choice="x",
        token="t",
    )
    assert not access(default="admin").may_answer(asking(person="bob"), pressed)


# seats


def test_a_mind_for_each_person_keeps_them_apart() -> None:
    house = access(OPEN_GROUP, per_person=True)
    assert house.seat(group(person="ada")).person_scope == "ada"
    assert access(OPEN_GROUP).seat(group(person="ada")).person_scope == ""


def test_at_the_machine_there_is_one_mind() -> None:
    here = said(at=Address("web", "local", ChatId("main")), private=True)
    assert access(per_person=True).seat(here).person_scope == ""


def test_everybody_answers_the_question_of_their_own_mind() -> None:
    waiting = [asking(person="ada", at=place("group")), asking(person="bob", at=place("group"))]
    house = access(OPEN_GROUP, asked=waiting, per_person=True, ned="admin")
    assert [house.seat(group("red", person=person)).kind for person in ("ada", "bob", "ned")] == [
        "answer",
        "answer",
        "message",
    ]


def test_edits_reactions_answers_and_wakes_have_seats_of_their_own() -> None:
    common: dict[str, Any] = {
        "key": "k",
        "address": place(),
        "person": Person(PersonId("ada"), "Ada"),
        "at": BIRTH,
        "order": "1",
    }
    message = MessageId("m")
    seats = [
        access().seat(Edited(message=message, text="x", **common)),
        access().seat(Reacted(message=message, emoji="x", added=True, **common)),
        access().seat(Answer(message=message, choice="x", token="t", **common)),
        access(per_person=True).seat(Wake("w", "cron", place(), None, "owner", "go", BIRTH)),
    ]
    assert [(seat.kind, seat.ending) for seat in seats] == [
        ("edit", None),
        ("reaction", None),
        ("answer", None),
        ("wake", None),
    ]


def test_an_album_waits_for_its_pieces() -> None:
    house = access(ada="user")
    assert house.seat(replace(said(), album="a1")).hold == ALBUM_HOLD
    assert house.seat(said()).hold == 0


def test_a_seat_depends_on_nothing_but_what_is_handed_in() -> None:
    house = access(OPEN_GROUP, asked=[asking()], ada="user")
    things = [said(), said("/stop"), group(person="eve"), said(person="eve")]
    assert [house.seat(one) for one in things] == [house.seat(one) for one in things]
    assert house.known("fake", "bot", "eve") is None


def test_a_configuration_that_is_coming_holds_at_once_for_whoever_speaks() -> None:
    house = access(OPEN_GROUP, ada="admin", bob="user", eve="owner")
    roles = Roles({"fake:ada": "guest", "fake:bob": "owner"})
    house.adopt(lambda channel, account: Policy(), roles)
    assert [house.standing("fake", "bot", person) for person in ("ada", "bob", "eve")] == [
        "guest",
        "owner",
        None,
    ]
    assert house.let_in(said(person="eve"), private=True) is None
