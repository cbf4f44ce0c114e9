"""Lives of a pool over one store in memory: started, stopped gracefully or killed, with tools whose
every effect is counted."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from channels.contract import Address, ChatId, Choice, Inbound, Outbound
from channels.errors import Unavailable
from ohmo.ambient import Ambient, Failpoint, IdSource, inert
from ohmo.config.agent import Context
from ohmo.contracts.agent import Agent, Event, TurnEnded
from ohmo.contracts.arrivals import Arrival
from ohmo.contracts.hooks import Hooks
from ohmo.contracts.messages import (
    CallResult,
    CallStarted,
    Layer,
    ModelStep,
    Step,
    Text,
    ToolCall,
    ToolResult,
    UserStep,
)
from ohmo.contracts.outbox import Asked, OutRow, PostRow, Ruling
from ohmo.contracts.provider import AskOnce
from ohmo.contracts.tool import (
    Allow,
    Ask,
    CallContext,
    Decision,
    Deny,
    Footprint,
    Question,
    ToolOutput,
    Verdict,
)
from ohmo.contracts.turns import Accepted, Claim, Seat, Work
from ohmo.engine.executor import Executor
from ohmo.engine.loop import Engine, Reasoner
from ohmo.sessions.admission import PoisonTurns
from ohmo.sessions.compacting import Compacting
from ohmo.sessions.planner import Busy, SessionDeps, TurnInput, TurnLimits, TurnOutput, TurnPlan
from ohmo.sessions.pool import Pool
from ohmo.tools.catalogue import Catalogue
from ohmo.tools.inputs import PydanticTool
from ohmo_testing.house import ManualClock, eventually
from ohmo_testing.scripted import ScriptedProvider
from tests.makers import inbound
from tests.store_model.store import MemoryStore

PLACE = Address("slack", "T1", ChatId("C1"))
MESSAGE = Seat("", "message")


class Arguments(BaseModel):
    model_config = ConfigDict(extra="forbid")
    name: str = ""


class Deed(PydanticTool):
    """A tool with an effect that is counted by name. ``gate``: awaited in the middle; ``result``:
    what it says."""

    description = "does something"
    input = Arguments

    def __init__(self, name: str, effect: Literal["none", "house", "repeatable", "once"]) -> None:
        self.name = name
        self.effect = effect
        self.begun: Counter[str] = Counter()
        self.done: Counter[str] = Counter()
        self.running = self.most = 0
        self.gate: Callable[[], Awaitable[Any]] = lambda: asyncio.sleep(0)
        self.result: Callable[[str], str] = lambda name: f"did {name}"
        self.writes: tuple[Path, ...] = ()

    def footprint(self, arguments: Arguments, cwd: Path) -> Footprint:
        return Footprint(effect=self.effect, writes=self.writes)

    async def run(self, arguments: Arguments, context: CallContext) -> ToolOutput:
        self.begun[arguments.name] += 1
        self.running += 1
        self.most = max(self.most, self.running)
        try:
            await self.gate()
            self.done[arguments.name] += 1
        finally:
            self.running -= 1
        return ToolOutput(ToolResult(context.call, self.result(arguments.name)))


class Permissive:
    """Allows everything but what is in ``ask`` (a person is asked) and ``deny``."""

    def __init__(self) -> None:
        self.ask: set[str] = set()
        self.deny: set[str] = set()

    async def judge(
        self,
        call: ToolCall,
        footprint: Footprint,
        context: CallContext,
        answered: Callable[[str], Awaitable[Verdict | None]],
    ) -> Decision:
        if call.name in self.deny:
            return Deny("rule", "no")
        if call.name not in self.ask:
            return Allow("rule")
        verdict = await answered("digest")
        if verdict is None:
            return Ask(
                "rule",
                Question("permission", f"{call.name}?", "", (Choice("once", "Allow"),), "digest"),
            )
        return (
            Allow("approval")
            if verdict.state == "allowed"
            else Deny("approval", "the person said no", Layer.PERSON)
        )


class Handle:
    """The store as one life sees it: every call gives way to others, and nothing reaches the store
    once the life has ended."""

    def __init__(self, store: MemoryStore) -> None:
        self._store = store
        self.alive = True
        self.away: set[str] = set()  # methods that raise Unavailable
        self.calls: Counter[str] = Counter()

    def listen(self, hear: Any) -> Callable[[], None]:
        return self._store.listen(lambda hints: hear(hints) if self.alive else None)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._store, name)

        async def call(*args: Any, **named: Any) -> Any:
            self.calls[name] += 1
            await asyncio.sleep(0)
            if not self.alive:
                await asyncio.Event().wait()  # a dead process does nothing more
            if name in self.away:
                raise Unavailable("the test took the store away")
            value = await method(*args, **named)
            await asyncio.sleep(0)
            if not self.alive:
                await asyncio.Event().wait()
            return value

        return call


def tell(arrival: Arrival) -> UserStep:
    assert isinstance(arrival, Inbound)
    return UserStep((Text(arrival.text),), arrival.person.id, "message")


def card(asked: Asked) -> PostRow:
    return PostRow(asked.ask.id, "message", Outbound(asked.address, asked.ask.question.title))


@dataclass
class Rig:
    """One store, one model, many lives. ``events``: everything that was emitted, by thread."""

    model: ScriptedProvider = field(default_factory=ScriptedProvider)
    clock: ManualClock = field(default_factory=ManualClock)
    gate: Permissive = field(default_factory=Permissive)
    budget: int = 100_000
    busy: Busy = "queue"
    width: int = 8
    turn_timeout: float = 600.0
    max_steps: int = 50
    cache: int = 1 << 30
    crowded: bool = False
    lived: float = 0.0  # seconds every life has lasted when its first turn comes
    agent: Agent | None = None
    failpoint: Failpoint = inert
    fetch: Callable[[Arrival], Awaitable[Sequence[str]]] | None = None
    ask: AskOnce | None = None  # for summaries
    hooks: Hooks | None = None

    def __post_init__(self) -> None:
        self.store = MemoryStore(clock=self.clock)
        self.look = Deed("Look", "none")
        self.once = Deed("Once", "once")
        self.again = Deed("Again", "repeatable")
        self.tools = {tool.name: tool for tool in (self.look, self.once, self.again)}
        self.new_id = IdSource()
        self.events: list[tuple[str, Event]] = []
        self.handles: list[Handle] = []
        self.dead: list[str] = []  # what the owner was told
        self._numbers = itertools.count(1)
        self._lives = itertools.count(1)

    async def says(self, text: str, place: Address = PLACE) -> Accepted:
        number = f"{next(self._numbers):06d}"
        said = inbound(place, text, number, at=self.clock())
        return (await self.store.accept([(said, MESSAGE)]))[0]

    async def stops(self, pool: Pool, place: Address = PLACE, *, fresh: bool = False) -> None:
        """As intake carries out /stop."""
        number = f"{next(self._numbers):06d}"
        said = inbound(place, "/stop", number, at=self.clock())
        accepted = (await self.store.accept([(said, Seat("", "command"))]))[0]
        posts = [PostRow(self.new_id(), "notice", Outbound(place, "Stopped."))]
        await self.store.stop(
            accepted.thread,
            accepted.seq,
            person="ada",
            fresh=fresh,
            posts=posts,
            closing=self.closing,
        )
        await pool.stopped(accepted.thread)

    async def answers(self, verdict: Literal["allowed", "denied"]) -> None:
        asked = await self.store.open_questions()
        await self.store.answer(
            Ruling(asked[0].ask.id, verdict, "ada"), card=card, closing=self.closing
        )

    def closing(self, row: OutRow) -> PostRow:
        return PostRow(self.new_id(), "edit", row.row.outbound, row.row.id)

    async def plan(self, claim: Claim, work: Work) -> TurnPlan:
        return TurnPlan(
            model="scripted",
            system=(),
            tools=(),
            budget=self.budget,
            max_output=1_000,
            effort=None,
            cwd=Path("/"),
            mode="default",
            role="owner",
            person="slack:ada",
            busy=claim.settings.busy or self.busy,
        )

    def pool(self) -> Pool:
        """A new life, with a name of its own in leases."""
        handle = Handle(self.store)
        self.handles.append(handle)
        executor = Executor(Catalogue(self.tools), self.gate, width=4, failpoint=self.failpoint)
        engine = Engine(
            Reasoner(self.model.stream, failpoint=self.failpoint),
            executor,
            max_steps=self.max_steps,
            hooks=self.hooks,
        )

        async def nothing(arrival: Arrival) -> Sequence[str]:
            return ()

        async def dead(place: Address, said_at: Address | None, reason: str) -> None:
            self.dead.append(reason)

        parts = SessionDeps(
            store=handle,
            agents=lambda _: self.agent or engine,
            plan=self.plan,
            input=TurnInput(step=tell, fetch=self.fetch or nothing),
            output=TurnOutput(
                emit=lambda thread, event: self.events.append((thread, event)),
                card=card,
                closing=self.closing,
                dead=dead,
            ),
            limits=TurnLimits(
                busy=self.busy, turn_timeout=self.turn_timeout, patience=lambda _, __: 300.0
            ),
            ambient=Ambient(self.new_id, self.clock, self.failpoint),
            compacting=Compacting(
                self.ask, "small", lambda _: self.budget, Context(), self.failpoint
            ),
        )
        seconds = itertools.chain([0.0], itertools.repeat(self.lived))
        suspects = PoisonTurns(now=lambda: next(seconds))
        return Pool(
            parts,
            owner=f"life-{next(self._lives)}",
            width=self.width,
            cache=self.cache,
            suspects=suspects,
            crowded=lambda: self.crowded,
        )

    @asynccontextmanager
    async def life(self) -> AsyncGenerator[Pool]:
        """From the recovery at the start to a graceful stop."""
        pool = self.pool()
        await self.store.reclaim(f"life-{len(self.handles)}")
        task = asyncio.create_task(pool.run())
        try:
            yield pool
        finally:
            await pool.drain(0)
            task.cancel()
            with suppress(asyncio.CancelledError):
                await task

    async def killed_after(self, turns_of_the_loop: int) -> None:
        """A life that ends like kill -9: nothing it still does reaches the store."""
        pool = self.pool()
        await self.store.reclaim(f"life-{len(self.handles)}")
        task = asyncio.create_task(pool.run())
        for _ in range(turns_of_the_loop):
            await asyncio.sleep(0)
        self.handles[-1].alive = False
        task.cancel()
        # what waits on the dead store is let go, again and again, for a process that is dead cleans
        # nothing up
        for _ in range(50):
            leftover = [one for one in asyncio.all_tasks() if one is not asyncio.current_task()]
            for one in leftover:
                one.cancel()
            if not leftover:
                break
            await asyncio.sleep(0)
        assert not leftover

    # what is there afterwards

    def steps(self) -> list[Step]:
        return [logged.step for _, logged in sorted(self.store.tables.steps.items())]

    def said(self, place: Address = PLACE) -> list[str]:
        """Texts of all posts to ``place``, in order."""
        rows = [
            posted.row
            for posted in self.store.tables.posts.values()
            if posted.row.row.outbound.address == place
        ]
        return [row.row.outbound.text for row in sorted(rows, key=lambda row: row.seq)]

    def endings(self) -> list[str]:
        return [
            letter.ending or letter.state
            for _, letter in sorted(self.store.tables.inbox.items())
            if letter.kind == "message"
        ]

    def is_quiet(self) -> bool:
        """Nothing waits and nothing runs."""
        return all(ending not in ("waiting", "taken") for ending in self.endings())

    async def quiet(self) -> None:
        await eventually(self.is_quiet)

    def outcomes(self) -> list[str]:
        return [event.outcome for _, event in self.events if isinstance(event, TurnEnded)]


def violations(steps: Sequence[Step], *, open_allowed: bool = False) -> list[str]:
    """L6 in the log itself: each call has exactly one result, after the call and before the model's
    next step; each starts at most once."""
    found: list[str] = []
    open_calls: dict[str, int] = {}
    started: Counter[str] = Counter()
    for step in steps:
        match step:
            case ModelStep(blocks):
                found += [
                    f"{call} had no result when the model was asked again"
                    for call, results in open_calls.items()
                    if not results
                ]
                open_calls = {block.id: 0 for block in blocks if isinstance(block, ToolCall)}
            case CallResult(result):
                if result.call not in open_calls:
                    found.append(f"a result of {result.call} at the wrong place")
                else:
                    open_calls[result.call] += 1
            case CallStarted(call, _):
                started[call] += 1
            case _:
                pass
    found += [
        f"{call} has {results} results"
        for call, results in open_calls.items()
        if results > 1 or (not results and not open_allowed)
    ]
    return found + [f"{call} started {count} times" for call, count in started.items() if count > 1]
