"""The same expectations for every backend; where they differ, docs/security.md says so."""

from __future__ import annotations

import ctypes
import json
import os
import random
import re
import resource
import shlex
import socket
import subprocess
from collections.abc import Mapping
from contextlib import ExitStack, closing, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest
from pydantic import ValidationError

from ohmo.config.models import Sandbox
from ohmo.contracts.sandbox import Cage
from ohmo.permissions.sensitive_places import ABSOLUTE, ANYWHERE
from ohmo.processes.job import Command, JobEnded, ProcessRunner, child_environment
from ohmo.sandbox import seccomp
from ohmo.sandbox.attempts import attempts
from ohmo.sandbox.walls import CageSettings, Walls
from ohmo.tools.bash import AT_A_WALL

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
        self.backend = backend
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

    async def run(
        self,
        script: str,
        seconds: float = 20,
        *,
        cwd: Path | None = None,
        cage: Cage | None = None,
        env: Mapping[str, str] | None = None,
    ) -> JobEnded:
        environ = child_environment({"PATH": "/usr/bin:/bin", "HOME": str(self.home)}, env)
        cage = cage or await self.walls.cage(cwd or self.work)
        assert cage is not None, await self.walls.standing()
        argv = ("/bin/bash", "-c", script)
        command = Command(argv, cwd or self.work, environ, self.top / "spill", seconds, cage=cage)
        return await ProcessRunner(sandbox=self.walls).run(command, lambda _: None)


@pytest.fixture(
    params=[
        pytest.param("bubblewrap", marks=pytest.mark.needs("bwrap")),
        pytest.param("landlock", marks=pytest.mark.needs("landlock")),
        pytest.param(
            "docker", marks=[pytest.mark.needs("dockerd"), pytest.mark.xdist_group("dockerd")]
        ),
    ]
)
def ground(request: pytest.FixtureRequest, tmp_path: Path) -> Ground:
    if request.param == "docker":
        return Ground(tmp_path, request.param, engine=request.getfixturevalue("engine"))
    return Ground(tmp_path, request.param)


async def test_who_tries_to_get_out_does_not(ground: Ground) -> None:
    """Everything of ``ohmo.sandbox.attempts``."""
    standing = await ground.walls.standing()
    assert (standing.fell, standing.why) == (False, ())


@pytest.mark.parametrize(
    "backend",
    [
        pytest.param("bubblewrap", marks=pytest.mark.needs("bwrap")),
        pytest.param("landlock", marks=pytest.mark.needs("landlock")),
    ],
)
async def test_a_trial_that_was_killed_says_by_what(tmp_path: Path, backend: str) -> None:
    standing = await Ground(tmp_path, backend, memory=10).walls.standing()
    (why,) = standing.why
    killed = rf"{backend}: it does not start: its trial was killed by SIG[A-Z]+; sandbox.memory may"
    assert re.match(killed, why)


@pytest.mark.parametrize("least", [{"memory": 32 << 20}, {"cpus": 0.01}, {"pids": 16}])
async def test_the_least_that_can_be_configured_is_enough_for_a_pipe(
    tmp_path: Path, least: Mapping[str, float]
) -> None:
    written = Sandbox.model_validate(least)
    for key, value in least.items():
        with pytest.raises(ValidationError):
            Sandbox.model_validate({key: value - (0.001 if key == "cpus" else 1)})
    limits = {"memory": written.memory, "cpus": written.cpus, "pids": written.pids}
    ended = await Ground(tmp_path, "auto", **limits).run("echo a | tr a b | sort")
    assert ended.output.out.head == b"b\n"


def test_the_same_ways_lead_out_where_there_are_no_walls(tmp_path: Path) -> None:
    """Else nothing would be known by their failing. Of the system calls those that do no harm."""
    outside, unix = tmp_path / "outside", tmp_path / "unix"
    outside.write_text("secret")
    with socket.create_server(("127.0.0.1", 0)) as door, ExitStack() as held:
        for address in (str(unix), "\0ohmo-test-of-escapes"):
            local = held.enter_context(closing(socket.socket(socket.AF_UNIX)))
            local.bind(address)
            local.listen()
        datagrams = held.enter_context(closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)))
        datagrams.bind(str(tmp_path / "datagrams"))
        for terminal in os.openpty():
            held.callback(os.close, terminal)
        calls = seccomp.numbers()
        harmless = ("ptrace", "keyctl", "io_uring_setup", "bpf", "process_vm_readv", "kcmp")
        order = {
            "hidden": [],
            "outside": str(outside),
            "port": door.getsockname()[1],
            "abstract": "ohmo-test-of-escapes",
            "unix": str(unix),
            "unix datagram": datagrams.getsockname(),
            "terminal": os.ttyname(terminal),
            "pid": os.getpid(),
            "calls": {name: calls[name] for name in harmless},
        }
        ways = attempts(order)
        for name in ("connect", "abstract socket", "unix socket", "signal", f"read {outside}"):
            assert ways[name](), name
        for name in ("processes outside", "root of a process", *harmless):
            assert ways[name](), name
        if os.geteuid() == 0:  # for everybody else the rights of the file are enough
            assert ways["settings of the kernel"]()
        for name in ("limits of a process", "terminal of a process", "datagram of a pair"):
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
    # In a container a hidden file is a device that can be opened, and empty.
    assert ended.code != 0 or (ended.output.out.total, ground.backend) == (0, "docker")


async def test_a_credential_at_the_top_keeps_nobody_from_looking_around(ground: Ground) -> None:
    (ground.work / "src").mkdir()
    ended = await ground.run("ls && find . -name src && touch src/made && cat .npmrc")
    assert ended.output.out.head == b"src\n./src\n"
    assert (ground.work / "src/made").exists()
    (ground.work / ".ssh").mkdir()
    (ground.work / ".ssh/the-secret-name").touch()
    ended = await ground.run("ls .ssh; ls -R; touch src/more")
    assert b"the-secret-name" not in ended.output.out.head
    assert (ground.work / "src/more").exists()


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


async def test_what_is_hidden_deeper_cannot_be_moved_to_where_it_is_seen(ground: Ground) -> None:
    (ground.work / ".config/gh").mkdir(parents=True)
    (ground.work / ".config/gh/hosts.yml").write_text("the secret")
    await ground.run("mv .config moved; mv .config/gh shown; cp -r .config copied")
    ended = await ground.run("cat */gh/hosts.yml shown/hosts.yml .config/gh/hosts.yml")
    assert (ended.code, ended.output.out.total) == (1, 0)


@pytest.mark.parametrize("target", ["/nowhere/at/all", "/usr", ".", "../work", "~/.npmrc"])
async def test_a_link_of_a_sensitive_name_closes_nothing_to_other_commands(
    ground: Ground, target: str
) -> None:
    (ground.work / ".npmrc").unlink()
    (ground.home / ".npmrc").write_text("the secret")
    await ground.run("touch before")
    (ground.work / ".npmrc").symlink_to(target.replace("~", str(ground.home)))
    ended = await ground.run("test -f before && cat .npmrc; ls before && touch after")
    assert (ended.code, ended.output.out.head) == (0, b"before\n")
    assert (ground.work / "after").exists()


async def test_a_link_of_a_sensitive_name_into_the_workspace_hides_what_it_leads_to(
    ground: Ground,
) -> None:
    (ground.work / "kept").mkdir()
    (ground.work / ".npmrc").rename(ground.work / "kept/npmrc")
    (ground.work / ".npmrc").symlink_to("kept/npmrc")
    ended = await ground.run("cat .npmrc kept/npmrc")
    assert b"the secret" not in ended.output.out.head


async def test_other_processes_keep_their_limits_and_their_shared_memory(ground: Ground) -> None:
    libc = ctypes.CDLL(None)
    number = libc.shmget(0, 4096, 0o1600)  # IPC_CREAT
    other = subprocess.Popen(["sleep", "30"])
    try:
        before = resource.prlimit(other.pid, resource.RLIMIT_CPU)
        await ground.run(f"prlimit --pid {other.pid} --cpu=1:1; renice 19 {other.pid}")
        await ground.run(f"ionice -c 3 -p {other.pid}; ipcrm -m {number}")
        assert resource.prlimit(other.pid, resource.RLIMIT_CPU) == before
        assert os.getpriority(os.PRIO_PROCESS, other.pid) == os.getpriority(os.PRIO_PROCESS, 0)
    finally:
        other.kill()
        other.wait()
        still = libc.shmctl(number, 0, None)  # IPC_RMID
    assert still == 0


async def test_a_command_lowers_its_own_limits_and_priority(ground: Ground) -> None:
    ended = await ground.run("ulimit -n 100 && nice -n 5 sh -c 'ulimit -n; nice'")
    assert ended.output.out.head == b"100\n5\n", ended.output.err.head


async def test_a_terminal_of_another_program_is_neither_read_nor_written(ground: Ground) -> None:
    ends = os.openpty()
    name = os.ttyname(ends[1])
    os.write(ends[0], b"a password\n")
    try:
        ended = await ground.run(f"timeout 2 head -n 1 {name}; echo planted > {name}")
        os.set_blocking(ends[0], False)
        with suppress(BlockingIOError):
            assert b"planted" not in os.read(ends[0], 1000)
    finally:
        for fd in ends:
            os.close(fd)
    assert b"password" not in ended.output.out.head


async def test_a_pair_of_sockets_sends_to_nobody_else(ground: Ground) -> None:
    """Also with the network, where bubblewrap shares the names of abstract sockets."""
    name = f"\0ohmo-test-{os.getpid()}"
    script = (
        "import socket\nfor kind in (socket.SOCK_DGRAM, socket.SOCK_RAW):\n"
        "  try: socket.socketpair(socket.AF_UNIX, kind)[0].sendto(b'x', {!r})\n"
        "  except OSError as error: print(error.errno)\n"
    )
    with closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)) as heard:
        heard.bind(name)
        heard.setblocking(False)
        await ground.walls.standing()
        for network in ("off", "on"):
            cage = replace(ground.walls.planned(ground.work), network=network)
            ended = await ground.run(f"python3 -c {shlex.quote(script.format(name))}", cage=cage)
            assert ended.output.out.total, ended.output.err.head
            with pytest.raises(BlockingIOError):
                heard.recv(1)


@pytest.mark.needs("bwrap")
@pytest.mark.parametrize("folder", ["project", "project/src/deep"])
async def test_a_project_in_the_workspace_is_protected_as_the_workspace_is(
    folder: str, tmp_path: Path
) -> None:
    ground = Ground(tmp_path, "bubblewrap")
    hooks = ground.work / "project/.git/hooks"
    hooks.mkdir(parents=True)
    (ground.work / folder).mkdir(parents=True, exist_ok=True)
    script = f"echo x > {hooks}/new; mv {hooks.parent} moved; touch {ground.work}/project/made"
    await ground.run(script, cwd=ground.work / folder)
    assert list(hooks.iterdir()) == []
    assert (ground.work / "project/made").exists()


@pytest.mark.needs("bwrap")
async def test_git_is_not_led_to_settings_that_a_command_wrote(tmp_path: Path) -> None:
    ground = Ground(tmp_path, "bubblewrap")
    (ground.work / "project/.git").mkdir(parents=True)
    kept = ground.work / ".git/config.worktree"
    kept.write_text("as it was")
    lines = "echo ../evil > $each/commondir; echo x > $each/config.worktree; touch $each/HEAD"
    ended = await ground.run(f"for each in .git project/.git; do {lines}; done; cat .git/commondir")
    assert ended.output.out.head == b"../evil\n"
    assert sorted(path.name for path in kept.parent.iterdir()) == [
        *("HEAD", "config.worktree", "hooks")
    ]
    assert kept.read_text() == "as it was"
    # Of a folder below only where the conversation works there, as docs/sandbox.md says.
    await ground.run(lines.replace("$each", ".git"), cwd=ground.work / "project")
    assert (ground.work / "project/.git/HEAD").exists()


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
    if ground.backend == "docker":  # there the kernel refuses, or ends one of them
        ended = await ground.run(script, seconds=5)
        said = ended.output.err.head
        assert (b"sandbox.memory" if words == "memory" else b"temporarily unavailable") in said
        return
    ended = await ground.run(script, seconds=25)
    assert words in ended.reason


@pytest.mark.parametrize(
    "script",
    [
        "cat ~/notes.txt",
        "touch /etc/made-by-ohmo",
        "of-the-home",  # a program in a folder that is not there
        "git -C side status",  # a worktree of a repository elsewhere
        "python3 -c 'import socket; socket.create_connection((\"127.0.0.1\", 1))'",
        "python3 -c 'import socket; socket.create_connection((\"ohmo.invalid\", 1))'",
    ],
)
async def test_what_failed_at_a_wall_is_known_by_its_words(ground: Ground, script: str) -> None:
    (ground.work / "side").mkdir()
    (ground.work / "side/.git").write_text(f"gitdir: {ground.home}/elsewhere/.git/worktrees/side")
    ended = await ground.run(script)
    assert ended.code
    assert AT_A_WALL.search(ended.output.err.head), ended.output.err.head


@pytest.mark.needs("bwrap")
async def test_files_in_memory_have_their_bound(tmp_path: Path) -> None:
    ground = Ground(tmp_path, "bubblewrap", memory=1 << 26)
    ended = await ground.run("for each in /tmp /dev/shm; do head -c 20M /dev/zero > $each/x; done")
    assert ended.output.err.head.count(b"No space left") == 2
    ended = await ground.run("head -c 20M /dev/zero > /dev/x; echo x > /proc/self/comm")
    assert ended.output.err.head.count(b"Read-only file system") == 2


async def test_a_memory_of_one_process_is_bounded_by_the_kernel(ground: Ground) -> None:
    ended = await ground.run("head -c 900000000 /dev/zero | tail | wc -c")
    assert ended.output.out.head.strip() != b"900000000"
    assert b"memory" in ended.output.err.head or "memory" in ended.reason


@pytest.mark.parametrize("folder", ["work/bin", "bin", ""])
async def test_a_bwrap_that_commands_may_have_written_is_not_used(
    folder: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ground = Ground(tmp_path, "bubblewrap")
    planted = ground.home / "work/bin/bwrap"
    planted.parent.mkdir()
    planted.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\n")
    planted.chmod(0o755)
    monkeypatch.chdir(planted.parent if folder == "" else ground.work)
    path = str(ground.home / folder) if folder == "work/bin" else folder
    ground.walls._settings = replace(ground.walls._settings, path=f"{path}:{os.devnull}")
    assert (await ground.walls.standing()).backend == "none"
    assert not (tmp_path / "ran").exists()


async def test_where_none_holds_nobody_is_told_that_one_does(tmp_path: Path) -> None:
    ground = Ground(tmp_path, "bubblewrap")
    ground.walls._settings = replace(ground.walls._settings, path=os.devnull)
    standing = await ground.walls.standing()
    assert (standing.backend, standing.fell) == ("none", True)
    assert "install the package bubblewrap" in ground.walls.told(wanted=False)[-1]
    assert "preset: full is not in force" in ground.walls.told(wanted=True)[-1]
    assert not ground.walls.holds
    assert await ground.walls.cage(ground.work) is None


LIBRARY = """
#include <stdlib.h>
#include <fcntl.h>
__attribute__((constructor)) static void here(void) { creat(OUTSIDE, 0600); }
"""
SHELL = """
for each in /proc/self/fd/*; do
  for up in . .. ../.. ../../.. ../../../..; do echo x > "$each/$up/{name}"; done
done 2>/dev/null
"""


@pytest.mark.needs("cc")
async def test_no_variable_of_a_command_reaches_what_makes_its_cage(
    ground: Ground, tmp_path: Path
) -> None:
    """``LD_PRELOAD`` would be loaded outside, ``BASH_ENV`` find descriptors of what is outside."""
    outside = tmp_path / "outside"
    source = ground.work / "evil.c"
    source.write_text(LIBRARY.replace("OUTSIDE", f'"{outside}"'))
    library = ground.work / "evil.so"
    subprocess.run(["cc", "-shared", "-fPIC", "-o", library, source], check=True)
    (ground.work / "evil.sh").write_text(SHELL.format(name="by-a-shell"))
    (ground.work / ".git/hooks").mkdir(parents=True, exist_ok=True)
    env = {"LD_PRELOAD": str(library), "BASH_ENV": str(ground.work / "evil.sh"), "OWN": "a\nb=c"}
    ended = await ground.run('printf %s "$OWN"; echo "[$LD_PRELOAD]"', env=env)
    assert ended.output.out.head.decode() == f"a\nb=c[{library}]\n"  # its own has them all
    assert not outside.exists()
    assert list(tmp_path.rglob("by-a-shell")) == []


async def test_a_command_finds_each_variable_as_it_was_given(ground: Ground) -> None:
    """Whatever it means to a shell that is in between."""
    env = {
        "UID": "1234",
        "each": "v",
        "environment": "0",
        "_own_each": "w",
        "my-key": "a b",
        "POSIXLY_CORRECT": "1",
    }
    program = "import os, json; print(json.dumps({n: os.environ.get(n) for n in %r}))" % [*env]
    ended = await ground.run(f'exec python3 -I -S -c "{program}"', env=env)
    found = json.loads(ended.output.out.head)
    assert {name: found[name] for name in env} == env
