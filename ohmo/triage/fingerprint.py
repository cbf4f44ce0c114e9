"""Two failures with one cause have one fingerprint, whatever numbers, paths, times, hashes and ids
stand in their words."""

from __future__ import annotations

import hashlib
import re

from ohmo.triage.results import MOST_TEXT, Failure

_ANSI = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\^_])"
)  # ECMA-48 control sequences, and titles
_UNSEEN = re.compile(
    "[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ud800-\udfff]"
)
_OUT: tuple[tuple[re.Pattern[str], str], ...] = (
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


def plain(text: str, most: int = MOST_TEXT) -> str:
    """Without colours, cursor movements and characters that nobody sees; at most ``most``
    characters."""
    return _UNSEEN.sub("", _ANSI.sub("", text[: most * 4]))[:most].strip()


def normal(text: str) -> str:
    """What stays of a message from run to run."""
    found = plain(text)
    for pattern, word in _OUT:
        found = pattern.sub(word, found)
    return " ".join(found.split())[:500]


def fingerprint(failure: Failure) -> str:
    """16 hex digits. A message that could be anybody's (``assert 1 == 2``, ``exit code 1``) counts
    with the test, or the job, that said it."""
    said = normal(failure.message)
    telling = {word for word in re.findall(r"[^\W\d_]{3,}", said.lower()) if word not in _GENERIC}
    where = "" if len(telling) >= 2 else normal(failure.test) or normal(failure.job)
    return hashlib.sha256(f"{where}\n{said}".encode("utf-8", "replace")).hexdigest()[:16]
