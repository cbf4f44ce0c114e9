"""What other people of the same machine can do to the service: nothing that they could not do
without it."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
import sys
import sysconfig
import venv
from collections.abc import Generator
from pathlib import Path

import pytest

from ohmo.config.home import Home
from ohmo.service.background import Background
from ohmo.service.protocol import Plan, ServiceFailed
from ohmo.service.rollback import as_owner, copy
from ohmo.service.upgrading import UpgradeFailed
from ohmo.service.versions import only_roots
from ohmo.storefile.lock import hold_home, holder
from tests.programs import python, run_process
from tests.unit.service.test_upgrade_killed import Installation
from tests.unit.service.test_upgrading import Scene

ROOT = Path(__file__).parents[3]
NOBODY = 65_534  # who the service runs as here; root upgrades it
as_root = pytest.mark.needs("root")
STARTS = """
import os, sys
from pathlib import Path
from ohmo.service.rollback import resume
from ohmo.service.versions import Versions

os.setgroups([])
os.setgid(int(sys.argv[2]))
os.setuid(int(sys.argv[2]))
resume(Versions(Path(sys.argv[1])), print)
"""


def opened(folder: Path) -> None:
    """Everybody may walk through."""
    for path in (folder, *folder.parents[:-2]):
        path.chmod(path.stat().st_mode | 0o011)


def given_away(folder: Path) -> None:
    for path in (folder, *folder.rglob("*")):
        os.chown(path, NOBODY, NOBODY)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """The installation is root's, the home the service's own user's; both can be reached by
    everybody. The new version does not start."""
    opened(tmp_path)
    found = Scene(tmp_path, wants=lambda version: version == "old")
    given_away(found.home.root)
    return found


@as_root
def test_root_who_upgrades_follows_no_link_that_the_services_user_laid(
    scene: Scene, tmp_path: Path
) -> None:
    secret, elsewhere = tmp_path / "shadow", tmp_path / "elsewhere"
    secret.write_text("root:hash")
    secret.chmod(0o600)
    elsewhere.mkdir(mode=0o755)
    home = scene.home.root
    (home / "ohmo.db-shadow").symlink_to(secret)
    with pytest.raises(UpgradeFailed, match="nothing was changed"):
        scene.upgrade()
    assert [path.name for path in home.rglob("ohmo.db-shadow") if not path.is_symlink()] == []
    scene.is_as_before()
    (home / "ohmo.db-shadow").unlink()
    (home / "backups" / "before-upgrade").rename(home / "backups" / "old")
    (home / "backups" / "before-upgrade").symlink_to(elsewhere)
    with pytest.raises(UpgradeFailed):
        scene.upgrade()
    assert list(elsewhere.iterdir()) == []


@as_root
def test_what_root_keeps_of_a_home_belongs_to_whom_the_home_belongs(scene: Scene) -> None:
    with pytest.raises(UpgradeFailed, match="new is broken"):
        scene.upgrade()
    kept = scene.home.root / "backups" / "before-upgrade"
    assert {path.stat().st_uid for path in (kept.parent, kept, *kept.iterdir())} == {NOBODY}
    assert os.geteuid() == 0
    scene.is_as_before()


@as_root
def test_the_services_user_puts_no_version_of_roots_back_and_root_does_before_the_next_start(
    tmp_path: Path,
) -> None:
    opened(tmp_path)
    one = Installation(tmp_path)
    one.upgrade(when="trying", migrates=True)
    given_away(one.home)
    printed = python(STARTS, str(one.versions.base), str(NOBODY), cwd=ROOT)
    assert "cannot be taken back" in printed
    assert one.words() == []  # nothing was put back by halves
    line = [str(one.python), "-I", "-m", "ohmo.service.rollback"]  # ExecStartPre=+ of the unit
    ran = run_process(*line, code=0)
    assert "the version of before is back; its store too" in ran.stderr
    assert one.start() == ("old", "")
    assert one.words() == ["before"]
    assert {path.stat().st_uid for path in one.home.rglob("*")} == {NOBODY}


@as_root
def test_a_home_that_its_owner_replaced_by_a_link_to_a_folder_of_roots_is_still_theirs(
    tmp_path: Path,
) -> None:
    theirs, roots = tmp_path / "theirs", tmp_path / "roots"
    theirs.mkdir()
    roots.mkdir()
    (theirs / "home").symlink_to(roots)
    os.chown(theirs, NOBODY, NOBODY)
    with as_owner(theirs / "home"):
        assert os.geteuid() == NOBODY
    os.chown(theirs / "home", NOBODY, NOBODY, follow_symlinks=False)
    with as_owner(theirs / "home"), pytest.raises(PermissionError):
        copy(Path(__file__), theirs / "home" / "planted")
    assert (os.geteuid(), list(roots.iterdir())) == (0, [])


def test_a_state_that_cannot_be_kept_aside_changes_nothing_and_the_service_runs_again(
    tmp_path: Path,
) -> None:
    scene = Scene(tmp_path)
    (scene.home.root / "backups").write_text("a file where a folder belongs")
    with pytest.raises(UpgradeFailed, match="nothing was changed"):
        scene.upgrade()
    scene.is_as_before()


def test_the_installer_of_an_upgrade_is_not_taken_from_the_folder_somebody_stands_in(
    tmp_path: Path,
) -> None:
    venv.create(tmp_path / "environment", with_pip=False, symlinks=True)
    python = tmp_path / "environment" / "bin" / "python"
    site = next((tmp_path / "environment" / "lib").glob("python*/site-packages"))
    (site / "rest.pth").write_text(f"{ROOT}\n{sysconfig.get_path('purelib')}\n")
    (site / "ohmo-0.0.1.dist-info").mkdir()
    (site / "ohmo-0.0.1.dist-info" / "METADATA").write_text(
        "Metadata-Version: 2.1\nName: ohmo\nVersion: 0.0.1\n"
    )
    (site / "pip").mkdir()
    (site / "pip" / "__init__.py").write_text("")
    (site / "pip" / "__main__.py").write_text(
        "import os, sys; print(os.getcwd(), *sys.argv[1:], file=sys.stderr); sys.exit(1)"
    )
    hostile = tmp_path / "hostile"
    hostile.mkdir()
    (hostile / "pip.py").write_text(f"open({str(tmp_path / 'taken')!r}, 'w')")
    (hostile / "new.whl").write_text("")
    environ = {
        "OHMO_HOME": str(tmp_path / "home"),
        "HOME": str(tmp_path),
        "PATH": os.environ["PATH"],
    }
    (tmp_path / "home").mkdir()
    ran = run_process(
        str(python), "-P", "-m", "ohmo", "upgrade", "new.whl", cwd=hostile, env=environ
    )
    assert not (tmp_path / "taken").exists()
    built = tmp_path / "environment" / "versions"
    assert f"nothing was changed: it cannot be installed: {built}" in ran.stderr
    assert ran.stderr.rstrip().partition(";")[0].endswith(f"--upgrade -- {hostile / 'new.whl'}"), (
        sys.version
    )


@pytest.fixture
def stranger() -> Generator[subprocess.Popen[bytes]]:
    """A program that got the number of a daemon that is gone."""
    found = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    yield found
    found.kill()
    found.wait()


def test_a_process_that_got_the_number_of_a_dead_daemon_is_neither_stopped_nor_hung_up(
    tmp_path: Path, stranger: subprocess.Popen[bytes]
) -> None:
    home = Home(tmp_path)
    (tmp_path / "run").mkdir()
    manager = Background(Plan(Path(sys.executable), home, tmp_path, "/usr/bin:/bin"), {})
    manager.install()
    told = {"state": "running", "daemon": stranger.pid, "supervisor": stranger.pid, "restarts": 0}
    (tmp_path / "run" / "service.state").write_text(json.dumps(told))
    with hold_home(tmp_path):  # by hand: ohmo run
        with pytest.raises(ServiceFailed, match="not running"):
            manager.reload()
        manager.stop()
        assert manager.seen().state == "stopped"
    assert stranger.poll() is None


def test_the_first_process_of_a_machine_is_nobodys_daemon(tmp_path: Path) -> None:
    """In a container it may own the home; a supervisor started it nowhere."""
    manager = Background(Plan(Path(sys.executable), Home(tmp_path), tmp_path, "/usr/bin:/bin"), {})
    (tmp_path / "run").mkdir()
    manager.install()
    (tmp_path / "run" / "service.state").write_text(
        json.dumps({"state": "running", "daemon": 1, "supervisor": 1, "restarts": 0})
    )
    with hold_home(tmp_path):
        (tmp_path / "lock").write_text("1\n")
        assert holder(tmp_path / "lock") == 1
        with pytest.raises(ServiceFailed, match="not running"):
            manager.reload()


@pytest.mark.parametrize("written", ["", "0", "-1", "garbage"])
def test_no_number_that_means_more_than_one_process_is_taken_from_a_lock(
    tmp_path: Path, written: str
) -> None:
    lock = tmp_path / "lock"
    lock.write_text(written)
    descriptor = os.open(lock, os.O_RDWR)
    fcntl.flock(descriptor, fcntl.LOCK_EX)
    assert holder(lock) is None
    os.close(descriptor)


@as_root
def test_root_runs_no_environment_at_a_start_that_somebody_else_could_exchange(
    tmp_path: Path,
) -> None:
    venv.create(tmp_path / "theirs" / "environment", with_pip=False, symlinks=True)
    python = tmp_path / "theirs" / "environment" / "bin" / "python"
    roots = [python.resolve(), *python.resolve().parents]
    assert only_roots(python) is all(
        path.stat().st_uid == 0 and not path.stat().st_mode & 0o022 for path in roots
    )
    os.chown(tmp_path / "theirs", NOBODY, NOBODY)
    assert not only_roots(python)
    os.chown(tmp_path / "theirs", 0, 0)
    (tmp_path / "theirs").chmod(0o777)
    assert not only_roots(python)
