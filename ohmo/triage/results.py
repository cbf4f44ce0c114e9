"""What a source of CI results says: runs, their failures and the fingerprint of each; and the
fields of somebody else's JSON, taken out without believing in their types."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import cast

from channels.record import record
from ohmo.contracts.errors import OhmoError

MOST_BYTES = 32 * 2**20  # of one input
MOST_FAILURES = 2_000  # of one run; a suite that is broken as a whole needs no more to be seen
MOST_TEXT = 2_000  # characters of one message
# Jobs of a page, the most there may be (docs.gitlab.com/api/rest,
# docs.github.com/rest/using-the-rest-api), and pages that are asked for.
PAGE = 100
PAGES = 20
LISTED = 50  # runs that are asked for
LINK = re.compile(r"https?://[^\s()<>\[\]|\"'`\\]{3,400}")
# ECMA-48 control sequences, and titles
_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])")
_UNSEEN = re.compile(
    "[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f"
    "\ufeff\ud800-\udfff]"
)
_VOLATILE: tuple[tuple[re.Pattern[str], str], ...] = (
    (re.compile(r"\b[a-z][a-z0-9+.-]{1,20}://[^\s\"'<>)\]]+", re.IGNORECASE), "URL"),
    (
        re.compile(
            r"\b\d{4}-\d\d-\d\d(?:[T ]\d\d:\d\d(?::\d\d(?:[.,]\d+)?)?)?(?:Z|[+-]\d\d:?\d\d)?"
        ),
        "TIME",
    ),
    (re.compile(r"\b\d{1,2}:\d\d(?::\d\d(?:[.,]\d+)?)?\b"), "TIME"),
    (re.compile(r"\b[0-9a-f]{8}-(?:[0-9a-f]{4}-){3}[0-9a-f]{12}\b", re.IGNORECASE), "ID"),
    (re.compile(r"\b0x[0-9a-f]+\b", re.IGNORECASE), "HEX"),
    (re.compile(r"(?<![\w.])(?:[A-Za-z]:)?(?:[\\/][\w.+@~-]+){2,}[\\/]?(?::\d+)*"), "PATH"),
    (
        re.compile(r"(?<![\w.\\/])(?:~|\.{1,2}|[\w.+@-]+)(?:[\\/][\w.+@~-]+)+\.\w{1,8}(?::\d+)*"),
        "PATH",
    ),
    (re.compile(r"(?<![\w.])[\\/][\w+@~-]+\.\w{1,8}(?::\d+)*"), "PATH"),
    (re.compile(r"\b(?=[0-9a-f]*[0-9])(?=[0-9]*[a-f])[0-9a-f]{7,64}\b", re.IGNORECASE), "HASH"),
    (re.compile(r"\b(?=[A-Za-z_-]*\d)(?=\d*[A-Za-z])[A-Za-z0-9_]{12,}\b"), "ID"),
    (re.compile(r"\d+(?:[.,]\d+)*"), "#"),
)
_GENERIC = frozenset(
    re.findall(
        r"\w+",
        """assert assertion assertionerror error exception failed failure fail exit code
        process completed with expected actual got but was were none null nil true false
        not equal equals to be the and that step job command returned received should have
        test panic panicked fatal url time id hex path hash exited status non zero""",
    )
)

Run = Callable[[Sequence[str]], bytes]
"""A program and its words, to what it prints. Raises BadResults with what it said when it fails."""


class BadResults(OhmoError):
    """The CI results cannot be read."""


@record
class Failure:
    """A test or a job that failed."""

    job: str
    test: str  # empty when only a job is known to have failed
    message: str  # what went wrong, as the log has it
    url: str = ""


@record
class CiRun:
    """A run that ended."""

    stream: str  # runs of the same one follow each other (a workflow)
    key: str  # the same run read again has the same
    commit: str
    at: str  # ISO 8601 or empty; only shown
    url: str
    failures: tuple[Failure, ...]  # empty when it is green


@record
class ListedRun:
    """A run that ended; what failed in it is asked for apart from the list."""

    number: str
    run: CiRun
    failed: bool


@record
class Reading:
    """Runs from the oldest to the newest."""

    runs: Sequence[CiRun]


def plain(text: str, most: int = MOST_TEXT) -> str:
    """Without colours, cursor movements and characters that nobody sees; at most ``most``
    characters."""
    return _UNSEEN.sub("", _ANSI.sub("", text[: most * 4]))[:most].strip()


def normal(text: str) -> str:
    """What stays of a message from run to run."""
    message = plain(text)
    for pattern, word in _VOLATILE:
        message = pattern.sub(word, message)
    return " ".join(message.split())[:500]


def fingerprint(failure: Failure) -> str:
    """16 hex digits. A message that could be anybody's (``assert 1 == 2``, ``exit code 1``) counts
    with the test, or the job, that said it."""
    message = normal(failure.message)
    words = set(re.findall(r"[^\W\d_]{3,}", message.lower()))
    scope = ""
    if len(words - _GENERIC) < 2:
        scope = normal(failure.test) or normal(failure.job)
    return hashlib.sha256(f"{scope}\n{message}".encode("utf-8", "replace")).hexdigest()[:16]


def parsed(data: bytes, what: str) -> object:
    """``what`` it is, for the error. Raises BadResults: too long, no JSON, or a refusal."""
    if len(data) > MOST_BYTES:
        raise BadResults(f"{what}: {len(data)} bytes; at most {MOST_BYTES} are read")
    try:
        document = cast("object", json.loads(data))
    except (ValueError, RecursionError) as error:
        raise BadResults(f"{what}: it is not JSON ({str(error)[:100]})") from error
    refuse(document, what)
    return document


def refuse(document: object, what: str) -> None:
    """Raises BadResults: instead of results somebody says why there are none, as GitHub and GitLab
    do (a limit, no access, no such project)."""
    if not isinstance(document, dict) or "jobs" in document:
        return
    message = text(cast("Mapping[str, object]", document), "message", "error")
    if message:
        raise BadResults(f"{what}: it answered: {message}")


def objects(value: object) -> list[Mapping[str, object]]:
    """Those of a list that are objects."""
    if not isinstance(value, list):
        return []
    return [
        cast("Mapping[str, object]", item)
        for item in cast("Sequence[object]", value)
        if isinstance(item, dict)
    ]


def text(fields: Mapping[str, object], *names: str) -> str:
    """The first of these fields that is text or a number, in at most 300 characters; a dot goes one
    object down."""
    for name in names:
        value: object = fields
        for part in name.split("."):
            value = (
                cast("Mapping[str, object]", value).get(part) if isinstance(value, dict) else None
            )
        if isinstance(value, str | int) and not isinstance(value, bool) and value != "":
            return str(value)[:300]
    return ""


def link(fields: Mapping[str, object], *names: str) -> str:
    """The same for an address of the web; empty when it is none that can stand in a message."""
    address = text(fields, *names)
    return address if LINK.fullmatch(address) else ""


def all_pages(page: Callable[[int], list[Mapping[str, object]]]) -> list[Mapping[str, object]]:
    """The jobs of a list that comes in pages; ``page`` is asked from 1 on."""
    jobs_by_id: dict[str, Mapping[str, object]] = {}
    for number in range(1, PAGES + 1):
        jobs = page(number)
        fresh = {
            text(job, "id") or str(len(jobs_by_id) + index): job for index, job in enumerate(jobs)
        }
        if fresh.keys() <= jobs_by_id.keys():
            break
        jobs_by_id.update(fresh)
        if len(jobs) < PAGE:
            break
    return list(jobs_by_id.values())


def with_failures(run: CiRun, failures: tuple[Failure, ...]) -> CiRun:
    """A run that failed before it had a job (its file is broken), or whose jobs are gone, is not
    green for that."""
    unexplained = Failure(
        job="", test="", message=f"{run.stream}: the run failed, and no job says why", url=run.url
    )
    return replace(run, failures=failures or (unexplained,))
