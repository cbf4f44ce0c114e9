"""No more is asked of an endpoint than its rate limits allow, over all threads together."""

from __future__ import annotations

import asyncio
from bisect import insort
from collections import Counter
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from math import inf
from operator import attrgetter
from typing import Any

from channels.record import Recent, record
from channels.text import some
from ohmo.config.agent import Rate
from ohmo.contracts.errors import Overloaded
from ohmo.contracts.messages import Usage
from ohmo.contracts.provider import Began, Billed, Call, ModelEvent, ModelRequest, Queued, Reply
from ohmo.providers.middleware.link import LinkManifest, Patience
from ohmo.providers.wire_parts import streaming

MINUTE = 60.0  # seconds
RESERVE = 4  # calls nobody waits for leave one part in so many to people
NEXT = 10.0  # seconds by which a thread's next call stands behind each of it that waits
TELL = 10.0  # seconds; shorter waits are not worth a line
AGAIN = 120.0  # seconds between two lines
MODELS = 64  # whose limits are remembered


@dataclass(slots=True, eq=False)
class Asked:
    """One request, from its place in the queue on."""

    limits: ModelLimits  # of its model
    thread: str
    takes: Counter[str]  # of each kind of limit; tokens as reckoned
    due: float = 0.0  # its place: when it came, later for what shall stand behind others
    patient: bool = False  # nobody waits for it; until it is due it leaves room for people
    begun: bool = False  # the endpoint has answered or refused it
    looks: bool = False  # whether a limit that is said to last is still there
    number: int = 0  # of those sent to its model
    before: Counter[str] = field(default_factory=Counter[str])  # what had begun when it was sent

    def wait(self, now: float) -> float:
        """Seconds that its model's limits want."""
        return self.limits.wait(now, patient=self.leaves_room(now))

    def leaves_room(self, now: float) -> bool:
        return self.patient and now < self.due


class Minute:
    """What was taken of one limit within the last minute. What may still be counted by the endpoint
    counts: a request until a minute after it began, tokens until a minute after the answer."""

    def __init__(self, limit: int | None) -> None:
        self.limit = limit
        self._taken: dict[Asked, tuple[int, float]] = {}

    def wait(self, takes: int, now: float, *, patient: bool) -> float:
        """Seconds until it fits; infinite: until something ends. What is larger than the limit
        fits alone."""
        if self.limit is None:
            return 0.0
        self._taken = {asked: of for asked, of in self._taken.items() if of[1] > now}
        most = max(1, self.limit - self.limit // RESERVE) if patient else self.limit
        over = sum(amount for amount, _ in self._taken.values()) + min(takes, most) - most
        wait = 0.0
        for amount, until in sorted(self._taken.values(), key=lambda of: of[1]):
            if over <= 0:
                break
            over -= amount
            wait = until - now
        return wait

    def take(self, asked: Asked, amount: int, until: float = inf) -> None:
        if self.limit is not None:
            self._taken[asked] = (amount, until)


@record
class Left:
    """What of one limit may still be asked for, until it is full again."""

    amount: int
    until: float
    full: int | None


class ModelLimits:
    """What the endpoint says of one model. Requests overtake each other on their way, so an answer
    says nothing of those that were on the way beside it: they are taken off what it leaves."""

    def __init__(self, model: str) -> None:
        self.model = model
        self.pause = 0.0  # nothing is asked until then
        self.heard = 0.0  # when it last answered or refused
        self.tokens = 0  # what a call takes, on an average
        self.longest = inf  # seconds; what is said to last longer is not believed
        self._left: dict[str, Left] = {}
        self._sent = Counter[str]()
        self._begun = Counter[str]()
        self._newest = 0
        self._number = 0

    def wait(self, now: float, *, patient: bool) -> float:
        """Seconds."""
        wait = max(0.0, self.pause - now)
        for kind in [kind for kind, left in self._left.items() if left.until <= now]:
            full = self._left.pop(kind).full
            if full is not None:
                on_the_way = self._sent[kind] - self._begun[kind]
                self._left[kind] = Left(full - on_the_way, now + MINUTE, full)
        for left in self._left.values():
            reserved = (left.full or 0) // RESERVE if patient else 0
            if left.amount <= reserved:
                wait = max(wait, left.until - now)
        return wait

    def send(self, asked: Asked) -> None:
        self._number += 1
        asked.number = self._number
        asked.before = self._begun.copy()
        self._sent.update(asked.takes)
        for kind, left in self._left.items():
            amount = left.amount - asked.takes[kind]
            self._left[kind] = Left(amount, left.until, left.full)

    def begin(self, asked: Asked, began: Began, now: float) -> None:
        asked.begun = True
        self.heard = now
        self._begun.update(asked.takes)
        if asked.number < self._newest:
            return
        self._newest = asked.number
        for quota in began.quotas:
            kind = quota.kind
            if quota.resets > self.longest:
                self._left.pop(kind, None)
                continue
            beside = self._sent[kind] - asked.takes[kind] - asked.before[kind]
            self._left[kind] = Left(quota.left - beside, now + quota.resets, quota.full)

    def doubt(self, now: float, longest: float) -> None:
        """It has answered although it was said to be used up. Where it still says so, what would
        hold for more than ``longest`` seconds is not believed until it refuses again."""
        self.pause = 0.0
        if self.wait(now, patient=False) > longest:
            self.longest = longest
            for kind in [kind for kind, left in self._left.items() if left.until > now + longest]:
                del self._left[kind]


class RateLimit:
    """``rate``: of the profile. Whoever waits does so in the order in which they came, a thread's
    second call some seconds later; calls of jobs and those nobody waits for a minute later, and
    until then they leave room for people. A long wait is told as Queued. ``tokens``: reckons what a
    request takes. ``profile``: its name.

    Raises Overloaded, also before anything is asked when the endpoint wants to be left alone for
    longer than anybody waits; now and then one call looks whether that is still so."""

    def __init__(
        self,
        rate: Rate,
        tokens: Callable[[ModelRequest], int],
        patience: Patience,
        profile: str = "default",
    ) -> None:
        self._tokens = tokens
        self._patience = patience
        self._profile = profile
        self._minutes = {"requests": Minute(rate.requests), "tokens": Minute(rate.tokens)}
        self._models = Recent[str, ModelLimits](MODELS)
        self._queue: list[Asked] = []
        self._changed = asyncio.Event()  # each waits for the next one

    async def __call__(self, request: ModelRequest, ask: Call) -> AsyncIterator[ModelEvent]:
        asked = self._queued(request)
        limits = asked.limits
        tell, told = self._patience.clock() + TELL, False
        try:
            while (wait := self._wait(asked)) > 0:
                now = self._patience.clock()
                if now >= tell or (not told and TELL <= wait < inf):
                    tell, told = now + AGAIN, True
                    yield Queued(self._words(asked))
                else:
                    await self._change(min(wait, tell - now))
        finally:
            self._queue.remove(asked)
            self._tell()
        self._send(asked)
        usage: Usage | None = None
        reckoned = 0  # of an answer that breaks off before it says what it took
        try:
            if told:
                yield Queued("")
            async with streaming(ask, request) as events:
                async for event in events:
                    if isinstance(event, Began):
                        self._begin(asked, event)
                        reckoned = asked.takes["tokens"]
                    if isinstance(event, Billed | Reply):
                        usage = event.usage
                    if isinstance(event, Reply):
                        before = limits.tokens or event.usage.tokens
                        limits.tokens = (3 * before + event.usage.tokens) // 4
                        if asked.looks:
                            limits.doubt(self._patience.clock(), self._patience.deadline)
                    yield event
        except Overloaded as error:
            reckoned = 0
            limits.longest = inf
            if error.retry_after is not None:
                limits.pause = max(limits.pause, self._patience.clock() + error.retry_after)
            raise
        finally:
            if not asked.begun:
                self._begin(asked, Began())
            took = reckoned if usage is None else usage.tokens
            self._minutes["tokens"].take(asked, took, self._patience.clock() + MINUTE)
            self._tell()

    def _queued(self, request: ModelRequest) -> Asked:
        now = self._patience.clock()
        if request.model not in self._models:
            self._models[request.model] = ModelLimits(request.model)
        limits = self._models[request.model]
        tokens = limits.tokens
        if self._minutes["tokens"].limit is not None:
            tokens = self._tokens(request) + request.max_output
        takes = Counter({"requests": 1, "tokens": tokens})
        thread = request.payer.thread
        waiting = sum(other.thread == thread for other in self._queue)
        patient = request.patient or bool(request.payer.job)
        due = now + NEXT * waiting + MINUTE * patient
        asked = Asked(limits, thread, takes, due, patient)
        insort(self._queue, asked, key=attrgetter("due"))
        return asked

    def _wait(self, asked: Asked) -> float:
        """Seconds until it may go, as far as that is known."""
        now = self._patience.clock()
        if self._before(asked):
            return inf  # it lets know when it goes
        held = asked.wait(now)
        longest = self._patience.deadline
        if held > longest:
            if not asked.looks and now < asked.limits.heard + longest:
                line = f"{asked.limits.model}: its rate limit is used up for {held:.0f} s."
                raise Overloaded(line, retry_after=held)
            asked.looks = True
            asked.limits.heard = now  # the others do not
            held = 0.0
        wait = max(held, *self._own(asked).values())
        return min(wait, asked.due - now) if asked.leaves_room(now) else wait

    def _before(self, asked: Asked) -> list[Asked]:
        """Those it stands behind."""
        now = self._patience.clock()
        ahead = self._queue[: self._queue.index(asked)]
        return [each for each in ahead if each.limits is asked.limits or not each.wait(now)]

    def _own(self, asked: Asked) -> dict[str, float]:
        """Seconds that each limit of the profile wants."""
        now = self._patience.clock()
        patient = asked.leaves_room(now)
        return {
            kind: minute.wait(asked.takes[kind], now, patient=patient)
            for kind, minute in self._minutes.items()
        }

    def _words(self, asked: Asked) -> str:
        """What it waits for."""
        ahead = self._before(asked)
        first = ahead[0] if ahead else asked
        held, own = first.wait(self._patience.clock()), self._own(first)
        kind = max(own, key=lambda kind: own[kind])
        wait = max(held, own[kind])
        how_long = f" for about {wait:.0f} s" if wait < inf else ""
        if ahead:
            how_long = f" behind {some(len(ahead), 'call')}"
        if held > own[kind]:
            why = f"the endpoint says that the rate limit of {first.limits.model} is used up"
        else:
            most = some(self._minutes[kind].limit or 0, kind.removesuffix("s"))
            key = f"profiles.{self._profile}.rate.{kind}"
            why = f"ohmo asks for no more than {most} a minute ({key})"
        return f"{asked.limits.model} is not asked yet: {why}. Waiting{how_long}."

    def _send(self, asked: Asked) -> None:
        asked.limits.send(asked)
        for kind, minute in self._minutes.items():
            minute.take(asked, asked.takes[kind])

    def _begin(self, asked: Asked, began: Began) -> None:
        now = self._patience.clock()
        if asked.begun:  # the client has sent it again, in other words
            asked = Asked(asked.limits, asked.thread, Counter({"requests": 1, "tokens": 0}))
            self._send(asked)
            self._minutes["tokens"].take(asked, 0, now)
        asked.limits.begin(asked, began, now)
        self._minutes["requests"].take(asked, 1, now + MINUTE)
        self._tell()

    async def _change(self, seconds: float) -> None:
        """Until something changed, at most so long."""
        waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(self._changed.wait())]
        if seconds < inf:
            waits.append(asyncio.ensure_future(self._patience.sleep(seconds)))
        try:
            await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for each in waits:
                each.cancel()

    def _tell(self) -> None:
        self._changed.set()
        self._changed = asyncio.Event()


LINK = LinkManifest(
    "rate",
    lambda parts: RateLimit(
        parts.endpoint.rate, parts.tokens, parts.patience, parts.endpoint.profile
    ),
    after=("fallback", "tiers", "retry", "repair", "budget", "unprefixed"),
)
