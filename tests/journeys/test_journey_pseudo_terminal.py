"""Commands that need a terminal get a real one, on the real daemon: judged, bounded and ended as
without it."""

from __future__ import annotations

from pathlib import Path

import psutil
import pytest

from tests.journeys.at_keyboard import keyboard
from tests.platforms.model.script import Asked, Call, Turn
from tests.platforms.model.server import ModelServer

pytestmark = pytest.mark.timeout(240)
NEEDS_ONE = (
    "test -t 0 && test -t 1 && test -t 2 && stty size && echo $TERM && printf"
    " '\\033]0;title\\007\\033[31mred\\033[0m 10%%\\r\\033[Kred 99%%\\n'"
)
CLEAN = "40 120\nxterm-256color\nred 99%"


def result(asked: Asked) -> str:
    """What the model was told of its last call."""
    return str(asked.body["messages"][-1]["content"])


async def test_a_command_gets_a_terminal_of_a_size_and_its_output_comes_clean(
    tmp_path: Path,
) -> None:
    call = {"command": NEEDS_ONE}
    server = ModelServer(
        [
            Turn(calls=(Call("Bash", call),)),
            Turn(text="no"),
            Turn(calls=(Call("Bash", call | {"terminal": True}),)),
            Turn(text="yes"),
        ]
    )
    async with keyboard(tmp_path, server) as home:
        for _ in range(2):
            said = await home.ohmo("-p", "try it", "--permission-mode", "full_auto")
            assert said.code == 0, said.err
        assert "[exit code 1]" in result(server.asked[1])
        assert result(server.asked[3]) == CLEAN


async def test_a_terminal_changes_nothing_of_what_is_allowed_or_kept(tmp_path: Path) -> None:
    change, much = (
        {"command": "touch made", "terminal": True},
        {"command": "yes 0123456789 | head -c 400000", "terminal": True},
    )
    server = ModelServer(
        [
            Turn(calls=(Call("Bash", change),)),
            Turn(text="asked"),
            Turn(calls=(Call("Bash", change),)),
            Turn(text="made"),
            Turn(calls=(Call("Bash", much),)),
            Turn(text="much"),
        ]
    )
    async with keyboard(tmp_path, server) as home:
        refused = await home.ohmo("-p", "make it")
        assert refused.code == 3
        assert "--allow 'Bash(touch made)'" in refused.err
        assert not (home.work / "made").exists()
        allowed = await home.ohmo("-p", "make it", "--allow", "Bash(touch made)")
        assert (allowed.code, (home.work / "made").exists()) == (0, True), allowed.err
        assert (await home.ohmo("-p", "say much", "--permission-mode", "full_auto")).code == 0
        shown = result(server.asked[-1])
        assert "bytes left out; whole output: " in shown
        assert len(shown) < 14_000


async def test_a_background_command_has_a_terminal_too_is_read_and_ended(tmp_path: Path) -> None:
    watch = {"command": "stty size; sleep 93.517", "terminal": True, "run_in_background": True}
    server = ModelServer(
        [
            Turn(calls=(Call("Bash", watch),)),
            Turn(calls=(Call("Bash", {"command": "sleep 1"}),)),
            Turn(calls=(Call("BashOutput", {"bash_id": "bash_1"}),)),
            Turn(calls=(Call("KillShell", {"shell_id": "bash_1"}),)),
            Turn(text="over"),
        ]
    )
    async with keyboard(tmp_path, server) as home:
        said = await home.ohmo("-p", "watch it", "--permission-mode", "full_auto")
        assert said.code == 0, said.err
        assert result(server.asked[3]) == "40 120\n[bash_1 is running]"
        assert "[ended: stopped]" in result(server.asked[4])
        assert not [
            one
            for one in psutil.process_iter(["cmdline"])
            if "93.517" in (one.info["cmdline"] or ())
        ]


async def test_what_the_judge_cannot_know_is_shown_as_people_write_it(tmp_path: Path) -> None:
    calls = ("cat ~/.ssh/$WHICH", "rm *.txt$MORE")
    server = ModelServer(
        [
            turn
            for command in calls
            for turn in (Turn(calls=(Call("Bash", {"command": command}),)), Turn(text="no"))
        ]
    )
    async with keyboard(tmp_path, server, permissions={"deny": ["Bash(rm:*)"]}) as home:
        for _ in calls:
            await home.ohmo("-p", "try it", "--permission-mode", "full_auto")
        told = [result(asked) for asked in server.asked[1::2]]
        assert f"{tmp_path}/.ssh/… touches credentials" in told[0]
        assert "forbids 'rm *.txt…'" in told[1]
