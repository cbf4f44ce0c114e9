"""What every backend has the keeper hold a command to, and where its temporary files go."""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import tempfile
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from functools import partial
from glob import glob
from pathlib import Path

from ohmo.contracts.messages import Json
from ohmo.contracts.sandbox import Cage

LARGEST = 8 << 30  # bytes of one file


def limits(cage: Cage) -> dict[str, Json]:
    """The rules of ``Launch`` for memory, processes and files. The kernel counts RLIMIT_NPROC for
    the user with all threads (setrlimit(2)), so what the machine runs already comes on top;
    RLIMIT_DATA and not RLIMIT_AS, because node and Java reserve more addresses than they use."""
    running = _running()
    return {
        "rlimits": {"DATA": cage.memory, "CORE": 0, "FSIZE": LARGEST, "NPROC": running + cage.pids},
        "cpus": max(1, math.ceil(cage.cpus)),
        "pids": cage.pids + 4,  # with the backend's own
        "memory": cage.memory,
    }


def _running() -> int:
    """Threads of the machine, or of what is seen of it: a unit with ProcSubset=pid has no file that
    tells them."""
    try:
        told = Path("/proc/loadavg").read_text(encoding="ascii")
        return int(told.split()[3].partition("/")[2])
    except OSError:
        return len(glob("/proc/[0-9]*/task/*"))  # noqa: PTH207 - absolute


@asynccontextmanager
async def own_folder(scratch: Path) -> AsyncGenerator[Path]:
    """A new one there, without links, for one command. Raises OSError."""
    scratch.mkdir(mode=0o700, parents=True, exist_ok=True)  # noqa: ASYNC240 - a thread takes longer
    own = Path(os.path.realpath(tempfile.mkdtemp(dir=scratch)))  # noqa: ASYNC240
    try:
        yield own
    finally:
        try:
            own.rmdir()  # noqa: ASYNC240 - most commands leave nothing there
        except OSError:
            await asyncio.to_thread(partial(shutil.rmtree, own, ignore_errors=True))


def temporary(folder: str) -> dict[str, str]:
    """For the environment: the home cannot be written to, so what programs only keep to be quicker
    the next time goes where temporary files go."""
    return {
        "TMPDIR": folder,
        "XDG_CACHE_HOME": f"{folder}/.cache",
        "npm_config_cache": f"{folder}/.npm",
    }
