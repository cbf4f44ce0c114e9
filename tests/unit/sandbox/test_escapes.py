"""The same expectations for every backend; where they differ, docs/security.md says so."""

from __future__ import annotations

import os
import random
import socket
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any, cast

import pytest

from ohmo.permissions.sensitive_places import ABSOLUTE, ANYWHERE
from ohmo.processes.job import Command, JobEnded, ProcessRunner, child_environment
from ohmo.sandbox import seccomp
from ohmo.sandbox.attempts import attempts
from ohmo.sandbox.walls import CageSettings, Walls
from tests.parts import skip_without, there

pytestmark = pytest.mark.needs("linux")


class Ground:
    """A home with secrets, ohmo's home, a workspace in it, and files beside it."""

    def __init__(self, top: Path, backend: str, **more: Any) -> None:
        self.home = top / "person"
        self.root = self.home / ".ohmo"
        self.work = self.home / "work"
        for path in (".ssh/id_ed25519", ".ohmo/ohmo.db", "notes.txt", "work/.git/hooks/old"):
            (self.home / path).parent.mkdir(parents=True, exist_ok=True)
            (self.home / path).write_text("the secret")
        (self.work / ".npmrc").write_text("the secret")
        self.top = top
        settings = {"network": "off", "memory": 1 << 29, "cpus": 1, "pids": 64, **more}
        self.walls = Walls(
            CageSettings(
                backend=cast("Any", backend),
                home=self.home,
                root=self.root,
                workspace=self.work,
                absolute=ABSOLUTE,
                anywhere=ANYWHERE,
                path="/usr/bin:/bin",
                **settings,
            )
        )

    async def run(self, script: str, seconds: float = 20) -> JobEnded:
        environ = child_environment({"PATH": "/usr/bin:/bin", "HOME": str(self.home)})
        cage = await self.walls.cage(self.work)
        assert cage is not None, await self.walls.standing()
        argv = ("/bin/bash", "-c", script)
        command = Command(argv, self.work, environ, self.top / "spill", seconds, cage=cage)
        return await ProcessRunner(sandbox=self.walls).run(command, lambda _: None)


@pytest.fixture(params=["bubblewrap", "landlock"])
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Ground:
    if request.param == "bubblewrap" and not there("bwrap"):
        skip_without("bwrap")
    if request.param == "landlock" and not there("landlock"):
        skip_without("landlock")
    return Ground(tmp_path, request.param)


async def test_who_tries_to_get_out_does_not(ground: Ground) -> None:
    """Everything of ``ohmo.sandbox.attempts``."""
    standing = await ground.walls.standing()
    assert (standing.fell, standing.why) == (False, ())


def test_the_same_ways_lead_out_where_there_are_no_walls(tmp_path: Path) -> None:
    """Else nothing would be known by their failing. Of the system calls those that do no harm."""
    outside, unix = tmp_path / "outside", tmp_path / "unix"
    outside.write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as door, ExitStack() as held:
        for address in (str(unix), "\0ohmo-test-of-escapes"):
            local = held.enter_context(closing(socket.socket(socket.AF_UNIX)))
            local.bind(address)
            local.listen()
        calls = seccomp.numbers()
        harmless = ("ptrace", "keyctl", "io_uring_setup", "bpf", "process_vm_readv", "kcmp")
        order = {
            "hidden": [],
            "outside": str(outside),
            "port": door.getsockname()[1],
            "abstract": "ohmo-test-of-escapes",
            "unix": str(unix),
            "pid": os.getpid(),
            "calls": {name: calls[name] for name in harmless},
        }
        ways = attempts(order)
        for name in ("connect", "abstract socket", "unix socket", "signal", f"read {outside}"):
            assert ways[name](), name
        for name in ("processes outside", "root of a process", *harmless):
            assert ways[name](), name
        ways["write outside"]()
    assert (tmp_path / "outside.new").read_text() == "x"


@pytest.mark.parametrize(
    "script",
    [
        "cat ~/.ssh/id_ed25519",
        "cat ~/.ohmo/ohmo.db",
        "cat ~/notes.txt",
        "cat .npmrc",
        "cat /etc/shadow",
        "ln -s ~/.ssh x; cat x/id_ed25519",
        "ln ~/.ssh/id_ed25519 y; cat y",
        "cat /proc/1/root$HOME/.ssh/id_ed25519",
    ],
)
async def test_what_is_hidden_is_not_read(ground: Ground, script: str) -> None:
    ended = await ground.run(script)
    assert b"the secret" not in ended.output.out.head
    assert ended.code != 0


async def test_only_the_workspace_is_written_to(ground: Ground) -> None:
    (ground.work / ".npmrc").unlink()  # beside it Landlock lets nothing be made
    places = f"{ground.home}/a {ground.root}/a {ground.top}/a /usr/a-of-ohmo /etc/a-of-ohmo"
    await ground.run(f"for each in {places}; do touch $each; done; echo it > here")
    made = [place for place in places.split() if Path(place).exists()]
    assert (made, (ground.work / "here").read_text()) == ([], "it\n")


async def test_random_paths_outside_can_be_neither_read_nor_written(ground: Ground) -> None:
    chance = random.Random(17)
    files: list[Path] = []
    for number in range(200):
        parts = [chance.choice("abcde. -ü") * chance.randint(1, 3) for _ in range(3)]
        folder = ground.top.joinpath("out", *(f"{part}{number % 7}" for part in parts))
        folder.mkdir(parents=True, exist_ok=True)
        files.append(folder / f"{number}")
        files[-1].write_text("the secret")
    listed = ground.work / "listed"
    listed.write_text("\n".join(map(str, files)))
    ended = await ground.run(
        'while read -r each; do cat "$each" 2>&-; echo x 2>&- > "$each"; done < listed; true'
    )
    assert (ended.code, ended.output.out.total) == (0, 0)
    assert {path.read_text() for path in files} == {"the secret"}


@pytest.mark.needs("bwrap")
async def test_what_programs_run_later_is_read_only(tmp_path: Path) -> None:
    """With bubblewrap only, as docs/security.md says."""
    ground = Ground(tmp_path, "bubblewrap")
    ended = await ground.run("echo x > .git/hooks/new; mv .git moved; rm .git/hooks/old")
    assert ended.code != 0
    assert [path.name for path in (ground.work / ".git/hooks").iterdir()] == ["old"]


@pytest.mark.needs("bwrap")
async def test_a_link_in_the_place_of_a_protected_folder_brings_nothing_in(tmp_path: Path) -> None:
    ground = Ground(tmp_path, "bubblewrap")
    (ground.work / ".claude").symlink_to(ground.home / ".ssh")
    ended = await ground.run("cat .claude/id_ed25519")
    assert (ended.code, ended.output.out.total) == (1, 0)


@pytest.mark.parametrize(
    ("script", "words"),
    [
        ("for n in {1..90}; do sleep 30 & done; wait", "processes"),
        ("b() { b | b & }; b; sleep 30", "processes"),
        ("x=$(head -c 400000000 /dev/zero | tr '\\0' x); sleep 30", "memory"),
    ],
)
async def test_who_takes_too_much_is_ended(ground: Ground, script: str, words: str) -> None:
    if words == "memory":  # of all together, each within its own limit
        script = f"({script}) & ({script}) & wait"
    ended = await ground.run(script, seconds=25)
    assert words in ended.reason


async def test_a_memory_of_one_process_is_bounded_by_the_kernel(ground: Ground) -> None:
    ended = await ground.run("head -c 900000000 /dev/zero | tail | wc -c")
    assert ended.output.out.head.strip() != b"900000000"
    assert b"memory" in ended.output.err.head or "memory" in ended.reason


async def test_where_none_holds_nobody_is_told_that_one_does(tmp_path: Path) -> None:
    ground = Ground(tmp_path, "bubblewrap")
    ground.walls._settings = ground.walls._settings.__class__(
        **{**{name: getattr(ground.walls._settings, name) for name in _FIELDS}, "path": os.devnull}
    )
    standing = await ground.walls.standing()
    assert (standing.backend, standing.fell) == ("none", True)
    assert "install the package bubblewrap" in ground.walls.told(wanted=False)[1]
    assert "preset: full is not in force" in ground.walls.told(wanted=True)[1]
    assert not ground.walls.holds
    assert await ground.walls.cage(ground.work) is None


_FIELDS = tuple(CageSettings.__dataclass_fields__)
