"""JUnit XML, as pytest, Maven, Gradle, Jest, go-junit-report and others write it, read without
trusting it.

Source: the Apache Ant JUnit report, which all of them follow: ``testsuites`` > ``testsuite`` >
``testcase`` > ``failure`` | ``error`` | ``skipped``. A document type is refused (entities that
expand, files that are fetched), depth and sizes are bounded, nothing is kept but failures."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from xml.parsers import expat

from ohmo.triage.facts import MOST_BYTES, MOST_FAILURES, MOST_TEXT, BadResults, CiRun, Failure

_DEEPEST = 64


def read_junit(data: bytes, *, stream: str = "tests", commit: str = "", url: str = "") -> CiRun:
    """The file as one run; its key is what it says. Raises BadResults with the place of what is
    wrong."""
    if len(data) > MOST_BYTES:
        raise BadResults(f"JUnit XML: {len(data)} bytes; at most {MOST_BYTES} are read")
    seen = _Seen(url)
    parser = expat.ParserCreate()
    parser.buffer_text = True
    parser.StartElementHandler, parser.EndElementHandler, parser.CharacterDataHandler = (
        seen.start,
        seen.end,
        seen.text,
    )
    parser.StartDoctypeDeclHandler = _refuse
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise BadResults(
            f"JUnit XML: line {error.lineno}: {expat.ErrorString(error.code)}; is the file whole?"
        ) from error
    if not seen.known:
        raise BadResults("JUnit XML: there is no <testsuite>; is it a test report?")
    return CiRun(
        stream,
        hashlib.sha256(data + commit.encode()).hexdigest()[:16],
        commit,
        seen.at,
        url,
        tuple(seen.failures),
    )


def _refuse(*_: object) -> None:
    raise BadResults("JUnit XML: it declares a document type, which no test report needs; refused")


@dataclass(slots=True)
class _Seen:
    url: str
    failures: list[Failure] = field(default_factory=list[Failure])
    known: bool = False
    at: str = ""
    _depth: int = 0
    _suites: list[str] = field(default_factory=list[str])
    _case: str = ""
    _open: str = ""
    _said: str = ""
    _inside: str = ""

    def start(self, tag: str, given: dict[str, str]) -> None:
        self._depth += 1
        if self._depth > _DEEPEST:
            raise BadResults(f"JUnit XML: elements stand {_DEEPEST} deep in each other; refused")
        name = tag.rpartition(":")[2]
        if name in ("testsuite", "testsuites"):
            self.known = True
            self._suites.append(given.get("name", "")[:200])
            self.at = self.at or given.get("timestamp", "")[:40]
        elif name == "testcase":
            self._case = ".".join(
                part
                for part in (given.get("classname", "")[:300], given.get("name", "")[:300])
                if part
            )
        elif name in ("failure", "error") and self._case and not self._open:
            self._open, self._inside = name, ""
            self._said = given.get("message", "")[:MOST_TEXT] or given.get("type", "")[:MOST_TEXT]

    def text(self, data: str) -> None:
        if self._open and len(self._inside) < MOST_TEXT:
            self._inside += data[:MOST_TEXT]

    def end(self, tag: str) -> None:
        self._depth -= 1
        name = tag.rpartition(":")[2]
        if name == self._open:
            if len(self.failures) < MOST_FAILURES:
                said = (
                    self._said.strip()
                    or next(
                        (line.strip() for line in self._inside.splitlines() if line.strip()), ""
                    )
                    or name
                )
                job = next((suite for suite in reversed(self._suites) if suite), "")
                self.failures.append(Failure(job, self._case, said.splitlines()[0], self.url))
            self._open = ""
        elif name == "testcase":
            self._case = ""
        elif name in ("testsuite", "testsuites") and self._suites:
            self._suites.pop()
