"""A day in an encrypted room: a question allowed by a thumb, kill -9 in the middle, files both
ways, an edit, a thread; the homeserver reads none of it."""

from __future__ import annotations

import json
import os
import re
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest

from tests import warm
from tests.faults.daemon import until
from tests.faults.directed_model import MARKER
from tests.faults.scene import Scene, scene
from tests.platforms.matrix.rig import MatrixRig, encrypted_rig

pytestmark = [pytest.mark.needs("synapse"), pytest.mark.needs("synapse")]
WORDS = ("kettle", "marker", "counter", "here it is", "m-1-")


@pytest.fixture
async def room(home: Path, work: Path) -> AsyncIterator[Scene]:
    assert work.is_dir()
    async with scene(home, {"matrix": encrypted_rig}, start=warm.start) as made:
        yield made


async def events(rig: MatrixRig) -> list[dict[str, Any]]:
    """What the homeserver holds of the room."""
    return (
        await rig.call("ada", "GET", f"/rooms/{rig.rooms['dm:ada']}/messages", dir="f", limit=500)
    )["chunk"]


async def shares(rig: MatrixRig, name: str, content: bytes) -> None:
    ada = await rig.client("ada")
    scrambled, file = ada.scrambled(content)
    file["url"] = await rig.uploads(scrambled)
    await rig.post(
        {
            "msgtype": "m.file",
            "body": name,
            "file": file,
            "info": {"mimetype": "text/plain", "size": len(content)},
        }
    )


@pytest.mark.person("allow", "attach", "restart", on="matrix")
async def test_a_day_in_an_encrypted_room(room: Scene, work: Path) -> None:
    rig: MatrixRig = room.rigs["matrix"]
    await room.daemon.start()
    await room.says(f"#run{{echo x >> {work}/counter}}", on="matrix")

    async def asked() -> bool:
        return any("/approve" in message.text for message in await rig.visible())

    await until("the question", asked)
    await room.daemon.kill()
    (card,) = [message for message in await rig.visible() if "/approve" in message.text]
    thumb = {"m.relates_to": {"rel_type": "m.annotation", "event_id": card.id, "key": "👍"}}
    await rig.post(thumb, kind="m.reaction")  # while nobody is there
    await room.daemon.start()
    await room.answered()
    assert (work / "counter").read_text() == "x\n"

    before = room.model.count
    await shares(rig, "notes.txt", b"the kettle is on the left")
    await room.models_asked(before + 1)
    named = re.search(
        r"\[file: notes\.txt, text/plain, ([^\]]+)\]",
        json.dumps(room.model.asked[-1].body["messages"]),
    )
    assert named is not None
    assert Path(named[1]).read_bytes() == b"the kettle is on the left"

    (work / "answer.txt").write_text("the kettle is hot")
    root = room.messages[await room.says("#show{answer.txt}", on="matrix")]
    await room.answered()
    await room.says("in a thread", on="matrix", topic=root)
    await room.answered()
    shown = [one for one in await rig.visible() if one.by_bot]
    assert [name for one in shown for name in one.files] == ["answer.txt"]
    assert [one.topic for one in shown][-1] == root

    marker = await room.says("#wait{3} first words", on="matrix")
    await rig.edits(room.messages[marker], "other words")  # a second turn: docs/conversations.md
    await room.answered()
    held = await events(rig)
    assert not [one for one in held if one["type"] == "m.room.message"], "said in plain"
    assert not [word for word in (*WORDS, os.fspath(work)) if word in json.dumps(held)]
    await room.check(also=lambda one: not MARKER.search(one.text))
