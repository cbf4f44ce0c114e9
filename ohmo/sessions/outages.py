"""Turns whose model did not answer: how long each waits for its next try, and when it waits no
more."""

from __future__ import annotations

from dataclasses import dataclass

from ohmo.contracts.agent import Failed
from ohmo.lifecycle import backoff

# rounds of a request that always meets an error of the server's (5xx), when nothing else is asked:
# about 50 minutes
ALONE = 16
BESIDE_OTHERS = 4  # the same while others are answered: it is this request, and about a minute


@dataclass(slots=True)
class _Waiting:
    answers: int  # of the model in other threads, when this one first got none
    tries: int = 0
    served: int = 0  # of the tries: met an error of the server's, one after the other


class Outages:
    """By thread. A model that is away, or that asks to wait, is waited for without end: only what
    the server itself breaks on is given up."""

    def __init__(self) -> None:
        self._waiting: dict[str, _Waiting] = {}
        self._answers = 0
        self._why = ""

    @property
    def why(self) -> str:
        """Why the model could not be reached last; "" once it answered anybody since, or when
        nobody waits for it."""
        return self._why if self._waiting else ""

    def over(self, thread: str, *, answered: bool) -> None:
        """The thread waits no more. ``answered``: by the model."""
        self._waiting.pop(thread, None)
        if answered:
            self._answers += 1
            self._why = ""

    def pause(self, thread: str, failed: Failed) -> float | None:
        """Seconds until the thread's next try; None: it was tried often enough."""
        found = self._waiting.setdefault(thread, _Waiting(self._answers))
        found.tries += 1
        found.served = found.served + 1 if failed.served else 0
        others = found.answers < self._answers
        if found.served >= (BESIDE_OTHERS if others else ALONE):
            del self._waiting[thread]
            return None
        if not others:
            self._why = failed.reason
        return max(failed.retry_after or 0.0, backoff(found.tries - 1, first=5.0, most=300.0))
