"""Starts everything in its order, and stops it in reverse: for the daemon, or in a thread for one
command where no daemon runs. The event loop under it gives a sign of life for the watchdog of the
service manager: a loop that hangs is restarted, its stack is in the log."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import importlib.util
import os
import threading
from collections.abc import (
    AsyncGenerator,
    Awaitable,
    Callable,
    Coroutine,
    Generator,
    Mapping,
    Sequence,
)
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

import structlog

from channels import text
from channels.errors import main_error
from ohmo.approvals.lapsing import expiry
from ohmo.assembly.agent import build_model
from ohmo.assembly.clockwork import consolidation
from ohmo.assembly.deps import Environment, spans
from ohmo.assembly.house import House, build_house
from ohmo.assembly.messages import wire
from ohmo.config.load import Config
from ohmo.contracts.errors import ConfigError, OhmoError
from ohmo.control.server import Doors
from ohmo.discovery import load
from ohmo.heap import give_back, trimming
from ohmo.lifecycle import follow, notify, supervised
from ohmo.logs.writing import logging_to
from ohmo.processes.peer_process import reap
from ohmo.processes.process_tree import adopt_orphans, seal
from ohmo.storefile.lock import hold_home, sweep
from ohmo.storefile.open_store import open_store
from ohmo.storefile.restore import finish_restore
from ohmo.upkeep.housekeeping import consolidate, keep_backups, let_go

log = structlog.get_logger("ohmo.daemon")
heartbeat_log = structlog.get_logger("ohmo.heartbeat")
FIRST = 1.0  # seconds a page waits for channels that start: what hears is awake first
QUIET = 2.0  # seconds after the channels in which nothing else starts
SETTLED = 10.0  # seconds after which a channel that does not connect keeps nobody waiting
GRACE = 5.0  # seconds one part gets to end when it is cancelled
DRAIN = 10.0  # seconds running turns get to end when we are asked to stop
# by number: faulthandler flushes a file object first, and a pipe that nobody reads would stop the
# loop there
STDERR = 2
BEAT = 5.0  # seconds between two signs of life, less when the manager wants it
SILENT = 15.0  # seconds without one after which every thread's stack is written to standard error
# seconds after which a container without a watchdog of its own is ended, so that its engine starts
# it again
DEADLY = 30.0


@asynccontextmanager
async def started(
    config: Config,
    environment: Environment,
    *,
    notes: Callable[[], Sequence[str]] = tuple,
    still: bool = False,
) -> AsyncGenerator[tuple[House, Doors]]:
    """The house, started in order; on the way out stopped in reverse. The caller owns the home.
    ``notes`` stand among the status's warnings. ``still``: only its doors open; no channel
    connects, no turn runs, no job is due. Raises ConfigError."""
    try:
        config.workspace.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"workspace: {config.workspace} cannot be used as a folder ({error.strerror}); set"
            " workspace to one you own"
        ) from error
    finish_restore(config.home.root)  # one that was killed in the middle
    # the backups' folder may hang: keep_backups sweeps it, when everything is awake
    await asyncio.to_thread(sweep, config.home.root)
    environment.recall(config.home.root)
    wired = wire(config, environment.clock, environment.began)
    async with AsyncExitStack() as stack:
        path = config.home.database
        backups = config.backups.folder or config.home.backups
        failpoint = environment.failpoint
        opening = open_store(config.store_url, path, environment.clock, failpoint, backups)
        store, warnings = await stack.enter_async_context(opening)
        await store.reclaim(environment.owner)
        model = await build_model(config, environment.environ)
        stack.push_async_callback(model.aclose)
        watcher = spans(environment.environ)
        sent = watcher.sent if watcher is not None else None
        house = await build_house(
            config, environment, store, wired, model, warnings=warnings, sent=sent
        )
        broken = house.status.warnings
        house.status.warnings = lambda: (*notes(), *broken())
        if house.agent.servers is not None:
            await house.agent.servers.prepare()
        calm = partial(asyncio.sleep, 0) if still else partial(_calm, house, FIRST)
        doors = await stack.enter_async_context(house.control.serving(calm))
        group = await stack.enter_async_context(tasks())
        for name, work in () if still else _background_tasks(house, config):
            group(name, work)
        if watcher is not None:
            stack.push_async_callback(asyncio.to_thread, watcher.close)
            group("traces", lambda: follow("traces", house.bus.outbound.listen, watcher.event))
        house.status.ready = True
        if not still:
            group("model.warm", lambda: _warm(house))
        if warnings:
            await house.notices.tell("store", " ".join(warnings))
        log.info("ready", provider=model.explanation, model=model.model, url=doors.url)
        try:
            yield house, doors
        finally:
            house.status.ready = False
            # what runs on a dead store can end nothing any more
            await house.pool.drain(0.0 if store.fatal.done() else DRAIN)
            await house.agent.workbench.close()


def _background_tasks(
    house: House, config: Config
) -> list[tuple[str, Callable[[], Awaitable[object]]]]:
    """In the order of the start: what can speak and think before what can hear."""

    async def tidy() -> None:
        await house.agent.workbench.background.renew()
        await house.agent.folders.tidy()

    clock = house.environment.clock
    calm = config.safe or config.alone
    tidying = house.agent.tidying
    schedule = consolidation(config, house.clockwork.zone)
    looking: list[tuple[str, Callable[[], Awaitable[object]]]] = []
    if schedule is not None and not calm:
        work = partial(consolidate, tidying, schedule, house.notices, clock)
        looking = [("consolidation", work)]
    trust = partial(house.trust.run, partial(house.bus.outbound.listen, "trust"))
    servers, hooks, plugins = house.agent.servers, house.agent.hooks, house.agent.plugins
    quiet = partial(asyncio.sleep, 0) if config.alone else partial(_quiet, house)
    return [
        *([("mcp", lambda: servers.run(quiet))] if servers is not None else []),
        *([("hooks", hooks.run)] if hooks is not None else []),
        *([("plugins", plugins.run)] if plugins is not None else []),
        ("bus", house.bus.run),
        ("questions", house.questions.run),
        ("sessions", house.pool.run),
        ("intake", house.intake.run),
        ("clock", house.clockwatch.run),
        ("store", house.store_watch.run),
        ("memory", house.memory_watch.run),
        ("allocator", lambda: give_back(trimming())),
        ("orphans", reap),
        ("expiry", lambda: expiry(house.store, house.expire, house.environment.clock)),
        ("full_auto", house.full_auto.run),
        ("upkeep", lambda: let_go(config, house.store, house.environment.clock.before, tidy=tidy)),
        ("backups", lambda: keep_backups(config, house.notices, house.environment.clock)),
        *looking,
        ("sandbox", lambda: _walled(house)),
        *([] if calm else [("cron", house.clockwork.scheduler.run), ("trust", trust)]),
        ("channels", house.board.run),
    ]


@asynccontextmanager
async def tasks() -> AsyncGenerator[Callable[[str, Callable[[], Awaitable[object]]], None]]:
    """Supervised tasks, cancelled in reverse order of their start."""
    tasks: list[asyncio.Task[None]] = []

    def start(name: str, work: Callable[[], Awaitable[object]]) -> None:
        tasks.append(asyncio.create_task(supervised(name, work), name=name))

    try:
        yield start
    finally:
        for task in reversed(tasks):
            task.cancel()
            _, late = await asyncio.wait([task], timeout=GRACE)
            if late:
                log.error("task_does_not_end", task=task.get_name(), waited=GRACE)


async def _calm(house: House, longest: float) -> None:
    """Returns when no channel waits for its first moment any more, an import would hold all of them
    up; after ``longest`` seconds in any case."""

    def starting() -> bool:
        return any(channel.state == "starting" for channel in house.board.report().values())

    if not starting():
        return
    with suppress(TimeoutError):
        async with asyncio.timeout(longest):
            while starting():  # noqa: ASYNC110 - a few looks, once
                await asyncio.sleep(0.02)
            await asyncio.sleep(0.1)  # the first poll goes out


async def _quiet(house: House) -> None:
    """Returns when the first words are answered, or nobody said any; programs that start beside
    them would make the answer late. After a while in any case."""
    await _calm(house, SETTLED)
    await asyncio.sleep(QUIET)
    with suppress(TimeoutError):
        async with asyncio.timeout(SETTLED):
            while house.pool.running:  # noqa: ASYNC110 - a few looks, once
                await asyncio.sleep(0.1)


async def _walled(house: House) -> None:
    """Tries the walls before somebody's first command would wait for that."""
    if (walls := house.agent.workbench.walls) is not None:
        await _calm(house, FIRST)
        await walls.begin()


async def _warm(house: House) -> None:
    """Imports the model's SDK. Then what is there stays there: the collector never looks at it
    again."""
    await _calm(house, SETTLED)
    try:
        await house.agent.model.warm()
        await asyncio.to_thread(text.warm)
        await asyncio.sleep(1.0)  # the first answer does not wait for the collector
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()


@contextmanager
def one_shot(
    config: Config, environ: Mapping[str, str], *, still: bool = False, tell: Callable[[str], None]
) -> Generator[Path]:
    """The daemon's parts in a thread of this process, for one command: yields the socket's path.
    Takes the home's lock meanwhile. ``still``: it answers questions about itself, and nothing in it
    moves. ``tell`` hears the warnings of its status. Raises HomeTaken, ConfigError."""
    seal(environ)
    adopt_orphans()
    config.home.prepare()
    config = replace(
        config,
        # the terminal is the command's
        channels=tuple(channel for channel in config.channels if channel.name != "console"),
        control=config.control.model_copy(update={"listen": None}),  # nobody else is to find it
        alone=True,
    )
    ready: Future[tuple[Path, Sequence[str]]] = Future()
    stop = threading.Event()

    def work() -> int:
        with logging_to(config.home.log, secrets=lambda: config.vault.values):
            return run(_short(config, Environment(environ=environ), ready.set_result, stop, still))

    with (
        hold_home(config.home.root),
        ThreadPoolExecutor(1, thread_name_prefix="ohmo.one_shot") as pool,
    ):
        running = pool.submit(work)
        either: list[Future[Any]] = [ready, running]
        # also who is interrupted while the house starts has to stop it: the pool waits for its end
        try:
            wait(either, return_when=FIRST_COMPLETED)
            if not ready.done():
                running.result()
            socket, warnings = ready.result()
            for warning in warnings:
                tell(warning)
            yield socket
        finally:
            stop.set()


async def _short(
    config: Config,
    environment: Environment,
    ready: Callable[[tuple[Path, Sequence[str]]], None],
    stop: threading.Event,
    still: bool,
) -> int:
    try:
        async with started(config, environment, still=still) as (house, doors):
            ready((doors.socket, house.status.warnings()))
            await asyncio.to_thread(stop.wait)
    finally:
        await environment.background.close()
    return 0


def run(life: Coroutine[Any, Any, int]) -> int:
    """On uvloop where it imports, on plain asyncio otherwise."""
    if os.environ.get("OHMO_LOOP") == "asyncio" or importlib.util.find_spec("uvloop") is None:
        runner = asyncio.run
    else:
        runner = cast("Callable[[Coroutine[Any, Any, int]], int]", load("uvloop:run"))
    try:
        return runner(life)
    except BaseExceptionGroup as group:
        raise main_error(group, OhmoError) from group  # one of our own says most


def period(environ: Mapping[str, str]) -> float:
    """Seconds between two beats: sd_watchdog_enabled(3) recommends at least two within
    ``$WATCHDOG_USEC``."""
    asked = environ.get("WATCHDOG_USEC", "")
    return min(BEAT, int(asked) / 3_000_000) if asked.isdigit() and int(asked) > 0 else BEAT


def ends_itself(environ: Mapping[str, str]) -> bool:
    """Whether nobody else watches: run by a container engine, which restarts what ends but not what
    hangs."""
    return environ.get("OHMO_SERVICE") == "container" and not environ.get("WATCHDOG_USEC")


@asynccontextmanager
async def heartbeat(
    environ: Mapping[str, str],
    *,
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    tell: Callable[[Mapping[str, str], str], bool] = notify,
) -> AsyncGenerator[None]:
    """Beats inside. Every beat winds up an alarm that needs neither the loop nor the interpreter's
    lock (faulthandler's own thread)."""
    alive = asyncio.create_task(_beat(environ, sleep, tell), name="heartbeat")
    try:
        yield
    finally:
        alive.cancel()
        await asyncio.wait([alive])
        faulthandler.cancel_dump_traceback_later()


async def _beat(
    environ: Mapping[str, str],
    sleep: Callable[[float], Awaitable[None]],
    tell: Callable[[Mapping[str, str], str], bool],
) -> None:
    every, now = period(environ), asyncio.get_running_loop().time
    deadly = ends_itself(environ)
    while True:
        faulthandler.dump_traceback_later(DEADLY if deadly else SILENT, exit=deadly, file=STDERR)
        tell(environ, "WATCHDOG=1")
        before = now()
        await sleep(every)
        if (late := now() - before - every) > BEAT:
            heartbeat_log.warning("event_loop_blocked", seconds=round(late, 1))
