"""One rate limit for all threads: what the profile says and what the endpoint says is never passed,
who waits goes in a fair order, and whoever gives up leaves at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from functools import partial

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ohmo.config.agent import Rate
from ohmo.contracts.errors import OutOfReach, Overloaded, ProviderError
from ohmo.contracts.messages import ModelStep, Text, Usage
from ohmo.contracts.provider import (
    Began,
    ModelEvent,
    ModelRequest,
    Notice,
    Payer,
    Queued,
    Quota,
    Reply,
)
from ohmo.lifecycle import failure_of
from ohmo.providers.middleware.link import Patience, linked
from ohmo.providers.middleware.rate import MINUTE, TELL, RateLimit
from ohmo.providers.middleware.retry import retry
from ohmo.providers.middleware.waiting import waiting
from ohmo.providers.wire_parts import began, streaming

REQUEST = ModelRequest("m-1", (), (), (), 50, None, "turn")
JOB = replace(REQUEST, payer=Payer(job="j1", thread="job"))
SUMMARY = replace(REQUEST, purpose="compaction", payer=Payer(thread="long"), patient=True)


def of(thread: str, request: ModelRequest = REQUEST) -> ModelRequest:
    return replace(request, payer=replace(request.payer, thread=thread))


def quota(left: int, resets: float = 30.0, full: int | None = None) -> Began:
    return Began((Quota("requests", left, resets, full),))


class Scene:
    """Time that a test moves; an endpoint that counts what is asked of it."""

    def __init__(self, rate: Rate | None = None, *, tokens: int = 100) -> None:
        self.now = 1_000.0
        self._moved = asyncio.Event()
        self.asked: list[tuple[float, str]] = []  # when, and for which thread
        self.began = Began()
        self.error: ProviderError | None = None
        self.again = 1  # times that the client sends a request
        self.takes = 150
        self.hold: asyncio.Event | None = None
        self.link = RateLimit(
            rate or Rate(), lambda _: tokens, Patience(sleep=self.sleep, clock=lambda: self.now)
        )

    async def sleep(self, seconds: float) -> None:
        until = self.now + seconds
        while self.now < until:
            await self._moved.wait()

    async def model(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.asked.append((self.now, request.payer.thread))
        for _ in range(self.again):
            yield self.began
        if self.error is not None:
            raise self.error
        if self.hold is not None:
            await self.hold.wait()
        usage = Usage(request.model, request.purpose, self.takes - 10, 0, 0, 10, 0)
        yield Reply(ModelStep((Text("done"),), request.model, "end"), usage)

    async def ask(self, request: ModelRequest = REQUEST) -> list[ModelEvent]:
        call = partial(self.link, ask=self.model)
        return [event async for event in call(request)]

    async def move(self, seconds: float = 0.0) -> None:
        """Time goes by, and everything that can happen does."""
        self.now += seconds
        self._moved.set()
        self._moved = asyncio.Event()
        for _ in range(200):
            await asyncio.sleep(0)

    @asynccontextmanager
    async def asking(self, *requests: ModelRequest) -> AsyncGenerator[list[asyncio.Task[object]]]:
        """All at once; whoever still waits at the end leaves."""
        tasks: list[asyncio.Task[object]] = []
        for request in requests:
            tasks.append(asyncio.create_task(failure_of(self.ask(request))))
            await self.move()
        try:
            yield tasks
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    @property
    def threads(self) -> list[str]:
        return [thread for _, thread in self.asked]


async def test_no_more_than_the_limit_within_a_minute_and_the_rest_in_their_order() -> None:
    scene = Scene(Rate(requests=10))
    async with scene.asking(*(of(f"t{number}") for number in range(32))):
        assert len(scene.asked) == 10
        await scene.move(MINUTE - 0.1)
        assert len(scene.asked) == 10
        await scene.move(0.2)
        assert len(scene.asked) == 20
        await scene.move(MINUTE + 0.1)
        await scene.move(MINUTE + 0.1)
        assert scene.threads == [f"t{number}" for number in range(32)]


async def test_a_request_counts_until_a_minute_after_it_was_heard() -> None:
    """It may have been long on its way."""
    scene = Scene(Rate(requests=1))
    heard = asyncio.Event()

    async def slow(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        await heard.wait()
        async for event in scene.model(request):
            yield event

    first = asyncio.create_task(failure_of(_all(partial(scene.link, ask=slow)(REQUEST))))
    await scene.move()
    async with scene.asking(of("second")):
        await scene.move(MINUTE * 2)
        assert scene.asked == []
        heard.set()
        await scene.move()
        await scene.move(MINUTE - 1)
        assert len(scene.asked) == 1
        await scene.move(2)
        assert scene.threads == ["", "second"]
    assert await first is None


async def _all(events: AsyncIterator[ModelEvent]) -> list[ModelEvent]:
    return [event async for event in events]


async def test_tokens_count_as_reckoned_until_the_answer_says_what_they_were() -> None:
    scene = Scene(Rate(tokens=400))  # each is reckoned at 150
    scene.hold = asyncio.Event()
    scene.takes = 120
    async with scene.asking(*(of(f"t{number}") for number in range(5))):
        assert len(scene.asked) == 2
        scene.hold.set()
        await scene.move()
        assert len(scene.asked) == 3  # 240 were taken
        await scene.move(MINUTE + 0.1)
        assert len(scene.asked) == 5


@pytest.mark.parametrize(("refused", "asked"), [(False, 2), (True, 3)])
async def test_what_is_left_in_the_middle_counts_as_reckoned_and_a_refusal_as_nothing(
    *, refused: bool, asked: int
) -> None:
    scene = Scene(Rate(tokens=400))  # each is reckoned at 150
    scene.hold = asyncio.Event()
    scene.error = Overloaded("busy") if refused else None
    async with scene.asking(of("a")) as (task,):
        task.cancel()
        await asyncio.wait([task])
    scene.error = None
    async with scene.asking(of("b"), of("c")):
        assert len(scene.asked) == asked


async def test_what_is_larger_than_the_limit_goes_alone() -> None:
    scene = Scene(Rate(tokens=100))
    async with scene.asking(of("a"), of("b")):
        assert scene.threads == ["a"]
        await scene.move(MINUTE + 0.1)
        assert scene.threads == ["a", "b"]


async def test_a_thread_with_many_calls_takes_turns_with_the_others() -> None:
    scene = Scene(Rate(requests=1))
    await scene.ask(of("before"))
    async with scene.asking(of("a"), of("a"), of("a"), of("b"), of("c"), of("b")):
        for _ in range(6):
            await scene.move(MINUTE + 0.1)
        assert scene.threads[1:] == ["a", "b", "c", "a", "b", "a"]


async def test_jobs_and_summaries_leave_room_and_come_after_people_but_not_for_ever() -> None:
    scene = Scene(Rate(requests=4))
    async with scene.asking(*[JOB, SUMMARY] * 4):
        assert len(scene.asked) == 3
        async with scene.asking(of("ada")):
            assert scene.threads[3] == "ada"
            async with scene.asking(*(of(f"p{number}") for number in range(4))):
                await scene.move(MINUTE + 0.5)
                assert scene.threads[4:] == ["p0", "p1", "p2", "p3"]
                # people who come now stand behind what has waited for a minute
                async with scene.asking(*(of(f"late{number}") for number in range(4))):
                    await scene.move(MINUTE + 0.1)
                    assert scene.threads[8:] == ["long", "job", "late0", "late1"]


async def test_whoever_gives_up_leaves_at_once_and_the_next_takes_the_place() -> None:
    scene = Scene(Rate(requests=1))
    await scene.ask()
    async with scene.asking(of("a"), of("b")) as (first, _):
        first.cancel()
        await asyncio.wait([first])
        await scene.move(MINUTE + 0.1)
        assert scene.threads == ["", "b"]


WAITS = "m-1 is not asked yet: ohmo asks for no more than 1 request a minute"


async def test_a_person_who_waits_reads_for_which_limit_and_then_hears_of_the_model() -> None:
    """The time that the model itself is silent begins when it is asked."""
    scene = Scene(Rate(requests=1))
    await scene.ask()
    scene.hold = asyncio.Event()
    told = linked([waiting(first=0.01, then=60.0), scene.link], scene.model)
    async with asyncio.timeout(5), streaming(told, REQUEST) as events:
        first = await anext(events)
        key = "(profiles.default.rate.requests)"
        assert first == Notice(f"{WAITS} {key}. Waiting for about 60 s.")
        assert len(scene.asked) == 1
        further = asyncio.ensure_future(anext(events))
        await asyncio.sleep(0.1)
        assert not further.done()  # silent about the model, which nobody has asked
        await scene.move(MINUTE + 0.1)
        assert await further == Began()
        assert await anext(events) == Notice("m-1 has not answered for 0 s. Still waiting.")
        scene.hold.set()
        assert isinstance(await anext(events), Reply)


async def test_whoever_stands_behind_others_reads_it_and_again_after_two_minutes() -> None:
    scene = Scene(Rate(requests=1))
    await scene.ask()
    lines: list[str] = []

    async def told(request: ModelRequest) -> None:
        async with streaming(partial(scene.link, ask=scene.model), request) as events:
            lines.extend([event.line async for event in events if isinstance(event, Queued)])

    async with scene.asking(of("a"), of("b"), of("c")):
        last = asyncio.create_task(told(of("d")))
        await scene.move()
        assert lines == []
        await scene.move(TELL)  # not at once: who stands before it may go soon
        for _ in range(4):
            await scene.move(MINUTE + 0.1)
        await last
    waited = [line.rpartition(". ")[2] for line in lines]
    assert waited == ["Waiting behind 3 calls.", "Waiting behind 1 call.", ""]


async def test_a_limit_that_the_endpoint_names_is_not_said_to_be_a_key() -> None:
    scene = Scene(Rate(requests=10))
    scene.began = quota(0, 30.0)
    await scene.ask()
    async with streaming(partial(scene.link, ask=scene.model), REQUEST) as events:
        event = await anext(events)
    says = "m-1 is not asked yet: the endpoint says that the rate limit of m-1 is used up."
    assert event == Queued(f"{says} Waiting for about 30 s.")


async def test_what_the_endpoint_leaves_is_never_passed_also_by_those_on_their_way() -> None:
    scene = Scene()
    scene.began = quota(3, 30.0)
    await scene.ask()
    scene.began = Began()
    async with scene.asking(*(of(f"t{number}") for number in range(9))):
        assert len(scene.asked) == 4
        await scene.move(29)
        assert len(scene.asked) == 4
        await scene.move(2)  # it says no more of it, and not how much there is then
        assert len(scene.asked) == 10


async def test_when_it_is_full_again_no_more_than_that_is_asked() -> None:
    scene = Scene()
    scene.began = quota(0, 30.0, full=5)
    await scene.ask()
    scene.began = Began()
    async with scene.asking(*(of(f"t{number}") for number in range(9))):
        await scene.move(31)
        assert len(scene.asked) == 1 + 5
        await scene.move(MINUTE + 1)
        assert len(scene.asked) == 10


async def test_what_two_answers_say_of_each_other_is_not_counted_twice_nor_forgotten() -> None:
    """The second overtakes the first: what it leaves does not know the first."""
    scene = Scene()
    first = scene.link(of("a"), _answers(scene, began := asyncio.Event(), quota(8)))
    second = scene.link(of("b"), _answers(scene, other := asyncio.Event(), quota(9)))
    tasks = [asyncio.create_task(_all(first)), asyncio.create_task(_all(second))]
    await scene.move()
    other.set()
    await scene.move()
    began.set()
    await scene.move()
    scene.asked.clear()
    async with scene.asking(*(of(f"t{number}") for number in range(20))):
        assert len(scene.asked) == 8
    await asyncio.gather(*tasks)


def _answers(
    scene: Scene, go: asyncio.Event, told: Began
) -> Callable[[ModelRequest], AsyncIterator[ModelEvent]]:
    async def model(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        await go.wait()
        yield told
        usage = Usage(request.model, request.purpose, 1, 0, 0, 1, 0)
        yield Reply(ModelStep((Text("done"),), request.model, "end"), usage)

    del scene
    return model


async def test_a_limit_of_one_model_does_not_stop_another() -> None:
    scene = Scene()
    scene.began = quota(0, 30.0)
    await scene.ask()
    scene.began = Began()
    async with scene.asking(of("a"), replace(of("b"), model="m-2")):
        assert scene.threads == ["", "b"]
        await scene.move(31)
        assert scene.threads == ["", "b", "a"]


async def test_a_refusal_that_says_when_to_come_again_stops_all() -> None:
    scene = Scene()
    scene.error = Overloaded("busy", retry_after=20.0)
    assert isinstance(await failure_of(scene.ask()), Overloaded)
    scene.error = None
    async with scene.asking(of("a"), of("b")):
        assert len(scene.asked) == 1
        await scene.move(19)
        assert len(scene.asked) == 1
        await scene.move(2)
        assert scene.threads == ["", "a", "b"]


async def test_nobody_waits_for_a_limit_of_an_hour_silently() -> None:
    scene = Scene()
    scene.error = Overloaded("busy", retry_after=3_600.0)
    await failure_of(scene.ask())
    with pytest.raises(Overloaded, match="m-1: its rate limit is used up for 3600 s") as caught:
        await scene.ask()
    assert caught.value.retry_after == 3_600.0
    assert len(scene.asked) == 1


@pytest.mark.parametrize("refused", [True, False])
async def test_now_and_then_one_call_looks_whether_a_long_limit_is_still_there(
    *, refused: bool
) -> None:
    """Somebody may have raised it at the provider."""
    scene = Scene()
    scene.began = quota(0, 86_000.0, full=100)
    scene.error = Overloaded("busy", retry_after=86_000.0)
    await failure_of(scene.ask())
    await scene.move(599)
    async with scene.asking(of("a"), of("b")) as tasks:
        assert all(task.done() for task in tasks)
        assert len(scene.asked) == 1
    if not refused:
        scene.error = None
        scene.began = quota(100, 0.0, full=100)
    await scene.move(2)
    at_once = [asyncio.create_task(failure_of(scene.ask(of("a")))) for _ in range(3)]
    scene.hold = asyncio.Event()
    await scene.move()
    assert len(scene.asked) == 2
    scene.hold.set()
    await asyncio.wait(at_once)
    async with scene.asking(*(of(f"t{number}") for number in range(5))) as tasks:
        assert all(task.done() for task in tasks)
        assert len(scene.asked) == (2 if refused else 7)


async def test_a_model_that_answers_is_not_shut_for_good_by_what_its_headers_say() -> None:
    """The call that looked is answered, and the headers still say "nothing left for a year"."""
    scene = Scene()
    scene.began = quota(0, 3e7, full=100)
    await scene.ask()
    assert isinstance(await failure_of(scene.ask()), Overloaded)
    await scene.move(601)
    async with scene.asking(*(of(f"t{number}") for number in range(5))) as tasks:
        assert [task.result() for task in tasks] == [None] * 5
    assert len(scene.asked) == 6
    scene.error = Overloaded("busy")  # a refusal makes them believed again
    await failure_of(scene.ask())
    await failure_of(scene.ask())
    assert len(scene.asked) == 8
    assert "is used up for" in str(await failure_of(scene.ask()))
    assert len(scene.asked) == 8


async def test_a_summary_for_which_a_turn_waits_has_its_place_among_people() -> None:
    scene = Scene(Rate(requests=4))
    urgent = replace(SUMMARY, patient=False, payer=Payer(turn="t1", thread="turn"))
    async with scene.asking(*[SUMMARY] * 4, urgent):
        assert scene.threads == ["long"] * 3 + ["turn"]


async def test_who_queued_for_long_is_tried_again_when_the_endpoint_then_fails() -> None:
    scene = Scene(Rate(requests=1))
    rule = Patience(sleep=scene.sleep, clock=lambda: scene.now, jitter=lambda: 1.0)
    await scene.ask()
    queued = [asyncio.create_task(failure_of(scene.ask(of(f"t{n}")))) for n in range(11)]
    await scene.move()
    call = linked([retry(rule), scene.link], scene.model)
    last = asyncio.create_task(_all(call(of("last"))))
    for _ in queued:
        await scene.move(MINUTE + 0.1)
    await asyncio.wait(queued)
    scene.error = Overloaded("503")
    await scene.move(MINUTE + 0.1)
    assert scene.threads[-1] == "last"
    scene.error = None
    await scene.move(MINUTE + 0.1)
    await scene.move(MINUTE + 0.1)
    assert any(isinstance(event, Reply) for event in await last)
    assert scene.threads[-2:] == ["last", "last"]


async def test_what_the_client_sends_again_counts() -> None:
    scene = Scene(Rate(requests=3))
    scene.again = 2
    async with scene.asking(of("a"), of("b"), of("c")):
        assert scene.threads == ["a", "b"]


async def test_a_request_that_does_not_arrive_is_not_on_its_way_for_ever() -> None:
    scene = Scene()
    scene.began = quota(2, 10.0, full=2)
    await scene.ask()

    async def gone(_: ModelRequest) -> AsyncIterator[ModelEvent]:
        raise OutOfReach
        yield Notice("")

    for _ in range(2):
        await failure_of(_all(scene.link(REQUEST, gone)))
    await scene.move(11)
    async with scene.asking(of("a"), of("b")):
        assert scene.threads[-2:] == ["a", "b"]


@settings(max_examples=60, deadline=None)
@given(
    limit=st.integers(1, 6),
    kinds=st.lists(st.sampled_from([REQUEST, JOB, SUMMARY]), min_size=1, max_size=20),
    moves=st.lists(st.floats(0.5, 45.0), max_size=12),
)
def test_never_over_the_limit_and_everybody_comes(
    limit: int, kinds: list[ModelRequest], moves: list[float]
) -> None:
    async def story() -> None:
        scene = Scene(Rate(requests=limit))
        requests = [of(f"t{number}", kind) for number, kind in enumerate(kinds)]
        async with scene.asking(*requests) as tasks:
            for seconds in (*moves, *[MINUTE + 0.1] * len(kinds)):
                await scene.move(seconds)
            assert all(task.done() for task in tasks)
        times = [at for at, _ in scene.asked]
        assert len(times) == len(kinds)
        for number, at in enumerate(times[:-limit] if len(times) > limit else []):
            assert times[number + limit] - at >= MINUTE

    asyncio.run(story())


NOON = "Thu, 26 Nov 2026 12:00:00 GMT"


@pytest.mark.parametrize(
    ("headers", "said"),
    [
        (
            {
                "x-ratelimit-limit-requests": "60",
                "x-ratelimit-remaining-requests": "59",
                "x-ratelimit-reset-requests": "1s",
                "x-ratelimit-remaining-tokens": "149984",
                "x-ratelimit-reset-tokens": "6m0s",
            },
            [("requests", 59, 1.0, 60), ("tokens", 149_984, 360.0, None)],
        ),
        (
            {"x-ratelimit-remaining-tokens": "5", "x-ratelimit-reset-tokens": "12ms"},
            [("tokens", 5, 0.012, None)],
        ),
        (
            {"x-ratelimit-remaining-requests": "5", "x-ratelimit-reset-requests": "34"},
            [("requests", 5, 34.0, None)],
        ),
        (  # the endpoint's own clock counts
            {
                "date": NOON,
                "anthropic-ratelimit-requests-limit": "50",
                "anthropic-ratelimit-requests-remaining": "0",
                "anthropic-ratelimit-requests-reset": "2026-11-26T12:00:30Z",
            },
            [("requests", 0, 30.0, 50)],
        ),
        (
            {
                "date": NOON,
                "anthropic-ratelimit-tokens-remaining": "7",
                "anthropic-ratelimit-tokens-reset": "2026-11-26T11:59:00Z",
            },
            [("tokens", 7, 0.0, None)],
        ),
        (  # a moment, not a duration: seconds since 1970
            {
                "date": NOON,
                "x-ratelimit-remaining-requests": "0",
                "x-ratelimit-reset-requests": "1795694430",
            },
            [("requests", 0, 30.0, None)],
        ),
        (  # and milliseconds
            {
                "date": NOON,
                "x-ratelimit-remaining-tokens": "0",
                "x-ratelimit-reset-tokens": "1795694430500",
            },
            [("tokens", 0, 30.5, None)],
        ),
        (
            {"x-ratelimit-remaining-requests": "5", "x-ratelimit-reset-requests": "0"},
            [("requests", 5, 0.0, None)],
        ),
        ({"x-ratelimit-remaining-requests": "5", "x-ratelimit-reset-requests": "9" * 18}, []),
        ({"x-ratelimit-remaining-requests": "5"}, []),
        ({"x-ratelimit-remaining-requests": "many", "x-ratelimit-reset-requests": "1s"}, []),
        ({"x-ratelimit-remaining-requests": "5", "x-ratelimit-reset-requests": "soon"}, []),
        (
            {
                "anthropic-ratelimit-requests-remaining": "5",
                "anthropic-ratelimit-requests-reset": "2026-11-26T12:00:30",
            },
            [],
        ),
        ({"x-ratelimit-remaining-requests": "5", "x-ratelimit-reset-requests": "9" * 40}, []),
    ],
)
def test_headers_are_read_as_they_are_documented_and_others_passed_over(
    headers: dict[str, str], said: list[tuple[str, int, float, int | None]]
) -> None:
    quotas = began(headers).quotas
    assert [(one.kind, one.left, one.resets, one.full) for one in quotas] == said


def test_without_a_date_our_own_clock_counts() -> None:
    at = (datetime.now(UTC) + timedelta(seconds=30)).isoformat()
    names = ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset")
    (told,) = began(dict(zip(names, ("1", at), strict=True))).quotas
    assert 25 < told.resets <= 30
