"""What was said when somebody stops it stays where it was said, and the model is told of both."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiohttp import ClientSession, UnixConnector

from tests.faults.daemon import PATIENCE, Daemon
from tests.faults.scene import Scene
from tests.journeys_platforms.conftest import Stage

WAYS = [
    ("telegram", None),
    ("telegram", "off"),
    ("telegram", "edits"),
    ("slack", None),
    ("slack", "off"),
    ("discord", None),
    ("discord", "off"),
    ("feishu", None),
    ("feishu", "off"),
    ("matrix", None),
    ("matrix", "off"),
    ("web", None),
]


@asynccontextmanager
async def watched(daemon: Daemon) -> AsyncIterator[Callable[[str], Awaitable[None]]]:
    """Waits until a running turn has said so much, by the daemon's own events."""
    said = ""
    connector = UnixConnector(str(daemon.home / "run" / "ohmo.sock"))
    async with (
        ClientSession(connector=connector) as session,
        session.get("http://localhost/api/v1/events") as stream,
    ):

        async def says(text: str) -> None:
            nonlocal said
            async with asyncio.timeout(PATIENCE):
                while text not in said:
                    line = (await stream.content.readline()).decode()
                    found = json.loads(line[6:]) if line.startswith("data: ") else {}
                    said += (
                        found.get("event", found).get("text", "") if isinstance(found, dict) else ""
                    )

        yield says


def said_to_model(scene: Scene) -> list[dict[str, Any]]:
    return scene.model.asked[-1].body["messages"]


@pytest.mark.parametrize(("on", "streaming"), WAYS)
async def test_what_was_said_when_it_was_stopped_stays_and_the_next_request_has_it(
    stage: Stage, on: str, streaming: str | None
) -> None:
    keys = {on: {"streaming": streaming}} if streaming is not None else {}
    async with stage(on, **keys) as scene:
        await scene.daemon.start()
        async with watched(scene.daemon) as until_said:
            marker = await scene.says("#chunks{40} #hold{20}", on=on, answered=False)
            await until_said("word3")
            await scene.rigs[on].says("/stop")
            await scene.stopped()
        kept = [
            message.text
            for message in await scene.rigs[on].visible()
            if message.by_bot and marker in message.text
        ]
        assert len(kept) == 1, "what was said stands once"
        assert "stopped by" in kept[0]
        assert " end" not in kept[0]
        later = await scene.says("and now?", on=on)
        await scene.answered(later)
        spoken = [one["role"] for one in said_to_model(scene)]
        assert spoken == ["user", "assistant", "user"]
        partial = json.dumps(said_to_model(scene)[1])
        assert marker in partial
        assert " end" not in partial
        assert "stopped" in json.dumps(said_to_model(scene)[2])
        bot = [one.text for one in await scene.rigs[on].visible() if one.by_bot]
        assert [text for text in bot if marker in text] == kept, "and stays"
        await scene.check(also=lambda one: one.text == "Stopped." or one.text in kept)
