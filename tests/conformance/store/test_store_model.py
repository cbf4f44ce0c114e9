"""Any sequence of calls has the same results on every engine as in the model."""

from __future__ import annotations

import asyncio
import tempfile
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, precondition, rule, run_state_machine_as_test
from store_engines import emptied_postgres, memory_store, sqlite_store
from store_words import (
    CHAT,
    OTHER,
    Clock,
    FullStore,
    ask,
    card,
    closing,
    edited,
    ident,
    model,
    part,
    pressed,
    reacted,
    result,
    row,
    said,
    started,
    told,
    wake,
)

from channels.errors import Unavailable
from ohmo.contracts.errors import Conflict, LeaseLost
from ohmo.contracts.outbox import Ruling
from ohmo.contracts.turns import Claim, CursorSave, End, PersonRow, Seat, ThreadSettings

PLACES = st.sampled_from([CHAT, OTHER])
TEXTS = st.sampled_from(["a", "b", "c", "d"])
SMALL = st.integers(0, 3)


@st.composite
def items(draw: Any) -> tuple[Any, Seat]:
    kind = draw(
        st.sampled_from(
            """
                message message message album edit delete reaction command answer wake noted
            """.split()
        )
    )
    text, place, n = draw(TEXTS), draw(PLACES), draw(st.integers(0, 40))
    scope = draw(st.sampled_from(["", "", "ada"]))
    message = said(
        text,
        key=f"k{n}",
        order=f"o{draw(SMALL)}",
        at=place,
        aliases=tuple(draw(st.lists(st.sampled_from(["x", "y", "z"]), max_size=1))),
    )
    match kind:
        case "album":
            return replace(message, album="album"), Seat(scope, "message", hold=0.5)
        case "edit" | "delete":
            new = None if kind == "delete" else f"{text}{n}"
            return edited(text, new, key=f"e{n}", at=place, order=f"o{draw(SMALL)}"), Seat(
                scope, "edit"
            )
        case "reaction":
            return reacted(text, key=f"r{n}"), Seat(scope, "reaction")
        case "command":
            return replace(message, key=f"c{n}", message=f"cmd{n}"), Seat(scope, "command")
        case "answer":
            return pressed("yes", key=f"a{n}", at=place), Seat(scope, "answer")
        case "wake":
            return wake(f"w{n}", place=place), Seat(scope, "wake")
        case "noted":
            return message, Seat(scope, "message", ending="noted", reason="not for us")
        case _:
            return message, Seat(scope, "message")


class Twins(RuleBasedStateMachine):
    """Drives an engine and the model side by side."""

    open_engine: Callable[[Clock], AbstractAsyncContextManager[FullStore]]

    def __init__(self) -> None:
        super().__init__()
        self.runner = asyncio.Runner()
        self.clock = Clock()
        self.names = 0
        self.claims: list[Claim] = []
        self.turns: list[tuple[Claim, str]] = []
        self.engine, self.model = self.runner.run(self._open())

    async def _open(self) -> list[FullStore]:
        self.stack = AsyncExitStack()
        return [
            await self.stack.enter_async_context(opened(self.clock))
            for opened in (type(self).open_engine, memory_store)
        ]

    def teardown(self) -> None:
        async def finish() -> None:
            try:
                assert (await self.engine.audit_report()).problems == ()
            finally:
                await self.stack.aclose()

        self.runner.run(finish())
        self.runner.close()

    def name(self, kind: str) -> str:
        self.names += 1
        return f"{kind}{self.names}x"

    def both(self, call: Callable[[FullStore], Any]) -> Any:
        async def outcome(store: FullStore) -> Any:
            try:
                return await call(store)
            except (LeaseLost, Conflict, Unavailable) as error:
                return type(error)

        async def compare() -> Any:
            first, second = await outcome(self.engine), await outcome(self.model)
            assert first == second
            for look in (self.everything, self.threads):
                assert await look(self.engine) == await look(self.model)
            return first

        return self.runner.run(compare())

    async def everything(self, store: FullStore) -> Any:
        counts = await store.counts()
        return [
            {k: v for k, v in counts.inbox.items() if v},
            {k: v for k, v in counts.outbox.items() if v},
            (counts.oldest_waiting, counts.turns_open, counts.turns_parked),
            await store.outgoing("slack", "T1"),
            await store.unhandled(),
            await store.open_questions(),
            await store.next_deadline(),
            await store.people(),
            sorted(await store.inbox(limit=1000), key=lambda i: (i.thread, i.seq)),
        ]

    async def threads(self, store: FullStore) -> Any:
        infos = await store.threads()
        sessions = [await store.sessions(info.thread) for info in infos]
        return infos, [await store.history(info.thread) for info in infos], sessions

    def claims_equal(self, owner: str, limit: int) -> list[Claim]:
        async def run() -> list[Claim]:
            first, second = [
                await store.claim(owner, limit=limit, ttl=30) for store in (self.engine, self.model)
            ]
            assert [replace(c, until=0) for c in first] == [replace(c, until=0) for c in second]
            assert [(c.address, c.session_seq, c.settings) for c in first] == [
                (c.address, c.session_seq, c.settings) for c in second
            ]
            return first

        return self.runner.run(run())

    def post(self, place: Any) -> Any:
        return row(self.name("p"), at=place)

    # what arrives

    @rule(batch=st.lists(items(), min_size=1, max_size=4), cursor=st.none() | st.integers(0, 3))
    def accept(self, batch: Any, cursor: int | None) -> None:
        save = None if cursor is None else CursorSave("slack", "T1", "c", f"v{cursor}", cursor)
        self.both(lambda store: store.accept(batch, save))

    @rule(seconds=st.sampled_from([0.3, 1, 20, 31, 700]))
    def tick(self, seconds: float) -> None:
        self.clock.tick(seconds)

    @rule(which=SMALL, fresh=st.booleans(), place=PLACES, back=st.booleans())
    def stop(self, which: int, fresh: bool, place: Any, back: bool = False) -> None:
        posts = [self.post(place)]
        commands = [p for p in self.runner.run(self.engine.unhandled()) if p.kind == "command"]
        if commands:
            at = commands[which % len(commands)].accepted
            earlier = self.runner.run(self.engine.sessions(at.thread)) if fresh and back else []
            resumes = earlier[which % len(earlier)].session if earlier else None
            self.both(
                lambda store: store.stop(
                    at.thread,
                    at.seq,
                    person="ada",
                    fresh=fresh,
                    posts=posts,
                    closing=closing,
                    resumes=resumes,
                )
            )

    @rule(which=SMALL, place=PLACES)
    def end_arrival(self, which: int, place: Any) -> None:
        posts, pending = [self.post(place)], self.runner.run(self.engine.unhandled())
        if pending:
            at = pending[which % len(pending)].accepted
            ada, mode = (
                PersonRow("slack", "T1", "ada", f"n{which}", "user"),
                ThreadSettings(model=f"m{which}"),
            )
            self.both(
                lambda store: store.end_arrival(
                    at.thread, at.seq, "answered", posts=posts, person=ada, settings=mode
                )
            )

    @rule(which=SMALL)
    def retry_arrival(self, which: int) -> None:
        dead = self.runner.run(self.engine.inbox(state="dead"))
        if dead:
            self.both(
                lambda store: store.retry_arrival(
                    dead[which % len(dead)].thread, dead[which % len(dead)].seq
                )
            )

    # owning

    @rule(owner=st.sampled_from(["one", "two"]), limit=st.integers(1, 3))
    def claim(self, owner: str, limit: int) -> None:
        self.claims = (self.claims + self.claims_equal(owner, limit))[-4:]

    @precondition(lambda self: self.claims)
    @rule(which=SMALL, collect=st.booleans())
    def work(self, which: int, collect: bool) -> None:
        self.take(self.claims[-1 if which < 2 else which % len(self.claims)], collect)

    def take(self, claim: Claim, collect: bool) -> None:
        turn = ident(self.name("t"))
        work = self.both(lambda store: store.work(claim, turn, collect=collect, step=told))
        if work is not None and work is not LeaseLost:
            self.turns = [*self.turns, (claim, work.turn)][-4:]

    @rule(text=TEXTS, place=PLACES, collect=st.booleans())
    def begin(self, text: str, place: Any, collect: bool) -> None:
        """The everyday way into a turn, so that the rules of turns have something to work on."""
        message = said(text, key=self.name("b"), at=place)
        self.both(lambda store: store.accept([(message, Seat("", "message"))]))
        self.take_up("one", collect)

    def take_up(self, owner: str, collect: bool) -> None:
        for claim in self.claims_equal(owner, 3):
            self.claims = [*self.claims, claim][-4:]
            self.take(claim, collect)

    @rule(
        what=st.sampled_from(
            ["renew", "reclaim", "lease", "unlease", "expire", "prune", "prune all"]
        ),
        owner=st.sampled_from(["one", "two"]),
    )
    def chores(self, what: str, owner: str) -> None:
        calls: dict[str, Callable[[FullStore], Any]] = {
            "renew": lambda store: store.renew(self.claims, 30),
            "reclaim": lambda store: store.reclaim(owner),
            "lease": lambda store: store.lease("l", owner, 15),
            "unlease": lambda store: store.unlease("l", owner),
            "expire": lambda store: store.expire(card, closing),
            "prune": lambda store: store.prune(self.clock.now - timedelta(days=1)),
            "prune all": lambda store: store.prune(self.clock.now),
        }
        self.both(calls[what])

    # turns

    def turn(self, which: int) -> tuple[Claim, str]:
        # mostly the latest, sometimes a zombie
        return self.turns[-1 if which < 2 else which % len(self.turns)]

    @precondition(lambda self: self.turns)
    @rule(which=SMALL)
    def steer(self, which: int) -> None:
        claim, turn = self.turn(which)
        self.both(lambda store: store.steer(claim, turn, told))

    @precondition(lambda self: self.turns)
    @rule(
        which=SMALL,
        call=st.sampled_from(["1", "2"]),
        kinds=st.lists(st.sampled_from(["model", "start", "end"]), max_size=3),
        places=st.lists(PLACES, max_size=2),
    )
    def record(self, which: int, call: str, kinds: list[str], places: Any) -> None:
        (claim, turn), posts = self.turn(which), [self.post(place) for place in places]
        steps = [
            model("x")
            if k == "model"
            else started(f"{turn}.{call}")
            if k == "start"
            else result(f"{turn}.{call}")
            for k in kinds
        ]
        self.both(lambda store: store.record(claim, turn, steps, posts=posts))

    @precondition(lambda self: self.turns)
    @rule(
        which=SMALL,
        state=st.sampled_from(["done", "done", "failed", "stopped"]),
        places=st.lists(PLACES, max_size=2),
    )
    def finish(self, which: int, state: Any, places: Any) -> None:
        (claim, turn), posts = self.turn(which), [self.post(place) for place in places]
        self.both(lambda store: store.finish(claim, turn, [model("end")], posts, End(state, "why")))

    @precondition(lambda self: self.turns)
    @rule(which=SMALL, error=st.none() | st.just("boom"), wait=st.sampled_from([0, 5]))
    def release(self, which: int, error: str | None, wait: float) -> None:
        claim, turn = self.turn(which)
        self.both(lambda store: store.release(claim, turn, retry_after=wait, error=error))

    @precondition(lambda self: self.turns)
    @rule(which=SMALL)
    def interrupt(self, which: int) -> None:
        claim, turn = self.turn(which)
        self.both(lambda store: store.interrupt(claim, turn, closing))

    @precondition(lambda self: self.turns)
    @rule(which=SMALL)
    def draft(self, which: int) -> None:
        (claim, turn), name = self.turn(which), self.name("d")
        self.both(lambda store: store.draft(claim, turn, row(name, at=claim.address, kind="draft")))

    # questions

    @precondition(lambda self: self.turns)
    @rule(which=SMALL, count=st.integers(1, 3))
    def park(self, which: int, count: int) -> None:
        (claim, turn), names = self.turn(which), [self.name("q") for _ in range(count)]
        asks = [ask(name, f"call{n}") for n, name in enumerate(names)]
        self.both(
            lambda store: store.park(claim, turn, asks, timeout=60, card=card, closing=closing)
        )

    @rule(
        which=SMALL,
        verdict=st.sampled_from(["allowed", "denied"]),
        pressed_by=st.booleans(),
        place=PLACES,
        again=st.booleans(),
    )
    def answer(self, which: int, verdict: Any, pressed_by: bool, place: Any, again: bool) -> None:
        posts, late = [self.post(place)], [self.post(place)]
        questions = self.runner.run(self.engine.open_questions())
        if not questions and which:
            return
        name = questions[which % len(questions)].ask.id if questions else ident("nobody")
        waiting = (
            [p.accepted for p in self.runner.run(self.engine.unhandled()) if p.kind == "answer"]
            if pressed_by
            else []
        )
        at = (waiting[0].thread, waiting[0].seq) if waiting else None
        ruling = Ruling(name, verdict, "ada", "w", arrival=at)
        self.both(
            lambda store: store.answer(ruling, posts=posts, late=late, card=card, closing=closing)
        )
        if again:
            self.take_up("two", collect=False)

    @precondition(lambda self: self.turns)
    @rule(which=SMALL, call=SMALL)
    def consume(self, which: int, call: int) -> None:
        claim, turn = self.turn(which)
        self.both(lambda store: store.consume(claim, turn, f"call{call}", "d"))

    @rule(
        place=PLACES,
        verdict=st.sampled_from(["allowed", "denied"]),
        drafted=st.booleans(),
        shown=st.booleans(),
        count=st.integers(1, 2),
    )
    def conversation(
        self, place: Any, verdict: Any, drafted: bool, shown: bool, count: int
    ) -> None:
        """A turn that says something, asks, is answered and goes on: deeper than chance would
        come."""
        self.begin("a", place, collect=False)
        if not self.turns:
            return
        if drafted:
            self.draft(0)
        if shown:
            self.deliver("sent", 0)
        self.park(0, count)
        if shown:
            self.deliver("sent", 0)
        for _ in range(count):
            self.answer(0, verdict, pressed_by=False, place=place, again=True)
        self.consume(0, 0)

    @rule(place=PLACES, fresh=st.booleans(), back=st.booleans())
    def say_stop(self, place: Any, fresh: bool, back: bool) -> None:
        command = replace(said("stop", key=self.name("c"), at=place), message=self.name("m"))
        self.both(lambda store: store.accept([(command, Seat("", "command"))]))
        self.stop(0, fresh, place, back)

    # speaking

    @rule(what=st.sampled_from(["sending", "sent", "sent", "later", "dead", "drop"]), which=SMALL)
    def deliver(self, what: str, which: int) -> None:
        heads = self.runner.run(self.engine.outgoing("slack", "T1"))
        if not heads:
            return
        post = heads[which % len(heads)].row.id
        calls: dict[str, Callable[[FullStore], Any]] = {
            "sending": lambda store: store.sending(post, [part()]),
            "sent": lambda store: store.sent(post, [part(receipt=f"r{which}")]),
            "later": lambda store: store.unsent(post, retry_after=5, error="e"),
            "dead": lambda store: store.unsent(post, retry_after=None, error="e", parts=()),
            "drop": lambda store: store.drop_post(post),
        }
        self.both(calls[what])

    @rule(which=SMALL)
    def retry_post(self, which: int) -> None:
        dead = self.runner.run(self.engine.outbox(state="dead"))
        if dead:
            self.both(lambda store: store.retry_post(dead[which % len(dead)].row.id))


# Nothing is shrunk: with two engines that takes longer than reading the example that is printed.
def check(engine: Callable[[Clock], AbstractAsyncContextManager[FullStore]], examples: int) -> None:
    machine = type("Checked", (Twins,), {"open_engine": staticmethod(engine)})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=40,
            deadline=None,
            derandomize=True,
            phases=[Phase.generate],
            database=None,
            suppress_health_check=list(HealthCheck),
        ),
    )


def test_sqlite_does_what_the_model_does(quick: Path) -> None:
    def fresh(clock: Clock) -> AbstractAsyncContextManager[FullStore]:
        return sqlite_store(Path(tempfile.mkdtemp(dir=quick)) / "ohmo.db", clock)

    check(fresh, 40)


@pytest.mark.needs("postgres")
@pytest.mark.timeout(300)
def test_postgres_does_what_the_model_does(postgres_url: str) -> None:
    def fresh(clock: Clock) -> AbstractAsyncContextManager[FullStore]:
        return emptied_postgres(postgres_url, clock)

    check(fresh, 8)
