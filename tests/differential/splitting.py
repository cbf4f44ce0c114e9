"""How bash itself splits a line into commands and words, held against the words that were
judged."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.differential.box import Box, Job, Ran
from tests.differential.judged import Judged
from tests.unit.permissions.attack_scenes import Scene

_SETUP = Path(__file__).with_name("splitting.sh")
_BRANCHES = re.compile(r"&&|\|\||\b(?:if|elif)\b|!")
_NOT_RUN = (
    "No such file or directory",
    "Is a directory",
    "ambiguous redirect",
    "Not a directory",
    "Permission denied",
    "Read-only file system",
)


def jobs(command: str, scene: Scene) -> Iterator[Job]:
    """With commands that all succeed; a line with ``&&`` or ``||`` also with commands that all
    fail, so that what stands after each is reached in one of the two."""
    for status in ("0", "1") if _BRANCHES.search(command) else ("0",):
        yield Job(
            command,
            scene.work,
            {**scene.env(command), "BASH_ENV": str(_SETUP), "OHMO_STATUS": status},
        )


def split_otherwise(box: Box, lines: Sequence[tuple[str, Judged]], scene: Scene) -> list[str]:
    """Where bash saw other words than were judged."""
    told: dict[str, list[Ran]] = {}
    for ran in box.run(
        (job for line, _ in lines for job in jobs(line, scene)), traced=False, log=True
    ):
        told.setdefault(ran.job.command, []).append(ran)
    return [
        f"{line!r}: {what}" for line, judged in lines for what in _differences(judged, *told[line])
    ]


def _differences(judged: Judged, *runs: Ran) -> Iterator[str]:
    seen = {words for ran in runs for words in _words(ran.argv)}
    for words in sorted(seen):
        if not judged.knows(words):
            yield f"bash runs {list(words)}, judged was {[list(one) for one in judged.argv]}"
    if judged.redirected or any(reason in ran.out for ran in runs for reason in _NOT_RUN):
        return  # a redirection or a cd came to nothing, and so did what belongs to it
    if any(re.search(r"\bif\b|!|\bwhile\b", ran.job.command) for ran in runs):
        return  # not every branch is taken where all commands end alike, and nothing is read
    if any("/" in words[0] for words in judged.argv):
        return  # a program by its path is no stub: it is not there, or ends as it likes
    for words in judged.argv:
        if not any(Judged((words,), judged.files, "").knows(one) for one in seen):
            yield f"judged was {list(words)}, bash runs {sorted(map(list, seen))}"


def _words(noted: str) -> Iterator[tuple[str, ...]]:
    """Records of a count and as many words, each ended by a null byte."""
    texts = [
        text.encode("latin-1").decode("utf-8", "surrogateescape") for text in noted.split("\0")
    ]
    at = 0
    while at < len(texts) - 1:
        size = int(texts[at])
        yield tuple(texts[at + 1 : at + 1 + size])
        at += 1 + size
