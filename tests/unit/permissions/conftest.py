"""A home with secrets, an agent's home inside it, a workspace with a few traps."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from ohmo.permissions.sensitive_paths import SensitivePaths
from ohmo.shell.parsing import DEFAULT_PATH, Shell
from tests.unit.permissions.permission_house import House


@pytest.fixture
def house(tmp_path: Path) -> House:
    home, work = tmp_path / "home" / "ada", tmp_path / "home" / "ada" / "work"
    for name in """
        .ssh/id_rsa .ssh/config .aws/credentials .netrc .kube/config .ohmo/config.yaml .ohmo/ohmo.db
        .ohmo/run/token
    """.split():
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("secret\n")
    for name in ("a.py", "notes.txt", "private/diary.txt", "public/hello.txt", "src/b.py"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("x = 1\n")
    for words in (("init", "-q", "--template="), ("config", "user.name", "ada")):
        subprocess.run(["git", "-C", str(work), *words], check=True)
    (work / "link").symlink_to(home / ".ssh")
    (work / "innocent.txt").symlink_to(home / ".netrc")
    (work / "up").symlink_to(home)
    shell = Shell(home, f"{DEFAULT_PATH}:{Path(sys.executable).parent}")
    return House(home, work, SensitivePaths(home, home / ".ohmo"), shell)
