"""The house in a thread of this process, for one command without a daemon."""

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
from ohmo.daemon.life import living
from ohmo.daemon.loop import run
from ohmo.logs.writing import logging_to
from ohmo.processes.family import adopt_orphans
from ohmo.processes.sealed import seal
from ohmo.storefile.lock import hold_home


@contextmanager
def one_shot(
    config: Config, environ: Mapping[str, str], *, still: bool = False, tell: Callable[[str], None]
) -> Generator[Path]:
    """The house in a thread of this process, for one command without a daemon: yields the socket's
    path. Takes the home's lock meanwhile. ``still``: it answers questions about itself, and nothing
    in it moves. ``tell`` hears the warnings of its status. Raises HomeTaken, ConfigError."""
    seal(environ)
    adopt_orphans()
    config.home.prepare()
    config = replace(
        config,
        channels=tuple(
            one for one in config.channels if one.name != "console"
        ),  # the terminal is the command's
        control=config.control.model_copy(
            update={"listen": None}
        ),  # nobody else is meant to find it
        safe=True,
    )
    ready: Future[tuple[Path, Sequence[str]]] = Future()
    stop = threading.Event()

    def life() -> int:
        with logging_to(config.home.log, secrets=lambda: config.vault.values):
            return run(_short(config, Seams(environ=environ), ready.set_result, stop, still))

    with (
        hold_home(config.home.root),
        ThreadPoolExecutor(1, thread_name_prefix="ohmo.one_shot") as pool,
    ):
        living_there = pool.submit(life)
        either: list[Future[Any]] = [ready, living_there]
        # also who is interrupted while the house starts has to stop it: the pool waits for its end
        try:
            wait(either, return_when=FIRST_COMPLETED)
            if not ready.done():
                living_there.result()
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
    async with living(config, seams, still=still) as (house, doors):
        ready((doors.socket, house.status.warnings()))
        await asyncio.to_thread(stop.wait)
    return 0
