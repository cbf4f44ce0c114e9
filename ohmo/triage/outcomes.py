"""What test runners report, as numbers and failures: JUnit XML, the events of ``go test -json``
(go.dev/cmd/test2json), and what cargo's tests print."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, cast

from channels.record import record
from ohmo.triage.logs import guarded_junit
from ohmo.triage.results import BadResults, plain

_HEAD = 400  # characters of a message
_HEAD_LINES = 4
_MOST_OUTPUT = 60  # lines that one test printed
_PYTEST_PLACE = re.compile(r"^([^\s:]+):(\d+): ", re.MULTILINE)
_STACK_PLACE = re.compile(r"[\s(](?:file://)?(/[^\s():]+):(\d+):\d+")
_PYTEST_WHY = re.compile(r"^E +(.*)", re.MULTILINE)
_GO_PLACE = re.compile(r"^\s+([^\s:]+\.go):(\d+): (.*)")
_CARGO_TEST = re.compile(r"^test (.+?)(?: - should panic)? \.\.\. FAILED", re.MULTILINE)
_CARGO_SUM = re.compile(
    r"^test result: .*? (\d{1,9}) passed; (\d{1,9}) failed; (\d{1,9}) ignored", re.MULTILINE
)
_CARGO_SECTION = re.compile(r"---- (.+?)(?: - should panic)? stdout ----")
# The rest of its line belongs to each, so that no line is looked at twice.
_CARGO_PANIC = re.compile(r"(?:panicked at |panic as expected at )(?:'.*', )?(.*)")
_CARGO_PLACE = re.compile(r"([^\s:]+):(\d+):\d+:?")

Form = Literal["junit", "go", "cargo", "text"]


@record
class FailedTest:
    """``at``: FILE:LINE where that is known, or FILE."""

    name: str
    at: str
    message: str


@record
class Outcome:
    """Of one run."""

    passed: int
    failed: int
    skipped: int
    failures: Sequence[FailedTest]


def read(form: Form, data: bytes, folder: Path) -> Outcome | None:
    """``folder``: paths in it are told from there. None: it says nothing of tests."""
    match form:
        case "junit":
            return _from_junit(data, folder)
        case "go":
            return _from_go(data.decode("utf-8", "replace"))
        case "cargo":
            return _from_cargo(data.decode("utf-8", "replace"))
        case "text":
            return None


def _from_junit(data: bytes, folder: Path) -> Outcome | None:
    try:
        guard = guarded_junit(data)
    except BadResults:
        return None
    failures: list[FailedTest] = []
    for case in guard.root.iter("testcase"):
        result = case[0]
        text = result.text or ""
        message = result.get("message") or ""
        if message in ("", "collection failure"):  # pytest could not import the file
            message = "\n".join(_PYTEST_WHY.findall(text)) or text or result.tag
        failures.append(
            FailedTest(_name(case.attrib), _place(text, case.attrib, folder), _head(message))
        )
    if guard.cases == 0:
        return None
    passed = guard.cases - guard.failed - guard.skipped
    return Outcome(max(0, passed), guard.failed, guard.skipped, failures)


def _from_go(text: str) -> Outcome | None:
    states: dict[tuple[str, str], str] = {}  # of package and test; "" is the package itself
    output: dict[tuple[str, str], list[str]] = {}
    for line in text.splitlines():
        if not line.startswith("{"):
            continue
        event = _event(line)
        package = str(event.get("Package") or str(event.get("ImportPath", "")).partition(" ")[0])
        key = (package, str(event.get("Test", "")))
        action = event.get("Action")
        if action in ("pass", "fail", "skip"):
            states[key] = action
        elif action in ("output", "build-output"):
            said = output.setdefault(key, [])
            said.append(str(event.get("Output", "")).rstrip("\n"))
            del said[:-_MOST_OUTPUT]
    if not states:
        return None
    # A test that only holds others is told by them.
    holds = {(package, test.rpartition("/")[0]) for package, test in states if "/" in test}
    leaves = {key: state for key, state in states.items() if key[1] and key not in holds}
    counts = [list(leaves.values()).count(state) for state in ("pass", "fail", "skip")]
    explained = {package for (package, _), state in leaves.items() if state == "fail"}
    failed = [key for key, state in leaves.items() if state == "fail"]
    # It was not built, or it died.
    dead = [
        key
        for key, state in states.items()
        if state == "fail" and not key[1] and key[0] not in explained
    ]
    failures = [_go_failure(key, output.get(key, [])) for key in (*failed, *dead)]
    return Outcome(counts[0], counts[1] + len(dead), counts[2], failures)


def _from_cargo(text: str) -> Outcome | None:
    sums = [tuple(map(int, found)) for found in _CARGO_SUM.findall(text)]
    if not sums:
        return None
    said = _cargo_said(text)
    failures: list[FailedTest] = []
    for name in dict.fromkeys(_CARGO_TEST.findall(text)):
        words = "\n".join(said.get(name, ()))
        panics = _CARGO_PANIC.finditer(words)
        places = (_CARGO_PLACE.match(words, panic.start(1)) for panic in panics)
        place = next(filter(None, places), None)
        # What went wrong stands below the place, if not on its line.
        below = words[place.end() :].strip() if place is not None else ""
        at = f"{place[1]}:{place[2]}" if place is not None else ""
        failures.append(FailedTest(name, at, _head(below or words)))
    passed, failed, skipped = (sum(numbers) for numbers in zip(*sums, strict=True))
    return Outcome(passed, failed, skipped, failures)


def _cargo_said(text: str) -> Mapping[str, Sequence[str]]:
    """The lines that each failed test printed."""
    said: dict[str, list[str]] = {}
    lines: list[str] = []  # of no test
    for line in text.split("\n"):
        if line == "failures:" or line.startswith("---- "):
            lines = []
            if (section := _CARGO_SECTION.fullmatch(line)) is not None:
                said[section[1]] = lines
        else:
            lines.append(line)
    return said


def _name(case: Mapping[str, str]) -> str:
    """As pytest takes it where the file is told, else the suite's words and the test's."""
    file = case.get("file", "")
    group = case.get("classname", "")
    module = file.removesuffix(".py").replace("/", ".")
    if file.endswith(".py") and f"{group}.".startswith(f"{module}."):
        return "::".join(
            filter(None, (file, *group[len(module) :].split("."), case.get("name", "")))
        )
    return ".".join(part for part in (group, case.get("name", "")) if part)[:300]


def _place(text: str, case: Mapping[str, str], folder: Path) -> str:
    """pytest tells the innermost call last, stacks of JavaScript first."""
    places = _PYTEST_PLACE.findall(text)
    own = [place for place in places if not place[0].startswith(("/", ".."))] or places
    stack = _STACK_PLACE.search(text)
    if own:
        file, line = own[-1]
    elif stack is not None:
        file, line = stack.groups()
    else:
        return case.get("file", "")[:300]
    return f"{file.removeprefix(f'{folder}/')}:{line}"[-300:]


def _event(line: str) -> Mapping[str, Any]:
    """Empty when the line is none."""
    try:
        event = json.loads(line)
    except (ValueError, RecursionError):
        return {}
    return cast("Mapping[str, Any]", event) if isinstance(event, dict) else {}


def _go_failure(key: tuple[str, str], said: Sequence[str]) -> FailedTest:
    package, test = key
    name = f"{package}.{test}" if test else package
    for number, line in enumerate(said):
        if match := _GO_PLACE.match(line):
            below = "\n".join((match[3], *said[number + 1 : number + _HEAD_LINES]))
            return FailedTest(name, f"{match[1]}:{match[2]}", _head(below))
    words = [line for line in said if line and not line.startswith(("=== ", "--- ", "FAIL"))]
    return FailedTest(name, "", _head("\n".join(words) or "failed"))


def _head(message: str) -> str:
    lines = [line for line in plain(message, 4 * _HEAD).splitlines() if line.strip()]
    return "\n".join(lines[:_HEAD_LINES])[:_HEAD].strip()
