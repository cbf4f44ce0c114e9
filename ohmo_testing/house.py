"""Fakes we ship: a clock moved by hand, and the whole house over a platform in memory and a model
that says what a test told it to."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from dataclasses import field
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path

from channels.contract import Capabilities
from channels.record import record
from ohmo.ambient import Failpoint, inert
from ohmo.assembly.deps import Environment
from ohmo.assembly.house import House, build_house
from ohmo.assembly.messages import Wired
from ohmo.config.load import load
from ohmo.gateway.access import Policy
from ohmo.gateway.connections import LinkSettings
from ohmo.gateway.draft_updates import Mode
from ohmo.gateway.internal_channel import InternalChannel
from ohmo.lifecycle import failure_of
from ohmo.providers.build import Model, chain
from ohmo.providers.middleware.link import Patience
from ohmo.providers.models import Endpoint
from ohmo.sessions.clock import HeldClock
from ohmo.storefile.open_store import open_store
from ohmo_testing.channels import EVERYTHING, FakeChannel, FakePlatform, Shown
from ohmo_testing.scripted import ScriptedProvider

BIRTH = datetime(2026, 1, 5, 9, 0, tzinfo=UTC)
BOUND = 30.0  # seconds a wait may last before it is a failure
_FENCE = (timedelta(hours=24), 100)


class ManualClock:
    """Stands still until ``tick`` moves it, forward or back. Timers of the event loop are not
    moved: what waits for wall time looks again by itself, within a second. ``alarm`` waits for its
    moments. ``steady``: seconds that went by, however often it was ``set``."""

    def __init__(self, now: datetime = BIRTH) -> None:
        self.now = now
        self._passed = 0.0
        self._waiting: set[asyncio.Event] = set()

    def __call__(self) -> datetime:
        return self.now

    def steady(self) -> float:
        return self._passed

    def set(self, now: datetime) -> None:
        """Somebody sets it; no time goes by."""
        self.now = now

    def tick(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)
        self._passed += seconds
        for changed in self._waiting:
            changed.set()

    async def alarm(self, until: datetime | None, changed: asyncio.Event) -> None:
        """As the product's: returns when the clock was moved, or something else changed."""
        if until is not None and until <= self.now:
            return
        self._waiting.add(changed)
        try:
            await changed.wait()
        finally:
            self._waiting.discard(changed)


async def eventually(
    condition: Callable[[], bool | Awaitable[bool]], within: float = BOUND
) -> None:
    """Look again and again, in turns of the event loop that give way to others; TimeoutError after
    ``within`` seconds."""
    async with asyncio.timeout(within):
        while True:
            held = condition()
            if held if isinstance(held, bool) else await held:
                return
            await asyncio.sleep(0.005)


@record
class World:
    """What is there before the house and outlives it: the platform, the model, the time. ``folder``
    is the home; ``config`` its configuration.

    ``brain``: a real endpoint's chain, asked instead of ``model``. ``capabilities``, ``policy`` and
    ``activity`` are those of the platform's channel; ``failpoint`` as in the product."""

    folder: Path
    platform: FakePlatform
    model: ScriptedProvider = field(default_factory=ScriptedProvider)
    clock: ManualClock = field(default_factory=ManualClock)
    config: str = ""
    capabilities: Capabilities = EVERYTHING
    policy: Policy = field(default_factory=lambda: Policy(dm="open", groups="open"))
    failpoint: Failpoint = inert
    activity: Mode = "live"
    brain: Model | None = None

    @property
    def work(self) -> Path:
        """The workspace: beside the home, which is closed to tools."""
        return self.folder.parent / "work"

    async def hears(self, text: str, chat: str = "dm:ada") -> Shown:
        """Wait until the bot's message that contains ``text`` stands in ``chat``."""
        await self.platform.until(
            lambda _: any(text in said.text for said in self.bot(chat)), BOUND
        )
        return next(said for said in self.bot(chat) if text in said.text)

    def bot(self, chat: str = "dm:ada") -> Sequence[Shown]:
        """What the bot's messages in ``chat`` are now."""
        return [said for said in self.platform.chats.get(chat, ()) if said.by_bot]

    def texts(self, chat: str = "dm:ada") -> list[str]:
        """The same, words only."""
        return [said.text for said in self.bot(chat)]


@asynccontextmanager
async def house(world: World, *, drain: float = 5.0) -> AsyncGenerator[House]:
    """One life of the house, store on disk, from its start to a graceful stop; enter it again for a
    restart. ``drain``: seconds that running turns get to end. Leaving fails when a task is left
    behind."""
    before = asyncio.all_tasks()
    world.folder.mkdir(mode=0o700, exist_ok=True)
    # what is told of the day is not what these tests are about
    own = "" if "prompt:" in world.config else "prompt: {changing: []}\n"
    (world.folder / "config.yaml").write_text(f"workspace: {world.work}\n{own}{world.config}")
    environ = {
        "OHMO_HOME": str(world.folder),
        "HOME": str(world.folder.parent),
        "PATH": "/usr/bin:/bin",
    }
    config = load(environ=environ, manifests=None)
    config.home.prepare()
    config.workspace.mkdir(exist_ok=True)
    clock = HeldClock(world.clock, steady=world.clock.steady)
    environment = Environment(
        clock=clock, environ=environ, failpoint=world.failpoint, alarm=world.clock.alarm
    )
    environment.recall(config.home.root)
    async with open_store(
        config.store_url, config.home.database, environment.clock, environment.failpoint
    ) as (store, warnings):
        await store.reclaim(environment.owner)
        built = await build_house(
            config,
            environment,
            store,
            _wired(world, config.home.state),
            world.brain or _model(world.model),
            warnings=warnings,
        )
        async with _running(
            [
                built.bus.run,
                built.questions.run,
                built.pool.run,
                built.intake.run,
                built.clockwork.scheduler.run,
                built.board.run,
            ]
        ):
            built.status.ready = True
            try:
                yield built
            finally:
                await built.pool.drain(drain)
    left = {task for task in asyncio.all_tasks() - before if not task.done()}
    if left:
        raise AssertionError(f"left behind: {sorted(task.get_name() for task in left)}")


def _wired(world: World, state: Callable[[str], Path]) -> Wired:
    platform = world.platform
    adapter = LinkSettings(
        platform.name,
        platform.name,
        lambda: FakeChannel(platform, world.capabilities),
        state(platform.name),
        _FENCE,
        heavy=False,
        activity=world.activity,
    )
    links = (
        LinkSettings("house", "house", InternalChannel, state("house"), _FENCE, heavy=False),
        adapter,
    )
    return Wired(
        links,
        lambda channel, account: world.policy,  # noqa: ARG005
        None,
        (),
        lambda channel, account: world.activity,  # noqa: ARG005
    )


def _model(provider: ScriptedProvider) -> Model:
    """The product's own chain, without its pauses."""

    async def at_once(seconds: float) -> None:  # noqa: ARG001
        await asyncio.sleep(0)

    chained = partial(
        chain, [provider], [Endpoint("scripted", ("scripted",))], Patience(tries=2, sleep=at_once)
    )
    return Model(
        provider,
        chained(),
        ("scripted",),
        "a script",
        (),
        charged=lambda budget: chained(budget=budget),
    )


@asynccontextmanager
async def _running(lives: Sequence[Callable[[], Awaitable[object]]]) -> AsyncGenerator[None]:
    """Ended in reverse order of their start. What fails is raised at the end."""
    tasks: list[asyncio.Task[Exception | None]] = []
    try:
        tasks.extend(
            asyncio.create_task(failure_of(life()), name=getattr(life, "__qualname__", "life"))
            for life in lives
        )
        yield
    finally:
        for task in reversed(tasks):
            task.cancel()
            await asyncio.wait([task])
    for task in tasks:
        if not task.cancelled() and (error := task.result()) is not None:
            raise error


__all__ = [
    "BIRTH",
    "BOUND",
    "House",
    "ManualClock",
    "ScriptedProvider",
    "World",
    "eventually",
    "house",
]
