"""A person makes a job in a chat, sees the local time it was understood as, and looks after it there."""

from __future__ import annotations

from collections.abc import Callable

from ohmo.providers.scripted import Says
from ohmo.testing import World, eventually, house

WISH = {"prompt": "tell me what is new", "schedule": "0 9 * * 1-5", "tz": "Asia/Tokyo", "name": "news"}


async def test_a_job_from_a_chat_is_confirmed_with_its_local_time_and_reports_back_there(world: Callable[..., World]) -> None:
    life = world(Says(calls=(("CronCreate", WISH),)), "Done: every weekday at nine in Tokyo.", "Here is the news.")
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
