"""An upgrade that is killed anywhere: the next start finds a whole version, and the store that
belongs to it."""

from __future__ import annotations

import fcntl
import sqlite3
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from ohmo.service.rollback import SHOWN, Attempt
from ohmo.service.versions import Versions
from tests.programs import run_process

ROOT = Path(__file__).parents[3]
# what stands for ohmo: it is found, and goes on as the version in force, as ohmo is and does
RUNS = """
import sys
from pathlib import Path
from ohmo.service.versions import enter

enter("daemon")
print((Path(sys.prefix) / "lib" / "version").read_text(), end="", flush=True)
sys.stdin.read() if sys.argv[1:] == ["waits"] else None
"""
UPGRADES = """
import os, signal, sqlite3, sys
from pathlib import Path
from ohmo.config.home import Home
from ohmo.service.protocol import ServiceFailed, Standing
from ohmo.service.health_gate import Connection
from ohmo.service.upgrading import Parts, Upgrade
from ohmo.service.versions import Versions

versions, home = Versions(Path(sys.argv[1])), Path(sys.argv[2])
count, when, migrates = int(sys.argv[3]), sys.argv[4], sys.argv[5] == "yes"
steps = []

def die(step):
    steps.append(step)
    if len(steps) == count:
        os.kill(os.getpid(), signal.SIGKILL)

def install(environment, _):
    (environment / "lib" / "version").unlink()
    if when == "installing":
        os.kill(os.getpid(), signal.SIGKILL)
    (environment / "lib" / "version").write_text("new")

class Service:
    def start(self):
        if versions.in_force() == versions.base:
            return
        if migrates:
            with sqlite3.connect(home / "ohmo.db") as connection:
                connection.execute("UPDATE meta SET value = '2'")
                connection.execute("DELETE FROM said")
            connection.close()
        if when == "trying":
            os.kill(os.getpid(), signal.SIGKILL)
        if when != "good":
            raise ServiceFailed("the new version is not well")
    def stop(self): pass
    def standing(self): return Standing("running")

channels = lambda: {"web": Connection("connected")}
parts = Parts(
    versions, versions.base, Home(home), install, lambda _: "", Service(), print, channels, reached=die
)
try:
    Upgrade(parts).run()
except Exception as error:
    print(error)
print(len(steps))
"""


class Installation:
    """An environment with the old version in it, and a home with one message."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        venv.create(folder / "environment", with_pip=False, symlinks=True)
        self.versions = Versions(folder / "environment")
        self.python = folder / "environment" / "bin" / "python"
        site = next((folder / "environment" / "lib").glob("python*/site-packages"))
        (site / "rest.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
        (site / "daemon.py").write_text(RUNS)
        (folder / "environment" / "lib" / "version").write_text("old")
        self.home.mkdir()
        with closing(sqlite3.connect(self.home / "ohmo.db")) as connection, connection:
            connection.execute("CREATE TABLE meta (name TEXT, value TEXT)")
            connection.execute("INSERT INTO meta VALUES ('schema', '1')")
            connection.execute("CREATE TABLE said (text TEXT)")
            connection.execute("INSERT INTO said VALUES ('before')")

    def upgrade(
        self, *, die_at: int = 0, when: str = "", migrates: bool = False
    ) -> subprocess.CompletedProcess[str]:
        given = [str(self.versions.base), str(self.home), str(die_at), when]
        given.append("yes" if migrates else "no")
        return run_process(sys.executable, "-c", UPGRADES, *given, cwd=ROOT)

    def start(self) -> tuple[str, str]:
        """What the version that is started now calls itself, and what is said about it."""
        done = run_process(self.python, "-P", "-m", "daemon")
        return done.stdout, done.stderr

    def waits(self) -> subprocess.Popen[bytes]:
        """One that runs until its input ends."""
        return subprocess.Popen(
            [str(self.python), "-P", "-m", "daemon", "waits"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )

    def words(self) -> list[str]:
        with closing(sqlite3.connect(self.home / "ohmo.db")) as connection:
            return [row[0] for row in connection.execute("SELECT text FROM said")]

    def leftovers(self) -> list[str]:
        here = [*self.versions.folder.glob("*"), *self.home.iterdir(), *self.home.glob("run/*")]
        return [path.name for path in here if path.suffix in (".json", ".returning", ".shown")]


@contextmanager
def held(lock: Path) -> Generator[None]:
    """Somebody else has it."""
    lock.touch()
    with lock.open("r+") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture
def installation(tmp_path: Path) -> Installation:
    return Installation(tmp_path)


@pytest.mark.parametrize("migrates", [False, True])
def test_killed_at_every_step_of_an_upgrade_that_fails_the_next_start_is_the_old_version_with_its_store(
    tmp_path: Path, migrates: bool
) -> None:
    for count in range(1, 40):
        one = Installation(tmp_path / str(count))
        ran = one.upgrade(die_at=count, migrates=migrates)
        version, said = one.start()
        assert (version, one.words(), one.leftovers()) == ("old", ["before"], []), (
            f"killed at step {count}: {said}"
        )
        if ran.returncode == 0:
            assert "the upgrade was taken back" in ran.stdout
            assert count > (8 if migrates else 6)
            return
        assert ran.returncode == -9
        kept_aside = list((one.home / "quarantine").glob("failed-upgrade-*/ohmo.db"))
        assert len(kept_aside) == int(migrates and count > 3)
    raise AssertionError("it never came to an end")


def test_killed_at_every_step_of_an_upgrade_that_is_good_it_stays_only_when_it_was_tried_to_the_end(
    tmp_path: Path,
) -> None:
    versions: list[str] = []
    for count in range(1, 40):
        one = Installation(tmp_path / str(count))
        ran = one.upgrade(die_at=count, when="good")
        versions.append(one.start()[0])
        assert (one.words(), one.leftovers()) == (["before"], []), f"killed at step {count}"
        assert one.start() == (versions[-1], "")
        if ran.returncode == 0:
            break
    # install, trial, switch, over, clear up, and not killed
    assert versions == ["old", "old", "old", "old", "new", "new"]


def test_killed_while_the_new_version_is_installed_the_old_one_was_never_touched(
    installation: Installation,
) -> None:
    assert installation.upgrade(when="installing").returncode == -9
    assert installation.start() == ("old", "")
    assert "the upgrade was taken back" in installation.upgrade().stdout
    assert installation.upgrade(when="good").returncode == 0
    assert installation.start() == ("new", "")
    assert len([path for path in installation.versions.folder.iterdir() if path.is_dir()]) == 2


def test_killed_while_the_new_version_is_tried_the_next_start_is_the_old_version(
    installation: Installation,
) -> None:
    assert installation.upgrade(when="trying").returncode == -9
    version, said = installation.start()
    assert version == "old"
    assert (
        "interrupted before the new version had shown that it runs; the version of before is back"
        in said
    )
    assert installation.start() == ("old", "")
    assert installation.leftovers() == []


def test_a_version_that_is_tried_is_not_taken_away_from_under_a_daemon_that_begins(
    installation: Installation,
) -> None:
    installation.upgrade(when="trying")
    with held(installation.versions.folder / "lock"):  # whoever upgrades is still there
        daemon = installation.waits()
        assert daemon.stdout is not None
        assert daemon.stdout.read(3) == b"new"
    assert installation.start() == ("new", "")
    ran = installation.upgrade()
    assert "shows within two minutes whether the new version stays" in ran.stdout
    daemon.communicate(timeout=60)
    assert installation.start()[0] == "old"


def test_a_version_whose_daemon_showed_what_it_can_stays(installation: Installation) -> None:
    installation.upgrade(when="trying")
    attempt = Attempt.read(installation.versions.trial)
    shown = installation.home / "run" / SHOWN
    shown.parent.mkdir()
    shown.write_text("another upgrade")
    assert not attempt.has_shown()
    shown.write_text(attempt.name)
    assert installation.start() == ("new", "")
    assert installation.leftovers() == []


def test_nothing_is_taken_back_under_a_daemon_that_runs(installation: Installation) -> None:
    installation.upgrade(when="trying")
    with held(installation.home / "lock"):
        assert installation.start() == ("new", "")
    assert installation.start()[0] == "old"


def test_who_starts_while_somebody_takes_it_back_waits_and_starts_the_old_version(
    installation: Installation,
) -> None:
    installation.upgrade(when="trying")
    with held(installation.versions.trial):
        starts = installation.waits()
        assert starts.stdout is not None
        with pytest.raises(subprocess.TimeoutExpired):
            starts.wait(1.0)
    assert starts.communicate(timeout=60)[0] == b"old"


def test_a_link_that_leads_nowhere_is_said_and_nothing_else_is_run_instead(
    installation: Installation,
) -> None:
    installation.upgrade(when="good")
    (installation.versions.in_force() / "bin" / "python").unlink()
    version, said = installation.start()
    assert version == ""
    assert "leads to no version that can be started" in said


def test_what_cannot_be_taken_back_runs_and_says_what_to_do(installation: Installation) -> None:
    installation.upgrade(when="trying")
    installation.versions.trial.write_text("{")
    version, said = installation.start()
    assert version == "new"
    assert "cannot be taken back" in said
    assert "-m ohmo.service.rollback" in said
