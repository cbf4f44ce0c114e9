"""Work that a file or a page could make endless runs in a process of its own: Python ends no
thread, and one expression can hold them all."""

from __future__ import annotations

import asyncio
import os
import resource
import sys
from contextlib import suppress

from ohmo.processes.job import child_environment
from ohmo.processes.process_tree import die_with_parent

_MEMORY = 1 << 30  # bytes of address space


async def run_isolated(module: str, order: bytes, seconds: float) -> bytes:
    """What ``module`` prints when it reads ``order``. Raises TimeoutError; OSError when it
    failed."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        module,
        cwd="/",
        env=child_environment(os.environ),
        stdin=asyncio.subprocess.PIPE,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.DEVNULL,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(seconds):
            answer, _ = await process.communicate(order)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    if process.returncode != 0:
        raise OSError(f"{module.rpartition('.')[2]} ended with {process.returncode}")
    return answer


def bounded(seconds: int) -> None:
    """For the process itself: it goes with its parent, and takes neither all memory nor all
    time."""
    die_with_parent()
    for kind, most in ((resource.RLIMIT_CPU, seconds), (resource.RLIMIT_AS, _MEMORY)):
        hard = resource.getrlimit(kind)[1]
        least = most if hard == resource.RLIM_INFINITY else min(most, hard)
        with suppress(
            ValueError, OSError
        ):  # macOS bounds no address space; there the time has to do
            resource.setrlimit(kind, (least, least))
