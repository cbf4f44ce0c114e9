"""What tools and people leave in one conversation (long output, a command in the background, an
export, a file that was sent) is read by no turn of another person, and by its own also after a
restart: on the real daemon."""

from __future__ import annotations

import json
import re
from pathlib import Path

from tests.faults.daemon import until
from tests.faults.directed_model import results
from tests.faults.scene import Scene
from tests.journeys_platforms.conftest import Stage
from tests.journeys_platforms.test_people_files_and_questions import shares
from tests.journeys_platforms.test_words_from_elsewhere import replied
from tests.platforms.model.script import Call, Turn

SECRET = "my diagnosis"


async def turn(scene: Scene, who: str, *calls: Call) -> list[str]:
    """What the model is told of these calls in the direct messages of ``who``."""
    count = scene.model.count
    scene.model.next(Turn(calls=calls), Turn(text="done"))
    await scene.rigs["telegram"].says("go on", chat=f"dm:{who}", person=who)
    await scene.models_asked(count + 2)
    told = results(scene.model.asked[-1].body)
    assert len(told) == len(calls)
    await scene.quiet()
    return told


async def test_what_is_kept_for_one_conversation_is_read_by_no_other(stage: Stage) -> None:
    async with stage("telegram") as scene:
        config = scene.daemon.home / "config.yaml"
        allowed = {"permissions": {"allow": ["Bash(seq:*)", "Bash(echo:*)"]}}
        config.write_text(json.dumps(json.loads(config.read_text()) | allowed))
        spill = scene.daemon.home / "spill"
        (spill / "background").mkdir(parents=True)
        (spill / "t.1.txt").write_text(f"{SECRET}\n")  # of an earlier version
        (spill / "background" / "bash_9.txt").write_text(f"{SECRET}\n")
        await scene.daemon.start()
        background = {"command": f"echo {SECRET} is said", "run_in_background": True}
        long, begun = await turn(
            scene,
            "ada",
            Call("Bash", {"command": f"seq -f '{SECRET} %g' 9000"}),
            Call("Bash", background),
        )
        named = re.search(r"whole output: (\S+)", long)
        assert named is not None, long
        assert "as bash_1;" in begun
        output = Path(named[1]).with_name("bash_1.txt")

        async def said() -> bool:
            return output.exists() and output.read_text() == f"{SECRET} is said\n"

        await until("the command in the background has spoken", said)
        count = scene.model.count
        await shares(scene, "telegram", "notes.txt", "text/plain", f"{SECRET}\n".encode())
        await scene.models_asked(count + 2)
        await scene.quiet()
        sent = re.search(
            r"\[file: notes\.txt, text/plain, ([^\]]+)\]", json.dumps(scene.model.asked[-1].body)
        )
        assert sent is not None
        assert SECRET in Path(sent[1]).read_text()
        await replied(scene, "telegram", "/export", "This conversation, ")
        [export] = spill.rglob("conversation.md")
        assert SECRET in export.read_text()

        files = {named[1], sent[1], str(export), str(spill / "t.1.txt"), str(output)}
        files.add(str(spill / "background" / "bash_9.txt"))
        for who in ("bob", "ada"):
            closed = sorted(files if who == "bob" else files - {named[1], sent[1], str(output)})
            told = await turn(
                scene,
                who,
                *(Call("Read", {"file_path": file}) for file in closed),
                *(Call("Bash", {"command": f"cat {file}"}) for file in closed),
                *(
                    Call(tool, {"pattern": pattern, "path": str(scene.daemon.home / folder)})
                    for tool, pattern in (("Grep", "diagnosis"), ("Glob", "**"))
                    for folder in ("spill", "media", "spill/shown", "spill/background")
                ),
                *([Call("BashOutput", {"bash_id": "bash_1"})] if who == "bob" else []),
            )
            assert not [text for text in told if SECRET in text]
            assert all("kept for another conversation" in text for text in told[: len(closed)])

        await scene.daemon.kill()
        await scene.daemon.start()
        own = (named[1], sent[1], str(output))
        told = await turn(
            scene,
            "ada",
            *(Call("Read", {"file_path": file}) for file in own),
            Call("Grep", {"pattern": "diagnosis", "path": str(output.parent)}),
            Call("BashOutput", {"bash_id": "bash_1"}),
        )
        assert [SECRET in text or str(output.parent) in text for text in told] == [True] * 5
