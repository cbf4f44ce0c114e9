"""``ohmo backup``, ``restore`` and ``store`` as typed."""

from __future__ import annotations

import fcntl
import json
import os
import shlex
import sqlite3
from pathlib import Path

import pytest

from tests.faults.disk import Disk
from tests.programs import ohmo
from tests.unit.storefile.homes import furnished, markers


@pytest.fixture
def full(home: Path) -> Path:
    furnished(home)
    (home / "config.yaml").chmod(0o600)
    (home / ".env").chmod(0o600)
    return home


@pytest.mark.cold_start
def test_there_and_back_again(full: Path) -> None:
    made = ohmo(full, "backup", "--json", code=0)
    archive = Path(json.loads(made.stdout)["path"])
    assert archive.parent == full / "backups"
    assert str(archive) in ohmo(full, "backup", "--list").stdout
    (full / "ohmo.db").write_bytes(b"ruin")
    ohmo(full, "store", "check", code=1)
    back = ohmo(full, "restore", str(archive.parent), code=0)
    assert "what was there before lies in" in back.stdout
    assert len(markers(full / "ohmo.db")) == 20
    sound = ohmo(full, "store", "check", "--json")
    assert json.loads(sound.stdout)["rows"]["inbox"] == 20


def test_the_way_to_what_was_open_in_a_ruined_store_can_be_pasted_into_a_shell(full: Path) -> None:
    home = full.rename(full.with_name("my own home"))
    made = json.loads(ohmo(home, "backup", "--json").stdout)["path"]
    (home / "ohmo.db").write_bytes(b"ruin")
    said = ohmo(home, "restore", made).stdout
    line = next(line for line in said.splitlines() if "could not be read whole" in line)
    setting, *command = shlex.split(line.rpartition("can be read: ")[2])
    assert command == ["ohmo", "inbox", "list"]
    assert (Path(setting.removeprefix("OHMO_HOME=")) / "ohmo.db").read_bytes() == b"ruin"


@pytest.mark.needs("cc")
def test_a_full_disk_is_named_by_the_folder_without_room_not_by_the_store(
    full: Path, tmp_path: Path
) -> None:
    disk = Disk(tmp_path, "/.backup-")
    disk.fails()
    said = ohmo(full, "backup", **disk.environ)
    assert (said.returncode, said.stderr.count("\n")) == (1, 1)
    assert f"{full / 'backups'}: there is no room for a backup" in said.stderr
    assert list((full / "backups").iterdir()) == []


def test_what_needs_the_home_alone_is_refused_while_a_daemon_has_it(full: Path) -> None:
    archive = json.loads(ohmo(full, "backup", "--json").stdout)["path"]
    handle = os.open(full / "lock", os.O_RDWR | os.O_CREAT)
    fcntl.flock(handle, fcntl.LOCK_EX)
    os.write(handle, b"4711\n")
    for command in (
        ("restore", archive),
        ("store", "compact"),
        ("store", "migrate", f"sqlite:///{full}/other.db"),
    ):
        said = ohmo(full, *command, code=75)
        assert "another ohmo (pid 4711) owns this home" in said.stderr
    assert ohmo(full, "backup").returncode == 0  # this one is made beside it
    os.close(handle)
    ohmo(full, "store", "compact", code=0)
    moved = ohmo(full, "store", "migrate", f"sqlite:///{full}/other.db", "--json")
    assert json.loads(moved.stdout)["rows"]["threads"] == 20


@pytest.mark.parametrize(
    ("command", "line"),
    [
        (("restore", "/nowhere.tar.gz"), "no such file"),
        (("restore", "/tmp"), "there is no backup in it"),
        (("store", "migrate", "mysql://x"), "expected sqlite:////path/ohmo.db or postgresql://…"),
    ],
)
def test_a_wrong_argument_is_one_line(command: tuple[str, ...], line: str, full: Path) -> None:
    said = ohmo(full, *command, code=1)
    assert line in said.stderr
    assert said.stderr.count("\n") == 1


@pytest.mark.needs("root")
@pytest.mark.parametrize(
    "command", ["backup", "doctor --fix", "store compact", "store migrate sqlite:////nowhere.db"]
)
def test_root_writes_nothing_in_a_home_that_is_somebody_elses(command: str, tmp_path: Path) -> None:
    home, target = tmp_path / "home", tmp_path / "target"
    home.mkdir()
    sqlite3.connect(home / "ohmo.db").close()
    target.write_text("")
    target.chmod(0o644)
    (home / "SOUL.md").symlink_to(target)
    (home / ".env").symlink_to(target)
    if command != "doctor --fix":
        target.chmod(0o600)
    before = target.stat().st_mode
    for path in (home, *home.iterdir()):
        os.chown(path, 65_534, 65_534, follow_symlinks=False)
    ran = ohmo(home, *command.split())
    assert ran.returncode != 0
    assert "run it as them: sudo -u" in ran.stderr
    assert target.stat().st_mode == before
    assert [path for path in home.rglob("*") if path.lstat().st_uid == 0] == []
