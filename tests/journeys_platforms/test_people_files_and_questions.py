"""What a person does on each platform: being let in, showing a file, allowing a command,
stopping."""

from __future__ import annotations

import asyncio
import base64
import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests import programs
from tests.conformance.rig import Visible
from tests.faults.daemon import until
from tests.faults.directed_model import MARKER
from tests.faults.scene import Scene
from tests.journeys_platforms.conftest import Stage

PLATFORMS = ("telegram", "slack", "discord", "matrix", "feishu")
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


async def ohmo(scene: Scene, *words: str) -> str:
    """The owner's keyboard: the command's standard output."""
    done = await asyncio.to_thread(programs.ohmo, scene.daemon.home, *words, code=0)
    return done.stdout + done.stderr


async def shown(
    scene: Scene, on: str, chat: str, holds: Callable[[Visible], bool], what: str
) -> Visible:
    """The newest message of the bot of which ``holds`` is true, once it can be seen."""
    found: list[Visible] = []

    async def there() -> bool:
        found[:] = [
            message
            for message in await scene.rigs[on].visible(chat)
            if message.by_bot and holds(message)
        ]
        return bool(found)

    await until(f"{what} on {on}", there)
    return found[-1]


# being let in


@pytest.mark.parametrize("on", PLATFORMS)
@pytest.mark.person("pair")
async def test_a_stranger_is_told_a_code_and_let_in_by_the_owner(stage: Stage, on: str) -> None:
    async with stage(on, **{on: {"dm": "pairing"}}) as scene:
        await scene.daemon.start()
        await scene.rigs[on].says("let me in")
        told = await shown(scene, on, "dm:ada", lambda one: "pairing approve" in one.text, "a code")
        code = re.search(r"pairing approve (\w{8})", told.text)
        assert code is not None
        assert "asking" in await ohmo(scene, "pairing", "list")
        assert "is let in as user. A user may have things done" in await ohmo(
            scene, "pairing", "approve", code[1]
        )
        await shown(
            scene,
            on,
            "dm:ada",
            lambda one: "You are let in as user" in one.text,
            "that they are let in",
        )
        await shown(
            scene,
            on,
            "dm:ada",
            lambda one: "no marker" in one.text,
            "the answer to their first message",
        )
        assert sum(asked.said.endswith("let me in") for asked in scene.model.asked) == 1
        await scene.says("now I am known", on=on)
        await scene.check(also=is_card)


@pytest.mark.parametrize(
    ("owner", "given", "role"),
    [
        (True, (), "guest"),
        (True, ("--role", "admin"), "admin"),
        (False, ("--role", "guest"), "guest"),
    ],
)
async def test_somebody_is_let_in_as_what_the_owner_says_else_as_a_guest(
    stage: Stage, owner: bool, given: tuple[str, ...], role: str
) -> None:
    async with stage("telegram", telegram={"dm": "pairing"}) as scene:
        path = scene.daemon.home / "config.yaml"
        config = json.loads(path.read_text()) | ({"owner": ["telegram:777"]} if owner else {})
        path.write_text(json.dumps(config))
        await scene.daemon.start()
        for words in ("/start", "what can you do?", "and for me?"):
            await scene.rigs["telegram"].says(words)
        told = await shown(
            scene, "telegram", "dm:ada", lambda one: "pairing approve" in one.text, "a code"
        )
        code = re.search(r"pairing approve (\w{8})", told.text)
        assert code is not None
        await scene.heard("and for me?")
        assert f"is let in as {role}." in await ohmo(scene, "pairing", "approve", code[1], *given)
        welcome = await shown(
            scene, "telegram", "dm:ada", lambda one: "Welcome" in one.text, "the answer to /start"
        )
        assert ("guest" in welcome.text) is (role == "guest")
        await scene.models_asked(1)
        await scene.quiet()
        said = " ".join(asked.said for asked in scene.model.asked)
        assert said.count("what can you do?") == 1
        assert said.count("and for me?") == 1
        await scene.rigs["telegram"].says("/whoami")
        await shown(scene, "telegram", "dm:ada", lambda one: f"role {role}" in one.text, "the role")


# files


async def shares(scene: Scene, on: str, name: str, media: str, content: bytes) -> str:
    """Ada shows a file with a marker beside it."""
    rig, marker = scene.rigs[on], await scene.says("before the file", on=on)
    await scene.answered(marker)
    match on:
        case "telegram":
            stored = rig.server.world.store(name, content)
            body = (
                {"photo": [stored]}
                if media == "image/jpeg"
                else {"document": {**stored, "file_name": name, "mime_type": media}}
            )
            rig.server.world.says("", "dm:ada", caption="look at this", **body)
        case "slack":
            file = rig.server.host_file(name, content, media)
            rig.server.workspace.says("D0ADA", "U0ADA", "look at this", files=[file])
        case "discord":
            stored = rig.server.world.store(name, content) | {"content_type": media}
            rig.server.world.says("look at this", "dm:ada", attachments=[stored])
        case "feishu":
            is_picture = media.startswith("image/")
            key = rig.world.keep("image" if is_picture else "file", name, content)
            if is_picture:
                words = [
                    [{"tag": "text", "text": "look at this"}],
                    [{"tag": "img", "image_key": key}],
                ]
                rig.world.sends("oc_dmada", "ou_ada", "post", {"title": "", "content": words})
            else:
                rig.world.sends("oc_dmada", "ou_ada", "file", {"file_key": key, "file_name": name})
        case _:
            kind = "m.image" if media.startswith("image/") else "m.file"
            info = {"mimetype": media, "size": len(content)}
            await rig.post(
                {
                    "msgtype": kind,
                    "body": "look at this",
                    "filename": name,
                    "url": await rig.uploads(content),
                    "info": info,
                }
            )
    return marker


@pytest.mark.parametrize("on", PLATFORMS)
@pytest.mark.person("attach")
async def test_a_picture_reaches_the_model_as_a_picture(stage: Stage, on: str) -> None:
    async with stage(on) as scene:
        await scene.daemon.start()
        await shares(scene, on, "dot.png", "image/jpeg" if on == "telegram" else "image/png", PNG)
        await scene.models_asked(2)
        content = scene.model.asked[-1].body["messages"][-1]["content"]
        (picture,) = [block for block in content if block["type"] == "image"]
        assert base64.b64decode(picture["source"]["data"]) == PNG
        assert "look at this" in json.dumps(content)


@pytest.mark.parametrize("on", PLATFORMS)
@pytest.mark.person("attach")
async def test_a_text_file_is_named_by_a_path_that_can_be_read(stage: Stage, on: str) -> None:
    async with stage(on) as scene:
        await scene.daemon.start()
        await shares(scene, on, "notes.txt", "text/plain", b"the kettle is on the left\n")
        await scene.models_asked(2)
        content = json.dumps(scene.model.asked[-1].body["messages"][-1]["content"])
        named = re.search(r"\[file: notes\.txt, text/plain, ([^\]]+)\]", content)
        assert named is not None, content
        assert Path(named[1]).read_bytes() == b"the kettle is on the left\n"


@pytest.mark.person("receive", on="chats")
async def test_a_picture_and_a_document_that_were_made_are_shown_on_every_platform(
    stage: Stage, work: Path
) -> None:
    (work / "dot.png").write_bytes(PNG)
    (work / "notes.txt").write_text("the kettle is on the left")
    async with stage(*PLATFORMS) as scene:
        await scene.daemon.start()
        for on in PLATFORMS:
            await scene.says("#show{dot.png notes.txt}", on=on)
        await scene.answered()
        (work / "notes.txt").write_text("changed since")
        for on in PLATFORMS:
            seen = [message for message in await scene.rigs[on].visible() if message.by_bot]
            assert [name for one in seen for name in one.files] == ["dot.png", "notes.txt"], (
                on,
                seen,
            )
            assert sum("here it is" in one.text for one in seen) == 1
        await scene.check(also=lambda one: not MARKER.search(one.text))


# questions


def is_card(message: Visible) -> bool:
    """The question or what became of it, and the reply of a command."""
    return not MARKER.search(message.text)


async def allow(scene: Scene, on: str) -> None:
    """By a button where there are some, else in words."""
    if on == "matrix":
        await shown(scene, on, "dm:ada", lambda one: "/approve" in one.text, "the question")
        await scene.rigs[on].says("/approve")
    else:
        await scene.press_first(on)


@pytest.mark.parametrize("on", PLATFORMS)
@pytest.mark.person("allow")
async def test_a_command_runs_once_when_it_is_allowed(stage: Stage, work: Path, on: str) -> None:
    async with stage(on) as scene:
        await scene.daemon.start()
        await scene.says(f"#run{{echo x >> {work / 'counter'}}}", on=on)
        await allow(scene, on)
        await scene.answered()
        closed = await shown(
            scene, on, "dm:ada", lambda one: "Allowed once by" in one.text, "the closed question"
        )
        assert closed.choices == ()
        assert closed.edits == 1
        await scene.check(also=is_card)
        assert (work / "counter").read_text() == "x\n"


# stopping


async def stop(scene: Scene, on: str) -> None:
    """In Slack people cannot send "/stop" as a message: it is a slash command of the app."""
    if on == "slack":
        scene.rigs[on].server.envelope(
            "slash_commands",
            {
                "command": "/ohmo",
                "text": "stop",
                "channel_id": "D0ADA",
                "user_id": "U0ADA",
                "user_name": "ada",
                "trigger_id": "1.2.stop",
            },
        )
    else:
        await scene.rigs[on].says("/stop")


@pytest.mark.parametrize("on", PLATFORMS)
@pytest.mark.fault(68)
@pytest.mark.person("stop")
async def test_stop_ends_what_runs_and_what_waits_and_is_said(stage: Stage, on: str) -> None:
    async with stage(on) as scene:
        await scene.daemon.start()
        await scene.says("#wait{60} never finished", on=on, answered=False)
        await scene.models_asked(1)
        await scene.says("waits behind it", on=on, answered=False)

        async def waits() -> bool:
            _, status = await scene.daemon.call("GET", "/api/v1/status")
            return status["inbox"].get("waiting", 0) == 1

        await until("the second message waits", waits)
        await stop(scene, on)
        await scene.stopped()
        await shown(
            scene, on, "dm:ada", lambda one: "topped" in one.text, "the word that it stopped"
        )
        await scene.says("and now?", on=on)
        await scene.check(also=is_card)
