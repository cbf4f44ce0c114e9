"""What a project brings along for agents: shown in the chat before it is followed, once; on the real
daemon."""

from __future__ import annotations

from pathlib import Path

from tests.journeys_platforms.conftest import Stage
from tests.journeys_platforms.test_people_files_and_questions import shown
from tests.programs import run_process


async def test_rules_are_shown_before_the_first_answer_and_not_again(
    stage: Stage, work: Path
) -> None:
    run_process("git", "init", "-q", work, code=0)
    (work / "AGENTS.md").write_text("Never touch the shop on Fridays.\n")
    async with stage("telegram") as scene:
        await scene.daemon.start()
        marker = await scene.says(on="telegram")
        await scene.answered(marker)
        notice = await shown(
            scene, "telegram", "dm:ada", lambda one: "follow the rules" in one.text, "the rules"
        )
        assert f"{work}/AGENTS.md" in notice.text
        assert "Never touch the shop on Fridays." in notice.text
        await scene.answered(await scene.says(on="telegram"))
        await scene.rigs["telegram"].says("/context")
        listed = await shown(
            scene, "telegram", "dm:ada", lambda one: "project_rules" in one.text, "the list"
        )
        assert f"{work}/AGENTS.md" in listed.text
        messages = await scene.rigs["telegram"].visible("dm:ada")
        said = [one.text for one in messages if one.by_bot]
        notices = [number for number, text in enumerate(said) if "follow the rules" in text]
        answer = next(number for number, text in enumerate(said) if marker in text)
        assert len(notices) == 1
        assert notices[0] < answer
