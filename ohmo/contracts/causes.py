"""Why a turn ended and why a slot of a job is as it is, in words for programs. The sentence beside
them in the row is for people; nothing reads it back."""

from __future__ import annotations

from typing import Literal

Cause = Literal[
    "stopped",  # by /stop or /new
    "interrupted",  # by a newer message
    "removed",  # with its job, before it began
    "caught_up",  # runs later than its hour
    "by_hand",  # runs beside its hours
    "coalesced",  # skipped for a later slot
    "overlap",  # skipped, the run before had not ended
    "queue_full",  # skipped, too many runs waited
    "not_running",  # missed, and the job asks for no catching up
    "too_late",  # missed, and too long ago to be caught up
    "too_many",  # missed, with more of them than are caught up
]
BY_A_PERSON = frozenset[Cause]({"stopped", "interrupted", "removed"})
