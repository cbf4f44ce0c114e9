"""What is caught up is spread, and nothing that is due now waits for it; a slice of the soak, the
whole of which is ``python -m tests.unit.cron.soak``."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import pytest

from channels.errors import Unavailable
from ohmo.contracts.cron import OccurrenceRow
from ohmo_testing.house import eventually
from tests.store_model.store import MemoryStore
from tests.unit.cron.scheduler_rig import Rig
from tests.unit.cron.soak import one_round

MINUTE = {"tz": "UTC", "prompt": "x", "every": "60s"}


async def overslept(seconds: float, **policies: str) -> Rig:
    """Three daily jobs that make the queue long, and one of each minute behind them; everybody
    slept."""
    rig = Rig()
    for name in ("a", "b", "c"):
        await rig.desk.create({"name": name, "tz": "UTC", "prompt": "x", "schedule": "5 9 * * *"})
    await rig.desk.create({**MINUTE, "tz": "Asia/Tokyo", "name": "often", **policies})
    rig.clock.tick(seconds)
    return rig


async def test_a_slot_that_comes_while_its_job_waits_to_be_caught_up_runs_on_time_and_stands_for_it() -> (
    None
):
    rig = await overslept(630)
    async with rig.scheduler():
        await rig.claims("a")  # the others are spread over ten minutes
        rig.clock.tick(29)
        rig.clock.tick(1)  # eleven minutes: the next slot
        await rig.claims("a", "often")
        ledger = await rig.ledger("often")
    assert ledger[-1] == ("claimed", None)
    assert ledger[-2] == (
        "skipped",
        "coalesced into the run of Mon 2026-01-05 18:11 JST (Asia/Tokyo)",
    )
    assert len(ledger) == 11


async def test_runs_that_all_have_to_be_caught_up_wait_no_longer_than_until_the_next_slot() -> None:
    rig = await overslept(630, catch_up="all", overlap="queue")
    async with rig.scheduler():
        await rig.claims("a")
        rig.clock.tick(30)

        async def all_done() -> bool:
            await rig.work()
            return [state for state, _ in await rig.ledger("often")] == ["done"] * 11

        await eventually(all_done)
        assert [reason for _, reason in await rig.ledger("often")] == ["caught up"] * 10 + [None]


@pytest.mark.parametrize(
    "times", [{"every": "60s"}, {"schedule": "* * * * *"}, {"schedule": "5 9 * * *"}]
)
async def test_a_scheduler_that_failed_once_runs_what_is_due_when_it_begins_again(
    times: dict[str, str],
) -> None:
    rig = Rig(bugs=1)
    await rig.desk.create({"name": "brief", "tz": "UTC", "prompt": "x", **times})
    async with rig.scheduler():
        await rig.looked()
        rig.clock.tick(301)
        await rig.claims("brief")
        row = await rig.desk.job("brief")
    assert row.next_at is not None
    assert row.next_at - rig.clock() <= timedelta(days=1)


class AwayAtFirst(MemoryStore):
    """Its disk takes nothing when somebody first looks into the history of a job."""

    away = True

    async def occurrences(self, job: str, *, limit: int = 50) -> list[OccurrenceRow]:
        if self.away:
            self.away = False
            raise Unavailable("disk full")
        return await super().occurrences(job, limit=limit)


async def test_a_store_that_is_away_at_the_first_look_costs_no_run_that_is_caught_up() -> None:
    rig = Rig(kind=AwayAtFirst)
    await rig.desk.create({"name": "late", "tz": "UTC", "prompt": "x", "schedule": "5 9 * * *"})
    await rig.desk.create({"name": "ahead", "tz": "UTC", "prompt": "x", "schedule": "5 21 * * *"})
    rig.clock.tick(630)
    async with rig.scheduler():
        await rig.claims("late")
    assert not rig.store.away


async def test_no_slot_is_doubled_and_none_is_unrecorded(tmp_path: Path) -> None:
    done = 0
    # how many runs end between two deaths is chance: one round alone had 9 to 41
    for seed in (3, 4, 5):
        (tmp_path / str(seed)).mkdir()
        found = await one_round(seed, tmp_path / str(seed), 10)
        assert found.wrong == []
        assert (found.doubled, found.unrecorded) == (0, 0)
        assert found.slots > 1_000
        assert found.kills
        done += found.states["done"]
    assert done > 20
