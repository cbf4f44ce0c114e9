"""JUnit XML, as pytest, Maven, Gradle, Jest, go-junit-report and others write it, read by
junitparser.

In front of it stands a guard that trusts nothing: a document type is refused (entities that
expand, files that are fetched), depth and sizes are bounded, and only what failed is kept."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, cast
from xml.etree.ElementTree import Element, SubElement
from xml.parsers import expat

from ohmo.triage.results import MOST_BYTES, MOST_FAILURES, MOST_TEXT, BadResults, CiRun, Failure

_DEEPEST = 64
_RESULTS = ("failure", "error")
_KEPT = {"testsuites": "testsuite"} | {
    name: name for name in ("testsuite", "testcase", *_RESULTS)
}  # as what an element is kept: several roots are suites below one


def read_junit(data: bytes, *, stream: str = "tests", commit: str = "", url: str = "") -> CiRun:
    """The file as one run; its key is what it says. Raises BadResults with the place of what is
    wrong."""
    from junitparser import JUnitXml  # 50 ms, for whoever has such a report

    if len(data) > MOST_BYTES:
        raise BadResults(f"JUnit XML: {len(data)} bytes; at most {MOST_BYTES} are read")
    guard = _Guard()
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
    suites = list(JUnitXml.fromroot(cast("Any", guard.root)))
    if not suites:
        raise BadResults("JUnit XML: there is no <testsuite>; is it a test report?")
    times = (suite.get("timestamp", "") for suite in guard.root.iter("testsuite"))
    at = next(filter(None, times), "")[:40]
    key = hashlib.sha256(data + commit.encode()).hexdigest()[:16]
    return CiRun(stream, key, commit, at, url, tuple(_failures(suites, "", url)))


class _Guard:
    """Told what the parser meets; ``root`` is what junitparser gets of it."""

    def __init__(self) -> None:
        self.root = Element("testsuites")
        self._parents = [self.root]
        self._results = 0

    def refuse(self, *_: object) -> None:
        raise BadResults(
            "JUnit XML: it declares a document type, which no test report needs; refused"
        )

    def start(self, tag: str, attributes: Mapping[str, str]) -> None:
        if len(self._parents) > _DEEPEST:
            raise BadResults(f"JUnit XML: elements stand {_DEEPEST} deep in each other; refused")
        kept = _KEPT.get(tag.rpartition(":")[2])
        if kept in _RESULTS:
            self._results += 1
            kept = kept if self._results <= MOST_FAILURES else None
        parent = self._parents[-1]
        self._parents.append(parent if kept is None else SubElement(parent, kept, {**attributes}))

    def text(self, data: str) -> None:
        element = self._parents[-1]
        if element.tag in _RESULTS:
            element.text = f"{element.text or ''}{data}"[:MOST_TEXT]

    def end(self, _: str) -> None:
        element = self._parents.pop()
        parent = self._parents[-1]
        if element is not parent and element.tag == "testcase" and len(element) == 0:
            del parent[-1]  # it passed


def _failures(suites: Iterable[Any], above: str, url: str) -> Iterator[Failure]:
    """``above``: what the suite around these is called."""
    for suite in suites:
        job = (suite.name or "")[:200] or above
        for case in suite.iterchildren(suite.testcase):
            test = ".".join(part[:300] for part in (case.classname, case.name) if part)
            for result in case.result:
                said = (result.message or result.type or "").strip() or (result.text or "").strip()
                said = said[:MOST_TEXT] or type(result).__name__.lower()
                yield Failure(job, test, said.splitlines()[0], url)
        yield from _failures(suite.testsuites(), job, url)
