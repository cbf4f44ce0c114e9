"""A package of somebody else is installed with pip; its tool, its provider and its hook are used on the
real daemon, and what of it is broken is named and harms nobody."""

from __future__ import annotations

import json
import os
import shutil
import sys
import time
from pathlib import Path

import pytest

from tests.faults.daemon import ROOT, Daemon, until
from tests.journeys.at_keyboard import Keyboard
from tests.programs import run_process

pytestmark = pytest.mark.timeout(240)
SAYS = {
    "Atlantis": "Not allowed (hook umbrella): it sank",
    "Saigon": "It is raining in Ho Chi Minh City.",
    "Limbo": "Not allowed (hook umbrella): it did not answer within 1 s, so the call is not run",
    "Babel": "Not allowed (hook umbrella): it failed (LookupError: nobody understands it)",
}
SAMPLE = Path(__file__).with_name("sample_package")


@pytest.fixture
def installed(tmp_path: Path) -> str:
    """Folders to import from: the house, and what pip installed."""
    source, folder = tmp_path / "source", tmp_path / "packages"
    shutil.copytree(SAMPLE, source)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps"]
    run_process(*pip, "--no-index", "--target", folder, source, code=0)
    return f"{ROOT}{os.pathsep}{folder}"


async def test_its_tool_its_provider_and_its_hook_are_used_and_what_is_broken_is_skipped(
    tmp_path: Path, installed: str
) -> None:
    home = Keyboard(tmp_path, "http://127.0.0.1:9")
    profiles = {"default": {"provider": "parrot"}}
    rules = {"allow": ["Weather"]}
    home.configure(home.written | {"profiles": profiles, "permissions": rules})
    home.environ["PYTHONPATH"] = installed
    home.daemon = Daemon(home.home, environ={"PYTHONPATH": installed})
    await home.daemon.start()
    try:
        said = await home.ohmo("-p", "what is the weather in Hanoi?")
        assert said.out.strip() == "Parrot: It is raining in Hanoi.", said.err
        for city, answer in SAYS.items():
            began = time.monotonic()
            said = await home.ohmo("-p", f"what is the weather in {city}?")
            assert said.out.strip().startswith(f"Parrot: {answer}"), said.err
            assert time.monotonic() - began < 30
        written = home.work / "said"

        async def told() -> bool:
            return written.exists() and written.read_text().startswith("Parrot: ")

        await until("the end of a turn is told", told)
        found = json.loads((await home.ohmo("status", "--json")).out)
        (line,) = [line for line in found["warnings"] if "Broken" in line]
        assert "ohmo.tools: entry point Broken = ohmo_weather.missing" in line
        assert any("pigeon" in line for line in found["warnings"])
        (line,) = [line for line in found["warnings"] if "ohmo.hooks" in line]
        assert "the hook lost of another package is skipped: ValueError: timeout" in line
        listed = await home.ohmo("hooks", "list")
        assert "umbrella" in listed.out
        assert "hook lost" in listed.err
        doctor = await home.ohmo("doctor", "--json")
        assert "entry point" in doctor.out
        assert "ohmo_weather" in doctor.out
    finally:
        await home.daemon.kill()
