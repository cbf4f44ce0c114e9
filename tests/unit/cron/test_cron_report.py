"""What is told of the jobs: how late they are, when the next begins, and what the owner has to hear,
also when the store does not take it at first."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from pathlib import Path

import pytest

from channels.contract import Address, ChatId
from ohmo.contracts.arrivals import Occurrence, Terms, Wake
from ohmo.cron.reporting import Reporter
from ohmo.cron.scheduler import AGAIN
from ohmo_testing.house import eventually
from tests.unit.cron.scheduler_rig import Rig

HOUR = {"tz": "UTC", "prompt": "x", "schedule": "0 * * * *"}


async def test_a_scheduler_that_does_not_begin_what_is_due_tells_how_late_it_is_and_no_longer_once_it_was_on_time() -> (
    None
):
    rig = Rig()
    await rig.desk.create({**HOUR, "name": "brief"})
    async with rig.scheduler():
        await rig.looked()
        due = rig.lives.report()
        assert due == {"lag_seconds": 0.0, "next": "2026-01-05T10:00:00+00:00"}
        rig.clock.tick(3_600 + 90)  # and nobody got to look meanwhile
        assert rig.lives.report()["lag_seconds"] == 90.0
        await rig.claims("brief")
        assert rig.lives.report()["lag_seconds"] == 90.0  # so late it began
        rig.clock.tick(601)
        await rig.looked()
        assert rig.lives.report()["lag_seconds"] == 0.0


async def test_a_job_that_is_to_begin_some_time_after_its_slot_is_not_late_until_then() -> None:
    rig = Rig()
    await rig.desk.create({**HOUR, "name": "brief", "jitter": "30m"})
    async with rig.scheduler():
        await rig.looked()
        begins = str(rig.lives.report()["next"])
        assert "2026-01-05T10:00:00+00:00" < begins < "2026-01-05T10:30:00+00:00"
        rig.clock.tick(3_601)
        await rig.looked()
        assert rig.lives.report() == {"lag_seconds": 0.0, "next": begins}


async def test_a_report_that_goes_to_the_owner_instead_says_why_and_the_history_has_that_as_a_whole_sentence(
    tmp_path: Path,
) -> None:
    def nowhere(to: str) -> Address:
        raise ValueError(f"{to}: the channel slack is not enabled")

    owner = Address("web", "local", ChatId("notices"))
    reporter = Reporter(Rig().store, nowhere, lambda: owner, tmp_path)
    wake = Wake(
        "k",
        "cron",
        owner,
        None,
        "owner",
        "x",
        datetime.now(UTC),
        terms=Terms("brief", to="slack:C1"),
    )
    post, report = await reporter(wake, "All is well.", ())
    why = (
        "The report of brief could not go where it belongs (slack:C1: the channel slack is not"
        " enabled)"
    )
    assert report.reason == why
    assert post is not None
    assert (post.address, post.text) == (owner, f"{why}:\n\nAll is well.")


@pytest.mark.parametrize(
    ("rules", "command"),
    [
        (
            ("Bash(ohmo triage github a/b --branch main)", "Bash(gh run list:*)", "Read(x)"),
            "ohmo triage github a/b --branch main",
        ),
        (
            ("Bash(cat r.xml)", "Bash(ohmo triage read --name x)"),
            "cat r.xml 2>&1 | ohmo triage read --name x",
        ),
        (("Bash(ohmo triage github:*)",), None),
        (("Bash(ohmo triage gitlab a/b)", "Bash(ohmo triage github a/b)"), None),
        (("Bash(make a)", "Bash(make b)", "Bash(ohmo triage read --name x)"), None),
        (("Bash(make a)",), None),
        ((), None),
    ],
)
def test_a_run_begins_with_the_command_its_report_is_made_of_where_the_rules_leave_no_choice(
    tmp_path: Path, rules: tuple[str, ...], command: str | None
) -> None:
    owner, now = Address("web", "local", ChatId("notices")), datetime.now(UTC)
    reporter = Reporter(Rig().store, lambda _: owner, lambda: owner, tmp_path)
    terms, slot = Terms("triage", rules), Occurrence("j", now)
    by_clock = Wake("k", "cron", owner, None, "owner", "x", now, slot, terms)
    assert reporter.first(by_clock) == (
        None if command is None else {"command": command, "timeout": 600.0}
    )
    assert reporter.first(Wake("k", "hook", owner, None, "owner", "x", now, terms=terms)) is None


DAILY = {"name": "brief", "schedule": "0 10 * * *", "tz": "UTC", "prompt": "what is new?"}


async def test_missed_runs_are_recorded_only_when_the_owner_was_told() -> None:
    scene = Rig(refused=2)
    await scene.desk.create(DAILY)
    scene.clock.tick(3 * 86_400)
    async with scene.scheduler():
        await eventually(lambda: len(scene.told) == 2, within=20 + 2 * AGAIN)

        async def recorded() -> bool:
            return [one.state for one in await scene.desk.history("brief")] == ["missed"] * 3

        await eventually(recorded)
    assert scene.recorded_before == [0, 0, 0]
    assert "- brief: 3 (the last was due" in scene.told[1]


async def test_a_failure_that_could_not_be_told_is_told_later() -> None:
    scene = Rig(refused=2)
    async with scene.scheduler():
        await scene.desk.create(DAILY)
        await asyncio.sleep(0)
        scene.clock.tick(3_600)
        await scene.fails()
        await eventually(lambda: len(scene.told) == 2, within=20 + 2 * AGAIN)
    assert "The job brief failed" in scene.told[1]
    assert "no credit" in scene.told[1]


async def test_runs_that_end_before_anybody_looks_are_told_too() -> None:
    scene = Rig()
    async with scene.scheduler():
        await scene.desk.create(DAILY)
        await scene.looked()
        scene.at_once = ["no credit", ""]
        scene.clock.tick(3_600)
        await eventually(lambda: len(scene.told) == 2)
        scene.clock.tick(86_400)
        await eventually(lambda: len(scene.told) == 4)
    assert "The job brief failed" in scene.told[1]
    assert "The job brief is well again" in scene.told[3]


async def test_a_failure_is_told_whatever_its_reason_begins_with() -> None:
    scene = Rig()
    async with scene.scheduler():
        await scene.desk.create(DAILY)
        await scene.looked()
        scene.at_once = ["stopped by the provider"]
        scene.clock.tick(3_600)
        await eventually(lambda: len(scene.told) == 2)
    assert "The job brief failed" in scene.told[1]
    assert "stopped by the provider" in scene.told[1]
