"""Order: of the calls of one step what reads a file comes after what changes it, and what lay beyond
the limit of catch-up comes before what was said after it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.faults.daemon import until
from tests.faults.directed_model import results
from tests.faults.scene import Scene
from tests.journeys_platforms.conftest import Stage
from tests.platforms.model.script import Call, Turn
from tests.platforms.slack.server import Fault


def allow(home: Path, *rules: str) -> None:
    path = home / "config.yaml"
    path.write_text(
        json.dumps({**json.loads(path.read_text()), "permissions": {"allow": list(rules)}})
    )


async def told(scene: Scene, *calls: Call) -> list[str]:
    """What the model is told of the calls, which it made in one step."""
    scene.model.next(Turn(calls=calls), Turn("echo: done end"))
    await scene.rigs["telegram"].says("go on")
    await scene.models_asked(2)
    await scene.quiet()
    return results(scene.model.asked[-1].body)


CHANGES = {
    "Write": Call("Write", {"file_path": "f.txt", "content": "new text"}),
    "Bash redirection": Call("Bash", {"command": "sleep 0.5 && echo new text > f.txt"}),
    "Bash words": Call("Bash", {"command": "cp g.txt f.txt"}),
    "Bash nobody can tell": Call(
        "Bash", {"command": "sleep 0.5; for name in f; do cp g.txt $name.txt; done"}
    ),
}


@pytest.mark.parametrize("how", list(CHANGES))
async def test_a_read_in_the_same_step_sees_what_was_written(
    stage: Stage, home: Path, work: Path, how: str
) -> None:
    async with stage("telegram") as scene:
        allow(home, "Write", "Bash")
        (work / "f.txt").write_text("old text\n")
        (work / "g.txt").write_text("new text\n")
        await scene.daemon.start()
        reads = (
            Call("Read", {"file_path": "f.txt"}),
            Call("Bash", {"command": "cat f.txt"}),
            Call("Grep", {"pattern": "text", "output_mode": "content"}),
        )
        said = await told(scene, CHANGES[how], *reads)
        assert len(said) == 4
        for one in said[1:]:
            assert "new text" in one
            assert "old text" not in one


async def test_a_read_waits_for_a_write_that_a_person_is_asked_about(
    stage: Stage, work: Path
) -> None:
    async with stage("telegram") as scene:
        (work / "f.txt").write_text("old text\n")
        await scene.daemon.start()
        scene.model.next(
            Turn(calls=(CHANGES["Write"], Call("Read", {"file_path": "f.txt"}))),
            Turn("echo: done end"),
        )
        await scene.rigs["telegram"].says("go on")
        await scene.press_first("telegram")
        await scene.models_asked(2)
        await scene.quiet()
        said = results(scene.model.asked[-1].body)
        assert "new text" in said[1]
        assert (work / "f.txt").read_text() == "new text"


HISTORY = frozenset({"conversations.history"})


async def test_what_slack_brings_itself_of_an_absence_is_heard_in_its_place(stage: Stage) -> None:
    async with stage("slack", slack={"catch_up": {"max_messages": 2}}) as scene:
        rig = scene.rigs["slack"]
        await scene.daemon.start()
        await scene.says("hello", on="slack")
        await scene.answered()
        await scene.daemon.stop()
        missed = [await scene.says(f"number {number}", on="slack") for number in range(4)]
        # of the direct message and the channel
        rig.server.faults += [Fault("limit", 3, HISTORY)] * 2
        await scene.daemon.start(ready=False)

        async def reading() -> bool:
            return not rig.server.faults

        await until("history is asked for, and has to wait", reading, every=0.05)
        for marker in missed[:2]:
            await rig.redeliver(scene.messages[marker])
        await scene.answered(*missed)
        await scene.quiet()
        asked = [json.dumps(request.body["messages"][-1]) for request in scene.model.asked]
        order = [
            next(marker for marker in missed if marker in one)
            for one in asked
            if any(marker in one for marker in missed)
        ]
        assert order == missed
        said = [message.text for message in await rig.visible() if message.by_bot]
        assert not [text for text in said if text.startswith("Not read")], "nothing was left out"
        await scene.check()
