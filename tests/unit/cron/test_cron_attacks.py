"""What somebody who may make a job tries with it, and what the person who has to allow it is
shown."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ohmo.contracts.cron import BadJob, By, JobBody, JobRow
from ohmo.cron.spec import MOST_JOBS, OF_ONE, first_slot, spec_of
from ohmo.cron.times import after
from ohmo.cron.wakes import place_of
from tests.unit.cron.scheduler_rig import Rig

NOW = datetime(2026, 11, 22, 12, tzinfo=UTC)
PLAIN = {"name": "news", "prompt": "what is new?", "every": "5m"}


@pytest.mark.parametrize(
    "field",
    [
        *(
            {"every": None, "at": text}
            for text in (
                "9999-12-31 23:59",
                "9999-12-31T23:59:59-14:00",
                "0001-01-01T00:00:00+14:00",
            )
        ),
        *(
            {"expires": text}
            for text in ("9999-12-31 23:59", "0001-01-01 00:00", "9999-12-31T23:59:59+00:00")
        ),
        {
            "every": None,
            "schedule": "0 0 " + ",".join(["1-31"] * 20_000) + " 2 *",
        },  # each look at it would take a second
        {"rules": ["Bash(ls)\nBash(rm:*)"]},
        {"rules": ["Bash(ls \u202e*:mr)"]},
        {"rules": ["Bash(ls\u200b)"]},
        {"rules": ["Bash(" + "x" * 10_000 + ")"]},
        {"to": "slack:C1\nOnly you hear of it"},
    ],
    ids=lambda field: f"{next(iter(field))}-{ascii(list(field.values())[-1])[:30]}",
)
@pytest.mark.parametrize("zone", ["UTC", "Pacific/Apia", "Etc/GMT+12"])
def test_what_breaks_a_calendar_stops_the_clock_or_is_not_what_it_looks_like_is_one_line(
    field: Mapping[str, object], zone: str
) -> None:
    def made() -> datetime | None:
        return first_slot(JobBody(spec_of({**PLAIN, **field}, zone, NOW), NOW), NOW)

    with pytest.raises(BadJob) as found:
        made()
    assert len(str(found.value).splitlines()) == 1
    assert len(str(found.value)) < 500


def test_a_schedule_that_never_comes_is_found_out_at_once() -> None:
    spec = spec_of({**PLAIN, "every": None, "schedule": "0 0 30 2 *"}, "UTC", NOW)
    assert after(JobBody(spec, NOW), NOW) is None


def test_jobs_of_two_people_never_share_a_thread_whatever_they_are_called() -> None:
    def row(name: str, person: str, account: str = "bot", thread: str | None = None) -> JobRow:
        spec = spec_of({**PLAIN, "name": name, "thread": thread}, "UTC", NOW)
        return JobRow("id", name, "person", JobBody(spec, NOW, "", account), 1, True, NOW, person)

    rows = [
        row("team", "owner", ""),
        row("other", "owner", "", thread="shared"),
        row("shared", "slack:U1"),
        row("team", "slack:U1"),
        row("team", "slack:U1", "second"),
        row("team", "slack:U2"),
        row("x", "slack:U2", thread="shared"),
    ]
    assert len({place_of(one) for one in rows}) == len(rows)


async def test_a_person_makes_neither_many_jobs_nor_ones_that_take_every_turn() -> None:
    desk, ada, eve = (
        Rig().desk,
        By("slack:U1", "bot", everything=False),
        By("slack:U2", "bot", everything=False),
    )
    for often in (
        {"every": "59s"},
        {"every": None, "schedule": "* * * * * *"},
        {"every": None, "schedule": "0 9 * * 1 0,1"},
    ):
        with pytest.raises(BadJob, match="once a minute at most"):
            await desk.create({**PLAIN, **often}, ada)
    await desk.create({**PLAIN, "name": "rare", "every": None, "schedule": "0 9 * * 1 30"}, ada)
    for number in range(OF_ONE - 1):
        await desk.create({**PLAIN, "name": f"n{number}"}, ada, job=f"{number}")
    # the same one again, after a death
    assert (await desk.create({**PLAIN, "name": "n0"}, ada, job="0")).job == "0"
    with pytest.raises(BadJob, match="remove one first"):
        await desk.create({**PLAIN, "name": "more"}, ada)
    await desk.create({**PLAIN, "name": "hers"}, eve)
    await desk.create({**PLAIN, "name": "often", "every": "1s"})


async def test_jobs_that_make_jobs_come_to_an_end() -> None:
    rig = Rig()
    first = await rig.desk.create(PLAIN)
    for number in range(1, MOST_JOBS):
        assert await rig.store.save_job(replace(first, job=f"{number}", name=f"n{number}"))
    with pytest.raises(BadJob, match="remove some first"):
        await rig.desk.create({**PLAIN, "name": "more"})
    await rig.desk.remove("n1")
    await rig.desk.create({**PLAIN, "name": "more"})
