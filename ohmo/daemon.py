"""The long life: owns the home, opens the store, starts the house in order and stops it in reverse."""

from __future__ import annotations

import asyncio
import faulthandler
import gc
import importlib.util
import os
import sys
import threading
import time
import traceback
from collections.abc import AsyncGenerator, Awaitable, Callable, Coroutine, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import AsyncExitStack, asynccontextmanager, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, cast

import structlog

from channels import text
from channels.errors import Unavailable
from ohmo.assembly.agent import build_model
from ohmo.assembly.channels import wire
from ohmo.assembly.house import House, build_house
from ohmo.assembly.rulebooks import ELDERS, Elder
from ohmo.assembly.seams import Seams
from ohmo.assembly.upkeep import expiry, keep_backups, let_go
from ohmo.assembly.watching import spans
from ohmo.config.load import Config
from ohmo.contracts.errors import ConfigError, HomeTaken, OhmoError
from ohmo.control.server import Doors
from ohmo.discovery import load
from ohmo.failpoints import from_environment
from ohmo.lifecycle import notify, outcome, signals, supervised
from ohmo.logs import logging_to, terminal
from ohmo.processes.sealed import seal
from ohmo.service.heartbeat import heartbeat
from ohmo.service.rereading import Rereading
from ohmo.service.starts import Starts
from ohmo.store.lock import hold_home
from ohmo.store.opening import open_store
from ohmo.store.restoring import finish_restore

log = structlog.get_logger("ohmo.daemon")
SETTLED = 10.0  # seconds after which a channel that does not connect keeps nobody waiting
GRACE = 5.0  # seconds one part gets to end when it is cancelled
DRAIN = 10.0  # seconds running turns get to end when we are asked to stop
OK, FAILED, CRASHED, TAKEN, CONFIG = 0, 1, 70, 75, 78


class Fatal(OhmoError):
    """Only a restart can help."""


@dataclass(frozen=True, slots=True)
class Order:
    """How the daemon was asked to run. ``environ``: with what ``.env`` adds. ``note``: what the owner has to hear of the configuration.
    ``reread`` loads it afresh (ConfigError), ``good`` is called with it once it proved itself."""

    reread: Callable[[], Config]
    environ: Mapping[str, str]
    safe: bool = False
    note: str = ""
    good: Callable[[Config], object] = lambda _: None

    @property
    def service(self) -> bool:
        """Somebody starts us again when we end."""
        return bool(self.environ.get("OHMO_SERVICE"))


def serve(config: Config, order: Order) -> int:
    """``ohmo run``: until a signal. Returns the exit code; says what is wrong in one line on stderr."""
    faulthandler.enable()
    seal(order.environ)
    try:
        seams = Seams(failpoint=from_environment(order.environ), environ=order.environ)
    except ValueError as error:
        return _say(str(error), FAILED)
    ended = outcome(lambda: _served(config, order, seams))
    if isinstance(ended, int):
        return ended
    match ended:
        case ConfigError():
            return _say(str(ended), CONFIG)
        case HomeTaken():
            return _say(str(ended), TAKEN)
        case Fatal() | Unavailable():  # a disk that is full now may have room at the next start
            return _say(str(ended), CRASHED)
        case OhmoError():
            return _say(str(ended), FAILED)
        case _:
            traceback.print_exception(ended)
            return _say(f"crashed: {type(ended).__name__}: {ended}; this is a mistake in ohmo, the lines above say where", CRASHED)


def _served(config: Config, order: Order, seams: Seams) -> int:
    config.home.prepare()
    human = terminal() or (sys.stderr if order.service else None)  # the journal, or the file of our own supervisor
    with hold_home(config.home.root), logging_to(config.home.log, secrets=lambda: config.vault.values, human=human):
        starts = Starts(config.home.root / "run" / "starts.json")
        crashing = order.service and starts.begin()
        notes = [order.note] if order.note else []
        if crashing:
            notes.append(
                "ohmo ended several times within a minute, so it runs in safe mode: without plugins, hooks and cron. `ohmo logs` says why it ended;"
                " `ohmo service restart` tries again with everything."
            )
            log.error("safe_mode", why="three starts within a minute came to no good end")
        elif order.safe:
            notes.append("Safe mode, as asked (--safe): no plugins, no hooks, no cron.")
        code = _run(_live(replace(config, safe=order.safe or crashing), order, seams, _Word(starts, tuple(notes))))
        starts.ended()
        return code


@dataclass(frozen=True, slots=True)
class _Word:
    """What stands in the status from the start, and who remembers what was told."""

    starts: Starts
    notes: tuple[str, ...] = ()


@contextmanager
def one_shot(config: Config, environ: Mapping[str, str], *, still: bool = False) -> Generator[Path]:
    """The house in a thread of this process, for one command without a daemon: yields the socket's path. Takes the home's lock meanwhile.
    ``still``: it answers questions about itself, and nothing in it moves. Raises HomeTaken, ConfigError."""
    seal(environ)
    config.home.prepare()
    config = replace(
        config,
        channels=tuple(one for one in config.channels if one.name != "console"),  # the terminal is the command's
        control=config.control.model_copy(update={"listen": None}),  # nobody else is meant to find it
        safe=True,
    )
    ready: Future[Path] = Future()
    stop = threading.Event()

    def life() -> int:
        with logging_to(config.home.log, secrets=lambda: config.vault.values):
            return _run(_short(config, Seams(environ=environ), ready.set_result, stop, still))

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


async def _live(config: Config, order: Order, seams: Seams, word: _Word) -> int:
    """One life after the other: each ends with a signal, or with a configuration to go on with."""
    stopping, rereading = asyncio.Event(), Rereading(order.reread, config.file)
    last: Config | None = None
    elders: list[Elder] = []
    with signals(stopping.set, abort=lambda: os._exit(FAILED), reload=rereading.asked.set):
        async with heartbeat(seams.environ):
            while True:
                try:
                    found = await _life(config, order, seams, word, stopping, rereading, elders)
                except ConfigError as error:
                    if last is None:
                        raise
                    log.exception("configuration_does_not_start")
                    rereading.problem = f"The changed configuration does not start: {error}. The old one goes on."
                    config, last = last, None
                    continue
                if found is None:
                    return OK
                config, last = replace(found, safe=config.safe), config
                word = replace(word, notes=tuple(note for note in word.notes if note != order.note))
                if last is not None and found is not last:
                    log.info("configuration_changed", file=str(config.file))


async def _life(
    config: Config, order: Order, seams: Seams, word: _Word, stopping: asyncio.Event, rereading: Rereading, elders: list[Elder]
) -> Config | None:
    """From ready to a stop; the new configuration, when that is why it stops. Then ``elders`` has this one, for turns that go on in the next life."""
    standing = lambda: (*word.notes, *([rereading.problem] if rereading.problem else []))  # noqa: E731
    async with living(config, seams, notes=standing, elders=tuple(elders)) as (house, doors):
        _announce(house, doors, order)
        for note in standing():
            if word.starts.first_time(note):
                await house.notices.tell(note, note)

        async def tell(line: str) -> None:
            await house.notices.tell(line, line)

        async with _tasks() as start:
            start("configuration.remember", lambda: _remember(config, order))
            found = await _until_stopped(house, stopping, rereading.changed(config, tell), config)
            notify(seams.environ, "STOPPING=1" if found is None else f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}")
            log.info(
                "stopping",
                running=house.pool.running,
                because="we were asked to" if found is None else "of a new configuration" if found is not config else "of /restart",
            )
            if found is not None:
                with suppress(ConfigError):  # said when it does not start
                    house.tighten(found)
    if found is not None:
        elders.append(Elder(seams.new_id(), house.book()))
        del elders[:-ELDERS]
    return found


async def _remember(config: Config, order: Order) -> None:
    """A configuration that carried the house for a while is one to come back to."""
    await asyncio.sleep(SETTLED)
    await asyncio.to_thread(order.good, config)


async def _short(config: Config, seams: Seams, ready: Callable[[Path], None], stop: threading.Event, still: bool) -> int:
    async with living(config, seams, still=still) as (_, doors):
        ready(doors.socket)
        await asyncio.to_thread(stop.wait)
    return OK


def _announce(house: House, doors: Doors, order: Order) -> None:
    model, link = house.agent.model, doors.login_link()
    if model.model == "offline":
        print(f"No model yet ({model.explanation}); docs/models.md says how. Tools can be tried by hand.")
    if order.service:  # what is printed is kept in a log, and a link that logs in does not belong there
        print(f"ohmo is ready at {doors.url or doors.socket}; `ohmo login` prints a link for the browser", flush=True)
    else:
        print(f"ohmo is ready. Open this link once: {link}" if link is not None else f"ohmo is ready at {doors.socket}", flush=True)
    notify(order.environ, "READY=1\nSTATUS=serving")


async def _until_stopped(house: House, stopping: asyncio.Event, changed: Coroutine[Any, Any, Config], present: Config) -> Config | None:
    """A signal, a new configuration, the wish for a new life with the ``present`` one, or a store that only a restart can mend."""
    fatal: asyncio.Future[str] | None = getattr(house.store, "fatal", None)
    stop, new, again = (asyncio.ensure_future(one) for one in (stopping.wait(), changed, house.again.wait()))
    waits: list[asyncio.Future[Any]] = [stop, new, again, *([fatal] if fatal is not None else [])]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (stop, new, again):
            task.cancel()
        await asyncio.wait([stop, new, again])
    if fatal is not None and fatal.done() and not fatal.cancelled():
        raise Fatal(fatal.result())
    if stopping.is_set():
        return None
    return present if new.cancelled() else new.result()


@asynccontextmanager
async def living(
    config: Config, seams: Seams, *, notes: Callable[[], Sequence[str]] = tuple, still: bool = False, elders: Sequence[Elder] = ()
) -> AsyncGenerator[tuple[House, Doors]]:
    """The house, started in order; on the way out stopped in reverse. The caller owns the home. ``notes`` stand among the status's warnings.
    ``still``: only its doors open; no channel connects, no turn runs, no job is due."""
    _prepare_workspace(config.workspace)
    finish_restore(config.home.root)  # one that was killed in the middle
    wired = wire(config, seams.clock)
    async with AsyncExitStack() as stack:
        store, warnings = await stack.enter_async_context(
            open_store(
                config.store_url,
                config.home.database,
                seams.clock,
                seams.new_id,
                seams.failpoint,
                config.backups.folder or config.home.backups,
            )
        )
        await store.reclaim(seams.owner)
        model = await build_model(config, seams)
        stack.push_async_callback(model.aclose)
        watcher = spans(seams.environ)
        sent = watcher.sent if watcher is not None else None
        house = await build_house(config, seams, store, wired, model, warnings=warnings, sent=sent, elders=elders)
        broken = house.truth.warnings
        house.truth.warnings = lambda: (*notes(), *broken())
        doors = await stack.enter_async_context(house.control.serving())
        group = await stack.enter_async_context(_tasks())
        for name, work in () if still else _lives(house, config):
            group(name, work)
        if watcher is not None:
            stack.push_async_callback(asyncio.to_thread, watcher.close)
            group("traces", lambda: watcher.run(house.bus.outbound.listen))
        house.truth.ready = True
        if not still:
            group("model.warm", lambda: _warm(house))
        if warnings:
            await house.notices.tell("store", " ".join(warnings))
        log.info("ready", provider=model.explanation, model=model.model, url=doors.url)
        try:
            yield house, doors
        finally:
            house.truth.ready = False
            await house.pool.drain(0.0 if store.fatal.done() else DRAIN)  # what runs on a dead store can end nothing any more
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
        ("clock", house.clockwatch.run),
        ("store", house.storewatch.run),
        ("expiry", lambda: expiry(house.store, house.expire, house.seams.clock)),
        ("upkeep", lambda: let_go(config, house.store, house.seams.clock)),
        ("backups", lambda: keep_backups(config, house.notices, house.seams.clock)),
        *([] if config.safe else [("cron", house.clockwork.scheduler.run)]),
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
        await asyncio.to_thread(text.warm)
        await asyncio.sleep(1.0)  # the first answer does not wait for the collector
    finally:
        gc.enable()
        gc.collect()
        gc.freeze()
