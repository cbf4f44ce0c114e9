"""`ohmo service`: from install to uninstall with the real daemon, kept by a process of our own, as
in a container."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tests.programs import OHMO, run_process


class Person:
    """Somebody at a shell with a home of their own, whose path holds a space and letters beyond
    ASCII."""

    def __init__(self, folder: Path) -> None:
        self.home = folder / "a hömé" / ".ohmo"
        self.home.mkdir(parents=True, mode=0o700)
        (self.home / "config.yaml").write_text(
            f"control: {{listen: null}}\nworkspace: {folder / 'work'}\n"
        )
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home.parent),
            "OHMO_HOME": str(self.home),
            "SLACK_BOT_TOKEN": "xoxb-not-for-a-unit",
        }

    def types(self, *words: str, code: int | None = 0) -> str:
        found = run_process(*OHMO, *words, code=code, env=self.environ)
        return found.stdout + found.stderr

    def types_at_once(self, *lines: str) -> list[str]:
        """Each in a shell of its own, all at the same moment; every one ends well."""
        with ThreadPoolExecutor(len(lines)) as shells:
            return list(shells.map(lambda line: self.types(*line.split()), lines))

    def sees(self) -> dict[str, Any]:
        return json.loads(self.types("service", "status", "--json", code=None))

    def until(self, done: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        deadline = time.monotonic() + 60
        while not done(found := self.sees()):
            assert time.monotonic() < deadline, found
        return found


@pytest.fixture
def person(tmp_path: Path) -> Generator[Person]:
    found = Person(tmp_path)
    yield found
    found.types("service", "uninstall", code=None)


def test_a_service_from_install_to_uninstall(person: Person) -> None:
    assert "not installed; ohmo service install" in person.types("service", "start", code=1)
    assert person.sees()["state"] == "not installed"
    person.types("service", "install", "--manager", "background")
    assert "unchanged" in person.types("service", "install", "--manager", "background")
    assert (person.home / ".env").stat().st_mode & 0o077 == 0

    assert "running" in person.types("service", "start")
    status = person.types("service", "status")
    assert "service: running" in status
    assert "ready" in status
    assert "web" in status
    first = person.sees()
    assert first["ready"]
    if sys.platform == "linux" and os.geteuid() == 0:  # nobody else may look
        assert b"xoxb-not-for-a-unit" not in Path(f"/proc/{first['pid']}/environ").read_bytes()
    assert "serving" in person.types("service", "start")  # again: it is there already
    assert person.sees()["pid"] == first["pid"]

    os.kill(first["pid"], signal.SIGKILL)
    second = person.until(lambda found: found["ready"] and found["pid"] != first["pid"])
    assert second["restarts"] == 1
    log = person.types("service", "logs", "-n", "200")
    assert "the daemon ended (SIGKILL)" in log
    assert "ohmo is ready at" in log
    assert "login?" not in log  # a link that logs in does not stand in a log

    person.types("service", "restart")
    third = person.sees()
    assert third["ready"]
    assert third["pid"] != second["pid"]

    person.types("service", "stop")
    assert "stopped" in person.types("service", "status", code=1)
    assert not (Path("/proc") / str(third["pid"])).exists()
    person.types("service", "uninstall")
    assert "nothing to do" in person.types("service", "uninstall")
    assert (person.home / "ohmo.db").exists()  # what was said stays


def test_a_broken_configuration_never_takes_a_service_down(person: Person) -> None:
    file = person.home / "config.yaml"
    good = file.read_text()
    person.types("service", "install", "--manager", "background")
    file.write_text("chanels: {}\n")
    # a first start says what is wrong and stays down
    assert "config.yaml:1: chanels" in person.types("service", "start", code=1)
    file.write_text(good)
    person.types("service", "start")
    pid = person.sees()["pid"]
    file.write_text(f"{good}chanels: {{}}\n")
    found = person.until(lambda found: bool(found["warnings"]))
    assert "chanels: unknown key, did you mean channels?" in found["warnings"][0]
    assert (found["ready"], found["pid"]) == (True, pid)
    file.write_text(f"{good}limits: {{queue: 99}}\n")
    # taken over, by the same process
    person.until(lambda found: found["ready"] and not found["warnings"])
    assert person.sees()["pid"] == pid
    copy = person.home / "backups" / "config.last-good.yaml"
    deadline = time.monotonic() + 60
    while not copy.exists():
        assert time.monotonic() < deadline
        time.sleep(0.1)
    file.write_text("chanels: {}\n")
    person.types("service", "restart")
    found = person.sees()
    assert found["ready"]
    assert "last good copy" in found["warnings"][0]
    assert "config.yaml:1: chanels" in found["warnings"][0]


def test_a_daemon_that_dies_again_and_again_comes_up_safe_and_tells_the_owner_once(
    person: Person,
) -> None:
    now = time.time()
    (person.home / "run").mkdir(mode=0o700)
    (person.home / "run" / "starts.json").write_text(
        json.dumps({"starts": [now - 3, now - 2, now - 1]})
    )
    person.types("service", "install", "--manager", "background")
    person.types("service", "start")
    assert any("safe mode" in line for line in person.sees()["warnings"])
    os.kill(person.sees()["pid"], signal.SIGKILL)
    person.until(lambda found: found["ready"] and found["restarts"] == 1)
    log = (person.home / "logs" / "ohmo.jsonl").read_text()
    assert log.count('"event": "owner_notice"') == 1
    person.types("service", "restart")
    assert person.sees()["warnings"] == []


def test_commands_given_at_once_and_twice_leave_one_daemon_or_none(person: Person) -> None:
    person.types_at_once(*["service install"] * 2)
    said = person.types_at_once(*["service start"] * 3)
    pid = person.sees()["pid"]
    assert all(f"pid {pid}" in line for line in said), said
    person.types_at_once(*["service restart"] * 2)
    again = person.sees()
    assert again["ready"]
    assert again["pid"] != pid
    person.types_at_once(*["service stop"] * 2)
    assert person.sees()["state"] == "stopped"
    person.types_at_once("service start", "service stop")  # whoever comes last has it
    person.types("service", "stop")
    assert "removed" in "".join(person.types_at_once(*["service uninstall"] * 2))
    assert person.sees()["state"] == "not installed"
    assert "nothing to do" in person.types("service", "uninstall")


def test_the_log_is_followed_while_the_service_is_stopped_and_started(person: Person) -> None:
    person.types("service", "install")
    person.types("service", "start")
    follow = [sys.executable, "-m", "ohmo", "service", "logs", "--follow", "-n", "1"]
    following = subprocess.Popen(follow, env=person.environ, stdout=subprocess.PIPE, text=True)
    assert following.stdout is not None
    following.stdout.readline()  # it looks
    person.types("service", "restart")
    seen: list[str] = []
    while not any("ohmo is ready at" in line for line in seen):
        seen.append(following.stdout.readline())
        assert seen[-1], seen
    assert any("stopped as asked" in line for line in seen)
    following.terminate()
    following.communicate(timeout=20)


def test_in_the_image_the_engine_keeps_it_and_status_says_so(person: Person) -> None:
    person.environ["OHMO_SERVICE"] = "container"
    assert "kept by the container engine" in person.types("service", "status", code=1)
    daemon = subprocess.Popen(
        [sys.executable, "-m", "ohmo", "run"],
        env=person.environ,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert person.until(lambda found: found["ready"])["manager"] == "container engine"
        assert "ready, started" in person.types("service", "status")
    finally:
        daemon.terminate()
        daemon.wait(60)
