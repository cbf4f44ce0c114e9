"""A package of somebody else is installed with pip; its tool and its provider are used on the real
daemon, and what of it is broken is named and harms nobody."""

from __future__ import annotations

import json
import os
import shutil
import sys
from pathlib import Path

import pytest

from tests.faults.daemon import ROOT, Daemon
from tests.journeys.at_keyboard import Keyboard
from tests.programs import run_process

pytestmark = pytest.mark.timeout(240)
SAMPLE = Path(__file__).with_name("sample_package")


@pytest.fixture
def installed(tmp_path: Path) -> str:
    """Folders to import from: the house, and what pip installed."""
    source, folder = tmp_path / "source", tmp_path / "packages"
    shutil.copytree(SAMPLE, source)
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--no-build-isolation", "--no-deps"]
    run_process(*pip, "--no-index", "--target", folder, source, code=0)
    return f"{ROOT}{os.pathsep}{folder}"


async def test_its_tool_and_its_provider_are_used_and_what_is_broken_is_skipped(
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
        said = await home.ohmo("-p", "what is the weather?")
        assert said.out.strip() == "Parrot: It is raining in Hanoi.", said.err
        found = json.loads((await home.ohmo("status", "--json")).out)
        (line,) = [line for line in found["warnings"] if "Broken" in line]
        assert "ohmo.tools: entry point Broken = ohmo_weather.missing" in line
        assert any("pigeon" in line for line in found["warnings"])
        doctor = await home.ohmo("doctor", "--json")
        assert "entry point" in doctor.out
        assert "ohmo_weather" in doctor.out
    finally:
        await home.daemon.kill()
