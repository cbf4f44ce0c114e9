"""Whether a turn may run now: its model may be away, it may have ended the process before, or its
message is so old that its person is asked first."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta

from channels.contract import Choice, Inbound
from ohmo.contracts.agent import Failed
from ohmo.contracts.tool import Question
from ohmo.contracts.turns import Work
from ohmo.lifecycle import backoff

# rounds of a request that always meets an error of the server's (5xx), when nothing else is asked:
# about 50 minutes
ALONE = 16
BESIDE_OTHERS = 4  # the same while others are answered: it is this request, and about a minute
TRUSTED = 3  # starts up to which a suspect need not let others go first
# seconds a life has to last without a turn of so many deaths before it is tried again
QUIET = {5: 3.0, 6: 6.0, 7: 12.0}
DEATHS = max(QUIET) + 1  # process deaths that end a turn in a dead letter
LATE_CALL = "Late"  # the name under which the question stands; no tool has it
LATE_DIGEST = "late"  # of the question: whatever it is about
LATE_ANSWER = "Answer it"  # the choice that wants it answered
LATE_SHOWN = 300  # characters of the message that are shown


@dataclass(slots=True)
class _Waiting:
    answers: int  # of the model in other threads, when this one first got none
    tries: int = 0
    served: int = 0  # of the tries: met an error of the server's, one after the other


class Outages:
    """How long each thread waits for its next try. A model that is away, or that asks to wait, is
    waited for without end: only what the server itself breaks on is given up."""

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
        waiting = self._waiting.setdefault(thread, _Waiting(self._answers))
        waiting.tries += 1
        waiting.served = waiting.served + 1 if failed.served else 0
        others = waiting.answers < self._answers
        if waiting.served >= (BESIDE_OTHERS if others else ALONE):
            del self._waiting[thread]
            return None
        if not others:
            self._why = failed.reason
        pause = backoff(waiting.tries - 1, first=5.0, most=300.0)
        return max(failed.retry_after or 0.0, pause)


class PoisonTurns:
    """A turn that has ended the process before runs alone, so that it cannot take innocent turns
    with it again. Ordinary turns share; a suspect waits at most ``patience`` seconds for the
    running ones and holds new ones back meanwhile.

    Whoever holds its thread when the process dies is charged with that death. So a suspect that has
    to wait for another one is turned away instead: a machine that is killed again and again from
    outside must not make dead letters of messages that never ran.

    From the fifth death on a turn is tried in a house that has lived without it for a while
    (``QUIET``): a process that is killed from outside does not come that far and charges nobody,
    one that lives until the turn begins and dies again was ended by the turn. ``patience`` in
    seconds; ``now``: seconds of a clock that never goes back."""

    def __init__(
        self, patience: float = 60.0, *, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._patience = patience
        self._now = now
        self._born = now()
        self._running = 0
        self._alone = False
        self._changed = asyncio.Condition()
        self._stepped_back: set[str] = set()

    @property
    def alone(self) -> bool:
        """A suspect runs, or waits for the running ones to end: nothing else can begin."""
        return self._alone

    def turned_away(self, turn: str, starts: int, *, others: bool) -> float | None:
        """Seconds after which a suspect shall come again, without its lease meanwhile; None: it may
        go on to ``among``. Where ``others`` are to run too, those with fewer deaths go first in
        each life of the process: deaths spread over all of them instead of meeting the oldest each
        time."""
        if self._alone:
            return 0.0
        if turn in self._stepped_back:
            return None
        fair = float(starts - TRUSTED) if others or self._stepped_back else 0.0
        lived = self._now() - self._born
        pause = max(fair, QUIET.get(starts - 1, 0.0) - lived)
        if pause <= 0:
            return None
        self._stepped_back.add(turn)
        return pause

    @asynccontextmanager
    async def among(self, suspect: bool) -> AsyncGenerator[None]:
        """Inside it the turn may run."""
        async with self._changed:
            await self._changed.wait_for(lambda: not self._alone)
            self._alone = suspect
        try:
            if suspect:
                with suppress(TimeoutError):
                    async with asyncio.timeout(self._patience), self._changed:
                        await self._changed.wait_for(lambda: self._running == 0)
            self._running += 1
            try:
                yield
            finally:
                self._running -= 1
        finally:
            if suspect:
                self._alone = False  # before anything that can be cancelled
            async with self._changed:
                self._changed.notify_all()


def late(work: Work, now: datetime, after: timedelta | None) -> Question | None:
    """What to ask before an old message is answered; None: it is young enough, or nobody can be
    asked."""
    first = work.arrivals[0]
    if after is None or not isinstance(first, Inbound) or first.person.bot:
        return None
    age = now - first.at
    if age <= after:
        return None
    hours = round(age.total_seconds() / 3600)
    text = first.text
    if len(text) > LATE_SHOWN:
        text = text[:LATE_SHOWN] + "…"
    quoted = "\n".join(f"> {line}" for line in text.splitlines())
    choices = (Choice("once", LATE_ANSWER, "good"), Choice("deny", "Leave it", "danger"))
    return Question(
        "permission",
        f"This has waited for {hours} h. Shall I still answer it?",
        quoted,
        choices,
        LATE_DIGEST,
    )
