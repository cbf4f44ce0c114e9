"""``@pytest.mark.needs("bwrap", "synapse")``: skipped with one line where the part is missing,
failed where OHMO_TEST_REQUIRE names it."""

from __future__ import annotations

import gc
from collections.abc import Generator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings

from ohmo.cli.connect import import_structlog_alone
from tests import warm
from tests.parts import PARTS, known, required, skip_without, there
from tests.warm import Start

# How fast this machine is at the moment is nothing that a test of ours may fail by.
settings.register_profile(
    "any machine", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("any machine")


# Thousands of errors are caused on purpose, and logged: nobody looks at a traceback in colours,
# which takes longer than the test.
import_structlog_alone()


def pytest_configure(config: pytest.Config) -> None:
    unknown = required() - set(PARTS)
    if unknown:
        raise pytest.UsageError(
            f"OHMO_TEST_REQUIRE names {', '.join(sorted(unknown))}; known are {', '.join(PARTS)}"
        )


def pytest_runtest_setup(item: pytest.Item) -> None:
    warm.worker().cold = item.get_closest_marker("cold_start") is not None
    for marker in item.iter_markers("needs"):
        for name in marker.args:
            if name not in PARTS or not there(name):
                skip_without(name)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection(session: pytest.Session) -> Generator[None, object, object]:
    """Thousands of tests and the modules they come from stay to the end: nothing is gained by
    looking through them for what could go, not while they come and not once for every test."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skip that no list knows is a failure: two suites never agree in silence to leave the same
    thing out."""
    report = yield
    if (
        report.skipped
        and not hasattr(report, "wasxfail")
        and isinstance(report.longrepr, tuple)
        and not known(report.longrepr[2])
    ):
        report.outcome = "failed"
        report.longrepr = (
            f"{item.nodeid}: skipped without a part of tests/parts.py: {report.longrepr[2]}"
        )
    return report


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    """Why a test had to be run once more: who looks for what is uncertain begins here."""
    for report in terminalreporter.getreports("rerun"):
        terminalreporter.section(f"run once more: {report.nodeid}", "_")
        terminalreporter.line(
            "\n".join(
                [*str(report.longrepr).splitlines()[-30:], *report.capstdout.splitlines()[-5:]]
            )
        )


@pytest.fixture
def home(tmp_path: Path) -> Path:
    """An empty folder for one ohmo."""
    path = tmp_path / "home"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def start(request: pytest.FixtureRequest) -> Start:
    """How a test's daemons start: the program itself where ``cold_start`` marks it."""
    return warm.cold if request.node.get_closest_marker("cold_start") else warm.start
