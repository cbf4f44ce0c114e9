"""A person makes a job in a chat, sees the local time it was understood as, and looks after it
there."""

from __future__ import annotations

from ohmo_testing.house import eventually, house
from ohmo_testing.scripted import Says
from tests.journeys.conftest import MakeWorld

WISH = {
    "prompt": "tell me what is new",
    "schedule": "0 9 * * 1-5",
    "tz": "Asia/Tokyo",
    "name": "news",
}


async def test_a_job_from_a_chat_is_confirmed_with_its_local_time_and_reports_back_there(
    world: MakeWorld,
) -> None:
    life = world(
        Says(calls=(("CronCreate", WISH),)),
        "Done: every weekday at nine in Tokyo.",
        "Here is the news.",
    )
    async with house(life) as built:
        await life.platform.says("every weekday at nine, tell me what is new")
        card = await life.hears("first run")
        assert "Tue 2026-01-06 09:00 JST (Asia/Tokyo)" in card.text
        await life.platform.presses(card.id, card.choices[0])
        await life.hears("Done: every weekday")
        row = (await built.clockwork.desk.list())[0]
        assert (row.name, row.person, row.body.place) == ("news", "fake:ada", row.body.place)
        life.clock.tick(15 * 3_600)
        await life.hears("Here is the news.")
        await life.platform.says("/cron")
        await life.hears("`news`: 0 9 * * 1-5; next Wed 2026-01-07 09:00 JST")
        await life.platform.says("/cron remove news")
        await life.hears("Removed `news`.")

        async def gone() -> bool:
            return await built.clockwork.desk.list() == []

        await eventually(gone)


async def test_a_guest_has_no_jobs_and_a_person_sees_and_touches_only_their_own(
    world: MakeWorld,
) -> None:
    life = world(config="owner: ['fake:boss']\naccess: {roles: {guest: ['fake:gus']}}\n")
    async with house(life) as built:
        await eventually(lambda: built.board.report()["fake"].state == "connected")
        await built.clockwork.desk.create(
            {"name": "theirs", "schedule": "0 9 * * *", "tz": "UTC", "prompt": "x"}
        )
        await life.platform.says("/cron", chat="dm:gus", person="gus")
        await life.hears("not for a guest", "dm:gus")
        await life.platform.says("/cron", chat="dm:bob", person="bob")
        await life.hears("There are no jobs", "dm:bob")
        for words in ("/cron remove theirs", "/cron pause theirs", "/cron history theirs"):
            await life.platform.says(words, chat="dm:bob", person="bob")
        await life.platform.until(
            lambda _: sum("there is no such job" in said.text for said in life.bot("dm:bob")) == 3,
            20.0,
        )
        await life.platform.says("/cron pause theirs", chat="dm:boss", person="boss")
        await life.hears("next paused", "dm:boss")
        assert not (await built.clockwork.desk.job("theirs")).enabled
