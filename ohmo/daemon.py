"""The long life: owns the home, opens the store, starts the house in order and stops it in reverse."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import importlib.util
import os
import sys
import threading
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any, cast

import structlog

from channels.errors import Unavailable
from ohmo.assembly.agent import build_model
from ohmo.assembly.channels import wire
from ohmo.assembly.house import House, build_house
from ohmo.assembly.seams import Seams
from ohmo.config.load import Config
from ohmo.contracts.errors import ConfigError, HomeTaken, OhmoError
from ohmo.control.server import Doors
from ohmo.discovery import load
from ohmo.failpoints import from_environment
from ohmo.lifecycle import notify, signals, supervised, within
from ohmo.logs import logging_to, terminal
from ohmo.store.lock import hold_home
from ohmo.store.opening import open_store

log = structlog.get_logger("ohmo.daemon")
SETTLED = 10.0  # seconds after which a channel that does not connect keeps nobody waiting
FOREVER = timedelta(days=36_500)
GRACE = 5.0  # seconds one part gets to end when it is cancelled
DRAIN = 10.0  # seconds running turns get to end when we are asked to stop
OK, FAILED, CRASHED, TAKEN, CONFIG = 0, 1, 70, 75, 78


class Fatal(OhmoError):
    """Only a restart can help."""


def serve(config: Config, *, safe: bool = False) -> int:
    """``ohmo run``: until a signal. Returns the exit code; says what is wrong in one line on stderr."""
    del safe  # there is nothing to leave out yet: plugins, hooks and cron come later
    faulthandler.enable()
    try:
        seams = Seams(failpoint=from_environment(os.environ))
    except ValueError as error:
        return _say(str(error), FAILED)
    try:
        config.home.prepare()
        with hold_home(config.home.root), logging_to(config.home.log, secrets=lambda: config.vault.values, human=terminal()):
            return _run(_live(config, seams))
    except ConfigError as error:
        return _say(str(error), CONFIG)
    except HomeTaken as error:
        return _say(str(error), TAKEN)
    except Fatal as error:
        return _say(str(error), CRASHED)
    except (OhmoError, Unavailable) as error:
        return _say(str(error), FAILED)


@contextmanager
def one_shot(config: Config) -> Generator[Path]:
    """The house in a thread of this process, for one prompt without a daemon: yields the socket's path. Takes the home's lock meanwhile.
    Raises HomeTaken, ConfigError."""
    config.home.prepare()
    config = replace(config, channels=tuple(one for one in config.channels if one.name != "console"))  # the terminal is the prompt's
    ready: Future[Path] = Future()
    stop = threading.Event()

    def life() -> int:
        with logging_to(config.home.log, secrets=lambda: config.vault.values):
            return _run(_short(config, Seams(), ready.set_result, stop))

    with hold_home(config.home.root), ThreadPoolExecutor(1, thread_name_prefix="ohmo.one_shot") as pool:
        living_there = pool.submit(life)
        either: list[Future[Any]] = [ready, living_there]
        wait(either, return_when=FIRST_COMPLETED)
        if not ready.done():
            living_there.result()
        try:
            yield ready.result()
        finally:
            stop.set()


def _say(line: str, code: int) -> int:
    print(f"ohmo: {line}", file=sys.stderr)
    return code


def _run(life: Coroutine[Any, Any, int]) -> int:
    """On uvloop where it imports, on plain asyncio otherwise."""
    try:
        return _runner()(life)
    except BaseExceptionGroup as group:
        raise _leaf(group) from group


def _runner() -> Callable[[Coroutine[Any, Any, int]], int]:
    if os.environ.get("OHMO_LOOP") == "asyncio" or importlib.util.find_spec("uvloop") is None:
        return asyncio.run
    return cast("Callable[[Coroutine[Any, Any, int]], int]", load("uvloop:run"))


def _leaf(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """The failure that says most: one of our own before any other."""
    leaves = [
        _leaf(cast("BaseExceptionGroup[BaseException]", one)) if isinstance(one, BaseExceptionGroup) else one for one in group.exceptions
    ]
    return next((leaf for leaf in leaves if isinstance(leaf, OhmoError)), leaves[0])


async def _live(config: Config, seams: Seams) -> int:
    stopping = asyncio.Event()
    with signals(stopping.set, abort=lambda: os._exit(FAILED)):
        async with living(config, seams) as (house, doors):
            _announce(house, doors)
            await _until_stopped(house, stopping)
            notify(seams.environ, "STOPPING=1")
            log.info("stopping", running=house.pool.running)
    return OK


async def _short(config: Config, seams: Seams, ready: Callable[[Path], None], stop: threading.Event) -> int:
    async with living(config, seams) as (_, doors):
        ready(doors.socket)
        await asyncio.to_thread(stop.wait)
    return OK


def _announce(house: House, doors: Doors) -> None:
    model, link = house.agent.model, doors.login_link()
    if model.model == "offline":
        print(f"No model yet ({model.explanation}); docs/models.md says how. Tools can be tried by hand.")
    print(f"ohmo is ready. Open this link once: {link}" if link is not None else f"ohmo is ready at {doors.socket}", flush=True)
    notify(os.environ, "READY=1\nSTATUS=serving")


async def _until_stopped(house: House, stopping: asyncio.Event) -> None:
    """A signal, or a store that only a restart can mend."""
    fatal: asyncio.Future[str] | None = getattr(house.store, "fatal", None)
    waits: list[asyncio.Future[Any]] = [asyncio.ensure_future(stopping.wait())]
    if fatal is not None:
        waits.append(fatal)
    await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    if fatal is not None and fatal.done() and not fatal.cancelled():
        raise Fatal(fatal.result())


@asynccontextmanager
async def living(config: Config, seams: Seams) -> AsyncGenerator[tuple[House, Doors]]:
    """The house, started in order; on the way out stopped in reverse. The caller owns the home."""
    _prepare_workspace(config.workspace)
    wired = wire(config, seams.clock)
    async with AsyncExitStack() as stack:
        store, warnings = await stack.enter_async_context(
            open_store(config.store_url, config.home.database, seams.clock, seams.new_id, seams.failpoint)
        )
        await store.reclaim(seams.owner)
        model = await build_model(config, seams)
        stack.push_async_callback(model.aclose)
        house = await build_house(config, seams, store, wired, model, warnings=warnings)
        doors = await stack.enter_async_context(house.control.serving())
        group = await stack.enter_async_context(_tasks())
        for name, work in _lives(house, config):
            group(name, work)
        house.truth.ready = True
        group("model.warm", lambda: _warm(house))
        if warnings:
            await house.notices.tell("store", " ".join(warnings))
        log.info("ready", provider=model.explanation, model=model.model, url=doors.url)
        try:
            yield house, doors
        finally:
            house.truth.ready = False
            await house.pool.drain(DRAIN)
            await house.agent.workbench.background.close()


def _prepare_workspace(folder: Path) -> None:
    """Raises ConfigError: it is no folder, or cannot be made."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(f"workspace: {folder} cannot be used as a folder ({error.strerror}); set workspace to one you own") from error


def _lives(house: House, config: Config) -> list[tuple[str, Callable[[], Awaitable[object]]]]:
    """In the order of the start: what can speak and think before what can hear."""
    return [
        ("bus", house.bus.run),
        ("questions", house.questions.run),
        ("sessions", house.pool.run),
        ("intake", house.intake.run),
        ("expiry", lambda: _expire(house)),
        ("upkeep", lambda: _prune(house, config.retention.inbox)),
        ("channels", house.board.run),
    ]


@asynccontextmanager
async def _tasks() -> AsyncGenerator[Callable[[str, Callable[[], Awaitable[object]]], None]]:
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


async def _expire(house: House) -> None:
    """Sleeps until the next question is overdue."""
    changed = asyncio.Event()
    stop_hearing = house.store.listen(lambda hints: changed.set() if any(hint.kind in ("approval", "any") for hint in hints) else None)
    try:
        while True:
            changed.clear()
            deadline = await house.store.next_deadline()
            wait = 3_600.0 if deadline is None else max(0.0, (deadline - house.seams.clock()).total_seconds())
            if deadline is not None and wait <= 0:
                await house.expire()
                continue
            with suppress(TimeoutError):
                await within(min(wait + 0.01, 3_600.0), changed.wait())
    finally:
        stop_hearing()


async def _prune(house: House, keep: timedelta | None) -> None:
    """What ended longer ago than ``keep`` goes, a little at a time; None: nothing ever does, but edits without an original are ended."""
    while True:
        await asyncio.sleep(600)
        await house.store.prune(house.seams.clock() - (keep if keep is not None else FOREVER))


async def _warm(house: House) -> None:
    """The model's SDK is imported when no channel waits for its first moment any more: the import would hold all of them up.
    Then what is there stays there: the collector never looks at it again."""
    with suppress(TimeoutError):
        async with asyncio.timeout(SETTLED):
            while any(channel.state == "starting" for channel in house.board.report().values()):  # noqa: ASYNC110 - a few looks, once
                await asyncio.sleep(0.02)
    await asyncio.sleep(0.1)  # the first poll goes out
    try:
        await house.agent.model.warm()
        await asyncio.sleep(1.0)  # the first answer does not wait for the collector
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()
