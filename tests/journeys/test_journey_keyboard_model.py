"""Which model a person at the keyboard gets, and what the offline one says: the real daemon, the
real command."""

from __future__ import annotations

import signal
from pathlib import Path
from typing import Any

import pytest

from tests.faults.daemon import until
from tests.journeys.at_keyboard import Keyboard, heard, keyboard
from tests.platforms.model.server import ModelServer

pytestmark = pytest.mark.timeout(240)
OFFLINE = {"default": {"provider": "offline"}}


def profile(home: Keyboard, **changed: Any) -> None:
    home.configure(
        home.written | {"profiles": {"default": home.written["profiles"]["default"] | changed}}
    )


async def test_a_gateway_is_asked_for_the_model_without_its_provider(tmp_path: Path) -> None:
    server = ModelServer(models=["gpt-5"])
    async with keyboard(tmp_path, server, running=False) as home:
        profile(home, models=["openai/gpt-5"])
        await home.daemon.start()
        for word in ("one", "two"):
            said = await home.ohmo("-p", word)
            assert (said.code, said.out) == (0, f"echo: {word}\n"), said.err
        assert [asked.body["model"] for asked in server.asked] == ["openai/gpt-5", "gpt-5", "gpt-5"]


async def test_a_gateway_that_names_its_models_with_the_provider_gets_the_whole_name(
    tmp_path: Path,
) -> None:
    server = ModelServer(models=["openai/gpt-5", "gpt-5"])
    async with keyboard(tmp_path, server, running=False) as home:
        profile(home, models=["openai/gpt-5"])
        assert (await home.ohmo("-p", "one")).out == "echo: one\n"
        assert [asked.body["model"] for asked in server.asked] == ["openai/gpt-5"]


async def test_a_model_that_is_not_there_is_refused_before_anything_is_said(tmp_path: Path) -> None:
    server = ModelServer(models=["gpt-5", "gpt-5-mini", "qwen3:latest"])
    async with keyboard(tmp_path, server) as home:
        said = await home.ohmo("-p", "hello", "--model", "gpt-5-mni")
        assert (said.code, said.out) == (2, "")
        assert (
            said.err
            == "ohmo: model gpt-5-mni: the endpoint has no such model; it has gpt-5-mini, gpt-5,"
            " qwen3:latest\n"
        )
        assert server.asked == []
        # nor is anything stored
        assert (await home.daemon.call("GET", "/api/v1/inbox"))[1]["inbox"] == []
        for there in ("gpt-5", "gpt-5-mini"):
            assert (await home.ohmo("-p", "hello", "--model", there)).out == "echo: hello\n"
        assert [asked.body["model"] for asked in server.asked] == ["gpt-5", "gpt-5-mini"]


async def test_the_offline_provider_has_no_model_to_choose(tmp_path: Path) -> None:
    async with keyboard(tmp_path, ModelServer(), profiles=OFFLINE) as home:
        said = await home.ohmo("-p", "hello", "--model", "gpt-5")
        assert (said.code, said.err) == (
            2,
            "ohmo: model gpt-5: no model is configured; docs/models.md says how to connect one\n",
        )


async def test_the_offline_provider_tells_of_the_call_that_was_asked_for_and_of_no_other(
    tmp_path: Path,
) -> None:
    async with keyboard(tmp_path, ModelServer(), profiles=OFFLINE) as home:
        (home.work / "a.txt").write_text("the file\n")
        said = ("--permission-mode", "full_auto", "-p", 'run Bash command="touch begun; sleep 100"')
        process = await home.start(*said)

        async def works() -> bool:
            return (home.work / "begun").exists()

        await until("the command runs", works)
        process.send_signal(signal.SIGINT)
        assert (await heard(process)).code == 130
        read = await home.ohmo("--continue", "-p", "run Read file_path=a.txt")
        assert "the file" in read.out, read
        assert "Bash" not in read.out
        again = await home.ohmo("--continue", "-p", "hello")
        assert again.out.startswith("No model is configured")
