"""A job runs at its time, once, says what it has to say where it belongs, and its owner hears when
it fails."""

from __future__ import annotations

import json
from contextlib import nullcontext
from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest

from ohmo.assembly.clockwork import specs
from ohmo.assembly.house import House
from ohmo.config.load import load
from ohmo.contracts.cron import By, JobRow
from ohmo.contracts.errors import ConfigError, Refused
from ohmo_testing.house import BIRTH, eventually, house
from ohmo_testing.scripted import Says
from tests.journeys.conftest import MakeWorld

DAILY = {
    "name": "brief",
    "schedule": "0 10 * * *",
    "tz": "UTC",
    "prompt": "what is new?",
    "to": "fake:team",
}
OWNER = "owner: ['fake:boss']\n"


async def ended(built: House, name: str = "brief", count: int = 1) -> list[tuple[str, str | None]]:
    """State and reason of the runs, the latest first, once there are so many and none is open."""
    found: list[Any] = []

    async def there() -> bool:
        found[:] = await built.clockwork.desk.history(name)
        return len(found) >= count and all(one.state != "claimed" for one in found)

    await eventually(there)
    return [(one.state, one.reason) for one in found]


async def ready(built: House) -> None:
    await eventually(lambda: built.board.report()["fake"].state == "connected")


async def test_a_job_runs_when_its_time_comes_and_reports_where_it_belongs(
    world: MakeWorld,
) -> None:
    life = world("CI is green.", "Still green.")
    async with house(life) as built:
        await ready(built)
        made = await built.clockwork.desk.create(DAILY)
        assert made.next_at == BIRTH + timedelta(hours=1)
        life.clock.tick(3_599)
        assert life.bot("team") == []
        life.clock.tick(1)
        await life.hears("CI is green.", "team")
        assert await ended(built) == [("done", None)]
        row = (await built.clockwork.desk.history("brief"))[0]
        assert (row.preview, row.due, row.turn is not None) == (
            "CI is green.",
            BIRTH + timedelta(hours=1),
            True,
        )
        life.clock.tick(86_400)
        await life.hears("Still green.", "team")
    assert life.texts("team") == ["CI is green.", "Still green."]
    asked = life.model.requests[0].steps[-1].blocks[0].text  # pyright: ignore[reportAttributeAccessIssue]
    assert asked.startswith("what is new?")
    assert len(life.model.requests[1].steps) == 1  # every run begins afresh


async def test_a_restart_does_not_run_it_again_and_catches_up_what_was_missed(
    world: MakeWorld,
) -> None:
    life = world("first", "second")
    async with house(life) as built:
        await ready(built)
        await built.clockwork.desk.create(DAILY)
        life.clock.tick(3_600)
        await life.hears("first", "team")
        await ended(built)
    async with house(life) as built:
        await ready(built)
        assert await ended(built) == [("done", None)]
    life.clock.tick(2 * 86_400 + 1_800)  # two slots, the newest half an hour ago
    async with house(life) as built:
        await life.hears("second", "team")
        states = await ended(built, count=3)
    assert [state for state, _ in states] == ["done", "skipped", "done"]
    assert states[0][1] == "caught up"
    assert "coalesced" in str(states[1][1])


async def test_what_comes_too_late_is_recorded_as_missed_and_told_once(world: MakeWorld) -> None:
    life = world(config=OWNER)
    async with house(life) as built:
        await ready(built)
        await built.clockwork.desk.create(DAILY)
    life.clock.tick(3_600 + 3 * 3_600)
    for _ in range(2):
        async with house(life) as built:
            await ready(built)
            assert [state for state, _ in await ended(built)] == ["missed"]
            await life.hears("Scheduled runs were missed", "boss")
    assert len(life.bot("boss")) == 1


async def test_only_if_something_is_wrong(world: MakeWorld) -> None:
    life = world("**[SILENT]**", "disk is full")
    async with house(life) as built:
        await ready(built)
        await built.clockwork.desk.create({**DAILY, "when": "wrong"})
        life.clock.tick(3_600)
        assert await ended(built) == [("done", "silent: nothing is wrong")]
        life.clock.tick(86_400)
        await life.hears("disk is full", "team")
    assert life.texts("team") == ["disk is full"]


async def test_only_if_something_changed(world: MakeWorld) -> None:
    life = world("two bugs", "two  bugs", "three bugs")
    async with house(life) as built:
        await ready(built)
        await built.clockwork.desk.create({**DAILY, "when": "changed"})
        for count in (1, 2, 3):
            life.clock.tick(3_600 if count == 1 else 86_400)
            await ended(built, count=count)
            await life.hears("two bugs" if count < 3 else "three bugs", "team")
        assert [reason for _, reason in await ended(built, count=3)] == [
            None,
            "silent: nothing changed",
            None,
        ]
    assert life.texts("team") == ["two bugs", "three bugs"]


async def test_the_owner_hears_of_a_failing_job_once_and_once_when_it_is_well(
    world: MakeWorld,
) -> None:
    life = world(Refused("no credit"), Refused("no credit"), "well", config=OWNER)
    async with house(life) as built:
        await ready(built)
        await built.clockwork.desk.create(DAILY)
        for count in (1, 2, 3):
            life.clock.tick(3_600 if count == 1 else 86_400)
            await ended(built, count=count)
            await life.hears("failed" if count < 3 else "is well again", "boss")
        await life.hears("well", "team")
    assert [text.split(":")[0] for text in life.texts("boss")] == [
        "The job brief failed",
        "The job brief is well again",
    ]
    assert life.texts("team") == ["well"]


async def test_a_job_asks_its_owner_and_names_what_nobody_allowed(world: MakeWorld) -> None:
    calls = (("Bash", {"command": "touch allowed"}), ("Bash", {"command": "rm -rf build"}))
    life = world(Says(calls=calls), "all I could do is done", config=OWNER)
    async with house(life) as built:
        await ready(built)
        await built.clockwork.desk.create({**DAILY, "rules": ["Bash(touch:*)"], "deadline": "30m"})
        life.clock.tick(3_600)
        card = await life.hears("The job brief asks:", "boss")
        assert "rm -rf build" in card.text
        assert (life.work / "allowed").exists()
        life.clock.tick(1_801)
        await built.expire()
        said = await life.hears("all I could do is done", "team")
    assert "Not allowed in time" in said.text
    assert "rm -rf build" in said.text
    assert "touch" not in said.text


async def test_what_a_job_was_not_allowed_in_time_can_be_run_afterwards_once_under_its_own_terms(
    world: MakeWorld,
) -> None:
    life = world(
        Says(calls=(("Bash", {"command": "echo $WORD >> said"}),)),
        "it was not allowed",
        "now it is said",
        config=OWNER,
    )
    async with house(life) as built:
        await ready(built)
        secret = life.folder / "word"
        secret.touch(mode=0o600)
        secret.write_text("swordfish-9041")
        await built.clockwork.desk.create(
            {**DAILY, "secrets": {"WORD": f"file:{secret}"}, "deadline": "30m", "when": "wrong"}
        )
        life.clock.tick(3_600)
        card = await life.hears("The job brief asks:", "boss")
        life.clock.tick(1_801)
        await built.expire()
        await life.hears("Not allowed in time", "team")
        card = await life.hears("Press the button to run it now.", "boss")
        assert [choice.split(":")[0] for choice in card.choices] == ["run"]
        await life.platform.presses(card.id, card.choices[0], chat="boss", person="eve")
        await eventually(
            lambda: (
                [text for _, text in life.platform.acknowledged]
                == ["This question is not yours to answer."]
            )
        )
        for _ in range(2):
            await life.platform.presses(card.id, card.choices[0], chat="boss", person="boss")
        await life.hears("now it is said", "team")
        await eventually(lambda: len(life.platform.acknowledged) == 3)
        assert (life.work / "said").read_text() == "swordfish-9041\n"
        await life.hears("Run now: allowed by", "boss")
    assert len([text for text in life.texts("team") if "now it is said" in text]) == 1


async def test_what_a_job_asked_in_a_thread_that_several_jobs_share_can_be_run_afterwards_under_its_own_rules(
    world: MakeWorld,
) -> None:
    calls = (("Bash", {"command": "touch one"}), ("Bash", {"command": "touch two"}))
    life = world(
        Says(calls=calls),
        "only one",
        Says(calls=(("Bash", {"command": "touch one"}),)),
        "both now",
        config=OWNER,
    )
    shared = {**DAILY, "to": None, "thread": "shared", "deadline": "30m"}
    async with house(life) as built:
        await ready(built)
        await built.clockwork.desk.create({**shared, "rules": ["Bash(touch one)"]})
        await built.clockwork.desk.create({**shared, "name": "other", "schedule": "0 20 * * *"})
        life.clock.tick(3_600)
        await life.hears("touch two", "boss")
        life.clock.tick(1_801)
        await built.expire()
        card = await life.hears("Press the button to run it now.", "boss")
        await life.platform.presses(card.id, card.choices[0], chat="boss", person="boss")
        await life.hears("Run now: allowed by", "boss")
        await eventually((life.work / "two").exists)
        # what it was allowed with the job it still is
        await eventually(lambda: len(life.model.requests) == 4)
    assert not [text for text in life.texts("boss") if "asks" in text and "touch one" in text]


async def test_a_persons_job_asks_that_person_and_nobody_elses_press_counts(
    world: MakeWorld,
) -> None:
    life = world(Says(calls=(("Bash", {"command": "rm -rf build"}),)), "cleaned", config=OWNER)
    async with house(life) as built:
        await ready(built)
        account = built.connections.address("fake", "ada").account  # pyright: ignore[reportOptionalMemberAccess]
        await built.clockwork.desk.create(DAILY, By("fake:ada", account, everything=False))
        life.clock.tick(3_600)
        card = await life.hears("The job brief asks:", "ada")
        assert life.texts("boss") == []
        await life.platform.presses(card.id, card.choices[0], chat="ada", person="eve")
        await eventually(
            lambda: (
                [text for _, text in life.platform.acknowledged]
                == ["This question is not yours to answer."]
            )
        )
        assert len(await built.store.open_questions()) == 1
        await life.platform.presses(card.id, card.choices[0], chat="ada")
        await life.hears("cleaned", "team")


async def test_a_persons_job_that_was_made_in_a_chat_asks_there_also_after_a_restart(
    world: MakeWorld,
) -> None:
    asks = Says(
        calls=(
            ("AskUser", {"question": "which?", "choices": ["a", "b"]}),
            ("AskUser", {"question": "when?", "choices": ["now"]}),
        )
    )
    life = world(asks, "thanks", config=OWNER)
    async with house(life) as built:
        await ready(built)
        place = built.connections.address("fake", "team")
        assert place is not None
        by = By("fake:ada", place.account, everything=False)
        await built.clockwork.desk.create({**DAILY, "to": None}, by, place=place)
        life.clock.tick(3_600)
        await life.hears("which?", "team")
    async with house(life) as built:
        await ready(built)
        card = await life.hears("which?", "team")
        await life.platform.presses(card.id, card.choices[0], chat="team")
        card = await life.hears("when?", "team")
        await life.platform.presses(card.id, card.choices[0], chat="team")
        await life.hears("thanks", "team")
    assert life.texts("boss") == []


async def test_a_job_that_is_removed_asks_nobody_any_more(world: MakeWorld) -> None:
    calls = (("Bash", {"command": "rm -rf build"}), ("Bash", {"command": "rm -rf dist"}))
    life = world(Says(calls=calls), "it was not allowed", config=OWNER)
    async with house(life) as built:
        await ready(built)
        await built.clockwork.desk.create(DAILY)
        life.clock.tick(3_600)
        await life.hears("The job brief asks:", "boss")
        await built.clockwork.desk.remove("brief")
        assert await built.store.open_questions() == []
        await life.hears("Withdrawn: the job was removed", "boss")
        await life.hears("it was not allowed", "team")


async def test_a_secret_that_is_gone_fails_the_run_at_once_and_its_owner_hears_which(
    world: MakeWorld,
) -> None:
    life = world("never", config=OWNER)
    async with house(life) as built:
        await ready(built)
        secret = life.folder / "word"
        secret.touch(mode=0o600)
        secret.write_text("swordfish-9041")
        await built.clockwork.desk.create({**DAILY, "secrets": {"WORD": f"file:{secret}"}})
        secret.unlink()
        life.clock.tick(3_600)
        said = await life.hears("The job brief failed", "boss")
        state, reason = (await ended(built))[0]
    assert (state, str(secret) in str(reason), str(secret) in said.text) == ("failed", True, True)
    assert life.model.requests == []


def test_a_secret_that_is_not_there_has_its_line_before_anything_starts(world: MakeWorld) -> None:
    job = {"name": "ci", "every": "1h", "prompt": "x", "secrets": {"GH_TOKEN": "env:NOT_THERE"}}
    life = world()
    life.folder.mkdir(mode=0o700)
    environ = {"OHMO_HOME": str(life.folder), "HOME": str(life.folder.parent)}
    for enabled in (True, False):  # of a job that is off nothing is wanted
        (life.folder / "config.yaml").write_text(
            json.dumps({"cron": {"jobs": [{**job, "enabled": enabled}]}})
        )
        config = load(environ=environ, manifests=None)
        with (
            pytest.raises(
                ConfigError, match=r"config.yaml:1: cron.jobs\[0\].secrets.GH_TOKEN: .*NOT_THERE"
            )
            if enabled
            else nullcontext()
        ):
            specs(config, "UTC", BIRTH)


async def test_a_job_that_is_still_running_is_not_run_again(world: MakeWorld) -> None:
    life = world(Says(calls=(("AskUser", {"question": "which?"}),)), config=OWNER)
    async with house(life) as built:
        await ready(built)
        await built.clockwork.desk.create({**DAILY, "schedule": None, "every": "10m"})
        life.clock.tick(600)
        await life.hears("which?", "boss")
        life.clock.tick(600)

        async def skipped() -> bool:
            return [one.state for one in await built.clockwork.desk.history("brief")] == [
                "skipped",
                "claimed",
            ]

        await eventually(skipped)


async def test_jobs_of_the_configuration_run_and_go_with_it(world: MakeWorld) -> None:
    job = "{name: brief, schedule: '0 10 * * *', tz: UTC, prompt: hello, to: 'fake:team'}"
    life = world("from the file", config=f"cron: {{jobs: [{job}]}}\n")
    async with house(life) as built:
        await ready(built)

        async def there() -> bool:
            return [row.origin for row in await built.clockwork.desk.list()] == ["config"]

        await eventually(there)
        life.clock.tick(3_600)
        await life.hears("from the file", "team")
    async with house(replace(life, config="")) as built:

        async def gone() -> bool:
            return await built.clockwork.desk.list() == []

        await eventually(gone)


async def test_a_job_of_the_configuration_is_what_stands_there_now(world: MakeWorld) -> None:
    async def times(built: House, every: float) -> dict[str, Any]:
        found: list[JobRow] = []

        async def read() -> bool:
            found[:] = await built.clockwork.desk.list()
            return any(row.body.spec.every == every for row in found) and len(found) == 2

        await eventually(read)
        return {row.name: (row.job, row.next_at) for row in found}

    life = world(
        "new words",
        config=(
            "cron: {jobs: [{name: brief, every: 1h, prompt: old}, {name: kept, every: 2h, prompt:"
            " x}]}\n"
        ),
    )
    async with house(life) as built:
        before = await times(built, 3_600)
    life.clock.tick(60)
    changed = (
        "cron: {jobs: [{name: brief, every: 90m, prompt: say it, to: 'fake:team'}, {name: kept,"
        " every: 2h, prompt: x}]}\n"
    )
    async with house(replace(life, config=changed)) as built:
        await ready(built)
        after = await times(built, 5_400)
        assert after["kept"] == before["kept"]  # what did not change keeps its place in time
        assert after["brief"][0] == before["brief"][0]
        assert after["brief"][1] == BIRTH + timedelta(minutes=90)
        life.clock.tick(89 * 60)
        await life.hears("new words", "team")


async def test_jobs_of_the_same_moment_are_claimed_together(world: MakeWorld) -> None:
    """Not one commit after the other: the twentieth would begin late."""
    waiting = most = 0

    def watch(name: str) -> None:
        nonlocal waiting, most
        waiting += {"inbound.received": 1, "inbound.stored": -1}.get(name, 0)
        most = max(most, waiting)

    life = replace(world(*["done"] * 20), failpoint=watch)
    async with house(life) as built:
        await ready(built)
        names = [f"j{number}" for number in range(20)]
        for name in names:
            await built.clockwork.desk.create({**DAILY, "name": name})
        life.clock.tick(3_600)
        for name in names:
            await ended(built, name)
    assert most == 20


async def test_a_job_whose_zone_is_gone_holds_up_no_other_and_its_owner_hears_of_it(
    world: MakeWorld,
) -> None:
    """The zones of the machine changed under a job that was made long ago."""
    life = world("CI is green.", config=OWNER)
    async with house(life) as built:
        await ready(built)
        strange = await built.clockwork.desk.create({**DAILY, "name": "a-strange-one"})
        await built.clockwork.desk.create(DAILY)
        spec = replace(strange.body.spec, tz="Mars/Olympus")
        await built.store.save_job(
            replace(strange, body=replace(strange.body, spec=spec), revision=2), over=1
        )
    async with house(life) as built:
        await ready(built)
        # What comes due before the scheduler is awake was missed.
        await eventually(lambda: built.clockwork.scheduler.report()["next"] is not None)
        life.clock.tick(3_600)
        await life.hears("CI is green.", "team")
        await life.hears("a-strange-one was paused", "boss")
        assert not (await built.clockwork.desk.job("a-strange-one")).enabled
        assert len(await built.clockwork.desk.list()) == 2
