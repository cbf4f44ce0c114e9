"""The machine and the programs ohmo uses."""

from __future__ import annotations

import re

from ohmo.doctor.check import Check, Facts, Finding, note, ok, problem, warning

LEAST_FILES = 256
LEAST_MEMORY = 200 * 1024  # KiB
LEAST_SHARE = 0.85  # of a limit; from there on the daemon runs one turn at a time
_AVAILABLE = re.compile(r"^MemAvailable:\s+(\d+) kB", re.MULTILINE)


def python(facts: Facts) -> Finding:
    major, minor = facts.machine.python
    if (major, minor) >= (3, 11):
        return ok(f"Python {major}.{minor}")
    return problem(
        f"this is Python {major}.{minor}",
        "install Python 3.11 or newer, then make install PYTHON=python3.12",
    )


def encoding(facts: Facts) -> Finding:
    if facts.machine.encoding.lower().replace("-", "") == "utf8":
        return ok()
    return problem(
        f"file names are {facts.machine.encoding} here",
        "set LANG=C.UTF-8 (or PYTHONUTF8=1) where ohmo is started",
    )


def files(facts: Facts) -> Finding:
    limit = facts.machine.open_files()
    if limit >= LEAST_FILES:
        return ok()
    return problem(
        f"a process may open only {limit} files here",
        "ulimit -n 1024 before ohmo run; LimitNOFILE=1024 in a unit",
    )


def memory(facts: Facts) -> Finding:
    if (share := facts.machine.memory_share()) is not None and share >= LEAST_SHARE:
        return warning(
            f"{share:.0%} of the memory that this container or unit may use is used",
            "give it more, or run less in it",
        )
    available = _AVAILABLE.search(facts.machine.memory())
    if available is None or int(available[1]) >= LEAST_MEMORY:
        return ok()
    return warning(
        f"only {int(available[1]) // 1024} MiB of memory are free",
        "stop what you do not need; ohmo takes 80 to 200 MiB",
    )


def root(facts: Facts) -> Finding:
    if facts.machine.user != 0:
        return ok()
    return note(
        "ohmo runs as root: every tool may do everything to this machine",
        "run it as a user of its own; in a container this is usual",
    )


def _program(name: str, without: str, how: str, *, needed: bool = False) -> Check:
    def examine(facts: Facts) -> Finding:
        if facts.machine.has_program(name):
            return ok()
        return (problem if needed else note)(f"{name} is not installed: {without}", how)

    return Check(f"machine.{name}", f"{name} is installed", examine)


def uvloop(facts: Facts) -> Finding:
    if facts.machine.has_module("uvloop"):
        return ok()
    return note("uvloop is not installed: every message costs more time", "pip install uvloop")


def traces(facts: Facts) -> Finding:
    wanted = facts.environ.get("OTEL_EXPORTER_OTLP_ENDPOINT") or facts.environ.get(
        "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"
    )
    if not wanted or facts.machine.has_module("opentelemetry.sdk"):
        return ok()
    return problem(
        f"traces are wanted at {wanted}, but OpenTelemetry is not installed",
        "pip install 'ohmo[otel]'",
    )


CHECKS = (
    Check("machine.python", "Python is new enough", python),
    Check("machine.encoding", "file names are UTF-8", encoding),
    Check("machine.files", "enough files may be open", files),
    Check("machine.memory", "there is memory", memory),
    Check("machine.root", "ohmo is not root", root),
    _program("bash", "the Bash tool cannot run anything", "apt install bash", needed=True),
    _program("git", "no checkpoints and no worktrees", "apt install git"),
    _program("rg", "searching big folders is slow", "apt install ripgrep"),
    Check("machine.uvloop", "uvloop is installed", uvloop),
    Check("machine.traces", "traces can be sent where they are wanted", traces),
)
