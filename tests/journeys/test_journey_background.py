"""What runs in the background ends with the daemon, and is found again by the next one: its output
so far and how it ended."""

from __future__ import annotations

import asyncio
import json
import os
from pathlib import Path

import psutil
import pytest

import ohmo
from tests.faults.builds import COMMAND, built
from tests.faults.daemon import Daemon, until
from tests.journeys.at_keyboard import keyboard
from tests.platforms.model.script import Asked, Call, Turn
from tests.platforms.model.server import ModelServer

pytestmark = pytest.mark.timeout(240)
ENDED = "[ended: the daemon ended, and its commands with it]\n[bash_2 has ended]"
EARLY = "early\n[exit code 3]\n[bash_1 has ended]"


def results(asked: Asked) -> list[str]:
    """What the model was told of the calls of its last step."""
    told = [str(each["content"]) for each in asked.body["messages"] if each["role"] == "tool"]
    last = next(each for each in reversed(asked.body["messages"]) if each["role"] == "assistant")
    return told[-len(last["tool_calls"]) :]


def background(command: str) -> Call:
    return Call("Bash", {"command": command, "run_in_background": True})


async def test_background_commands_go_on_while_a_changed_configuration_is_taken_over(
    tmp_path: Path,
) -> None:
    begins = Turn(
        calls=(background("for i in 1 2 3; do echo tick $i; sleep 0.5; done; sleep 97.3"),)
    )
    looks = Turn(calls=(Call("BashOutput", {"bash_id": "bash_1"}),))
    server = ModelServer([begins, Turn(text="it runs"), looks, Turn(text="still")])
    async with keyboard(tmp_path, server, permissions={"mode": "full_auto"}) as home:
        said = await home.ohmo("-p", "begin")
        assert said.code == 0, said.err
        said = await home.ohmo("status", "--json")
        assert said.code == 0, said.err
        since = json.loads(said.out)["started"]
        with (home.home / "config.yaml").open("a") as file:
            file.write("sessions: {ask_after: 11h}\n")
        async with asyncio.timeout(60):
            while "configuration_changed" not in home.daemon.log:
                await asyncio.sleep(0.1)
        said = await home.ohmo("--continue", "-p", "how is it?")
        assert said.code == 0, said.err
        (told,) = results(server.asked[3])
        assert told == "tick 1\ntick 2\ntick 3\n[bash_1 is running]"
        assert json.loads((await home.ohmo("status", "--json")).out)["started"] == since


@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_background_commands_are_found_again_after_a_restart(
    tmp_path: Path, how: str
) -> None:
    def looked(name: str) -> Call:
        return Call("BashOutput", {"bash_id": name})

    server = ModelServer(
        [
            Turn(calls=(background("echo early; exit 3"),)),
            Turn(calls=(background("seq 1 9000; sleep 94.313"),)),
            Turn(calls=(Call("Bash", {"command": "sleep 2"}),)),
            Turn(text="they run"),
            Turn(calls=(looked("bash_1"), looked("bash_2"), looked("bash_3"))),
            Turn(calls=(Call("KillShell", {"shell_id": "bash_2"}), background("echo more"))),
            Turn(text="over"),
            Turn(calls=(looked("bash_2"),)),
            Turn(text="not mine"),
        ]
    )
    async with keyboard(tmp_path, server, permissions={"mode": "full_auto"}) as home:
        said = await home.ohmo("-p", "begin them")
        assert said.code == 0, said.err
        if how == "killed":
            await home.daemon.kill()
        else:
            assert await home.daemon.stop() == 0
        async with asyncio.timeout(20):
            while left := [
                one
                for one in psutil.process_iter(["cmdline"])
                if "94.313" in (one.info["cmdline"] or ())
            ]:
                await asyncio.sleep(0.05)
        assert left == []
        await home.daemon.start()
        said = await home.ohmo("--continue", "-p", "how are they?")
        assert said.code == 0, said.err
        early, running, unknown = results(server.asked[5])
        assert early == EARLY
        assert running.startswith("1\n2\n3\n")
        assert running.endswith(f"\n8999\n9000\n{ENDED}")
        assert "bytes left out; whole output: " in running
        assert len(running) < 14_000
        assert "no background command 'bash_3'; there is bash_1, bash_2" in unknown
        killed, begun = results(server.asked[6])
        assert killed == running
        assert "in the background as bash_3" in begun
        kept = Path(running.partition("whole output: ")[2].partition(" ...]")[0])
        assert kept.read_text() == "".join(f"{number}\n" for number in range(1, 9001))
        assert (await home.ohmo("-p", "look at another's")).code == 0
        assert "no background command 'bash_2'; there is none" in results(server.asked[8])[0]


async def test_what_a_silent_command_wrote_long_ago_stays_while_it_runs(tmp_path: Path) -> None:
    """Also where its daemon looks every moment at what is old."""
    often = built(
        tmp_path / "often",
        ohmo.__version__,
        also=(
            ("upkeep/housekeeping.py", "FIRST = 60.0", "FIRST = 0.2"),
            ("upkeep/housekeeping.py", "OFTEN = 600.0", "OFTEN = 0.2"),
        ),
    )
    quiet = background("echo early; while [ ! -e go ]; do sleep 0.1; done; echo late; exit 3")
    server = ModelServer(
        [
            Turn(calls=(quiet,)),
            Turn(text="it runs"),
            Turn(calls=(Call("BashOutput", {"bash_id": "bash_1"}),)),
            Turn(text="over"),
        ]
    )
    keep = {"permissions": {"mode": "full_auto"}, "retention": {"spill": "1d"}}
    async with keyboard(tmp_path, server, running=False, **keep) as home:
        home.daemon = Daemon(home.home, command=COMMAND, environ={"KEY": "x", **often.environ})
        await home.daemon.start()
        said = await home.ohmo("-p", "begin it")
        assert said.code == 0, said.err
        [folder] = (path.parent for path in (home.home / "spill").glob("*/bash_1.thread"))

        async def written() -> bool:
            part = folder / "bash_1.txt.part"
            return part.exists() and part.read_bytes() == b"early\n"

        await until("its first words are written", written)
        old = (folder / "bash_1.thread", folder / "bash_1.txt.part", folder / "nobodys.txt")
        old[-1].touch()
        for path in old:
            os.utime(path, (1_000_000_000, 1_000_000_000))

        async def swept() -> bool:
            return not old[-1].exists()

        await until("what is old has gone", swept)
        assert all(path.exists() for path in old[:-1])  # renewed
        (home.work / "go").touch()

        async def ended() -> bool:
            return (folder / "bash_1.txt.end").exists()

        await until("it has ended", ended)
        await home.daemon.kill()  # the next one knows of it by its files alone
        await home.daemon.start()
        said = await home.ohmo("--continue", "-p", "how is it?")
        assert said.code == 0, said.err
        assert results(server.asked[3]) == ["early\nlate\n[exit code 3]\n[bash_1 has ended]"]
