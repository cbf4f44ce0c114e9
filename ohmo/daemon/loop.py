"""The event loop, and which of several failures is told."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Callable, Coroutine
from typing import Any, cast

from ohmo.contracts.errors import OhmoError
from ohmo.discovery import load


def run(life: Coroutine[Any, Any, int]) -> int:
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
