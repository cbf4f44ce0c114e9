"""A daemon that counts what it does: ``python -m benchmarks.instrumented -m ohmo run``. On
SIGRTMIN+3 it writes what it counted since the last time to ``counts.json`` in its home.

Counted from outside of ohmo: tasks by the loop's task factory, statements and transactions by
sqlite3's trace callback, requests where aiohttp sends them. Counting costs
time, so it is on only with ``OHMO_COUNT=1``; without it only the threads' names are told.
"""

from __future__ import annotations

import asyncio
import json
import os
import runpy
import signal
import sqlite3
import sys
import threading
from collections import Counter
from pathlib import Path
from typing import Any

TELL = signal.SIGRTMIN + 3

counts: Counter[str] = Counter()


def count_tasks() -> None:
    """Whatever the loop is: uvloop and asyncio both run in a Runner."""
    run = asyncio.Runner.run

    def counted(loop: asyncio.AbstractEventLoop, coro: Any, **named: Any) -> asyncio.Task[Any]:
        counts["tasks"] += 1
        return asyncio.Task(coro, loop=loop, **named)

    def ran(runner: asyncio.Runner, coro: Any, **named: Any) -> Any:
        runner.get_loop().set_task_factory(counted)
        return run(runner, coro, **named)

    asyncio.Runner.run = ran  # type: ignore[method-assign]


def count_statements() -> None:
    connect = sqlite3.connect

    def connected(*given: Any, **named: Any) -> sqlite3.Connection:
        connection = connect(*given, **named)
        connection.set_trace_callback(statement)
        return connection

    def statement(text: str) -> None:
        if text.startswith("BEGIN"):
            counts["transactions"] += 1
        counts["statements"] += 1

    sqlite3.connect = connected  # type: ignore[assignment]


def count_requests() -> None:
    import aiohttp

    ask = aiohttp.ClientSession._request  # noqa: SLF001 every verb comes through here, models too

    async def asked(self: aiohttp.ClientSession, *given: Any, **named: Any) -> Any:
        counts["requests"] += 1
        return await ask(self, *given, **named)

    aiohttp.ClientSession._request = asked  # type: ignore[method-assign]  # noqa: SLF001


def tell(*_: object) -> None:
    threads = {thread.native_id: thread.name for thread in threading.enumerate()}
    path = Path(os.environ["OHMO_HOME"]) / "counts.json"
    new = path.with_suffix(".new")
    new.write_text(json.dumps({"counts": counts, "threads": threads}))
    new.rename(path)
    counts.clear()


if __name__ == "__main__":
    signal.signal(TELL, tell)
    if os.environ.get("OHMO_COUNT"):
        count_tasks()
        count_statements()
        count_requests()
    sys.argv = sys.argv[2:]  # what stands behind -m: the module and its words
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
