"""The daemon, when there is one."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from typing import Any

from channels.text import some
from ohmo.doctor.check import (
    Check,
    Facts,
    Finding,
    Json,
    needs,
    note,
    ok,
    problem,
    skipped,
    status,
    warning,
)

ALONE = "no daemon is running"
RECENT, DAY = timedelta(hours=1), timedelta(days=1)
TAIL = 256 * 1024  # bytes of the log that are looked at


def running(facts: Facts) -> Finding:
    return (
        ok(f"pid {facts.holder}")
        if facts.holder is not None
        else note(ALONE, "ohmo run, or ohmo service start")
    )


def answers(facts: Facts) -> Finding:
    if facts.holder is None:
        return skipped(ALONE)
    if facts.ask("/api/v1/status") is not None:
        return ok()
    return problem(
        f"pid {facts.holder} holds the home, but nobody answers at {facts.home.socket()}",
        f"wait a minute if it has just started; else ohmo logs, then kill {facts.holder} and start"
        " again (nothing accepted is lost)",
    )


@needs(status)
def ready(_: Facts, status: Json) -> Finding:
    return (
        ok()
        if status["ready"]
        else warning("it is not ready yet", "ohmo logs --level warning tells what it waits for")
    )


@needs(status)
def version(facts: Facts, status: Json) -> Finding:
    if status["version"] == facts.version:
        return ok()
    return warning(
        f"it is ohmo {status['version']}, installed is {facts.version}", "ohmo service restart"
    )


@needs(status)
def warnings(_: Facts, status: Json) -> Finding:
    lines = [str(line) for line in status.get("warnings", [])]
    return warning(lines[0], "ohmo status shows all of them") if lines else ok()


@needs(status)
def model(facts: Facts, status: Json) -> Finding:
    wanted = facts.config.profile.provider if facts.config is not None else "offline"
    if status["model"] != "offline" or wanted == "offline":
        return ok(str(status["model"]))
    return note(
        f"it runs without a model ({status['provider']})",
        "ohmo init asks for one, and it is taken over within seconds; docs/models.md says more",
    )


@needs(status)
def parked(_: Facts, status: Json) -> Finding:
    count = int(status.get("turns_parked", 0))
    return (
        note(f"{count} turns wait for somebody's answer", "ohmo approvals list") if count else ok()
    )


def log_there(facts: Facts) -> Finding:
    path = facts.home.log
    if not path.exists():
        return ok()
    if path.is_file() and facts.machine.may_write(path):
        return ok()
    return problem(
        f"{path}: cannot be written", f"chmod u+rw {path}; the daemon goes on, but says nothing"
    )


def unlock_log(facts: Facts) -> str:
    if facts.home.log.is_file():
        facts.home.log.chmod(0o600)
    return "opened for you"


def errors(facts: Facts) -> Finding:
    found = [
        line
        for line in _tail(facts)
        if line.get("level") in ("error", "critical") and _recent(line, facts.now)
    ]
    if not found:
        return ok()
    last = found[-1]
    return warning(
        f"{some(len(found), 'error')} in the log within the last hour, the last:"
        f" {last.get('event')} {last.get('error', '')}".rstrip(),
        "ohmo logs --level error",
    )


def lost(facts: Facts) -> Finding:
    found = [
        line
        for line in _tail(facts)
        if line.get("event") == "log.lost" and _recent(line, facts.now, DAY)
    ]
    if not found:
        return ok()
    return warning(
        f"{sum(int(line.get('lines', 0)) for line in found)} lines of the log were lost",
        "see that the disk has room and keeps up",
    )


def _tail(facts: Facts) -> list[dict[str, Any]]:
    try:
        with facts.home.log.open("rb") as file:
            file.seek(max(0, file.seek(0, os.SEEK_END) - TAIL))
            lines = file.read().splitlines()
    except OSError:
        return []
    found: list[dict[str, Any]] = []
    for line in lines:
        try:
            value: Any = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            found.append(value)  # pyright: ignore[reportUnknownArgumentType]
    return found


def _recent(line: dict[str, Any], now: datetime, within: timedelta = RECENT) -> bool:
    try:
        at = datetime.fromisoformat(str(line.get("at")))
    except ValueError:
        return False
    return at.tzinfo is not None and now - at.astimezone(UTC) < within


CHECKS = (
    Check("daemon.running", "a daemon runs", running),
    Check("daemon.answers", "it answers", answers),
    Check("daemon.ready", "it is ready", ready),
    Check("daemon.version", "it is the installed version", version),
    Check("daemon.warnings", "it has no warnings", warnings),
    Check("daemon.model", "it has a model", model),
    Check("daemon.questions", "nobody's answer is missing", parked),
    Check("log.writable", "the log can be written", log_there, unlock_log),
    Check("log.errors", "no errors within the last hour", errors),
    Check("log.lost", "no line of the log was lost within a day", lost),
)
