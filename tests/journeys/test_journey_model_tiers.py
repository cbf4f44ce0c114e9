"""On the real daemon: an answer the chosen small model cannot give is the larger one's, for this
answer only; usage, trace and log name who answered, and a replay sends the same bytes, also after
kill -9."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.faults.daemon import Daemon, until
from tests.journeys.at_keyboard import keyboard
from tests.platforms.model.script import Asked, Call, Turn
from tests.platforms.model.server import ModelServer

pytestmark = pytest.mark.timeout(240)
SMALL, LARGE = "small-7b", "large-70b"


def profile(url: str, wire: str) -> dict[str, Any]:
    return {
        "provider": "anthropic" if wire == "anthropic" else "openai",
        "base_url": url,
        "models": [SMALL, LARGE],
        "api_key": "env:KEY",
        "weak_model_hints": True,
        **({"wire": "responses"} if wire == "responses" else {}),
    }


def small_is_weak(asked: Asked) -> Turn:
    """The small one does not find the arguments of ``Glob``."""
    usage = {"output_tokens": 7}
    if "look" not in asked.said and "Wrong" not in asked.said and "fit" not in asked.said:
        return Turn(text=f"{asked.body['model']} heard {asked.said}", usage=usage)
    if asked.body["model"] == SMALL:
        return Turn(calls=(Call("Glob", {"glob": 1}),), usage=usage)
    if b'"*.none' in asked.raw or b"*.none" in asked.raw:
        return Turn(text="nothing is there", usage=usage)
    return Turn(calls=(Call("Glob", {"pattern": "*.none"}),), usage=usage)


@pytest.mark.parametrize("wire", ["openai", "responses", "anthropic"])
async def test_the_larger_model_answers_what_the_small_one_could_not(
    tmp_path: Path, wire: str
) -> None:
    server = ModelServer(default=small_is_weak)
    async with keyboard(tmp_path, server, running=False) as home:
        home.configure({**home.written, "profiles": {"default": profile(server.url, wire)}})
        daemon = home.daemon
        await daemon.start()
        thread = await said(daemon, "/model small-7b")
        await said(daemon, "hello", thread)
        await said(daemon, "look", thread)
        await daemon.kill()
        await daemon.start()
        await said(daemon, "bye", thread)
        models = [asked.body["model"] for asked in server.asked]
        # two steps of the turn that looked, each begun by the small one
        assert models[:5] == [SMALL, SMALL, SMALL, SMALL, LARGE]
        assert models[-1] == SMALL
        assert models.count(LARGE) == 2
        replayed = await home.ohmo("sessions", "replay", thread)
        assert replayed.out.startswith("4 of 4 requests are the same byte for byte"), replayed
        rows = daemon.rows("SELECT model, input + cached + written + output FROM usage")
        assert sum(tokens for _, tokens in rows) == server.billed
        assert len(rows) == len(server.bills) == len(models)
        assert sum(model == LARGE for model, _ in rows) == 2
        lines = [json.loads(line) for line in daemon.log.splitlines()]
        asked = [line for line in lines if line["event"] == "larger_model_asked"]
        assert [(one["model"], one["larger"], one["fault"]) for one in asked] == [
            (SMALL, LARGE, "wrong arguments")
        ] * 2
        traced = await home.ohmo("trace", asked[0]["turn"])
        assert f"{LARGE} (turn)" in traced.out, traced


async def said(daemon: Daemon, text: str, thread: str = "") -> str:
    message = {"text": text, **({"thread": thread} if thread else {})}
    _, answer = await daemon.call("POST", "/api/v1/messages", message)
    await until(f"{text} is answered", daemon.idle)
    return str(answer["thread"])
