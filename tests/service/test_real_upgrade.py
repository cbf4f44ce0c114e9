"""`ohmo upgrade` with wheels, pip and the real daemon: whoever upgrades is killed while the new
version is tried."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import os
import signal
import subprocess
import sysconfig
import time
import venv
import zipfile
from collections.abc import Callable, Generator, Mapping
from pathlib import Path
from typing import Any

import pytest

import ohmo
from ohmo.service.versions import Versions
from tests.faults.builds import built
from tests.programs import run_process

pytestmark = pytest.mark.timeout(300)
LATE = """
import os, time
open(os.environ["OHMO_HOME"] + "/begun", "w").close()
time.sleep(4)
"""  # a start that says when it began and leaves time to kill whoever waits for it


BROKEN = """

def connect(self):
    raise KeyError("of the new version")


Web.connect = connect
"""


def wheel(folder: Path, version: str, added: Mapping[str, str]) -> Path:
    """A package as pip takes it, with this text at the end of some files. Its form:
    packaging.python.org, "Binary distribution format"."""
    sources = built(folder / "sources", version).folder
    for name, text in added.items():
        file = sources / name
        file.write_text(file.read_text() + text)
    info = f"ohmo-{version}.dist-info"
    files = {
        str(path.relative_to(sources)): path.read_bytes()
        for path in sorted(sources.rglob("*"))
        if path.is_file()
    }
    files[f"{info}/METADATA"] = f"Metadata-Version: 2.1\nName: ohmo\nVersion: {version}\n".encode()
    files[f"{info}/entry_points.txt"] = b"[console_scripts]\nohmo = ohmo.cli.main:main\n"
    files[f"{info}/WHEEL"] = (
        b"Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
    )
    rows = [
        f"{name},sha256={base64.urlsafe_b64encode(hashlib.sha256(body).digest()).decode().rstrip('=')},{len(body)}"
        for name, body in files.items()
    ]
    files[f"{info}/RECORD"] = "\n".join([*rows, f"{info}/RECORD,,", ""]).encode()
    found = folder / f"ohmo-{version}-py3-none-any.whl"
    with zipfile.ZipFile(found, "w") as archive:
        for name, body in files.items():
            archive.writestr(name, body)
    return found


class Installed:
    """ohmo in an environment of its own, as a service without an init; what it needs lies where the
    tests' own lies."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.home.mkdir(mode=0o700)
        (self.home / "config.yaml").write_text(
            f"control: {{listen: null}}\nworkspace: {folder / 'work'}\n"
        )
        venv.create(
            folder / "environment", with_pip=importlib.util.find_spec("pip") is None, symlinks=True
        )
        self.python = folder / "environment" / "bin" / "python"
        self.versions = Versions(folder / "environment")
        site = next((folder / "environment" / "lib").glob("python*/site-packages"))
        (site / "here.pth").write_text(f"{sysconfig.get_path('purelib')}\n")
        self.environ = {
            "PATH": os.environ["PATH"],
            "HOME": str(folder),
            "OHMO_HOME": str(self.home),
            "PIP_NO_INDEX": "1",
            "PIP_NO_COMPILE": "1",
        }
        subprocess.run(
            [
                self.python,
                "-m",
                "pip",
                "install",
                "-q",
                "--no-deps",
                wheel(folder / "old", ohmo.__version__, {}),
            ],
            env=self.environ,
            check=True,
        )

    def types(self, *words: str, code: int | None = 0) -> str:
        done = run_process(self.python.with_name("ohmo"), *words, code=code, env=self.environ)
        return done.stdout + done.stderr

    def version(self) -> str:
        """Of the daemon that runs; empty while none answers."""
        try:
            return json.loads(self.types("status", "--json", code=None))["version"]
        except (ValueError, KeyError):
            return ""

    def state(self) -> dict[str, Any]:
        try:
            return json.loads((self.home / "run" / "service.state").read_text())
        except (OSError, ValueError):
            return {}

    def until(self, done: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 90
        while not done():
            assert time.monotonic() < deadline, (
                self.state(),
                (self.home / "logs" / "service.log").read_text()[-3000:],
            )
            time.sleep(0.05)

    def upgraded(self, package: Path, number: int) -> tuple[int, str]:
        """Whoever upgrades gets this signal when the daemon of the new version has begun and is not
        ready yet; how it ended, and what it said."""
        begun = self.home / "begun"
        begun.unlink(missing_ok=True)
        whoever = subprocess.Popen(
            [self.python.with_name("ohmo"), "upgrade", str(package)],
            env=self.environ,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.until(lambda: begun.exists() or whoever.poll() is not None)
        whoever.send_signal(number)
        said = whoever.communicate(timeout=100)[1]
        return whoever.returncode, said

    def leftovers(self) -> list[str]:
        shown = [file.name for file in (self.home / "run").iterdir() if "upgrade" in file.name]
        return shown + [self.versions.trial.name] * self.versions.trial.exists()


@pytest.fixture(scope="module")
def installed(tmp_path_factory: pytest.TempPathFactory) -> Generator[Installed]:
    found = Installed(tmp_path_factory.mktemp("installed"))
    found.types("service", "install", "--manager", "background")
    found.types("service", "start")
    yield found
    found.types("service", "uninstall", code=None)


def test_a_bad_version_whose_trial_nobody_watches_any_more_gives_way_by_itself(
    installed: Installed,
) -> None:
    before = installed.version()
    broken = {"ohmo/daemon/__init__.py": LATE, "channels/web/adapter.py": BROKEN}
    package = wheel(installed.folder / "bad", "0.2.0", broken)
    assert installed.upgraded(package, signal.SIGKILL)[0] == -signal.SIGKILL
    installed.until(lambda: installed.version() == before)
    assert installed.leftovers() == []
    log = (installed.home / "logs" / "service.log").read_text()
    assert "the new version has to give way: web was connected before and is not now" in log


def test_a_terminal_that_is_closed_takes_the_upgrade_back_at_once(installed: Installed) -> None:
    before = installed.version()
    package = wheel(installed.folder / "closed", "0.2.2", {"ohmo/daemon/__init__.py": LATE})
    code, said = installed.upgraded(package, signal.SIGHUP)
    assert (code, installed.version(), installed.leftovers()) == (1, before, [])
    assert "the upgrade was taken back: interrupted; the old version is in place" in said


def test_a_good_version_shows_by_itself_that_it_runs_and_stays(installed: Installed) -> None:
    package = wheel(installed.folder / "good", "0.3.0", {"ohmo/daemon/__init__.py": LATE})
    assert installed.upgraded(package, signal.SIGKILL)[0] == -signal.SIGKILL
    installed.until(lambda: not installed.versions.trial.exists())
    installed.until(lambda: "it stays" in (installed.home / "logs" / "ohmo.jsonl").read_text())
    installed.types("service", "restart")
    assert (installed.version(), installed.leftovers()) == ("0.3.0", [])


def test_the_next_upgrade_begins_with_that_one_and_the_service_needs_no_new_unit(
    installed: Installed,
) -> None:
    said = installed.types("upgrade", str(wheel(installed.folder / "next", "0.4.0", {})))
    assert "ohmo 0.4.0 is in place and running" in said
    assert (installed.version(), installed.leftovers()) == ("0.4.0", [])
    assert "0.4.0" in installed.types("--version")
    assert "unchanged" in installed.types("service", "install", "--manager", "background")
    broken = wheel(installed.folder / "torn", "0.5.0", {"ohmo/cli/main.py": "raise KeyError\n"})
    assert "nothing was changed" in installed.types("upgrade", str(broken), code=1)
    assert installed.version() == "0.4.0"
