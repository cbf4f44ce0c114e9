"""Somebody sets the clock, by an hour or a year, forward or back to 1970: nothing that waits is
over early, and no job runs twice."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from ohmo.assembly.house import House
from ohmo.contracts.errors import Overloaded
from ohmo.sessions import user_steps
from ohmo_testing.house import BIRTH, World, eventually, house
from ohmo_testing.scripted import Says, echo
from tests.journeys.conftest import MakeWorld

HOUR, YEAR = timedelta(hours=1), timedelta(days=365)
AGES = BIRTH - datetime(1970, 1, 1, tzinfo=UTC)


async def sets(life: World, built: House, by: timedelta) -> None:
    """Everybody looks for what is overdue before the house notices, and after."""
    life.clock.set(life.clock() + by)
    await built.expire()
    await built.clockwatch.look()
    await built.expire()


async def connected(built: House) -> None:
    await eventually(lambda: built.board.report()["fake"].state == "connected")


async def test_a_question_stays_open_for_as_long_as_it_would_have(world: MakeWorld) -> None:
    life = world(
        Says(calls=(("Bash", {"command": "touch allowed"}),)),
        "done",
        config="permissions: {approval_timeout: 10m}\n",
    )
    async with house(life) as built:
        await connected(built)
        await life.platform.says("touch it")
        card = await life.hears("touch allowed")
        for by in (HOUR, -HOUR, YEAR, -YEAR, -AGES, AGES, 8 * HOUR):
            await sets(life, built, by)
        life.clock.tick(595)
        await built.expire()
        assert len(await built.store.open_questions()) == 1
        await life.platform.presses(card.id, card.choices[0])
        await life.hears("done")
        assert (life.work / "allowed").exists()


async def test_a_message_that_waited_a_minute_is_not_called_a_year_old(world: MakeWorld) -> None:
    life = world(config="sessions: {ask_after: 12h}\n")
    life.model.default = lambda request: Overloaded("The model is overloaded.")
    async with house(life) as built:
        await connected(built)
        await life.platform.says("one")
        await life.hears(user_steps.waiting("x").split(" (")[0])
        await sets(life, built, YEAR)
        life.model.default = echo

        def answered() -> bool:
            life.clock.tick(60)
            return any("echo: one" in text for text in life.texts())

        await eventually(answered)
    assert not [text for text in life.texts() if "waited for" in text]


async def test_a_slot_runs_once_though_its_hour_comes_again(world: MakeWorld) -> None:
    life = world("first", "second", config="owner: ['fake:boss']\n")
    job = {
        "name": "brief",
        "schedule": "0 10 * * *",
        "tz": "UTC",
        "prompt": "what is new?",
        "to": "fake:team",
    }
    async with house(life) as built:
        await connected(built)
        await built.clockwork.desk.create(job)
        life.clock.tick(3_600)
        await life.hears("first", "team")
        await sets(life, built, -HOUR)
        life.clock.tick(3_600)  # ten o'clock again
        await sets(life, built, -AGES)
        await sets(life, built, AGES)
        life.clock.tick(86_400)
        await life.hears("second", "team")

        async def over() -> bool:
            return all(
                row.state != "claimed" for row in await built.clockwork.desk.history("brief")
            )

        await eventually(over)
        rows = await built.clockwork.desk.history("brief")
    assert [row.state for row in rows] == ["done", "done"]
    assert life.texts("team") == ["first", "second"]


async def test_a_year_forward_is_told_as_missed_once_and_the_next_slot_is_on_time(
    world: MakeWorld,
) -> None:
    life = world("tomorrow's", config="owner: ['fake:boss']\n")
    job = {
        "name": "brief",
        "schedule": "0 10 * * *",
        "tz": "UTC",
        "prompt": "what is new?",
        "to": "fake:team",
    }
    async with house(life) as built:
        await connected(built)
        await built.clockwork.desk.create(job)
        await sets(life, built, YEAR + 5 * HOUR)
        await life.hears("Scheduled runs were missed", "boss")
        life.clock.tick(20 * 3_600)
        await life.hears("tomorrow's", "team")
        rows = await built.clockwork.desk.history("brief")
    assert len({row.due for row in rows}) == len(rows)
    assert sum(row.state == "missed" for row in rows) == len(rows) - 1
    assert len(life.bot("boss")) == 1


async def test_a_conversation_is_not_begun_afresh_by_a_clock_that_was_set_only_by_silence(
    world: MakeWorld,
) -> None:
    life = world("one", "two", "three", config="sessions: {idle_reset: 2h}\n")
    async with house(life) as built:
        await connected(built)
        for text, by in (("one", YEAR), ("two", timedelta())):
            await life.platform.says("and now?")
            await life.hears(text)
            await sets(life, built, by)
        life.clock.tick(7_300)
        await life.platform.says("and now?")
        await life.hears("three")
    assert [len(request.steps) for request in life.model.requests] == [1, 3, 1]


async def test_a_clock_that_is_set_while_ohmo_is_off_ends_no_question_early(
    world: MakeWorld,
) -> None:
    life = world(
        Says(calls=(("Bash", {"command": "touch allowed"}),)),
        "done",
        config="permissions: {approval_timeout: 10m}\n",
    )
    async with house(life) as built:
        await connected(built)
        await built.clockwatch.look()
        await life.platform.says("touch it")
        card = await life.hears("touch allowed")
    life.clock.set(life.clock() + YEAR)
    async with house(life) as built:
        await connected(built)
        await built.expire()
        await built.clockwatch.look()
        life.clock.tick(595)
        await built.expire()
        assert len(await built.store.open_questions()) == 1
        await life.platform.presses(card.id, card.choices[0])
        await life.hears("done")
