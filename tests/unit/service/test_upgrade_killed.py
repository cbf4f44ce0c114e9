"""An upgrade that is killed anywhere: the next start of the interpreter finds a whole version, and
the store that belongs to it."""

from __future__ import annotations

import fcntl
import os
import sqlite3
import subprocess
import sys
import venv
from collections.abc import Generator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from ohmo.service.undoing import FOLDER, SHOWN, Undoing

ROOT = Path(__file__).parents[3]
RUNS = "from pathlib import Path\nprint((Path(__file__).parent / 'version').read_text(), end='')\n"
UPGRADES = """
import os, signal, sqlite3, sys
from pathlib import Path
from ohmo.config.home import Home
from ohmo.service.contract import Standing
from ohmo.service.upgrading import Connection, Parts, Upgrade

site, home, count, when, migrates = Path(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5] == "yes"
steps = []

def die(step):
    steps.append(step)
    if len(steps) == count:
        os.kill(os.getpid(), signal.SIGKILL)

def install(_):
    if when == "installing":
        (site / "ohmo" / "version").unlink()
        (site / "ohmo" / "__main__.py").unlink()
        os.kill(os.getpid(), signal.SIGKILL)
    (site / "ohmo" / "version").unlink()
    (site / "ohmo" / "version").write_text("new")
    (site / "added.py").write_text("")
    if migrates:
        with sqlite3.connect(home / "ohmo.db") as connection:
            connection.execute("UPDATE meta SET value = '2'")
            connection.execute("DELETE FROM said")
        connection.close()

looks = []

def healthy():
    looks.append("")
    if when == "trying" and len(looks) == 2:
        os.kill(os.getpid(), signal.SIGKILL)
    return "" if len(looks) == 1 or when == "good" else "the new version is not well"

class Service:
    def start(self): pass
    def stop(self): pass
    def standing(self): return Standing("running")

parts = Parts(site, Home(home), install, healthy, Service(), print, lambda: {"web": Connection("connected")}, reached=die)
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
        self.python = folder / "environment" / "bin" / "python"
        self.site = next((folder / "environment" / "lib").glob("python*/site-packages"))
        (self.site / "ohmo").mkdir()
        (self.site / "ohmo" / "__main__.py").write_text(RUNS)
        (self.site / "ohmo" / "version").write_text("old")
        self.home.mkdir()
        with closing(sqlite3.connect(self.home / "ohmo.db")) as connection, connection:
            connection.execute("CREATE TABLE meta (name TEXT, value TEXT)")
            connection.execute("INSERT INTO meta VALUES ('schema', '1')")
            connection.execute("CREATE TABLE said (text TEXT)")
            connection.execute("INSERT INTO said VALUES ('before')")

    def upgrade(
        self, *, die_at: int = 0, when: str = "", migrates: bool = False
    ) -> subprocess.CompletedProcess[str]:
        given = [str(self.site), str(self.home), str(die_at), when, "yes" if migrates else "no"]
        return subprocess.run(
            [sys.executable, "-c", UPGRADES, *given],
            cwd=ROOT,
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )

    def start(self) -> tuple[str, str]:
        """What the version that is started now calls itself, and what is said about it."""
        ran = subprocess.run(
            [str(self.python), "-P", "-m", "ohmo"],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        return ran.stdout, ran.stderr

    def words(self) -> list[str]:
        with closing(sqlite3.connect(self.home / "ohmo.db")) as connection:
            return [row[0] for row in connection.execute("SELECT text FROM said")]

    def leftovers(self) -> list[str]:
        here = [*self.site.parent.iterdir(), *self.site.iterdir(), *self.home.iterdir()]
        return [
            path.name for path in here if "upgrade" in path.name or path.name.endswith(".returning")
        ]


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
        copies = (
            [FOLDER] if count == 1 else []
        )  # nothing was replaced yet; the next upgrade clears them up
        assert (version, one.words(), one.leftovers()) == ("old", ["before"], copies), (
            f"killed at step {count}: {said}"
        )
        assert not (one.site / "added.py").exists()
        if ran.returncode == 0:
            assert "the upgrade was taken back" in ran.stdout
            assert count > 8
            return
        assert ran.returncode == -9
        assert len(list((one.home / "quarantine").glob("failed-upgrade-*/ohmo.db"))) == int(
            migrates and count > 1
        )
    raise AssertionError("it never came to an end")


def test_killed_at_every_step_of_an_upgrade_that_is_good_it_stays_only_when_it_was_tried_to_the_end(
    tmp_path: Path,
) -> None:
    versions: list[str] = []
    for count in range(1, 40):
        one = Installation(tmp_path / str(count))
        ran = one.upgrade(die_at=count, when="good")
        versions.append(one.start()[0])
        assert (one.words(), one.leftovers()) == (["before"], [FOLDER] if count == 1 else []), (
            f"killed at step {count}"
        )
        assert (one.site / "added.py").exists() == (versions[-1] == "new")
        assert one.start() == (versions[-1], "")
        if ran.returncode == 0:
            break
    assert versions == [
        "old",
        "old",
        "old",
        "new",
        "new",
    ]  # installing, trying, over, clear up, and not killed


def test_killed_while_packages_are_replaced_the_next_start_is_the_old_version(
    installation: Installation,
) -> None:
    assert installation.upgrade(when="installing").returncode == -9
    version, said = installation.start()
    assert version == "old"
    assert "an upgrade was interrupted; the version of before is back" in said
    assert installation.start() == ("old", "")
    assert installation.leftovers() == []


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
    undoing = Undoing(installation.site.with_name(FOLDER))
    reader, writer = os.pipe()
    with held(undoing.folder / "lock"):  # whoever upgrades is still there when it starts
        waits = [str(installation.python), "-c", "import os, sys; os.write(1, b'.'); os.read(0, 1)"]
        daemon = subprocess.Popen(waits, stdin=reader, stdout=subprocess.PIPE)
        assert daemon.stdout is not None
        daemon.stdout.read(1)
    assert installation.start()[0] == "new"
    assert "shows within two minutes whether the new version stays" in installation.upgrade().stdout
    os.write(writer, b".")
    daemon.communicate(timeout=60)
    os.close(reader)
    os.close(writer)
    assert installation.start()[0] == "old"


def test_a_version_whose_daemon_showed_what_it_can_stays(installation: Installation) -> None:
    installation.upgrade(when="trying")
    undoing, shown = Undoing(installation.site.with_name(FOLDER)), installation.home / "run" / SHOWN
    shown.parent.mkdir()
    shown.write_text("another upgrade")
    assert not undoing.has_shown()
    shown.write_text(undoing.facts()["name"])
    assert installation.start() == ("new", "")
    assert installation.leftovers() == []
    assert not shown.exists()


def test_a_second_upgrade_after_a_killed_one_begins_with_a_whole_version(
    installation: Installation,
) -> None:
    installation.upgrade(when="installing")
    ran = installation.upgrade()
    assert "the version of before is back" in ran.stdout
    assert installation.start() == ("old", "")


def test_an_upgrade_over_an_interrupted_one_does_not_keep_its_torn_packages_for_the_old_version(
    installation: Installation,
) -> None:
    installation.upgrade(when="installing")
    with held(installation.home / "lock"):
        assert "stop it, then upgrade again" in installation.upgrade().stdout
    assert installation.start()[0] == "old"


def test_nothing_is_taken_back_under_a_daemon_that_runs_or_an_installer_that_still_writes(
    installation: Installation,
) -> None:
    installation.upgrade(when="installing")
    for lock in (installation.home / "lock", installation.site.parent / ".ohmo-upgrade" / "lock"):
        with held(lock):
            assert installation.start()[0] == ""
    assert installation.start()[0] == "old"
