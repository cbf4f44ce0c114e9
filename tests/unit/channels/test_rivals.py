"""Which posts of our account somebody else certainly said, and when a channel leaves them the place."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from channels.errors import AuthFailed, InUse
from channels.rivals import CONFLICTS, REMEMBERED, Rivals
from ohmo.ids import IdSource, derived

CAME = datetime(2026, 11, 22, 12, tzinfo=UTC)
LATER = CAME + timedelta(minutes=3)


class Clock:
    now = CAME

    def __call__(self) -> datetime:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def rivals(tmp_path: Path, clock: Clock) -> Rivals:
    made = Rivals(tmp_path, clock)
    clock.now = LATER
    return made


def made_at(moment: datetime) -> str:
    return f"{IdSource(lambda: round(moment.timestamp() * 1000))()}.0"


def stops(rivals: Rivals) -> None:
    for number in range(CONFLICTS - 1):
        rivals.conflict("it happened", str(number))
    with pytest.raises(InUse):
        rivals.conflict("it happened", "once more")


def test_a_key_of_another_house_that_was_made_after_we_came_is_a_sign(rivals: Rivals) -> None:
    assert rivals.said(made_at(LATER), LATER)
    assert rivals.said(f"{made_at(LATER)[:-1]}1z", LATER)


def test_what_a_former_life_or_a_dead_house_said_is_none(rivals: Rivals) -> None:
    """Killed with a send on its way, or a backup put back elsewhere: no key of theirs was made after we came."""
    assert not rivals.said(made_at(CAME - timedelta(milliseconds=5)), LATER)
    assert not rivals.said(made_at(LATER), CAME - timedelta(seconds=1))  # shown before, by a clock that is ahead


def test_our_own_echo_is_none(rivals: Rivals) -> None:
    key = made_at(LATER)
    rivals.send(key)
    assert not rivals.said(key, LATER)


@pytest.mark.parametrize(
    "key", [None, 7, "", "hello", "m-1", "1465654321987654321", f"{derived('notice', 'x')}.0", "zzzzzzzzz0000000000000.0"]
)
def test_a_script_with_our_token_is_none(rivals: Rivals, key: object) -> None:
    assert not rivals.said(key, LATER)


def test_the_third_conflict_in_a_row_is_enough(rivals: Rivals) -> None:
    for _ in range(2):
        rivals.conflict("it happened")
    rivals.calm()
    for _ in range(2):
        rivals.conflict("it happened")
    with pytest.raises(InUse, match=r"it happened \(3 times in a row\): stop the other one, or take a token of your own"):
        rivals.conflict("it happened")
    assert issubclass(InUse, AuthFailed)


def test_several_signs_of_one_conflict_count_once(rivals: Rivals) -> None:
    for _ in range(5):
        rivals.conflict("it happened", "an answer in five parts")


def test_after_a_stop_one_conflict_is_enough_for_an_hour_also_in_the_next_life(rivals: Rivals, tmp_path: Path, clock: Clock) -> None:
    stops(rivals)
    stopped, clock.now = clock.now, clock.now + timedelta(minutes=5)
    again = Rivals(tmp_path, clock)
    assert again.rested == stopped
    assert again.said(made_at(stopped + timedelta(minutes=1)), stopped + timedelta(minutes=1)), "they went on while we rested"
    with pytest.raises(InUse, match="still"):
        again.conflict("it happened")
    clock.now += REMEMBERED
    assert again.rested is None
    again.conflict("it happened")
    assert Rivals(tmp_path, clock).rested is None


@pytest.mark.parametrize("damage", ["", "[", '"x"', "[1]", "1e400", "-5e300", "null"])
def test_a_note_that_cannot_be_read_counts_as_none(tmp_path: Path, damage: str) -> None:
    (tmp_path / "conflict.json").write_text(damage)
    assert Rivals(tmp_path, Clock()).rested is None


def test_without_a_folder_nothing_is_remembered() -> None:
    rivals = Rivals(None, Clock())
    stops(rivals)
    assert rivals.rested is None
