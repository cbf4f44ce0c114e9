"""Who is charged with the death of the process: only a turn that ran."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from ohmo.ambient import IdSource
from ohmo.sessions.admission import DEATHS, QUIET, PoisonTurns
from ohmo_testing.scripted import Says
from tests.unit.sessions.pool_rig import PLACE, Rig, eventually

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
