"""What test runners, compilers and build tools leave behind: a plain log, of which the lines that
say what failed are found, and JUnit XML, as pytest, Maven, Gradle, Jest, go-junit-report and others
write it, read by junitparser.

In front of junitparser stands a guard that trusts nothing: a document type is refused (entities
that expand, files that are fetched), depth and sizes are bounded, and only what failed is kept."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, cast
from xml.etree.ElementTree import Element, SubElement
from xml.parsers import expat

from ohmo.triage.results import (
    MOST_BYTES,
    MOST_FAILURES,
    MOST_TEXT,
    BadResults,
    CiRun,
    Failure,
    plain,
)

_LONGEST_LINE = 1_000  # characters of a line that are looked at
_MOST = 200  # failures of one log
# what GitHub writes before each line
_STAMP = re.compile(r"^\ufeff?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*\s")
_TESTS: tuple[re.Pattern[str], ...] = (  # test, and what it said when it is said on that line
    re.compile(
        r"^(?:FAILED|ERROR) (?P<test>\S+(?:::|\.py)\S*)(?: - (?P<said>.+))?$"
    ),  # pytest's short summary
    re.compile(r"^(?:FAIL|ERROR): (?P<test>\w+ \([\w.]+\))(?P<said>)$"),  # unittest
    re.compile(r"^\s*--- FAIL: (?P<test>\S+)(?P<said>)(?: \(.*\))?$"),  # go test
    re.compile(r"^test (?P<test>\S+) \.\.\. FAILED(?P<said>)$"),  # cargo test
    re.compile(r"^\s*● (?P<test>.+ › .+)(?P<said>)$"),  # Jest
    re.compile(r"^not ok \d+ -? ?(?P<test>[^#]+)(?P<said>)$"),  # TAP
    re.compile(r"^\[\s*FAILED\s*\] (?P<test>[\w/]+\.[\w/]+)(?P<said>)(?:,? \(?.*)?$"),  # GoogleTest
    re.compile(r"^\[ERROR\]\s+(?P<test>[\w.$]+[.:]\w+)(?::\d+)? (?P<said>.+)$"),  # Maven Surefire
)
_ERROR_TYPE = re.compile(
    r"^(?:E\s+)?(?P<said>(?:[\w.]+(?:Error|Exception|Failure|Interrupt)\b.*"
    r"|(?:fatal|panic|error)(?:\[\w+\])?:"
    r" .+|thread '.*' panicked at .*))$"
)
_ERROR = re.compile(
    r"^(?:##\[error\]|::error[^:]*::|ERROR:? |Error: |\S+:\d+(?::\d+)?: (?:fatal )?error:? )"
)
_VERDICT = re.compile(  # what runners, build tools and shells say last when nothing above is known
    r"^(?:=+ )?(?:make(?:\[\d+\])?: \*\*\* .+|ninja: build stopped: .+|BUILD"
    r" FAIL(?:ED|URE)\b.*|FAILURES?[:!].*|FAILED \(.+\)|Failed! .+|FAIL\s+\S+.*"
    r"|test result: FAILED\b.*|(?:.*\W)?[1-9]\d* (?:failed|failing|failures?)(?: tests?)?(?: in"
    r" [\d.]+ ?m?s.*|\s*[,.;|)(=].*)?"
    r"|npm (?:ERR!|error) .+|Bail out!.*|curl: \(\d+\) .+"
    r"|(?:/\S*/)?(?:ba|da|z|a)?sh: .*not found|Segmentation fault.*|Aborted(?: \(core"
    r" dumped\))?|Killed)$"
)
_ENDED = re.compile(
    r"exit(?:ed)?(?: with)? (?:code|status)|process completed|job failed|script returned",
    re.IGNORECASE,
)

_DEEPEST = 64
_RESULTS = ("failure", "error")
_KEPT = {  # as what an element is kept: several roots are suites below one
    "testsuites": "testsuite",
    "testsuite": "testsuite",
    "testcase": "testcase",
    "failure": "failure",
    "error": "error",
}


def failures_of(
    text: str, *, job: str = "", url: str = "", failed: bool = False
) -> tuple[Failure, ...]:
    """``failed``: the job is known to have failed, so that something must be said of it."""
    lines: list[str] = []
    for line in text.splitlines():
        shown = plain(_STAMP.sub("", line[:_LONGEST_LINE]), _LONGEST_LINE)
        shown = _STAMP.sub("", f"{shown} ").strip()
        if shown:
            lines.append(shown)
    failures: list[Failure] = []
    for number, line in enumerate(lines):
        match = None
        for pattern in _TESTS:
            match = match or pattern.match(line)
        if match is not None:
            test = match["test"].strip()
            message = (match["said"] or "").strip()
            message = message or _message_below(lines, number) or "failed"
            failures.append(Failure(job=job, test=test, message=message, url=url))
    if not failures:
        errors: list[str] = []
        for line in lines:
            if match := _ERROR_TYPE.match(line):
                errors.append(match["said"])
            elif _ERROR.match(line):
                errors.append(re.sub(r"^(?:##\[error\]|::error[^:]*::)", "", line))
        # Better those that say more than that something ended.
        messages = [error for error in errors if not _ENDED.search(error)] or errors
        if not messages:
            messages = [line for line in lines if _VERDICT.match(line)][:1]
        if failed and not messages:
            messages = [lines[-1] if lines else "the job failed and its log is empty"]
        failures = [Failure(job=job, test="", message=message, url=url) for message in messages]
    return tuple(dict.fromkeys(failures))[:_MOST]


def read_log(text: str, *, stream: str = "log", commit: str = "", url: str = "") -> CiRun:
    """A whole log as one run; green when no line says that something failed."""
    key = hashlib.sha256(f"{commit}\n{text}".encode("utf-8", "replace")).hexdigest()[:16]
    return CiRun(
        stream=stream,
        key=key,
        commit=commit,
        at="",
        url=url,
        failures=failures_of(text, job=stream, url=url),
    )


def jobs_in(text: str) -> dict[str, str]:
    """``gh run view --log-failed``: each line is job, step and text, with tabs between. The text of
    each job."""
    logs: dict[str, list[str]] = {}
    for line in text.splitlines():
        job, _, rest = line.partition("\t")
        logs.setdefault(job, []).append(rest.partition("\t")[2])
    return {job: "\n".join(lines) for job, lines in logs.items()}


def _message_below(lines: Sequence[str], number: int) -> str:
    """What went wrong stands below the name of the test in most logs."""
    for line in lines[number + 1 : number + 30]:
        if any(pattern.match(line) for pattern in _TESTS):
            return ""
        if match := _ERROR_TYPE.match(line):
            return match["said"]
    below = lines[number + 1] if number + 1 < len(lines) else ""
    return re.sub(r"^\S+:\d+: ", "", below)


def read_junit(data: bytes, *, stream: str = "tests", commit: str = "", url: str = "") -> CiRun:
    """The file as one run; its key is what it says. Raises BadResults with the place of what is
    wrong."""
    from junitparser import JUnitXml  # 50 ms, for whoever has such a report

    guard = guarded_junit(data)
    suites = list(JUnitXml.fromroot(cast("Any", guard.root)))
    if not suites:
        raise BadResults("JUnit XML: there is no <testsuite>; is it a test report?")
    times = (suite.get("timestamp", "") for suite in guard.root.iter("testsuite"))
    at = next(filter(None, times), "")[:40]
    key = hashlib.sha256(data + commit.encode()).hexdigest()[:16]
    return CiRun(
        stream=stream,
        key=key,
        commit=commit,
        at=at,
        url=url,
        failures=tuple(_junit_failures(suites, "", url)),
    )


def guarded_junit(data: bytes) -> JunitGuard:
    """What a file says. Raises BadResults with the place of what is wrong."""
    if len(data) > MOST_BYTES:
        raise BadResults(f"JUnit XML: {len(data)} bytes; at most {MOST_BYTES} are read")
    guard = JunitGuard()
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartDoctypeDeclHandler = guard.refuse
    parser.StartElementHandler = guard.start
    parser.CharacterDataHandler = guard.text
    parser.EndElementHandler = guard.end
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        what = expat.ErrorString(error.code)
        raise BadResults(f"JUnit XML: line {error.lineno}: {what}; is the file whole?") from error
    return guard


class JunitGuard:
    """Told what the parser meets. ``root``: what failed, and what that stands in; ``cases``,
    ``failed`` and ``skipped``: numbers of tests."""

    def __init__(self) -> None:
        self.root = Element("testsuites")
        self.cases = 0
        self.failed = 0
        self.skipped = 0
        self._case_failed = False
        self._parents = [self.root]
        self._results = 0

    def refuse(self, *_: object) -> None:
        raise BadResults(
            "JUnit XML: it declares a document type, which no test report needs; refused"
        )

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if len(self._parents) > _DEEPEST:
            raise BadResults(f"JUnit XML: elements stand {_DEEPEST} deep in each other; refused")
        kept = _KEPT.get(name := tag.rpartition(":")[2])
        if kept == "testcase":
            self.cases += 1
            self._case_failed = False
        elif name == "skipped":
            self.skipped += 1
        if kept in _RESULTS:
            self.failed += not self._case_failed
            self._case_failed = True
            self._results += 1
            kept = kept if self._results <= MOST_FAILURES else None
        parent = self._parents[-1]
        self._parents.append(parent if kept is None else SubElement(parent, kept, {**attributes}))

    def text(self, data: str) -> None:
        element = self._parents[-1]
        if element.tag in _RESULTS:
            whole = f"{element.text or ''}{data}"
            if len(whole) > MOST_TEXT:  # where it failed may stand at either end
                whole = whole[: MOST_TEXT // 2] + whole[-MOST_TEXT // 2 :]
            element.text = whole

    def end(self, _: str) -> None:
        element = self._parents.pop()
        parent = self._parents[-1]
        if element is not parent and element.tag == "testcase" and len(element) == 0:
            del parent[-1]  # it passed


def _junit_failures(suites: Iterable[Any], above: str, url: str) -> Iterator[Failure]:
    """``above``: what the suite around these is called."""
    for suite in suites:
        job = (suite.name or "")[:200] or above
        for case in suite.iterchildren(suite.testcase):
            test = ".".join(part[:300] for part in (case.classname, case.name) if part)
            for result in case.result:
                message = (result.message or result.type or "").strip()
                message = message or (result.text or "").strip()
                message = message[:MOST_TEXT] or type(result).__name__.lower()
                yield Failure(job=job, test=test, message=message.splitlines()[0], url=url)
        yield from _junit_failures(suite.testsuites(), job, url)
