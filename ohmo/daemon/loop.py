"""The event loop, and which of several failures is told."""

from __future__ import annotations

import asyncio
import importlib.util
import os
from collections.abc import Callable, Coroutine
from typing import Any, cast

from channels.task_groups import main_error
from ohmo.contracts.errors import OhmoError
from ohmo.discovery import load


def run(life: Coroutine[Any, Any, int]) -> int:
    """On uvloop where it imports, on plain asyncio otherwise."""
    try:
        return _runner()(life)
    except BaseExceptionGroup as group:
        raise main_error(group, OhmoError) from group  # one of our own says most


def _runner() -> Callable[[Coroutine[Any, Any, int]], int]:
    if os.environ.get("OHMO_LOOP") == "asyncio" or importlib.util.find_spec("uvloop") is None:
        return asyncio.run
    return cast("Callable[[Coroutine[Any, Any, int]], int]", load("uvloop:run"))
