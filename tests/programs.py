"""Programs that a test runs to their end, and ``ohmo`` as a person types it."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from tests import warm

ROOT = Path(__file__).parents[1]
OHMO = (sys.executable, "-m", "ohmo")
BOUND = 110.0  # seconds until a program is killed


def run_process(
    *words: str | Path, code: int | None = None, timeout: float = BOUND, **options: Any
) -> subprocess.CompletedProcess[str]:
    """What it printed, as text. ``code``: how it has to end; ``options``: as subprocess.run
    takes them. A command of ``ohmo`` is a fork where that is the same (``tests/warm.py``)."""
    if (
        words[:3] == OHMO
        and set(options) <= {"cwd", "env", "input"}
        and warm.follows(options.get("env") or os.environ)
    ):
        done = warm.ohmo(
            *map(str, words[3:]),
            folder=Path(options.get("cwd") or Path.cwd()),
            environ=options.get("env") or os.environ,
            stdin=options.get("input") or "",
            within=timeout,
        )
    else:
        done = subprocess.run(
            words, capture_output=True, text=True, check=False, timeout=timeout, **options
        )
    assert code in (None, done.returncode), (words, done.returncode, done.stdout, done.stderr)
    return done


def python(code: str, *words: str | Path, **options: Any) -> str:
    """What a program in Python prints, which has to end well."""
    return run_process(sys.executable, "-c", code, *words, code=0, **options).stdout


def environ(home: Path, **more: str) -> dict[str, str]:
    """A person's shell beside ``home``, without anything from the run of the tests."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home.parent),
        "OHMO_HOME": str(home),
        "LANG": "C.UTF-8",
        **more,
    }


def ohmo(
    home: Path, *words: str | Path, code: int | None = None, stdin: str | None = None, **more: str
) -> subprocess.CompletedProcess[str]:
    """A command as typed beside ``home``. ``more``: of its environment."""
    return run_process(*OHMO, *words, code=code, input=stdin, env=environ(home, **more))


@asynccontextmanager
async def server(*words: str | Path) -> AsyncGenerator[bytes]:
    """A module that serves until the block ends; the first line that it prints."""
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-m", *words, stdout=asyncio.subprocess.PIPE, cwd=ROOT
    )
    try:
        assert process.stdout is not None
        yield await asyncio.wait_for(process.stdout.readline(), 60)
    finally:
        process.terminate()
        await process.wait()
