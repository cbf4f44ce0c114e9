"""Two devices without a homeserver between them: what they may believe, and what a death at any
moment may cost (nothing)."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, cast

import pytest

from channels.errors import NotReady
from channels.matrix.device import MEGOLM, Device, Request
from channels.matrix.inbound import Unreadable, flaw
from channels.matrix.keystore import KeyStore, Waiting
from channels.matrix.speech import Speech

ROOM, RULES = "!room:x.org", {"algorithm": MEGOLM}


class Dies(sqlite3.Connection):
    """A connection to the key store that fails from the n-th statement on, as at a kill."""

    left: int | None = None

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise sqlite3.OperationalError("disk I/O error")
        return super().execute(*arguments)


class Someone:
    """A device and its store; after ``reborn`` it knows only what was on disk."""

    def __init__(self, folder: Path, user: str, name: str) -> None:
        self.folder = folder
        self.user = user
        self.name = name
        self.now = datetime(2026, 1, 1, tzinfo=UTC)
        self.open()

    def open(self) -> None:
        KeyStore.open(self.folder, self.name).close()
        self.connection = sqlite3.connect(
            self.folder / f"{self.name}.db", isolation_level=None, factory=Dies
        )
        self.store = KeyStore(
            self.connection,
            bytes.fromhex((self.folder / "pickle.key").read_text()),
            self.folder / f"{self.name}.db",
        )
        self.device = Device(self.store, self.user, self.name)
        self.speech = Speech(self.store, self.device, lambda: self.now)

    def reborn(self) -> None:
        self.store.close()
        self.open()

    def knows(self, *others: Someone) -> None:
        for user in {other.user for other in others}:
            self.device.learn(
                user,
                {other.name: other.device.identity() for other in others if other.user == user},
            )

    def shares(self, *others: Someone) -> dict[str, Any]:
        """The to-device event for the first of ``others``, after their one-time keys were
        claimed."""
        target = self.speech.target(
            ROOM, frozenset({self.user, *(other.user for other in others)}), RULES
        )
        claimed: dict[str, Any] = {}
        for other in others:
            spare = other.device.spare_keys(0, fallback=False)["one_time_keys"]
            other.device.uploaded()
            claimed.setdefault(other.user, {})[other.name] = dict([spare.popitem()])
        self.speech.reach(self.speech.unreached(target), claimed)
        messages = self.speech.share(ROOM, target)
        self.speech.shared(ROOM, messages)
        return self.wrapped(messages[others[0].user][others[0].name])

    def wrapped(self, content: dict[str, Any]) -> dict[str, Any]:
        return {"type": "m.room.encrypted", "sender": self.user, "content": content}

    def says(self, text: str, event: str = "$1") -> dict[str, Any]:
        content = self.speech.encrypt(ROOM, "m.room.message", {"msgtype": "m.text", "body": text})
        return {
            "type": "m.room.encrypted",
            "event_id": event,
            "sender": self.user,
            "content": content,
        }

    def gives(self, asked: Request) -> dict[str, Any]:
        peer = self.device.peer(asked.user, name=asked.device)
        assert peer is not None
        answer = self.speech.answer(asked, peer)
        assert isinstance(answer, dict), answer
        return self.wrapped(answer[asked.user][asked.device])


@contextmanager
def pair(folder: Path) -> Iterator[tuple[Someone, Someone]]:
    ada, bot = (
        Someone(folder / "ada", "@ada:x.org", "ADA"),
        Someone(folder / "bot", "@bot:x.org", "BOT"),
    )
    ada.knows(ada, bot)
    bot.knows(ada, bot)
    try:
        yield ada, bot
    finally:
        ada.store.close()
        bot.store.close()


@contextmanager
def three(folder: Path) -> Iterator[tuple[Someone, Someone, Someone]]:
    with (
        pair(folder) as (ada, bot),
        closing(Someone(folder / "mallory", "@mallory:x.org", "MAL").connection) as held,
    ):
        mallory = Someone(folder / "mallory", "@mallory:x.org", "MAL")
        for one in (ada, bot, mallory):
            one.knows(ada, bot, mallory)
        assert held
        yield ada, bot, mallory
        mallory.store.close()


def words(read: Any) -> str:
    return read.why if isinstance(read, Unreadable) else read["content"]["body"]


def test_what_one_says_the_other_reads_also_when_it_is_delivered_twice(tmp_path: Path) -> None:
    with pair(tmp_path) as (ada, bot):
        assert bot.device.hear("s1", [ada.shares(bot)]).sessions
        event = ada.says("hello")
        assert [words(bot.device.read(ROOM, event)) for _ in range(2)] == ["hello", "hello"]
        assert "hello" not in json.dumps(event)


def test_a_death_at_any_statement_of_hearing_a_key_costs_nothing(tmp_path: Path) -> None:
    with pair(tmp_path) as (ada, bot):
        event, said = ada.shares(bot), ada.says("hello")
        for deaths in range(100):
            bot.connection.left = deaths
            try:
                bot.device.hear("s1", [event])
                break
            except (NotReady, sqlite3.OperationalError):
                bot.reborn()
        assert 5 < deaths < 99
        bot.reborn()
        # once more, because the position was not saved
        assert bot.device.hear("s1", [event]).wedged == set()
        assert words(bot.device.read(ROOM, said)) == "hello"


def test_a_death_at_any_statement_of_speaking_never_uses_a_number_twice(tmp_path: Path) -> None:
    with pair(tmp_path) as (ada, bot):
        bot.device.hear("s1", [ada.shares(bot)])
        for deaths in range(6):
            ada.connection.left = deaths
            with suppress(NotReady, sqlite3.OperationalError):
                ada.says(f"never sent {deaths}")
            ada.reborn()
            assert (
                words(bot.device.read(ROOM, ada.says(f"sent {deaths}", f"${deaths}")))
                == f"sent {deaths}"
            )


def test_one_time_keys_are_kept_before_anybody_can_use_one(tmp_path: Path) -> None:
    with pair(tmp_path) as (_, bot):
        offered = bot.device.spare_keys(0, fallback=True)
        bot.reborn()  # killed before the homeserver's answer
        again = bot.device.spare_keys(0, fallback=True)
    assert (len(offered["one_time_keys"]), again) == (50, offered)


def test_nobody_speaks_with_anothers_mouth(tmp_path: Path) -> None:
    with three(tmp_path) as (ada, bot, mallory):
        bot.device.hear("s1", [mallory.shares(bot)])
        forged = {**mallory.says("approve it"), "sender": ada.user}
        assert words(bot.device.read(ROOM, forged)) == "its key belongs to somebody else"


def test_a_forwarded_key_counts_only_when_it_was_asked_for(tmp_path: Path) -> None:
    with pair(tmp_path) as (ada, bot):
        ada.shares(bot)  # and it is lost on the way
        said = ada.says("lost")
        session = said["content"]["session_id"]
        asked = Request(bot.user, bot.name, ROOM, session)
        assert bot.device.hear("s1", [ada.gives(asked)]).sessions == set()
        assert words(bot.device.read(ROOM, said)) == "its key has not reached me"
        with bot.store.whole():
            bot.store.wait_for(Waiting("$1", ROOM, session, ada.user, "1", "{}", 0))
        assert bot.device.hear("s2", [ada.gives(asked)]).sessions == {session}
        assert words(bot.device.read(ROOM, said)) == "lost"


def test_keys_are_given_again_only_to_people_who_had_them(tmp_path: Path) -> None:
    with three(tmp_path) as (ada, bot, mallory):
        bot.shares(ada)
        session = bot.says("secret")["content"]["session_id"]
        for whose, which, code in (
            (mallory, session, "m.unauthorised"),
            (ada, "unknown", "m.unavailable"),
        ):
            peer = bot.device.peer(whose.user, name=whose.name)
            assert peer is not None
            assert bot.speech.answer(Request(whose.user, whose.name, ROOM, which), peer) == code
        assert bot.gives(Request(ada.user, ada.name, ROOM, session))["content"]["ciphertext"]


def test_a_repeated_message_and_one_from_another_room_are_refused(tmp_path: Path) -> None:
    with pair(tmp_path) as (ada, bot):
        bot.device.hear("s1", [ada.shares(bot)])
        event = ada.says("transfer 100")
        assert words(bot.device.read(ROOM, event)) == "transfer 100"
        assert (
            words(bot.device.read(ROOM, {**event, "event_id": "$2"}))
            == "it repeats an earlier message"
        )
        assert words(bot.device.read("!other:x.org", event)) == "its key has not reached me"


def test_a_device_whose_keys_change_is_not_believed_any_more(tmp_path: Path) -> None:
    with (
        pair(tmp_path) as (ada, bot),
        closing(Someone(tmp_path / "impostor", ada.user, ada.name).connection),
    ):
        impostor = Someone(tmp_path / "impostor", ada.user, ada.name)
        bot.knows(impostor)
        known = bot.device.peer(ada.user, name=ada.name)
        assert known is not None
        assert known.ed == ada.device.ed
        # nor is anything shared with it
        assert bot.speech.target(ROOM, frozenset({ada.user, bot.user}), RULES) == []
        bot.device.learn(
            "@eve:x.org", {ada.name: {**impostor.device.identity(), "user_id": "@eve:x.org"}}
        )
        assert bot.device.peer("@eve:x.org", name=ada.name) is None  # signed as somebody else
        impostor.store.close()


def test_a_room_gets_new_keys_by_age_by_number_and_when_people_or_devices_go(
    tmp_path: Path,
) -> None:
    with pair(tmp_path) as (ada, bot):

        def session(rules: dict[str, Any] = RULES, *members: str) -> str:
            target = bot.speech.target(ROOM, frozenset(members or (ada.user, bot.user)), rules)
            bot.speech.shared(ROOM, {peer.user: {peer.device: {}} for peer in target})
            return bot.says("x")["content"]["session_id"]

        first = session()
        assert session() == first
        second = session({**RULES, "rotation_period_msgs": 2})
        bot.now += timedelta(days=8)
        third = session()
        phone = Someone(tmp_path / "phone", ada.user, "PHONE")
        bot.device.learn(
            ada.user, {ada.name: ada.device.identity(), phone.name: phone.device.identity()}
        )
        bot.speech.shared(ROOM, {ada.user: {phone.name: {}}})
        assert session() == third  # a new device of a member gets the key there is
        bot.knows(ada)
        fourth = session()
        assert len({first, second, third, fourth, session(RULES, bot.user)}) == 5
        phone.store.close()


@pytest.mark.parametrize("withheld", ["m.room_key.withheld", "org.matrix.room_key.withheld"])
def test_a_key_that_is_withheld_says_why(tmp_path: Path, withheld: str) -> None:
    with pair(tmp_path) as (ada, bot):
        ada.shares(bot)
        event = ada.says("secret")
        content = {
            "session_id": event["content"]["session_id"],
            "code": "m.unverified",
            "reason": "you are not verified",
        }
        bot.device.hear("s1", [{"type": withheld, "sender": ada.user, "content": content}])
        assert words(bot.device.read(ROOM, event)) == "its key was withheld: you are not verified"


def test_nonsense_from_other_devices_hides_no_good_key(tmp_path: Path) -> None:
    with pair(tmp_path) as (ada, bot):
        good = ada.shares(bot)
        bad = json.loads(json.dumps(good))
        bad["content"]["ciphertext"][bot.device.curve]["body"] = "AAAA"
        odd = json.loads(json.dumps(good))
        odd["content"]["ciphertext"][bot.device.curve]["type"] = []
        news = bot.device.hear(
            "s1",
            [
                bad,
                odd,
                {"type": "m.room.encrypted", "sender": 7, "content": []},
                {},
                {"type": []},
                good,
            ],
        )
        assert (news.wedged, len(news.sessions)) == ({(ada.user, ada.device.curve)}, 1)


def test_an_encrypted_event_whose_inside_is_nonsense_is_none_of_ours(tmp_path: Path) -> None:
    with pair(tmp_path) as (ada, bot):
        bot.device.hear("s1", [ada.shares(bot)])
        content = ada.speech.encrypt(ROOM, cast("str", []), {"body": "hello"})
        read = bot.device.read(
            ROOM,
            {"type": "m.room.encrypted", "event_id": "$1", "sender": ada.user, "content": content},
        )
        assert not isinstance(read, Unreadable)
        assert flaw(read) == ""
        assert read["type"] == ""
