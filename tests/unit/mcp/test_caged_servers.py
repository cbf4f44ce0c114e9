"""Programs of MCP servers in a cage: what they may take, and that nothing of them is left."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager, suppress
from pathlib import Path
from typing import Any, cast

import pytest

from ohmo.contracts.sandbox import Terms
from ohmo.mcp.contract import Endpoint
from ohmo.mcp.program import Complaints, program
from ohmo.mcp.servers import Servers
from ohmo.permissions.sensitive_places import ABSOLUTE, ANYWHERE
from ohmo.processes.job import child_environment
from ohmo.processes.process_tree import descendants
from ohmo.sandbox.programs import Programs
from ohmo.sandbox.walls import CageSettings, Walls
from tests.parts import skip_without, there
from tests.unit.mcp.test_mcp_servers import HERE, QUICK, at_work, call, finish, state

pytestmark = pytest.mark.needs("linux")
FORKS = "import os, time\nwhile True:\n    if os.fork() == 0:\n        time.sleep(300)"
HOGS = "import os, time\nfor _ in range(8):\n    if os.fork() == 0:\n        kept = bytearray(os.urandom(1) * (60 << 20)); time.sleep(300)\ntime.sleep(300)"
ESCAPES = """
import os, signal, subprocess, sys, time
for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
    signal.signal(number, signal.SIG_IGN)
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        time.sleep(300)
    os._exit(0)
sys.stderr.write("up")
sys.stderr.flush()
while True:
    time.sleep(300)
"""


class Ground:
    def __init__(self, top: Path, backend: str) -> None:
        self.work, self.root = top / "work", top / ".ohmo"
        for folder in (self.work, self.root):
            folder.mkdir()
        settings = CageSettings(
            backend=cast("Any", backend),
            network="ask",
            memory=256 << 20,
            cpus=1,
            pids=48,
            home=top,
            root=self.root,
            workspace=self.work,
            absolute=ABSOLUTE,
            anywhere=ANYWHERE,
            path="/usr/bin:/bin",
            installed=(Path(sys.prefix), Path(sys.base_prefix), HERE.parents[2]),
        )

        async def tell(about: str, line: str) -> None:
            raise AssertionError((about, line))

        self.programs = Programs(Walls(settings), top, self.root, lambda _: True, tell)

    def endpoint(self, *argv: str) -> Endpoint:
        environ = child_environment({"PATH": "/usr/bin:/bin"})
        return Endpoint(
            "x",
            "stdio",
            self.work,
            argv=(sys.executable, *argv),
            env=environ,
            terms=Terms("the MCP server x", owners=True, cache="x"),
            programs=self.programs,
        )

    @asynccontextmanager
    async def serving(self, *argv: str) -> AsyncGenerator[Servers]:
        made = lambda: self.endpoint(*argv)  # noqa: E731
        house = Servers(
            {"x": ("stdio", made)}, self.root / "mcp", finish, times=QUICK, programs=self.programs
        )
        async with at_work(house):
            yield house


@pytest.fixture(params=["bubblewrap", "landlock"])
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Ground:
    needed = "bwrap" if request.param == "bubblewrap" else "landlock"
    if not there(needed):
        skip_without(needed)
    return Ground(tmp_path, request.param)


async def test_one_that_serves_is_found_called_dies_and_comes_back(ground: Ground) -> None:
    async with ground.serving(str(HERE / "real_server.py"), "stdio") as house:
        await state(house, "x", "connected", 40)
        added = await call(house, ground.work, "mcp__x__add", {"a": 2, "b": 40})
        assert (added.text, added.error) == ("42", False)
        for pid in descendants(os.getpid()):
            with suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGKILL)
        await state(house, "x", "failed", 40)
        await state(house, "x", "connected", 40)
    assert list((ground.root / "cache/servers").iterdir()) == [ground.root / "cache/servers/x"]


@pytest.mark.parametrize(
    ("script", "line"), [(FORKS, "processes of sandbox.pids"), (HOGS, "more than the 256 MiB")]
)
async def test_one_that_takes_too_much_is_ended(ground: Ground, script: str, line: str) -> None:
    complaints, others = Complaints(), set(descendants(os.getpid()))
    async with program(ground.endpoint("-c", script), complaints), asyncio.timeout(40):
        while line not in complaints.last():
            await asyncio.sleep(0.05)
        while set(descendants(os.getpid())) - others:
            await asyncio.sleep(0.05)
    assert "(in the sandbox: docs/mcp.md" in complaints.last()


async def test_its_own_fault_is_named_and_the_sandbox_is_not_blamed(ground: Ground) -> None:
    async with ground.serving(str(HERE / "rude_server.py"), "garbage") as house:
        error = (await state(house, "x", "failed", 40)).error
        assert "lines in a row that are none" in error
        assert "sandbox" not in error


async def test_nothing_of_it_is_left(ground: Ground) -> None:
    """No process, whatever it ignores and however far it forked; no descriptor, no folder."""
    await ground.programs.cage(("true",), ground.work, Terms(owners=True))  # tries the backend
    before, others = sorted(Path("/proc/self/fd").iterdir()), set(descendants(os.getpid()))
    for _ in range(2):
        complaints = Complaints()
        async with program(ground.endpoint("-c", ESCAPES), complaints), asyncio.timeout(20):
            while "up" not in complaints.last():
                await asyncio.sleep(0.05)
            assert len(descendants(os.getpid())) >= len(others) + 3
        assert set(descendants(os.getpid())) <= others
    assert sorted(Path("/proc/self/fd").iterdir()) == before
    scratch = ground.root / "scratch"
    assert not scratch.exists() or list(scratch.iterdir()) == []


async def test_the_warden_ends_it_when_the_daemon_is_gone(tmp_path: Path) -> None:
    """However that went: its end of the pipe is closed."""
    order = tmp_path / "order"
    argv = (sys.executable, "-c", ESCAPES)
    order.write_text(json.dumps({"argv": argv, "cwd": "/", "env": {}, "fds": [], "rules": {}}))
    fd, (theirs, ours) = os.open(order, os.O_RDONLY), os.pipe()
    boot = (
        "import sys; sys.path.append(sys.argv[1]); from ohmo.processes.warden import main; main()"
    )
    words = (sys.executable, "-I", "-S", "-c", boot, str(HERE.parents[2]), str(fd), str(theirs))
    pipe = asyncio.subprocess.PIPE
    warden = await asyncio.create_subprocess_exec(
        *words, stdin=pipe, stderr=pipe, pass_fds=(fd, theirs)
    )
    os.close(fd)
    os.close(theirs)
    assert warden.stderr is not None
    assert await warden.stderr.read(2) == b"up"
    async with asyncio.timeout(10):  # the one between them may not have ended yet
        while len(below := descendants(warden.pid)) > 2:
            await asyncio.sleep(0.02)
    assert len(below) == 2
    os.close(ours)
    async with asyncio.timeout(10):
        assert await warden.wait() == 128 + signal.SIGKILL
    assert not any(Path(f"/proc/{pid}").exists() for pid in below)


async def test_no_descriptor_of_the_daemon_is_inherited_however_many_are_open(
    ground: Ground,
) -> None:
    """What it passes to those between itself and the server has high numbers then."""
    script = """
import os
found = []
for fd in range(1 << 12):
    try:
        os.fstat(fd)
        found.append(fd)
    except OSError:
        pass
open("fds", "w").write(repr(found))
"""
    told = ground.work / "fds"
    with ExitStack() as held:
        for _ in range(400):
            fd = os.open("/dev/null", os.O_RDONLY)
            held.callback(os.close, fd)
            os.set_inheritable(fd, True)
        async with program(ground.endpoint("-c", script), Complaints()):
            async with asyncio.timeout(40):
                while not told.exists() or not told.read_text():
                    await asyncio.sleep(0.05)
    assert told.read_text() == "[0, 1, 2]"
