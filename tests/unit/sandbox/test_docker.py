"""What containers do otherwise than the other backends; what all do is in test_escapes."""

from __future__ import annotations

import asyncio
import io
import os
import random
import signal
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from ohmo.processes.job import Command, ProcessRunner, child_environment
from ohmo.sandbox import docker, docker_settings
from ohmo.sandbox.seccomp import DENIED
from tests.unit.sandbox.test_escapes import Ground

real = [pytest.mark.needs("dockerd"), pytest.mark.xdist_group("dockerd")]
pytestmark = [pytest.mark.needs("linux")]


@pytest.fixture
def ground(tmp_path: Path, engine: str) -> Ground:
    return Ground(tmp_path, "docker", engine=engine)


async def until(what: Callable[[], bool], seconds: float = 15) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end
        await asyncio.sleep(0.1)


def running(word: str) -> bool:
    """Whether somewhere on this machine a process has this on its command line."""
    for each in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            if word.encode() in each.read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False


def containers(engine: str) -> list[str]:
    import docker as sdk

    client = sdk.DockerClient(engine)
    try:
        return [one.name or "" for one in client.containers.list(all=True, ignore_removed=True)]
    finally:
        client.close()


class TestReal:
    pytestmark = real

    async def test_a_container_serves_one_command_after_another_and_keeps_nothing_of_one(
        self, ground: Ground, engine: str
    ) -> None:
        left = (
            "echo x > /tmp/left; mkdir /tmp/shut; echo x > /tmp/shut/left; chmod -R a-w /tmp/shut"
        )
        await ground.run(f"{left}; setsid sleep 7201 & echo x > kept")
        assert not running("7201")
        before = set(containers(engine))
        ended = await ground.run(
            "find /tmp -xdev -name left; cat kept; ls /proc | grep -c '^[0-9]'"
        )
        lines = ended.output.out.head.decode().split()
        assert lines[:-1] == ["x"]
        assert int(lines[-1]) <= 6
        assert set(containers(engine)) == before

    async def test_two_at_once_do_not_see_each_other(self, ground: Ground) -> None:
        script = "echo $$ > /tmp/own; sleep 1; cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep WHO=; ls /tmp"
        ones = [ground.run(f"export WHO={name}; bash -c {script!r}") for name in ("ada", "bob")]
        outs = [each.output.out.head for each in await asyncio.gather(*ones)]
        assert b"ada" in outs[0]
        assert b"bob" not in outs[0]
        assert b"ada" not in outs[1]

    async def test_what_programs_run_later_is_read_only_also_after_it_was_exchanged(
        self, ground: Ground
    ) -> None:
        """A file that takes the place of another takes its mount away in whatever container."""
        config = ground.work / ".git/config"
        for turn in range(3):
            fresh = ground.work / "fresh"
            fresh.write_text(f"{turn}")
            fresh.replace(config)
            other = ground.work / "other"
            other.write_text("the secret")
            other.replace(ground.work / ".npmrc")
            script = "cat .npmrc; for each in .git/config .git/hooks/new; do echo x > $each; done; mv .git gone"
            ended = await ground.run(script)
            assert ended.output.out.total == 0
            assert ended.code != 0
            assert config.read_text() == f"{turn}"
            assert [path.name for path in (ground.work / ".git/hooks").iterdir()] == ["old"]

    async def test_a_folder_that_is_exchanged_at_the_last_moment_is_not_shown(
        self, ground: Ground
    ) -> None:
        hooks, away = ground.work / ".git/hooks", ground.work / "away"
        cage = await ground.walls.cage(ground.work)
        assert cage is not None
        plan = docker._planned(cage)
        hooks.rename(away)
        hooks.symlink_to(ground.home / ".ssh")
        assert ground.walls._sandbox is not None
        backend = ground.walls._sandbox._sandbox
        assert isinstance(backend, docker.Docker)
        with pytest.raises(OSError, match="was exchanged"):
            await backend._box(plan)

    async def test_what_ends_it_ends_all_of_it(self, ground: Ground) -> None:
        """TERM first, then KILL, whatever it does against it."""
        script = "trap 'echo bye; exit 4' TERM; setsid sleep 7202 & sleep 7203 & wait"
        ended = await ground.run(script, seconds=1)
        assert (ended.reason, ended.code, ended.output.out.head) == ("timeout", 4, b"bye\n")
        deaf = "trap '' TERM; setsid sleep 7204 & kill -9 $PPID; sleep 7205"
        ended = await ground.run(deaf, seconds=3)
        await until(lambda: not any(map(running, ("7202", "7203", "7204", "7205"))))

    async def test_streams_signals_and_a_terminal(self, ground: Ground) -> None:
        ended = await ground.run("echo out; echo err >&2; kill -SEGV $$")
        assert (ended.output.out.head, ended.code) == (b"out\n", 139)
        ended = await ground.run("seq 1 200000; exit 3")
        assert (ended.output.out.total, ended.code) == (1288895, 3)
        assert ended.output.out.tail.endswith(b"200000\n")
        (ground.work / "said").write_text("of a file")
        environ = child_environment({"PATH": "/usr/bin:/bin"}, {"SAID": "two words"})
        cage = await ground.walls.cage(ground.work)
        given = Command(
            ("/bin/bash", "-c", 'cat; echo; echo "$SAID"; pwd'),
            *(ground.work, environ, ground.top / "spill", 20),
            stdin=ground.work / "said",
            cage=cage,
        )
        runner = ProcessRunner(sandbox=ground.walls)
        ended = await runner.run(given, lambda _: None)
        assert ended.output.out.head.decode() == f"of a file\ntwo words\n{ground.work}\n"
        ended = await runner.run(
            replace(given, argv=("/bin/bash", "-c", "test -t 1 && stty size"), terminal=True),
            lambda _: None,
        )
        assert ended.output.out.head == b"40 120\r\n"

    async def test_when_the_daemon_is_killed_its_containers_end(
        self, ground: Ground, engine: str, tmp_path: Path
    ) -> None:
        text = f"""
import asyncio
from pathlib import Path
from ohmo.sandbox.seccomp import DENIED
from tests.unit.sandbox.test_escapes import Ground
asyncio.run(Ground(Path({str(tmp_path / "other")!r}), "docker", engine={engine!r}).run("sleep 7206", 60))
"""
        words = [sys.executable, "-c", text]
        daemon = subprocess.Popen(words, cwd=Path(__file__).parents[3], start_new_session=True)
        before = set(containers(engine))
        await until(lambda: running("7206"), 40)
        keepers = subprocess.run(
            ["pgrep", "-P", str(daemon.pid)], capture_output=True, text=True, check=False
        )
        for pid in [*map(int, keepers.stdout.split()), daemon.pid]:
            os.kill(pid, signal.SIGKILL)
        daemon.wait()
        await until(lambda: not running("7206"))
        await until(lambda: set(containers(engine)) <= before)

    async def test_what_a_dead_daemon_left_is_taken_away_at_the_start(
        self, ground: Ground, engine: str
    ) -> None:
        import docker as sdk

        backend = docker.Docker("ohmo-sandbox", str(ground.root), engine)
        client = sdk.DockerClient(engine)
        for name, pid in (("left", "4194305"), ("of-another-command", str(os.getpid()))):
            labels = {"ohmo.house": backend._house, "ohmo.pid": pid}
            client.containers.create("ohmo-sandbox", "true", name=name, labels=labels)
        doors = ground.root / "run/doors"
        for name in ("4194305-left", f"{os.getpid()}-of-another-command"):
            (doors / name).mkdir(parents=True)
            (doors / name / "door").touch()
        await ground.walls.begin()
        kept = [each.name for each in doors.iterdir() if (each / "door").exists()]
        assert kept == [f"{os.getpid()}-of-another-command"]
        assert "left" not in containers(engine)
        assert "of-another-command" in containers(engine)
        client.api.remove_container("of-another-command")
        client.close()

    async def test_files_belong_to_whom_the_workspace_belongs(self, ground: Ground) -> None:
        os.chown(ground.work, 4242, 4343)
        ended = await ground.run("id -u; touch made; cat .git/hooks/old; chmod 777 .git")
        assert ended.output.out.head == b"4242\nthe secret"
        made = (ground.work / "made").stat()
        assert (made.st_uid, made.st_gid) == (4242, 4343)

    async def test_an_image_that_is_not_there_is_never_fetched(self, ground: Ground) -> None:
        ground.walls._settings = replace(ground.walls._settings, image="elsewhere/none:1")
        (why,) = (await ground.walls.standing()).why
        assert why == "docker: there is no image elsewhere/none:1 (docker pull elsewhere/none:1)"
        assert await ground.walls.cage(ground.work) is None

    async def test_why_a_container_does_not_start_is_said(
        self, ground: Ground, engine: str
    ) -> None:
        """And not that it is gone, as it is by then."""
        import docker as sdk

        empty = io.BytesIO()
        with tarfile.open(fileobj=empty, mode="w") as made:
            made.addfile(tarfile.TarInfo("nothing"))
        client = sdk.DockerClient(engine)
        client.api.import_image_from_data(empty.getvalue(), "empty", "latest")
        client.close()
        ground.walls._settings = replace(ground.walls._settings, image="empty")
        (why,) = (await ground.walls.standing()).why
        assert "/bin/bash" in why
        assert "No such container" not in why


@pytest.mark.parametrize(
    ("engine", "words"),
    [
        ("tcp://10.0.0.1:2375", "an engine on this machine"),
        ("unix:///nowhere/docker.sock", "there is no engine at /nowhere/docker.sock"),
    ],
)
async def test_why_there_is_none_is_one_line(tmp_path: Path, engine: str, words: str) -> None:
    ground = Ground(tmp_path, "docker", engine=engine)
    standing = await ground.walls.standing()
    assert standing.fell
    assert words in standing.words


def test_every_request_of_a_terminal_but_two_is_allowed() -> None:
    masks = list(docker_settings._others(*docker_settings.TERMINAL))

    def allowed(number: int) -> bool:
        return any(number & mask == value for mask, value in masks)

    chance = random.Random(29)
    near = [each ^ 1 << bit for each in docker_settings.TERMINAL for bit in range(32)]
    for number in (*near, *range(0x5400, 0x5500), *(chance.getrandbits(32) for _ in range(10_000))):
        assert allowed(number) == (number not in docker_settings.TERMINAL), hex(number)
    assert not any(map(allowed, docker_settings.TERMINAL))


def test_no_refused_call_is_among_those_that_containers_may_make() -> None:
    named = docker_settings.ALLOWED.split()
    special = {*DENIED, "clone", "clone3", "socket", "ioctl"}
    assert not special & set(named)
    assert named == sorted(set(named))


def test_a_place_is_known_as_the_kernel_writes_it() -> None:
    assert docker._escaped(Path("/a b\\c\n\td")) == "/a\\040b\\134c\\012\\011d"
