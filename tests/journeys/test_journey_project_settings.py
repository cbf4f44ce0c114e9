"""``.ohmo/settings.yaml`` on the real daemon, from the keyboard: it counts once it is trusted, holds
whatever becomes of the file, over a restart too, and is named as the source of what it refuses."""

from __future__ import annotations

from pathlib import Path

import pytest

from ohmo.contracts.trust import SETTINGS
from tests.journeys.at_keyboard import Keyboard, keyboard
from tests.platforms.model.script import Call, Turn
from tests.platforms.model.server import ModelServer

pytestmark = pytest.mark.timeout(300)
SAYS = "permissions:\n  deny: ['Bash(touch:*)']\n"


async def touched(one: Keyboard, server: ModelServer, name: str) -> str:
    """What the model was told of a command; whether it ran is on the disk."""
    server.script.extend([Turn(calls=(Call("Bash", {"command": f"touch {name}"}),)), Turn("done")])
    said = await one.ohmo("-p", "go")
    assert said.code == 0, said.err
    return str(server.asked[-1].body["messages"][-1]["content"])


async def test_settings_of_a_project_tighten_once_trusted_and_stay(tmp_path: Path) -> None:
    server = ModelServer()
    async with keyboard(
        tmp_path, server, permissions={"mode": "full_auto", "allow": ["Bash(touch:*)"]}
    ) as one:
        file = one.work / SETTINGS
        file.parent.mkdir()
        file.write_text(SAYS)
        await touched(one, server, "a")
        assert (one.work / "a").exists()  # nobody trusts it yet
        listed = await one.ohmo("trust", "list")
        assert f"project {file} waits: it tightens: refuses Bash(touch:*)" in listed.out
        allowed = await one.ohmo("trust", "allow", "project", str(file))
        assert allowed.code == 0, allowed.err

        told = await touched(one, server, "b")
        assert not (one.work / "b").exists()
        assert f"(deny: Bash(touch:*) ({file}))" in told
        why = await one.ohmo("--continue", "-p", "/why")
        assert "/work/.ohmo/settings.yaml" in why.out
        tried = await one.ohmo("permissions", "test", "Bash", "touch b", "--mode", "full_auto")
        assert f"not allowed, by deny: Bash(touch:*) ({file})" in tried.out

        file.write_text(SAYS.replace("touch", "rm"))
        assert await one.daemon.stop() == 0
        await one.daemon.start()
        await touched(one, server, "c")
        assert not (one.work / "c").exists()
        assert "until then the version" in (await one.ohmo("trust", "list")).out
        file.write_text("permissions: {allow: [Bash]}")
        broken = await one.ohmo("trust", "allow", "project", str(file))
        assert broken.code != 0
        assert "a project can only tighten" in broken.err

        assert (await one.ohmo("trust", "revoke", "project", str(file))).code == 0
        await touched(one, server, "d")
        assert (one.work / "d").exists()
        doctor = await one.ohmo("doctor")
        assert "a project can only tighten" in doctor.out
