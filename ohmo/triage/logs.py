"""A plain log: the lines that say what failed, in the words of the usual test runners and
compilers."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence

from ohmo.triage.results import CiRun, Failure
from ohmo.triage.fingerprint import plain

_LONGEST = 1_000  # characters of a line that are looked at
_MOST = 200  # failures of one log
_STAMP = re.compile(
    r"^\ufeff?\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\S*\s"
)  # what GitHub writes before each line
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
_SAID = re.compile(
    r"^(?:E\s+)?(?P<said>(?:[\w.]+(?:Error|Exception|Failure|Interrupt)\b.*|(?:fatal|panic|error)(?:\[\w+\])?:"
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


def failures_of(
    text: str, *, job: str = "", url: str = "", failed: bool = False
) -> tuple[Failure, ...]:
    """``failed``: the job is known to have failed, so that something must be said of it."""
    lines = list(_lines(text))
    found = (
        list(_tests(lines, job, url)) or list(_errors(lines, job, url)) or _verdict(lines, job, url)
    )
    if not found and failed:
        found = [
            Failure(job, "", lines[-1] if lines else "the job failed and its log is empty", url)
        ]
    return tuple(dict.fromkeys(found))[:_MOST]


def read_log(text: str, *, stream: str = "log", commit: str = "", url: str = "") -> CiRun:
    """A whole log as one run; green when no line says that something failed."""
    key = hashlib.sha256(f"{commit}\n{text}".encode("utf-8", "replace")).hexdigest()[:16]
    return CiRun(stream, key, commit, "", url, failures_of(text, job=stream, url=url))


def jobs_in(text: str) -> dict[str, str]:
    """``gh run view --log-failed``: each line is job, step and text, with tabs between. The text of
    each job."""
    found: dict[str, list[str]] = {}
    for line in text.splitlines():
        job, _, rest = line.partition("\t")
        found.setdefault(job, []).append(rest.partition("\t")[2])
    return {job: "\n".join(lines) for job, lines in found.items()}


def _lines(text: str) -> Iterator[str]:
    for line in text.splitlines():
        shown = plain(_STAMP.sub("", line[:_LONGEST]), _LONGEST)
        shown = _STAMP.sub("", f"{shown} ").strip()
        if shown:
            yield shown


def _tests(lines: Sequence[str], job: str, url: str) -> Iterator[Failure]:
    for number, line in enumerate(lines):
        found = next((match for pattern in _TESTS if (match := pattern.match(line))), None)
        if found is not None:
            said = (found["said"] or "").strip() or _near(lines, number)
            yield Failure(job, found["test"].strip(), said or "failed", url)


def _near(lines: Sequence[str], number: int) -> str:
    """What went wrong stands below the name of the test in most logs."""
    for line in lines[number + 1 : number + 30]:
        if any(pattern.match(line) for pattern in _TESTS):
            return ""
        if match := _SAID.match(line):
            return match["said"]
    below = lines[number + 1] if number + 1 < len(lines) else ""
    return re.sub(r"^\S+:\d+: ", "", below)


def _verdict(lines: Sequence[str], job: str, url: str) -> list[Failure]:
    return [Failure(job, "", line, url) for line in lines if _VERDICT.match(line)][:1]


def _errors(lines: Sequence[str], job: str, url: str) -> Iterator[Failure]:
    found: list[Failure] = []
    for line in lines:
        if match := _SAID.match(line):
            found.append(Failure(job, "", match["said"], url))
        elif _ERROR.match(line):
            found.append(
                Failure(job, "", re.sub(r"^(?:##\[error\]|::error[^:]*::)", "", line), url)
            )
    telling = [one for one in found if not _ENDED.search(one.message)]
    yield from telling or found
