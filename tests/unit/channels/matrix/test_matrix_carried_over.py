"""A device whose keys were kept by libolm goes on with them:
tests/unit/channels/matrix/before_vodozemac says what it holds."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from channels.errors import AuthFailed
from channels.matrix.device import Device, Request
from channels.matrix.keystore import KeyStore
from channels.matrix.speech import Speech
from tests.unit.channels.matrix.test_matrix_device import ROOM, RULES, words

BEFORE = Path(__file__).parent / "before_vodozemac"
TOLD: dict[str, Any] = json.loads((BEFORE / "told.json").read_text())


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("BOT.db", "pickle.key"):
        shutil.copy(BEFORE / name, tmp_path / name)
        (tmp_path / name).chmod(0o600)
    return tmp_path


@pytest.fixture
def store(folder: Path) -> Iterator[KeyStore]:
    with closing(KeyStore.open(folder, "BOT")) as made:
        yield made


def bot(store: KeyStore) -> Device:
    return Device(store, "@bot:x.org", "BOT")


def test_it_is_the_same_device(store: KeyStore) -> None:
    device = bot(store)
    assert (device.new, device.curve, device.ed) == (False, TOLD["curve"], TOLD["ed"])


def test_what_was_said_before_is_read_and_not_as_a_replay(store: KeyStore) -> None:
    device = bot(store)
    assert words(device.read(ROOM, TOLD["read"])) == "before the change"
    assert (
        words(device.read(ROOM, {**TOLD["read"], "event_id": "$other"}))
        == "it repeats an earlier message"
    )
    assert words(device.read(ROOM, {**TOLD["mine"], "sender": device.user})) == "my own words"


def test_what_was_said_while_it_was_away_is_read_by_every_key_that_was_left_with_the_homeserver(
    store: KeyStore,
) -> None:
    device = bot(store)
    news = device.hear("s2", TOLD["keys"])
    assert (len(news.sessions), news.wedged) == (3, set())
    assert [words(device.read(ROOM, event)) for event in TOLD["later"]] == [
        "same session, later",
        "a new session, over the Olm session there was",
        "by an unspent one-time key",
        "by the fallback key",
    ]


def test_its_next_words_in_a_room_begin_a_session_of_their_own_and_the_old_one_is_still_given_to_who_had_it(
    store: KeyStore,
) -> None:
    device = bot(store)
    speech = Speech(store, device, lambda: datetime(2027, 1, 1, tzinfo=UTC))
    ada = device.peer("@ada:x.org", name="ADA")
    assert ada is not None
    target = speech.target(ROOM, frozenset({ada.user, device.user}), RULES)
    assert [(peer.user, peer.device) for peer in target] == [(ada.user, ada.device)]
    assert list(speech.share(ROOM, target)) == [ada.user], "over the Olm session there was"
    old = TOLD["mine"]["content"]["session_id"]
    assert speech.encrypt(ROOM, "m.room.message", {"body": "x"})["session_id"] != old
    assert list(speech.answer(Request(ada.user, ada.device, ROOM, old), ada)) == [ada.user]


def test_once_carried_over_it_stays_so(folder: Path) -> None:
    for _ in range(2):
        with closing(KeyStore.open(folder, "BOT")) as store:
            assert words(bot(store).read(ROOM, TOLD["later"][0])) == "same session, later"
    with closing(sqlite3.connect(folder / "BOT.db")) as connection:
        assert connection.execute("PRAGMA user_version").fetchone() == (2,)


class Dies(sqlite3.Connection):
    left = 0

    def execute(self, *arguments: Any) -> sqlite3.Cursor:
        Dies.left -= 1
        if Dies.left < 0:
            raise KeyboardInterrupt
        return super().execute(*arguments)


def test_a_death_at_any_statement_of_carrying_over_costs_nothing(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = sqlite3.connect
    monkeypatch.setattr(
        sqlite3, "connect", lambda *given, **more: real(*given, **more, factory=Dies)
    )
    for deaths in range(100):
        Dies.left = deaths
        try:
            store = KeyStore.open(folder, "BOT")
            break
        except KeyboardInterrupt:
            continue
    assert 10 < deaths < 99
    Dies.left = 1000
    with closing(store):
        assert (len(bot(store).hear("s2", TOLD["keys"]).sessions), bot(store).ed) == (3, TOLD["ed"])


def test_a_session_that_is_damaged_is_left_behind_with_a_word_and_the_others_are_not(
    folder: Path, caplog: pytest.LogCaptureFixture
) -> None:
    lost = TOLD["mine"]["content"]["session_id"]
    with closing(sqlite3.connect(folder / "BOT.db")) as connection, connection:
        connection.execute("UPDATE hearing SET pickle = x'41414141' WHERE id = ?", (lost,))
    with closing(KeyStore.open(folder, "BOT")) as store:
        device = bot(store)
        assert words(device.read(ROOM, TOLD["later"][0])) == "same session, later"
        assert (
            words(device.read(ROOM, {**TOLD["mine"], "sender": device.user}))
            == "its key has not reached me"
        )
    assert [
        record.getMessage()
        for record in caplog.records
        if lost in record.getMessage() and "left behind" in record.getMessage()
    ]


def test_the_key_of_another_home_opens_nothing_and_changes_nothing(folder: Path) -> None:
    right = (folder / "pickle.key").read_text()
    (folder / "pickle.key").write_text("0" * 64)
    with pytest.raises(
        AuthFailed, match=r"pickle\.key does not open BOT\.db .*: put both back from a backup"
    ):
        KeyStore.open(folder, "BOT")
    (folder / "pickle.key").write_text("not a key at all, and long enough to be one")
    with pytest.raises(AuthFailed, match=r"pickle\.key is damaged: put it back"):
        KeyStore.open(folder, "BOT")
    (folder / "pickle.key").write_text(right)
    with closing(KeyStore.open(folder, "BOT")) as store:
        assert bot(store).ed == TOLD["ed"]
