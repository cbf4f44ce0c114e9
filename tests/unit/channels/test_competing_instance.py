"""Which posts of our account somebody else certainly said, and when a channel leaves them the
place."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from itertools import product
from pathlib import Path

import pytest

from channels.competing_instance import CONFLICTS, REMEMBERED, CompetingInstance
from channels.errors import AuthFailed, InUse
from ohmo.ambient import derived
from tests.channels.second import Clock, key_of, millis, note

CAME = datetime(2026, 11, 22, 12, tzinfo=UTC)
LATER = CAME + timedelta(minutes=3)


@pytest.fixture
def clock() -> Clock:
    return Clock(CAME)


@pytest.fixture
def competing(tmp_path: Path, clock: Clock) -> CompetingInstance:
    made = CompetingInstance(tmp_path, clock)
    clock.now = LATER
    return made


def stops(competing: CompetingInstance) -> None:
    for number in range(CONFLICTS - 1):
        competing.conflict("it happened", str(number))
    with pytest.raises(InUse):
        competing.conflict("it happened", "once more")


def test_a_key_of_another_house_that_was_made_after_we_came_is_a_sign(
    competing: CompetingInstance,
) -> None:
    assert competing.said(key_of(LATER), LATER)
    assert competing.said(f"{key_of(LATER)[:-1]}1z", LATER)


def test_what_a_former_life_or_a_dead_house_said_is_none(competing: CompetingInstance) -> None:
    """Killed with a send on its way, or a backup put back elsewhere: no key of theirs was made
    after we came."""
    assert not competing.said(key_of(CAME - timedelta(milliseconds=5)), LATER)
    # shown before, by a clock that is ahead
    assert not competing.said(key_of(LATER), CAME - timedelta(seconds=1))


def test_our_own_echo_is_none(competing: CompetingInstance) -> None:
    key = key_of(LATER)
    competing.send(key)
    assert not competing.said(key, LATER)


@pytest.mark.parametrize(
    "key",
    [
        None,
        7,
        "",
        "hello",
        "m-1",
        "1465654321987654321",
        f"{derived('notice', 'x')}.0",
        "zzzzzzzzz0000000000000.0",
    ],
)
def test_a_script_with_our_token_is_none(competing: CompetingInstance, key: object) -> None:
    assert not competing.said(key, LATER)


def test_the_third_conflict_in_a_row_is_enough(competing: CompetingInstance) -> None:
    for _ in range(2):
        competing.conflict("it happened")
    competing.calm()
    for _ in range(2):
        competing.conflict("it happened")
    with pytest.raises(
        InUse,
        match=r"it happened \(3 times in a row\): stop the other one, or take a token of your own",
    ):
        competing.conflict("it happened")
    assert issubclass(InUse, AuthFailed)


def test_signs_that_are_an_hour_apart_do_not_add_up(
    competing: CompetingInstance, clock: Clock
) -> None:
    for number in range(10):
        competing.conflict("it happened", f"{number}")
        clock.now += REMEMBERED
        competing.conflict("it happened", f"{number} and a half")
        clock.now += REMEMBERED / 2


def test_where_either_may_leave_who_lost_most_of_three_does_and_the_other_one_stays(
    tmp_path: Path,
) -> None:
    for rounds in product("ab", repeat=3):
        left: list[str] = []
        for name in "ab":
            one = CompetingInstance(tmp_path / "".join(rounds) / name, Clock(LATER))
            for count, loser in enumerate(rounds):
                try:
                    one.conflict("both answered", str(count), lost=loser == name)
                except InUse:
                    assert count == 2
                    left.append(name)
        assert left == [max("ab", key=rounds.count)]


def test_several_signs_of_one_conflict_count_once(competing: CompetingInstance) -> None:
    for _ in range(5):
        competing.conflict("it happened", "an answer in five parts")


def test_after_a_stop_one_conflict_is_enough_for_an_hour_also_in_the_next_life(
    competing: CompetingInstance, tmp_path: Path, clock: Clock
) -> None:
    stops(competing)
    stopped, clock.now = clock.now, clock.now + timedelta(minutes=5)
    again = CompetingInstance(tmp_path, clock)
    assert again.rested == stopped
    assert again.said(key_of(stopped + timedelta(minutes=1)), stopped + timedelta(minutes=1)), (
        "they went on while we rested"
    )
    with pytest.raises(InUse, match="still"):
        again.conflict("it happened")
    clock.now += REMEMBERED
    assert again.rested is None
    again.conflict("it happened")
    assert CompetingInstance(tmp_path, clock).rested is None


@pytest.mark.parametrize("again", [2, 3])
def test_a_sign_that_may_be_a_former_life_is_not_enough_after_a_stop_either(
    competing: CompetingInstance, tmp_path: Path, clock: Clock, again: int
) -> None:
    stops(competing)
    back = CompetingInstance(tmp_path, clock)
    for _ in range(again - 1):
        back.conflict("it happened", again=again)
    with pytest.raises(InUse, match="still"):
        back.conflict("it happened", again=again)


def test_a_lost_connection_costs_no_place(tmp_path: Path, clock: Clock) -> None:
    for _ in range(3):
        assert CompetingInstance(tmp_path, clock, CAME).since == millis(CAME)
        clock.now += timedelta(minutes=10)
    assert CompetingInstance(tmp_path, clock).since == millis(clock.now), (
        "a house that does not say when it began begins now"
    )


def test_who_left_its_place_is_younger_than_everybody_and_keeps_the_place_it_comes_back_to(
    tmp_path: Path, clock: Clock
) -> None:
    clock.now = LATER
    stops(CompetingInstance(tmp_path, clock, CAME))
    clock.now += timedelta(minutes=5)
    assert CompetingInstance(tmp_path, clock, CAME).since == millis(clock.now)
    clock.now += timedelta(minutes=5)
    back = CompetingInstance(tmp_path, clock, CAME)
    back.send(key_of(clock.now))
    came = clock.now
    for _ in range(3):
        clock.now += timedelta(minutes=40)
        assert CompetingInstance(tmp_path, clock, CAME).since == millis(came)
    assert CompetingInstance(tmp_path, clock, clock.now).since == millis(clock.now), (
        "another life begins anew"
    )


@pytest.mark.parametrize(
    "damage",
    [
        "",
        "[",
        '"x"',
        "[1]",
        "1e400",
        "-5e300",
        "null",
        '{"stopped": 1, "silent": true, "back": "x"}',
    ],
)
def test_a_note_that_cannot_be_read_counts_as_none(tmp_path: Path, damage: str) -> None:
    note(tmp_path).write_text(damage)
    assert CompetingInstance(tmp_path, Clock(CAME)).rested is None


def test_without_a_folder_nothing_is_remembered() -> None:
    competing = CompetingInstance(None, Clock(CAME))
    stops(competing)
    assert competing.rested is None
