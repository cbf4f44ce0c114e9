"""The daemon's parts in a thread of this process, for one command where no daemon runs."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator, Mapping, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from ohmo.assembly.seams import Seams
from ohmo.config.load import Config
from ohmo.daemon.event_loop import run
from ohmo.daemon.startup import started
from ohmo.logs.writing import logging_to
from ohmo.processes.process_tree import adopt_orphans, seal
from ohmo.storefile.lock import hold_home


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
        channels=tuple(one for one in config.channels if one.name != "console"),
        control=config.control.model_copy(update={"listen": None}),  # nobody else is to find it
        safe=True,
    )
    ready: Future[tuple[Path, Sequence[str]]] = Future()
    stop = threading.Event()

    def work() -> int:
        with logging_to(config.home.log, secrets=lambda: config.vault.values):
            return run(_short(config, Seams(environ=environ), ready.set_result, stop, still))

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
    seams: Seams,
    ready: Callable[[tuple[Path, Sequence[str]]], None],
    stop: threading.Event,
    still: bool,
) -> int:
    async with started(config, seams, still=still) as (house, doors):
        ready((doors.socket, house.status.warnings()))
        await asyncio.to_thread(stop.wait)
    return 0
