"""What a job says of itself holds: overlap, jitter, retry, expiry, no catching up, pause."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

import pytest

from ohmo.contracts.arrivals import Wake
from ohmo.contracts.cron import BadJob, JobBody, JobRow
from ohmo.contracts.turns import Accepted
from ohmo.cron.spec import digest, spec_of
from ohmo.cron.wakes import terms_of
from ohmo_testing.house import BIRTH, eventually
from tests.unit.cron.scheduler_rig import Rig

JOB: dict[str, Any] = {"name": "brief", "tz": "UTC", "prompt": "x", "every": "600s"}


async def done(rig: Rig, *states: str) -> None:
    async def there() -> bool:
        return [state for state, _ in await rig.ledger("brief")] == list(states)

    await eventually(there)


async def test_with_overlap_queue_runs_wait_behind_each_other_and_at_most_ten_do() -> None:
    rig = Rig()
    async with rig.scheduler():
        await rig.desk.create({**JOB, "overlap": "queue"})
        for count in range(1, 12):
            rig.clock.tick(600)
            await done(rig, *["claimed"] * min(count, 10), *["skipped"] * (count - 10))
        assert (await rig.ledger("brief"))[-1] == ("skipped", "10 runs wait or run already")

        async def ran() -> bool:
            await rig.work()
            return [state for state, _ in await rig.ledger("brief")] == [*["done"] * 10, "skipped"]

        await eventually(ran)


async def test_jitter_delays_a_slot_by_at_most_what_is_said_and_by_the_same_after_a_restart() -> (
    None
):
    rig = Rig()
    await rig.desk.create({**JOB, "jitter": "60s"})
    rig.clock.tick(600)
    seconds = 0
    while not await rig.store.claimed():
        assert seconds <= 60
        async with rig.scheduler():  # each look is one of another life
            await rig.looked()
        if not await rig.store.claimed():
            rig.clock.tick(1)
            seconds += 1
    other = await rig.desk.job("brief")
    assert seconds > 0
    assert other.next_at == BIRTH + timedelta(seconds=1_200)


async def test_a_failed_run_is_tried_again_and_its_owner_hears_nothing_when_that_helps() -> None:
    rig = Rig()
    async with rig.scheduler():
        await rig.desk.create({**JOB, "retry": 1})
        rig.clock.tick(600)
        await rig.fails()
        await done(rig, "failed")
        await rig.looked()
        rig.clock.tick(60)
        await rig.claims("brief")
        await rig.work()
        await done(rig, "done")
        assert (await rig.desk.history("brief"))[0].attempts == 2
        rig.clock.tick(540)
        await rig.fails()
        rig.clock.tick(60)
        await rig.claims("brief")
        await rig.fails()
        await eventually(lambda: len(rig.told) == 2)
    assert "The job brief failed" in rig.told[1]


async def test_after_its_expiry_a_job_has_no_slot() -> None:
    rig = Rig()
    async with rig.scheduler():
        await rig.desk.create({**JOB, "expires": (BIRTH + timedelta(minutes=15)).isoformat()})
        rig.clock.tick(600)
        await rig.claims("brief")
        assert (await rig.desk.job("brief")).next_at is None
        rig.clock.tick(6_000)
        await rig.looked()
    assert len(await rig.ledger("brief")) == 1


async def test_without_catching_up_what_was_missed_is_recorded_and_nobody_is_told() -> None:
    rig = Rig()
    await rig.desk.create({**JOB, "catch_up": "none"})
    rig.clock.tick(1_801)
    async with rig.scheduler():
        await done(rig, "missed", "missed", "missed")
        rig.clock.tick(599)
        await done(rig, "missed", "missed", "missed", "claimed")
    assert rig.told == []


async def test_a_paused_job_runs_by_hand_only_and_goes_on_with_its_next_slot() -> None:
    rig = Rig()
    async with rig.scheduler():
        await rig.desk.create(JOB)
        await rig.desk.pause("brief")
        rig.clock.tick(1_200)
        await rig.looked()
        assert await rig.ledger("brief") == []
        await rig.desk.run("brief")
        with pytest.raises(BadJob, match="running already"):
            await rig.desk.run("brief")
        await rig.work()
        await done(rig, "done")
        assert (await rig.desk.resume("brief")).next_at == BIRTH + timedelta(seconds=1_800)


class Slow(Rig):
    """Its disk takes its time."""

    async def publish(self, wake: Wake) -> Accepted:
        for _ in range(20):
            await asyncio.sleep(0)
        return await super().publish(wake)


async def test_of_several_who_start_a_job_at_once_one_does() -> None:
    rig = Slow()
    async with rig.scheduler():
        await rig.desk.create(JOB)
        starts: list[asyncio.Task[datetime]] = []
        for _ in range(5):
            starts.append(asyncio.create_task(rig.desk.run("brief")))
            await asyncio.sleep(0)
            rig.clock.tick(0.01)  # each is another instant
        found = await asyncio.gather(*starts, return_exceptions=True)
        assert sum(isinstance(one, BadJob) for one in found) == 4
        await rig.work()
        await done(rig, "done")


def test_rules_and_secrets_that_are_not_the_ones_that_were_allowed_are_not_used() -> None:
    """Whoever changes the row behind the back of whoever allowed it gains nothing."""
    spec = spec_of({**JOB, "rules": ["Bash(ls:*)"], "secrets": {"T": "env:T"}}, "UTC", BIRTH)
    row = JobRow("j", "brief", "person", JobBody(spec, BIRTH, digest(spec)), 1, True, None, "owner")
    allowed = terms_of(row)
    assert (allowed.rules, allowed.secrets) == (("Bash(ls:*)",), (("T", "env:T"),))
    for change in (
        {"rules": ("Bash",)},
        {"secrets": (("T", "env:OTHER"),)},
        {"rules": ("Bash(ls:*)", "Read")},
    ):
        other = terms_of(replace(row, body=replace(row.body, spec=replace(spec, **change))))
        assert (other.rules, other.secrets) == ((), ())
