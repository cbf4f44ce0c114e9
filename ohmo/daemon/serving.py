"""``ohmo run``: owns the home, runs until a signal, and begins again with a configuration that
changed. One that does not load is never taken over, and from one that does not start the old one
goes on: the owner hears why."""

from __future__ import annotations

import asyncio
import faulthandler
import os
import sys
import time
import traceback
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from contextlib import AsyncExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import structlog

from channels.errors import Unavailable, main_error
from channels.record import record
from ohmo.ambient import from_environment
from ohmo.assembly.deps import Environment
from ohmo.assembly.house import House
from ohmo.config.home import env_file
from ohmo.config.load import Config
from ohmo.contracts.errors import ConfigError, HomeTaken, OhmoError
from ohmo.control.server import Doors
from ohmo.daemon.startup import SETTLED, heartbeat, run, started, tasks
from ohmo.lifecycle import notify, outcome, outcome_of, signals, within
from ohmo.logs.writing import GRAVE, is_read_live, logging_to
from ohmo.processes.process_tree import adopt_orphans, seal
from ohmo.service.health_gate import Connection, CrashLoop, Trial
from ohmo.service.versions import installed, only_roots
from ohmo.storefile.lock import hold_home

log = structlog.get_logger("ohmo.daemon")
reload_log = structlog.get_logger("ohmo.config_reload")
OK, FAILED, CRASHED, TAKEN, CONFIG = 0, 1, 70, 75, 78
TICK = 20_000_000  # nanoseconds by which a file's time may lag behind the clock
LOOK = 2.0  # seconds between two looks; a file counts as written when two looks see the same
UNTRIED = 30.0  # seconds from its start within which an end is one of the new configuration
Stamp = tuple[int, int, int] | None


class Fatal(OhmoError):
    """Only a restart can help."""


@record
class Order:
    """How the daemon was asked to run."""

    reread: Callable[[], Config]  # loads the configuration afresh; raises ConfigError
    since: int  # nanoseconds of the epoch: when the present one began to be read
    environ: Mapping[str, str]  # with what ``.env`` adds
    safe: bool = False
    note: str = ""  # what the owner has to hear of the configuration
    good: Callable[[Config], object] = lambda _: None  # is told a configuration that worked

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
        environment = Environment(failpoint=from_environment(order.environ), environ=order.environ)
    except ValueError as error:
        return _say(str(error), FAILED)
    ended = outcome(lambda: _served(config, order, environment))
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


def _served(config: Config, order: Order, environment: Environment) -> int:
    config.home.prepare()
    # The journal and the file of our own supervisor get every line; whoever else has our stderr
    # wants to know of trouble.
    grave = None if is_read_live() or order.service else GRAVE
    log_file = logging_to(
        config.home.log, secrets=lambda: config.vault.values, human=sys.stderr, grave=grave
    )
    with hold_home(config.home.root), log_file:
        crash_loop = CrashLoop(config.home.root / "run" / "starts.json")
        crashing = order.service and crash_loop.begin()
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
        config = replace(config, safe=order.safe or crashing)
        code = run(_run_until_stopped(config, order, environment, _Notes(crash_loop, tuple(notes))))
        crash_loop.ended()
        return code


@record
class _Notes:
    """What stands in the status from the start. ``crash_loop`` remembers what the owner was
    told."""

    crash_loop: CrashLoop
    lines: tuple[str, ...]


def _say(line: str, code: int) -> int:
    print(f"ohmo: {line}", file=sys.stderr)
    return code


async def _run_until_stopped(
    config: Config, order: Order, environment: Environment, notes: _Notes
) -> int:
    """One run after the other: each ends with a signal, or with a configuration to go on with."""
    stopping = asyncio.Event()
    reload = ConfigReload(
        order.reread, config.file or config.home.config, env_file(config.home), since=order.since
    )
    last: Config | None = None
    with signals(stopping.set, abort=lambda: os._exit(FAILED), reload=reload.asked.set):
        async with AsyncExitStack() as stack:
            stack.push_async_callback(environment.background.close)
            await stack.enter_async_context(heartbeat(environment.environ))
            while True:
                began = time.monotonic()
                new = await outcome_of(
                    _run_once(config, order, environment, notes, stopping, reload)
                )
                if isinstance(new, Exception):
                    young = time.monotonic() - began < UNTRIED or isinstance(new, ConfigError)
                    if last is None or isinstance(new, Fatal) or not young:
                        raise new
                    reload.problem = _not_started(new)
                    config = last
                    last = None
                    continue
                if new is None:
                    return OK
                last = config
                config = replace(new, safe=config.safe)
                lines = tuple(line for line in notes.lines if line != order.note)
                notes = replace(notes, lines=lines)
                if new is not last:
                    log.info("configuration_changed", file=str(config.file))


def _not_started(error: Exception) -> str:
    """What the owner hears of a changed configuration that failed with this."""
    if isinstance(error, ExceptionGroup):
        error = main_error(cast("ExceptionGroup[Exception]", error), OhmoError)
    log.error("configuration_does_not_start", exc_info=error)
    why = (str(error) or type(error).__name__).splitlines()[0].rstrip(".")
    return f"The changed configuration does not start: {why}. The old one goes on."


async def _run_once(
    config: Config,
    order: Order,
    environment: Environment,
    notes: _Notes,
    stopping: asyncio.Event,
    reload: ConfigReload,
) -> Config | None:
    """From ready to a stop; the new configuration, when that is why it stops."""

    def lines() -> tuple[str, ...]:
        return (*notes.lines, reload.problem) if reload.problem else notes.lines

    async with started(config, environment, notes=lines) as (house, doors):
        if house.agent.model.model == "offline":
            print(
                f"No model yet ({house.agent.model.explanation}); docs/models.md says how. Tools"
                " can be tried by hand."
            )
        link = doors.login_link()
        if order.service:  # what is printed is kept in a log, where no link that logs in belongs
            where = f" at {doors.url or doors.socket}; `ohmo login` prints a link for the browser"
        else:
            where = f" at {doors.socket}" if link is None else f". Open this link once: {link}"
        print(f"ohmo is ready{where}", flush=True)
        for line in lines():
            if notes.crash_loop.first_time(line):
                await house.notices.tell(line, line)

        async def tell(line: str) -> None:
            await house.notices.tell(line, line)

        async with tasks() as start:
            start("service.ready", lambda: _ready(doors, order.environ))
            start("configuration.remember", lambda: _remember(config, order))
            changed = reload.changed(config, tell)
            failed = _trial(house, tell, order.environ).failed()
            new = await _until_stopped(house, stopping, changed, failed)
            if new is None:
                because = "we were asked to"
                notify(environment.environ, "STOPPING=1")
            else:
                because = "of a new configuration" if new is not config else "of /restart"
                now = time.monotonic_ns() // 1000
                notify(environment.environ, f"RELOADING=1\nMONOTONIC_USEC={now}")
            log.info("stopping", running=house.pool.running, because=because)
            if new is not None:
                outcome(lambda: house.adopt(new))  # a failure is said when it does not start
    return new


async def _remember(config: Config, order: Order) -> None:
    """A configuration that carried the house for a while is one to come back to."""
    await asyncio.sleep(SETTLED)
    await asyncio.to_thread(order.good, config)


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
        return os.access(versions.folder, os.W_OK) or (of_system and only_roots(versions.python))

    def channels() -> Mapping[str, Connection]:
        report = house.board.report()
        return {name: Connection(health.state, health.detail) for name, health in report.items()}

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
    stop = asyncio.ensure_future(stopping.wait())
    new = asyncio.ensure_future(changed)
    again = asyncio.ensure_future(house.again.wait())
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


class ConfigReload:
    """``reread`` loads the configuration afresh and raises ConfigError. ``file`` may not be there
    yet; ``secrets``: a file beside it, whose change is always taken over, since nobody compares
    secrets. ``since``: when the present one began to be read, in nanoseconds of the epoch; what was
    written later is new."""

    def __init__(
        self,
        reread: Callable[[], Config],
        file: Path,
        secrets: Path | None = None,
        *,
        since: int | None = None,
        look: float = LOOK,
    ) -> None:
        self._reread = reread
        self._look = look
        self._file = file
        self._secrets = secrets
        now = self._stamps()
        self._seen = now if since is None else (_before(now[0], since), _before(now[1], since))
        self.asked = asyncio.Event()  # somebody wants it now (SIGHUP)
        self.problem = ""  # why the file as it stands is not taken over

    async def changed(self, present: Config, tell: Callable[[str], Awaitable[object]]) -> Config:
        """Waits for a configuration that loads and differs from ``present`` (or was asked for).
        ``tell`` hears of one that does not load."""
        before = self._stamps()
        while True:
            try:
                await within(self._look, self.asked.wait())
            except TimeoutError:
                asked = False
            else:
                asked = True
                self.asked.clear()
            now = self._stamps()
            if not asked and (now == self._seen or now != before):
                before = now
                continue
            asked = asked or now[1] != self._seen[1]
            self._seen = before = now
            try:
                new = await asyncio.to_thread(self._reread)
            except ConfigError as error:
                await self.refuse(str(error), tell)
                continue
            self.problem = ""
            if asked or new.source.data != present.source.data:
                return new

    async def refuse(self, why: str, tell: Callable[[str], Awaitable[object]]) -> None:
        """Says once that the file as it stands is not taken over."""
        first = why.splitlines()[0] if why else "it does not load"
        line = f"The changed configuration is not taken over: {first}. The old one goes on."
        if line != self.problem:
            self.problem = line
            reload_log.error("configuration_refused", problems=why.splitlines()[:20])
            await tell(line)

    def _stamps(self) -> tuple[Stamp, Stamp]:
        return _stamp(self._file), None if self._secrets is None else _stamp(self._secrets)


def _before(stamp: Stamp, since: int) -> Stamp:
    return stamp if stamp is None or stamp[0] < since - TICK else None


def _stamp(file: Path) -> Stamp:
    try:
        status = os.stat(file)  # noqa: PTH116
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size, status.st_ino
