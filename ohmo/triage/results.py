"""What a source of CI results says, whichever source it was."""

from __future__ import annotations

from collections.abc import Sequence

from channels.record import record
from ohmo.contracts.errors import OhmoError

MOST_BYTES = 32 * 2**20  # of one input
MOST_FAILURES = 2_000  # of one run; a suite that is broken as a whole needs no more to be seen
MOST_TEXT = 2_000  # characters of one message


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
class Reading:
    """Runs from the oldest to the newest."""

    runs: Sequence[CiRun]
