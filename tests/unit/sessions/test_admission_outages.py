"""How long a turn waits for a model that does not answer, and who is charged with the death of the
process: only a turn that ran."""

from __future__ import annotations

import asyncio
from dataclasses import replace

import pytest

from ohmo.ambient import IdSource
from ohmo.contracts.agent import Failed
from ohmo.sessions.admission import ALONE, BESIDE_OTHERS, DEATHS, QUIET, Outages, PoisonTurns
from ohmo_testing.scripted import Says
from tests.unit.sessions.pool_rig import PLACE, Rig, eventually

BROKEN = Failed("500: it broke", 0.0, served=True)
AWAY = Failed("cannot be reached", 0.0)


@pytest.mark.parametrize(("others", "rounds"), [(False, ALONE), (True, BESIDE_OTHERS)])
def test_what_the_server_always_breaks_on_is_given_up_after_bounded_tries(
    others: bool, rounds: int
) -> None:
    outages, waited = Outages(), 0.0
    for _ in range(rounds - 1):
        pause = outages.pause("t1", BROKEN)
        assert pause is not None
        waited += pause
        if others:
            outages.over("t2", answered=True)
    assert outages.pause("t1", BROKEN) is None
    assert waited < (60 if others else 3_700)
    assert outages.pause("t1", BROKEN) is not None, "tried again by a person it begins anew"


def test_a_model_that_is_away_is_waited_for_without_end_and_so_is_one_that_asks_for_time() -> None:
    outages = Outages()
    assert all(outages.pause("t1", AWAY) is not None for _ in range(1_000))
    assert outages.pause("t2", Failed("429", 700.0)) == 700.0


def test_an_outage_in_between_begins_the_count_anew() -> None:
    outages = Outages()
    pauses = [
        outages.pause("t1", failed) for _ in range(20) for failed in (*[BROKEN] * (ALONE - 1), AWAY)
    ]
    assert None not in pauses


def test_it_cannot_be_reached_only_as_long_as_it_answered_nobody() -> None:
    outages = Outages()
    outages.pause("t1", BROKEN)
    assert outages.why == "500: it broke"
    outages.over("t2", answered=True)
    assert outages.why == ""
    outages.pause("t1", BROKEN)
    assert outages.why == "", "others are answered: it is this request"
    outages.pause("t3", AWAY)
    assert outages.why == "cannot be reached"
    outages.over("t3", answered=False)
    outages.over("t1", answered=False)
    assert outages.why == ""


PLACES = [replace(PLACE, topic=f"t{number}") for number in range(8)]


async def test_a_house_that_is_killed_again_and_again_from_outside_makes_no_dead_letter_of_what_waited() -> (
    None
):
    rig = Rig()
    rig.model.default = lambda request: Says("never", before=asyncio.Event().wait)
    for place in PLACES:
        await rig.says("hello", place)
    for _ in range(9):
        await rig.killed_after(200)
        rig.clock.tick(2)  # until somebody starts it again
    rig.model.default = lambda request: Says("hello yourself")

    def quiet() -> bool:
        rig.clock.tick(0.5)
        return rig.is_quiet()

    async with rig.life():
        await eventually(quiet)
    assert rig.endings() == ["answered"] * len(PLACES)
    assert [rig.said(place) for place in PLACES] == [["hello yourself"]] * len(PLACES)


async def test_a_suspect_is_turned_away_while_another_runs_and_once_when_it_has_more_deaths() -> (
    None
):
    clock = ManualSeconds()
    suspects, new_id = PoisonTurns(now=clock), IdSource()
    clock.now += 3600
    first, second = new_id(), new_id()
    assert suspects.turned_away(first, 3, others=True) is None
    async with suspects.among(True):
        assert suspects.turned_away(second, 3, others=True) == 0.0
    assert suspects.turned_away(second, 5, others=False) is None
    assert suspects.turned_away(second, 5, others=True) == 2.0
    assert suspects.turned_away(second, 5, others=True) is None


async def test_from_the_fifth_death_on_a_lone_turn_is_tried_only_in_a_house_that_lived_without_it_for_a_while() -> (
    None
):
    clock, new_id = ManualSeconds(), IdSource()
    suspects = PoisonTurns(now=clock)
    assert suspects.turned_away(new_id(), 5, others=False) is None  # four deaths: at once
    clock.now += 2
    turn = new_id()
    assert suspects.turned_away(turn, 6, others=False) == QUIET[5] - 2
    assert suspects.turned_away(turn, 6, others=False) is None  # once in each life
    proven = PoisonTurns(now=clock)
    # a dead letter need not wait
    assert proven.turned_away(new_id(), DEATHS + 1, others=False) is None
    clock.now += QUIET[7]
    assert proven.turned_away(new_id(), 8, others=False) is None  # this life has lasted


async def test_a_hundred_kills_from_outside_bury_no_lone_message() -> None:
    rig = Rig()
    rig.model.default = lambda request: Says("never", before=asyncio.Event().wait)
    await rig.says("hello")
    for _ in range(100):
        await rig.killed_after(80)
        rig.clock.tick(0.1)  # a life is shorter than the quiet that a turn of five deaths waits for
    assert rig.endings() == ["taken"]
    assert next(iter(rig.store.tables.turns.values())).starts <= DEATHS
    rig.model.default = lambda request: Says("hello yourself")

    def quiet() -> bool:
        rig.clock.tick(0.5)
        return rig.is_quiet()

    async with rig.life():
        await eventually(quiet)
    assert rig.said() == ["hello yourself"]


class ManualSeconds:
    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now
