"""How hard the model thinks, chosen by a person for one conversation: on the real daemon, over each
wire, also after kill -9."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.journeys.at_keyboard import keyboard
from tests.platforms.model.script import Asked
from tests.platforms.model.server import ModelServer

pytestmark = pytest.mark.timeout(240)
PROFILES: dict[str, dict[str, Any]] = {
    "responses": {"provider": "openai", "wire": "responses", "models": ["gpt-6-sol"]},
    "openai": {"provider": "openai", "models": ["gpt-5"]},
    "anthropic": {"provider": "anthropic", "models": ["claude-sonnet-5-5"]},
}
TIMELY = "Take your time"


def effort(asked: Asked) -> str | None:
    body = asked.body
    found = body.get("reasoning", body.get("output_config", {})).get("effort")
    return found or body.get("reasoning_effort")


@pytest.mark.parametrize("wire", PROFILES)
async def test_an_effort_holds_for_its_conversation_from_the_next_message_on(
    tmp_path: Path, wire: str
) -> None:
    server = ModelServer()
    async with keyboard(tmp_path, server, running=False) as home:
        url = server.url if wire == "anthropic" else f"{server.url}/v1"
        profile = {"api_key": "env:KEY", "base_url": url, **PROFILES[wire]}
        home.configure(home.written | {"profiles": {"default": profile}})
        await home.daemon.start()
        first = json.loads((await home.ohmo("-p", "one", "--output", "json")).out)["thread"]

        async def says(words: str) -> str:
            return (await home.ohmo("-p", words, "--resume", first)).out

        assert "Effort: as configured" in await says("/effort")
        assert "is no effort" in await says("/effort extreme")
        told = await says("/think high")
        assert "Effort is now `high`" in told
        assert "begins anew" in told
        assert "already" in await says("/effort high")
        await says("two")
        await home.daemon.kill()
        await home.daemon.start()
        await says("three")
        await home.ohmo("-p", "elsewhere")
        await says("/effort default")
        await says("four")

        assert [effort(asked) for asked in server.asked] == [None, "high", "high", None, None]
        texts = [asked.raw.decode() for asked in server.asked]
        assert [TIMELY in text for text in texts] == [False, True, True, False, False]
        assert "echo: one" in texts[-1]  # one session all the time
        replayed = await home.ohmo("sessions", "replay", first)
        assert replayed.code == 0, replayed.out


async def test_a_profile_has_an_effort_of_its_own_and_a_model_that_knows_none_is_asked_without(
    tmp_path: Path,
) -> None:
    server = ModelServer()
    async with keyboard(tmp_path, server, running=False) as home:
        profile = home.written["profiles"]["default"] | {"effort": "low"}
        home.configure(home.written | {"profiles": {"default": profile}})
        await home.daemon.start()
        await home.ohmo("-p", "one", "--model", "gpt-5")
        models = {"models": ["gpt-4.1", "gpt-5"], "wire": "responses"}
        home.configure(home.written | {"profiles": {"default": profile | models}})
        await home.daemon.kill()
        await home.daemon.start()
        said = await home.ohmo("-p", "two", "--model", "gpt-4.1")
        assert said.out.strip() == "echo: two"
        assert [effort(asked) for asked in server.asked] == ["low", None]
