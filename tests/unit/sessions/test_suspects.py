"""Who is charged with the death of the process: only a turn that ran."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from ohmo.ids import IdSource
from ohmo.providers.scripted import Says
from ohmo.sessions.suspects import Suspects
from tests.unit.sessions.pool_rig import PLACE, Rig, eventually

PLACES = [replace(PLACE, topic=f"t{number}") for number in range(8)]


async def test_a_house_that_is_killed_again_and_again_from_outside_makes_no_dead_letter_of_what_waited() -> None:
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


async def test_a_suspect_is_turned_away_while_another_runs_and_once_when_it_has_more_deaths() -> None:
    suspects, new_id = Suspects(), IdSource()
    first, second = new_id(), new_id()
    assert suspects.turned_away(first, 3, others=True) is None
    async with suspects.among(True):
        assert suspects.turned_away(second, 3, others=True) == 0.0
    assert suspects.turned_away(second, 5, others=False) is None
    assert suspects.turned_away(second, 5, others=True) == 2.0
    assert suspects.turned_away(second, 5, others=True) is None
