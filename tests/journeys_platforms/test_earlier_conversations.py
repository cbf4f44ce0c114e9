"""A person goes back to an earlier conversation of a chat, takes the present one away as a file and
asks which ohmo this is: on the real daemon, on each platform and on the page."""

from __future__ import annotations

import json
import re

import pytest

from tests.conformance.rig import Visible
from tests.faults.daemon import until
from tests.faults.scene import Scene
from tests.journeys_platforms.conftest import Stage
from tests.journeys_platforms.test_people_files_and_questions import PLATFORMS
from tests.journeys_platforms.test_words_from_elsewhere import replied, says
from tests.platforms.model.script import Call, Turn


def heard(scene: Scene) -> str:
    """The conversation the model was sent last."""
    return json.dumps(scene.model.asked[-1].body["messages"])


async def talk(scene: Scene, on: str, words: str) -> None:
    await scene.answered(await scene.says(words, on=on))


@pytest.mark.parametrize("on", [*PLATFORMS, "web"])
async def test_an_earlier_conversation_goes_on_is_exported_and_the_other_is_kept(
    stage: Stage, on: str
) -> None:
    async with stage(on) as scene:
        await scene.daemon.start()
        await replied(scene, on, "/version", ", Python 3.")
        await talk(scene, on, "the roof leaks")
        await replied(scene, on, "/new", "A new conversation begins here")
        await talk(scene, on, "paint the fence")
        assert "roof" not in heard(scene)

        await replied(scene, on, "/resume", "the roof leaks")
        await replied(scene, on, "/resume leaks", "This goes on: ")
        await talk(scene, on, "and now")
        assert "the roof leaks" in heard(scene)
        assert "fence" not in heard(scene)

        await says(scene, on, "/export")
        await says(scene, on, "/export json")
        shown: list[Visible] = []

        async def there() -> bool:
            seen = await scene.rigs[on].visible("dm:ada")
            shown[:] = [message for message in seen if message.by_bot and message.files]
            return sum(len(message.files) for message in shown) == 2

        await until(f"two files on {on}", there)
        names = [name for message in shown for name in message.files]
        assert names == ["conversation.md", "conversation.json"]
        folder = scene.daemon.home / "spill" / "shown"
        (text,) = [path.read_text() for path in folder.rglob("conversation.md")]
        said = re.findall(r"the roof leaks|paint the fence|and now", text)
        assert list(dict.fromkeys(said)) == ["the roof leaks", "and now"]
        (whole,) = [json.loads(path.read_text()) for path in folder.rglob("conversation.json")]
        assert [each["who"] == "ohmo" for each in whole["items"]] == [False, True] * 2
        assert whole["channel"] == on

        await scene.daemon.kill()
        await scene.daemon.start()
        await replied(scene, on, "/resume 1", "paint the fence")
        await talk(scene, on, "still there?")
        assert "paint the fence" in heard(scene)
        assert "roof" not in heard(scene)
        await replied(scene, on, "/resume", "the roof leaks")


async def test_a_conversation_larger_than_the_platform_takes_is_told_in_one_line(
    stage: Stage,
) -> None:
    async with stage("web", web={"max_file": 100}) as scene:
        await scene.daemon.start()
        await talk(scene, "web", "the roof leaks")
        await replied(
            scene, "web", "/export", "too large: web takes 100 bytes. The owner can write it with"
        )
        messages = await scene.rigs["web"].visible("dm:ada")
        assert not any(message.files for message in messages)


async def test_a_guest_takes_away_what_was_said_and_posted_and_nothing_else(stage: Stage) -> None:
    async with stage("telegram", telegram={"dm": "open"}) as scene:
        config = scene.daemon.home / "config.yaml"
        config.write_text(
            config.read_text().replace('"limits"', '"access": {"default_role": "guest"}, "limits"')
        )
        await scene.daemon.start()
        scene.model.next(
            Turn(text="thought aloud", calls=(Call("Read", {"file_path": "roof.txt"}),)),
            Turn(text="it is slate"),
        )
        await replied(scene, "telegram", "what is the roof made of", "it is slate")
        await scene.quiet()
        await replied(scene, "telegram", "/export json", "This conversation, ")
        folder = scene.daemon.home / "spill" / "shown"
        (whole,) = [json.loads(path.read_text()) for path in folder.rglob("conversation.json")]
        assert [each["text"] for each in whole["items"]] == [
            "what is the roof made of",
            "it is slate",
        ]
        assert "thought aloud" in heard(scene)  # the log has it
