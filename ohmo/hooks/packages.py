"""Hooks of Python code that installed packages bring (entry points ``ohmo.hooks``): found, and run
in threads of their own, because nobody can end a thread."""

from __future__ import annotations

import asyncio
import inspect
import json
import threading
from collections.abc import Iterable
from contextlib import suppress
from functools import partial
from importlib.metadata import EntryPoint
from typing import cast

from channels.record import record
from ohmo.contracts.hooks import EVENTS, GROUP, PythonHook
from ohmo.discovery import from_packages
from ohmo.hooks.answer import Raw
from ohmo.hooks.hook import MOST, Hook, Python
from ohmo.hooks.matching import wrong_condition, wrong_names
from ohmo.lifecycle import outcome

HANGING = 4  # threads of one hook that passed their deadline; with so many it is asked no more
_LARGEST = 128 * 1024  # characters of an answer


@record
class Packaged:
    """``broken``: one line for each that was skipped."""

    hooks: tuple[Hook, ...] = ()
    broken: tuple[str, ...] = ()


def packaged(points: Iterable[EntryPoint] | None = None) -> Packaged:
    """``points``: None for those that are installed."""
    found = from_packages(GROUP, "HOOK", PythonHook, points=points)
    hooks: list[Hook] = []
    broken = list(found.broken)
    for name, each in found.found.items():
        hook = outcome(partial(_hook, name, cast("PythonHook", each)))
        if isinstance(hook, Hook):
            hooks.append(hook)
            continue
        line = " ".join(f"{type(hook).__name__}: {hook}".split())
        broken.append(f"{GROUP}: the hook {name} of another package is skipped: {line}")
    return Packaged(tuple(hooks), tuple(broken))


def _hook(name: str, made: PythonHook) -> Hook:
    """Raises whatever is wrong with it."""
    events, run = made.on, made.run
    if type(events) is not tuple or not events or not set(events) <= set(EVENTS):
        raise ValueError(f"on: expected a tuple of events, of {', '.join(EVENTS)}")
    if not callable(run) or inspect.iscoroutinefunction(run):
        raise TypeError("run: expected a function that is no coroutine; it has its own thread")
    if not 0 < made.timeout <= MOST:
        raise ValueError(f"timeout: expected seconds, above 0 and at most {MOST:.0f}")
    if wrong := wrong_names(made.match) or wrong_condition(made.condition):
        raise ValueError(wrong)
    where = f"{run.__module__}:{run.__qualname__}"
    return Hook(
        name=name,
        file=where.partition(":")[0],
        dialect="own",
        events=events,
        action=Python(run, where),
        tools=made.match,
        condition=made.condition,
        timeout=float(made.timeout),
    )


class Threads:
    """One for each call, so that one that hangs holds up nothing else, the end of the daemon
    included."""

    def __init__(self) -> None:
        self._hanging: dict[str, int] = {}

    async def run(self, hook: Hook, action: Python, event: str) -> Raw:
        """``event``: as JSON, of which the hook gets a copy. Raises TimeoutError."""
        name = hook.name
        if self._hanging.get(name, 0) >= HANGING:
            return Raw(problem=f"{HANGING} earlier calls of it hang; restart ohmo without it")
        loop = asyncio.get_running_loop()
        ended: asyncio.Future[Raw] = loop.create_future()
        late = False

        def overdue() -> None:  # whoever waited: /stop makes no call a hanging one
            nonlocal late
            late = True
            self._hanging[name] = self._hanging.get(name, 0) + 1

        timer = loop.call_later(hook.timeout, overdue)

        def tell(raw: Raw) -> None:
            timer.cancel()
            if late:
                self._hanging[name] -= 1
            if not ended.done():
                ended.set_result(raw)

        def work() -> None:
            raw = _said(action, event)
            with suppress(RuntimeError):  # the daemon has ended meanwhile
                loop.call_soon_threadsafe(tell, raw)

        threading.Thread(target=work, name=f"hook {name}", daemon=True).start()
        async with asyncio.timeout(hook.timeout):
            return await ended


def _said(action: Python, event: str) -> Raw:
    def said() -> str:
        answer = action.run(json.loads(event))
        return "" if answer is None else json.dumps(dict(answer))

    try:
        text = outcome(said)
    except SystemExit as error:
        text = error
    if not isinstance(text, str):
        return Raw(problem=f"it failed ({type(text).__name__}: {text})"[:500])
    if len(text) > _LARGEST:
        return Raw(problem=f"it answered more than {_LARGEST // 1024} KiB")
    return Raw(text)
