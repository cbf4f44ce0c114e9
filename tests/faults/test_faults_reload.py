"""Row 53: a configuration that changes while turns run tightens at once and loosens only for turns
that begin after it."""

from __future__ import annotations

import itertools
import json
import os
import signal
from pathlib import Path
from typing import Any

from aiohttp import ClientSession, UnixConnector

from tests.faults.conftest import Stage
from tests.faults.daemon import until
from tests.faults.scene import Scene
from tests.faults.test_faults_approvals import is_card

OWNER = {"access": {"roles": {"owner": ["telegram:1001"]}}}


def write(scene: Scene, **changed: Any) -> None:
    file = scene.daemon.home / "config.yaml"
    file.write_text(json.dumps({**json.loads(file.read_text()), **changed}))


async def reload(scene: Scene, **changed: Any) -> None:
    """Writes the file anew and says so; returns when the house that has read it is about to make
    room for the next."""
    write(scene, **changed)
    os.kill(scene.daemon.pid, signal.SIGHUP)
    await logged(scene, "of a new configuration")


async def logged(scene: Scene, words: str) -> None:
    async def there() -> bool:
        return words in scene.daemon.log

    await until(f"the log says: {words}", there)


async def new_house(scene: Scene) -> None:
    await logged(scene, "configuration_changed")
    await scene.daemon.ready()


async def asked_again(scene: Scene, command: str) -> str:
    """The id of the open question about this command."""
    found: list[str] = []

    async def there() -> bool:
        _, said = await scene.daemon.call("GET", "/api/v1/approvals")
        found[:] = [
            approval["ask"]["id"]
            for approval in said["approvals"]
            if command in approval["ask"]["question"]["title"]
        ]
        return bool(found)

    await until(f"a question about {command}", there)
    return found[0]


async def allow(scene: Scene, approval: str) -> None:
    status, said = await scene.daemon.call(
        "POST", f"/api/v1/approvals/{approval}", {"verdict": "allowed"}
    )
    assert status == 200, said


async def test_what_a_new_configuration_forbids_is_forbidden_to_a_turn_that_runs(
    stage: Stage, work: Path
) -> None:
    async with stage("telegram", permissions={"mode": "full_auto"}, **OWNER) as scene:
        await scene.daemon.start()
        waits = f"touch {work}/running; until [ -e {work}/go ]; do sleep 0.05; done"
        marker = await scene.says(f"#run{{{waits}}} #then{{echo x >> {work}/counter}}")
        await scene.appears(work / "running")
        await reload(scene, permissions={"mode": "full_auto", "deny": ["Bash(echo:*)"]})
        (work / "go").touch()  # the turn goes on in the house that is being left
        await new_house(scene)
        await scene.check()
        assert not (work / "counter").exists()
        assert "the rule deny Bash(echo:*) forbids" in scene.told(marker)[-1]


async def numbers(scene: Scene) -> dict[str, float]:
    """Every counter of /metrics, those of the histograms too; a Prometheus that sees one fall takes
    it for a process that was started anew."""
    async with ClientSession(
        connector=UnixConnector(str(scene.daemon.home / "run" / "ohmo.sock"))
    ) as session:
        async with session.get("http://localhost/metrics") as answer:
            lines = (await answer.text()).splitlines()
    kinds = {line.split()[2]: line.split()[3] for line in lines if line.startswith("# TYPE ohmo_")}
    counters = tuple(name for name, kind in kinds.items() if kind in ("counter", "histogram"))
    return {
        name: float(value)
        for name, _, value in (line.rpartition(" ") for line in lines)
        if name.startswith(counters) and "_created" not in name
    }


async def test_counters_never_fall_under_load_and_across_a_new_configuration(stage: Stage) -> None:
    async with stage("telegram") as scene:
        await scene.daemon.start()
        seen = [await numbers(scene)]
        await scene.bursts(20, "#wait{0.5}")
        await scene.models_asked(20)
        seen.append(await numbers(scene))
        await scene.answered()
        seen.append(await numbers(scene))
        await reload(scene, permissions={"mode": "plan"})
        await new_house(scene)
        seen.append(await numbers(scene))
        await scene.says()
        await scene.answered()
        await scene.quiet()
        seen.append(await numbers(scene))
        for earlier, later in itertools.pairwise(seen):
            assert [name for name, value in earlier.items() if later.get(name, -1.0) < value] == []
        assert seen[-1]["ohmo_turn_seconds_count"] == 21
        assert seen[-1]['ohmo_model_tokens_total{kind="output"}'] > 0


async def test_a_person_who_lost_a_role_is_asked_in_the_turn_that_runs_for_them(
    stage: Stage, work: Path
) -> None:
    async with stage("telegram", permissions={"mode": "full_auto"}, **OWNER) as scene:
        await scene.daemon.start()
        waits = f"touch {work}/running; until [ -e {work}/go ]; do sleep 0.05; done"
        marker = await scene.says(f"#run{{{waits}}} #then{{echo x >> {work}/counter}}")
        await scene.appears(work / "running")
        await reload(scene, access={"roles": {"guest": ["telegram:1001"]}})
        (work / "go").touch()
        await new_house(scene)
        await scene.check()
        assert not (work / "counter").exists()
        assert "guests may only use tools that read public things" in scene.told(marker)[-1]


async def test_what_a_new_configuration_allows_is_allowed_to_new_turns_only(
    stage: Stage, work: Path
) -> None:
    async with stage("telegram", **OWNER) as scene:
        await scene.daemon.start()
        await scene.says(
            f"#run{{echo first >> {work}/counter}} #then{{echo second >> {work}/counter}}"
        )
        first = await asked_again(scene, "echo first")
        await reload(scene, permissions={"mode": "full_auto"})
        await new_house(scene)
        await allow(scene, first)
        second = await asked_again(scene, "echo second")
        assert (work / "counter").read_text().split() == ["first"]
        await allow(scene, second)
        await scene.answered()
        await scene.says(f"#run{{echo third >> {work}/counter}}")
        await scene.check(also=is_card)
        assert (work / "counter").read_text().split() == ["first", "second", "third"]


async def killed_while_it_asks(scene: Scene, work: Path, **changed: Any) -> str:
    """A turn that waits for a person is killed with its daemon; the next one has another
    configuration, and the person says yes. What the turn was begun with."""
    await scene.daemon.start()
    marker = await scene.says(
        f"#run{{echo first >> {work}/counter}} #then{{touch {work}/second-counter}}"
    )
    first = await asked_again(scene, "echo first")
    await scene.daemon.kill()
    write(scene, **changed)
    await scene.daemon.start()
    await allow(scene, first)
    return marker


async def test_after_a_kill_a_looser_configuration_allows_nothing_to_a_turn_that_began_before(
    stage: Stage, work: Path
) -> None:
    asks, deny = ["Bash(echo:*)"], ["Bash(touch:*)"]
    before = {"mode": "full_auto", "ask": asks, "deny": deny}
    async with stage("telegram", permissions=before, **OWNER) as scene:
        marker = await killed_while_it_asks(scene, work, permissions={"mode": "full_auto"})
        await scene.answered()
        assert (work / "counter").read_text().split() == ["first"]
        assert not (work / "second-counter").exists()
        assert "the rule deny Bash(touch:*) forbids" in scene.told(marker)[-1]
        await scene.says(f"#run{{touch {work}/second-counter}}")
        await scene.check(also=is_card)
        assert (work / "second-counter").exists()  # of a turn that began after it


async def test_after_a_kill_the_mode_a_turn_began_with_still_asks(stage: Stage, work: Path) -> None:
    async with stage("telegram", **OWNER) as scene:
        await killed_while_it_asks(scene, work, permissions={"mode": "full_auto"})
        second = await asked_again(scene, "touch")
        assert not (work / "second-counter").exists()
        await allow(scene, second)
        await scene.check(also=is_card)
        assert (work / "second-counter").exists()


async def test_after_a_kill_a_role_that_was_raised_raises_nothing_in_a_turn_that_began_before(
    stage: Stage, work: Path
) -> None:
    user = {"access": {"roles": {"user": ["telegram:1001"]}}}
    free = {"permissions": {"mode": "full_auto"}}  # of owners and admins: others are asked
    async with stage("telegram", **user, **free) as scene:
        await killed_while_it_asks(scene, work, **OWNER)
        second = await asked_again(scene, "touch")
        assert not (work / "second-counter").exists()
        await allow(scene, second)
        await scene.check(also=is_card)


async def test_after_a_kill_a_stricter_configuration_holds_in_a_turn_that_began_before(
    stage: Stage, work: Path
) -> None:
    async with stage("telegram", **OWNER) as scene:
        marker = await killed_while_it_asks(
            scene, work, permissions={"deny": ["Bash(touch:*)"], "mode": "default"}
        )
        await scene.check(also=is_card)
        assert (work / "counter").read_text().split() == ["first"]
        assert not (work / "second-counter").exists()
        assert "the rule deny Bash(touch:*) forbids" in scene.told(marker)[-1]


async def test_a_rule_that_cannot_be_read_is_not_taken_over(stage: Stage) -> None:
    async with stage("telegram") as scene:
        await scene.daemon.start()
        write(scene, permissions={"deny": ["WebFetch(example.org)"]})
        await logged(scene, "configuration_refused")
        _, status = await scene.daemon.call("GET", "/api/v1/status")
        assert any("WebFetch takes domain:HOST" in line for line in status["warnings"])
        await scene.says("are you there?")
        await scene.check(also=lambda message: "WebFetch takes" in message.text)
