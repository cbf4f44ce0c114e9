"""``permissions.preset: full`` on the real daemon: what changes something runs unasked for the owner
where a sandbox holds; where none does it is asked, and everybody who looks is told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.faults.daemon import until
from tests.journeys.at_keyboard import Keyboard, keyboard
from tests.platforms.model.script import Call, Turn
from tests.platforms.model.server import ModelServer

pytestmark = [pytest.mark.needs("linux"), pytest.mark.timeout(300)]
LINE = "permissions.preset: full is not in force"


async def status(one: Keyboard) -> Mapping[str, Any]:
    """Once the sandbox was tried."""
    found: list[Mapping[str, Any]] = []

    async def tried() -> bool:
        found[:] = [(await one.daemon.call("GET", "/api/v1/status"))[1]]
        return bool(found[0]["sandbox"])

    await until("the sandbox was tried", tried)
    return found[0]


def touches(one: Keyboard) -> list[Turn]:
    """A command, and a file tool."""
    return [
        Turn(calls=(Call("Bash", {"command": f"touch {one.work / 'command'}"}),)),
        Turn(calls=(Call("Write", {"file_path": str(one.work / "file"), "content": "x"}),)),
        Turn("done"),
    ]


async def test_full_asks_the_owner_nothing_where_a_sandbox_holds(tmp_path: Path) -> None:
    server = ModelServer()
    async with keyboard(tmp_path, server, permissions={"preset": "full"}) as one:
        server.script.extend(touches(one))
        said = await one.ohmo("-p", "go")
        assert (said.code, said.out.strip()) == (0, "done")
        assert {path.name for path in one.work.iterdir()} >= {"command", "file"}
        found = await status(one)
        assert found["mode"] == "full_auto"
        assert not [line for line in found["warnings"] if "full" in line]


@pytest.mark.parametrize(
    ("sandbox", "why"),
    [
        ({"backend": "none"}, "as sandbox.backend says"),
        # Where there is neither, it fell.
        ({"backend": "bubblewrap"}, "install the package bubblewrap"),
    ],
)
async def test_full_asks_where_none_holds_and_says_so(
    sandbox: Mapping[str, str], why: str, tmp_path: Path
) -> None:
    server = ModelServer()
    config: Mapping[str, Any] = {"permissions": {"preset": "full"}, "sandbox": sandbox}
    async with keyboard(tmp_path, server, running=False, **config) as one:
        without = {"PATH": str(tmp_path)}
        one.daemon.environ.update(without)
        await one.daemon.start()
        server.script.extend(touches(one))
        said = await one.ohmo("-p", "go")
        assert said.code == 3  # nobody was there to be asked
        assert not {path.name for path in one.work.iterdir()} & {"command", "file"}
        found = await status(one)
        assert found["mode"] == "default"
        (line,) = [line for line in found["warnings"] if LINE in line]
        assert why in line
        audit = json.loads((await one.ohmo("security", "audit", "--json", **without)).out)
        assert any(LINE in row["text"] for row in audit["findings"])
        doctor = await one.ohmo("doctor", **without)
        assert LINE in doctor.out
