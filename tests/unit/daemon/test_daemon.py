"""Signs of life, crash loops, the last good configuration, and a configuration that changes under a
running house."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

from channels.contract import Manifest
from channels.registry import discover
from ohmo.config.home import Home, environment, read_env
from ohmo.config.load import boot, copy_of, load, remember
from ohmo.contracts.errors import ConfigError
from ohmo.daemon.serving import ConfigReload
from ohmo.daemon.startup import ends_itself, heartbeat, period
from ohmo.lifecycle import outcome, within
from ohmo.service.health_gate import CrashLoop
from tests.programs import BOUND
from tests.programs import environ as shell


def manifests() -> Mapping[str, Manifest]:
    return discover(strangers=()).manifests


class Clock:
    def __init__(self) -> None:
        self.time = 1_000_000.0

    def __call__(self) -> float:
        return self.time


def test_after_three_starts_in_a_minute_the_fourth_is_a_safe_one(tmp_path: Path) -> None:
    clock = Clock()
    found: list[bool] = []
    for _ in range(4):
        found.append(CrashLoop(tmp_path / "starts.json", clock).begin())
        clock.time += 5
    assert found == [False, False, False, True]
    clock.time += 120
    assert not CrashLoop(tmp_path / "starts.json", clock).begin()


_SPOILT = """
import os, sys, time
from dataclasses import replace
from ohmo.config.load import load
from ohmo.daemon.serving import Order, serve

environ = dict(os.environ)

def spoilt():  # in a way that the reading of a configuration knows nothing of
    config = load(environ=environ)
    return replace(config, limits=config.limits.model_copy(update={"queue": 10**30}))

sys.exit(serve(load(environ=environ), Order(spoilt, time.time_ns(), environ)))
"""


async def test_a_configuration_that_loads_and_does_not_start_leaves_the_old_one(home: Path) -> None:
    (home / "config.yaml").write_text(
        "control: {listen: null}\nprofiles: {default: {provider: offline}}"
    )
    child = await asyncio.create_subprocess_exec(
        sys.executable,
        *("-c", _SPOILT),
        env=shell(home),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.STDOUT,
    )
    assert child.stdout is not None
    said = b""
    for words in (b"ohmo is ready", b"owner_notice"):
        while words not in (line := await within(BOUND, child.stdout.readline())):
            assert line, said
            said += line
        if words == b"ohmo is ready":
            child.send_signal(signal.SIGHUP)
    assert b"The changed configuration does not start: Python int too large" in line
    child.terminate()
    assert await within(BOUND, child.wait()) == 0
    assert said.count(b"configuration_does_not_start") == 1


def test_a_stop_in_good_order_is_no_crash(tmp_path: Path) -> None:
    clock = Clock()
    for _ in range(6):
        starts = CrashLoop(tmp_path / "starts.json", clock)
        assert not starts.begin()
        starts.ended()


def test_a_clock_that_was_set_back_makes_no_crash_loop(tmp_path: Path) -> None:
    clock = Clock()
    for _ in range(3):
        CrashLoop(tmp_path / "starts.json", clock).begin()
    clock.time -= 3600
    assert not CrashLoop(tmp_path / "starts.json", clock).begin()


def test_the_same_thing_is_told_once_over_all_lives(tmp_path: Path) -> None:
    clock = Clock()
    told = [CrashLoop(tmp_path / "starts.json", clock).first_time("safe mode") for _ in range(3)]
    assert told == [True, False, False]
    assert CrashLoop(tmp_path / "starts.json", clock).first_time("something else")
    clock.time += 7 * 3600
    assert CrashLoop(tmp_path / "starts.json", clock).first_time("safe mode")


@pytest.mark.parametrize(
    "content", ["", "[]", "{", '{"starts": "x", "told": 3}', '{"starts": [null, "a"]}']
)
def test_a_damaged_record_of_starts_never_stops_a_start(tmp_path: Path, content: str) -> None:
    (tmp_path / "starts.json").write_text(content)
    starts = CrashLoop(tmp_path / "starts.json", Clock())
    assert not starts.begin()
    assert starts.first_time("x")


def test_the_watchdog_is_fed_at_least_twice_in_its_time() -> None:
    assert period({}) == 5
    assert period({"WATCHDOG_USEC": "20000000"}) == 5
    assert period({"WATCHDOG_USEC": "3000000"}) == 1
    assert period({"WATCHDOG_USEC": "nonsense"}) == 5


def test_only_a_container_without_a_watchdog_ends_itself() -> None:
    assert ends_itself({"OHMO_SERVICE": "container"})
    assert not ends_itself({"OHMO_SERVICE": "systemd", "WATCHDOG_USEC": "20000000"})
    assert not ends_itself({})


async def test_the_loop_beats_while_it_turns_and_stops_with_the_house() -> None:
    said: list[str] = []
    beaten = asyncio.Event()

    def tell(environ: Mapping[str, str], state: str) -> bool:
        said.append(state)
        if len(said) >= 3:
            beaten.set()
        return True

    async with heartbeat({"WATCHDOG_USEC": "30000"}, tell=tell):
        await asyncio.wait_for(beaten.wait(), 20)
    count = len(said)
    assert set(said) == {"WATCHDOG=1"}
    await asyncio.sleep(0)
    assert len(said) == count


def test_secrets_for_a_service_stand_in_a_file_only_its_owner_reads(tmp_path: Path) -> None:
    file = tmp_path / ".env"
    file.write_text("# tokens\nSLACK_BOT_TOKEN=xoxb-1\nexport A=\"b c\"\n; old\nB='x=y'\nEMPTY=\n")
    file.chmod(0o600)
    assert read_env(file) == {"SLACK_BOT_TOKEN": "xoxb-1", "A": "b c", "B": "x=y", "EMPTY": ""}
    assert environment({"OHMO_HOME": str(tmp_path), "A": "mine"})["A"] == "mine"
    file.chmod(0o640)
    with pytest.raises(ConfigError, match="chmod 600"):
        read_env(file)
    file.chmod(0o600)
    file.write_text("fine=1\nnot a pair\n")
    with pytest.raises(ConfigError, match=r"\.env:2: expected NAME=value"):
        read_env(file)


def environ_of(home: Path) -> dict[str, str]:
    return {"OHMO_HOME": str(home), "HOME": str(home.parent)}


def test_a_service_boots_the_last_good_copy_when_the_file_is_broken(tmp_path: Path) -> None:
    file, environ = tmp_path / "config.yaml", environ_of(tmp_path)
    file.write_text("control: {listen: null}\n")
    config, note = boot(None, environ=environ, profile=None, manifests=manifests())
    assert note == ""
    assert remember(config, environ, manifests())
    copy = copy_of(Home(tmp_path))
    assert copy.stat().st_mode & 0o077 == 0
    file.write_text("contrl: 1\nmor: 2\n")
    assert not remember(config, environ, manifests())
    found, note = boot(None, environ=environ, profile=None, manifests=manifests())
    assert found.control.listen is None
    assert found.file == file
    assert "config.yaml:1: contrl" in note
    assert "1 more" in note


def test_a_first_start_with_a_broken_file_stays_an_error(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("contrl: 1\n")
    with pytest.raises(ConfigError, match="contrl"):
        boot(None, environ=environ_of(tmp_path), profile=None, manifests=manifests())


async def test_a_changed_file_is_taken_over_when_it_loads_and_said_once_when_it_does_not(
    tmp_path: Path,
) -> None:
    file, environ, told = tmp_path / "config.yaml", environ_of(tmp_path), list[str]()
    file.write_text("limits: {queue: 10}\n")
    present = load(environ=environ)
    reload = ConfigReload(lambda: load(environ=environ), tmp_path / "config.yaml", look=0.02)

    async def tell(line: str) -> None:
        told.append(line)

    async def until(told_so_far: int) -> None:
        while len(told) < told_so_far:
            await asyncio.sleep(0.01)

    changing = asyncio.create_task(reload.changed(present, tell))
    file.write_text("limits: {queue: 10\n")
    await asyncio.wait_for(until(1), 20)
    assert "config.yaml:" in told[0]
    assert reload.problem == told[0]
    os.utime(file, ns=(1, 1))  # touched, still the same mistake: not told again
    file.write_text("limits: {queu: 10}\n")
    await asyncio.wait_for(until(2), 20)
    assert "did you mean queue" in told[1]
    assert not changing.done()
    file.write_text("limits: {queue: 20}\n")
    found = await asyncio.wait_for(changing, 20)
    assert found.limits.queue == 20
    assert reload.problem == ""
    assert len(told) == 2


async def test_a_first_configuration_and_a_new_token_are_noticed_while_the_house_runs(
    tmp_path: Path,
) -> None:
    environ, file, secrets = environ_of(tmp_path), tmp_path / "config.yaml", tmp_path / ".env"

    async def tell(line: str) -> None:
        raise AssertionError(line)

    reload = ConfigReload(
        lambda: load(environ={**environ, **read_env(secrets)}), file, secrets, look=0.02
    )
    present = load(environ=environ)
    assert present.file is None
    changing = asyncio.create_task(reload.changed(present, tell))
    file.write_text("limits: {queue: 10}\n")
    present = await asyncio.wait_for(changing, 20)
    assert present.limits.queue == 10
    changing = asyncio.create_task(reload.changed(present, tell))
    secrets.write_text("TELEGRAM_TOKEN=new\n")
    secrets.chmod(0o600)
    assert (await asyncio.wait_for(changing, 20)).source.data == present.source.data


async def test_what_was_written_while_the_house_was_still_starting_is_taken_over(
    tmp_path: Path,
) -> None:
    environ, file = environ_of(tmp_path), tmp_path / "config.yaml"
    file.write_text("limits: {queue: 10}\n")
    os.utime(file, (1, 1))
    since = time.time_ns()
    present = load(environ=environ)
    told = list[str]()

    async def tell(line: str) -> None:
        told.append(line)

    unchanged = ConfigReload(lambda: load(environ=environ), file, since=since, look=0.02)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(unchanged.changed(present, tell), 0.3)
    file.write_text("limits: {queue: 20}\n")
    reload = ConfigReload(lambda: load(environ=environ), file, since=since, look=0.02)
    assert (await asyncio.wait_for(reload.changed(present, tell), 20)).limits.queue == 20
    assert told == []


async def test_asking_for_a_reload_takes_the_same_file_over_again(tmp_path: Path) -> None:
    environ = environ_of(tmp_path)
    (tmp_path / "config.yaml").write_text("limits: {queue: 10}\n")
    present = load(environ=environ)
    reload = ConfigReload(lambda: load(environ=environ), tmp_path / "config.yaml", look=30)
    reload.asked.set()

    async def tell(line: str) -> None:
        raise AssertionError(line)

    assert (await asyncio.wait_for(reload.changed(present, tell), 20)).limits.queue == 10


def test_the_outermost_boundary_tells_a_crash_from_an_end() -> None:
    def crash() -> int:
        raise ZeroDivisionError

    assert outcome(lambda: 0) == 0
    assert isinstance(outcome(crash), ZeroDivisionError)
