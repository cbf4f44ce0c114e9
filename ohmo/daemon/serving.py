"""The long life: owns the home and lives one life of the house after the other, until a signal."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import structlog

from channels.errors import Unavailable
from channels.record import record
from ohmo.assembly.house import House
from ohmo.assembly.seams import Seams
from ohmo.config.envfile import env_file
from ohmo.config.load import Config
from ohmo.contracts.errors import ConfigError, HomeTaken, OhmoError
from ohmo.control.server import Doors
from ohmo.daemon.life import SETTLED, living, tasks
from ohmo.daemon.loop import run
from ohmo.discovery import load
from ohmo.failpoints import from_environment
from ohmo.lifecycle import notify, outcome, signals
from ohmo.logs.writing import GRAVE, is_read_live, logging_to
from ohmo.processes.family import adopt_orphans
from ohmo.processes.sealed import seal
from ohmo.service.health_gate import Connection, Trial
from ohmo.service.heartbeat import heartbeat
from ohmo.service.rereading import Rereading
from ohmo.service.starts import Starts
from ohmo.service.versions import installed
from ohmo.storefile.lock import hold_home

log = structlog.get_logger("ohmo.daemon")
OK, FAILED, CRASHED, TAKEN, CONFIG = 0, 1, 70, 75, 78


class Fatal(OhmoError):
    """Only a restart can help."""


@record
class Order:
    """How the daemon was asked to run. ``environ``: with what ``.env`` adds. ``note``: what the
    owner has to hear of the configuration. ``reread`` loads it afresh (ConfigError), ``good`` is
    called with it once it proved itself. ``since``: when it began to be read, in nanoseconds of the
    epoch."""

    reread: Callable[[], Config]
    since: int
    environ: Mapping[str, str]
    safe: bool = False
    note: str = ""
    good: Callable[[Config], object] = lambda _: None

    @property
    def service(self) -> bool:
        """Somebody starts us again when we end."""
        return bool(self.environ.get("OHMO_SERVICE"))


def serve(config: Config, order: Order) -> int:
    """``ohmo run``: until a signal. Returns the exit code; says what is wrong in one line on
    stderr."""
    faulthandler.enable()
    seal(order.environ)
    adopt_orphans()
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
            return _say(
                f"crashed: {type(ended).__name__}: {ended}; this is a mistake in ohmo, the lines"
                " above say where",
                CRASHED,
            )


def _served(config: Config, order: Order, seams: Seams) -> int:
    config.home.prepare()
    # The journal and the file of our own supervisor get every line; whoever else has our stderr
    # wants to know of trouble.
    whole = is_read_live() or order.service
    grave, secrets = None if whole else GRAVE, lambda: config.vault.values
    with (
        hold_home(config.home.root),
        logging_to(config.home.log, secrets=secrets, human=sys.stderr, grave=grave),
    ):
        starts = Starts(config.home.root / "run" / "starts.json")
        crashing = order.service and starts.begin()
        notes = [order.note] if order.note else []
        if crashing:
            notes.append(
                "ohmo ended several times within a minute, so it runs in safe mode: without"
                " plugins, hooks and cron. `ohmo logs` says why it ended; `ohmo service restart`"
                " tries again with everything."
            )
            log.error("safe_mode", why="three starts within a minute came to no good end")
        elif order.safe:
            notes.append("Safe mode, as asked (--safe): no plugins, no hooks, no cron.")
        code = run(
            _live(
                replace(config, safe=order.safe or crashing),
                order,
                seams,
                _Word(starts, tuple(notes)),
            )
        )
        starts.ended()
        return code


@record
class _Word:
    """What stands in the status from the start, and who remembers what was told."""

    starts: Starts
    notes: tuple[str, ...] = ()


def _say(line: str, code: int) -> int:
    print(f"ohmo: {line}", file=sys.stderr)
    return code


async def _live(config: Config, order: Order, seams: Seams, word: _Word) -> int:
    """One life after the other: each ends with a signal, or with a configuration to go on with."""
    stopping = asyncio.Event()
    rereading = Rereading(
        order.reread, config.file or config.home.config, env_file(config.home), since=order.since
    )
    last: Config | None = None
    with signals(stopping.set, abort=lambda: os._exit(FAILED), reload=rereading.asked.set):
        async with heartbeat(seams.environ):
            while True:
                try:
                    found = await _life(config, order, seams, word, stopping, rereading)
                except ConfigError as error:
                    if last is None:
                        raise
                    log.exception("configuration_does_not_start")
                    rereading.problem = (
                        f"The changed configuration does not start: {error}. The old one goes on."
                    )
                    config, last = last, None
                    continue
                if found is None:
                    return OK
                config, last = replace(found, safe=config.safe), config
                word = replace(word, notes=tuple(note for note in word.notes if note != order.note))
                if found is not last:
                    log.info("configuration_changed", file=str(config.file))


async def _life(
    config: Config,
    order: Order,
    seams: Seams,
    word: _Word,
    stopping: asyncio.Event,
    rereading: Rereading,
) -> Config | None:
    """From ready to a stop; the new configuration, when that is why it stops."""
    standing = lambda: (*word.notes, *([rereading.problem] if rereading.problem else []))  # noqa: E731
    async with living(config, seams, notes=standing) as (house, doors):
        _announce(house, doors, order)
        for note in standing():
            if word.starts.first_time(note):
                await house.notices.tell(note, note)

        async def tell(line: str) -> None:
            await house.notices.tell(line, line)

        async with tasks() as start:
            start("service.ready", lambda: _ready(doors, order.environ))
            start("configuration.remember", lambda: _remember(config, order))
            found = await _until_stopped(
                house,
                stopping,
                rereading.changed(config, tell),
                _trial(house, tell, order.environ).failed(),
            )
            notify(
                seams.environ,
                (
                    "STOPPING=1"
                    if found is None
                    else f"RELOADING=1\nMONOTONIC_USEC={time.monotonic_ns() // 1000}"
                ),
            )
            log.info(
                "stopping",
                running=house.pool.running,
                because=(
                    "we were asked to"
                    if found is None
                    else "of a new configuration"
                    if found is not config
                    else "of /restart"
                ),
            )
            if found is not None:
                with suppress(ConfigError):  # said when it does not start
                    house.adopt(found)
    return found


async def _remember(config: Config, order: Order) -> None:
    """A configuration that carried the house for a while is one to come back to."""
    await asyncio.sleep(SETTLED)
    await asyncio.to_thread(order.good, config)


def _announce(house: House, doors: Doors, order: Order) -> None:
    model, link = house.agent.model, doors.login_link()
    if model.model == "offline":
        print(
            f"No model yet ({model.explanation}); docs/models.md says how. Tools can be tried by"
            " hand."
        )
    if (
        order.service
    ):  # what is printed is kept in a log, and a link that logs in does not belong there
        print(
            f"ohmo is ready at {doors.url or doors.socket}; `ohmo login` prints a link for the"
            " browser",
            flush=True,
        )
    else:
        print(
            (
                f"ohmo is ready. Open this link once: {link}"
                if link is not None
                else f"ohmo is ready at {doors.socket}"
            ),
            flush=True,
        )


async def _ready(doors: Doors, environ: Mapping[str, str]) -> None:
    """Messages are heard already; whoever started us and waits for this asks the API next."""
    await doors.answering.wait()
    notify(environ, "READY=1\nSTATUS=serving")


def _trial(
    house: House, tell: Callable[[str], Awaitable[object]], environ: Mapping[str, str]
) -> Trial:
    """In case an upgrade started us and was killed since."""
    versions = installed()

    def returns() -> bool:
        # systemd.exec(5) of both names: a unit of the system's manager, not of a person's; root
        # resumes there before each start
        of_system = "INVOCATION_ID" in environ and "MANAGERPID" not in environ
        # by name: an upgrade that was killed is rare
        only_roots = cast("Callable[[Path], bool]", load("ohmo.service.systemd:only_roots"))
        return os.access(versions.folder, os.W_OK) or (of_system and only_roots(versions.python))

    def channels() -> Mapping[str, Connection]:
        report = house.board.report()
        return {name: Connection(one.state, one.detail) for name, one in report.items()}

    return Trial(versions, house.config.home.root, channels, tell, returns)


async def _until_stopped(
    house: House,
    stopping: asyncio.Event,
    changed: Coroutine[Any, Any, Config],
    failed: Coroutine[Any, Any, str],
) -> Config | None:
    """A signal, a new configuration, the wish for a new life with the present one, a store that
    only a restart can mend, or an upgrade that ``failed``."""
    fatal = house.store.fatal
    stop, new, again = (
        asyncio.ensure_future(stopping.wait()),
        asyncio.ensure_future(changed),
        asyncio.ensure_future(house.again.wait()),
    )
    tried = asyncio.ensure_future(failed)
    waits: list[asyncio.Future[Any]] = [stop, new, again, fatal, tried]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for task in (stop, new, again, tried):
            task.cancel()
        await asyncio.wait([stop, new, again, tried])
    if fatal.done() and not fatal.cancelled():
        raise Fatal(fatal.result())
    if not tried.cancelled():
        raise Fatal(
            f"an upgrade was interrupted, and the new version has to give way: {tried.result()}"
        )
    if stopping.is_set():
        return None
    return house.config if new.cancelled() else new.result()
