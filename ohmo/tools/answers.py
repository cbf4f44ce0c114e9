"""Short ways to say how a call ended."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TypeVar

from ohmo.contracts.messages import Image, ToolResult
from ohmo.contracts.tool import CallContext, ToolOutput

Answer = TypeVar("Answer")


class Trouble(Exception):
    """What the model should read instead of a result."""


def said(
    context: CallContext, text: str, *, images: tuple[Image, ...] = (), spill: Path | None = None
) -> ToolOutput:
    return ToolOutput(ToolResult(context.call, text, images=images, spill=spill))


def failed(context: CallContext, text: str, *, spill: Path | None = None) -> ToolOutput:
    return ToolOutput(ToolResult(context.call, text, error=True, spill=spill))


async def in_thread(work: Callable[[], Answer]) -> Answer:
    """Runs ``work`` beside the loop; a cancellation waits for its end, so that nothing is left
    running."""
    running = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(running)
    except asyncio.CancelledError:
        await asyncio.wait({running})
        raise


def description(name: str, **values: object) -> str:
    """The text file ``texts/NAME.txt`` with its ``$limits`` filled in."""
    text = files("ohmo.tools").joinpath("texts", f"{name}.txt").read_text(encoding="utf-8")
    return Template(text.strip()).substitute({key: str(value) for key, value in values.items()})


def located(path: str, cwd: Path) -> Path:
    """The file a model means: absolute, below ``~``, or relative to the working directory. Not
    resolved."""
    try:
        return cwd / Path(path).expanduser()
    except RuntimeError:  # nobody's home: a file of that very name
        return cwd / path


def os_words(error: OSError, path: Path) -> str:
    """One line for a person: what, where."""
    return f"{path}: {(error.strerror or str(error)).lower()}"


async def in_one_step(
    context: CallContext, path: Path, work: Callable[[], str], otherwise: str
) -> ToolOutput:
    """What ``work`` says, done in a thread; or why it was not done, and ``otherwise`` ("nothing was
    changed")."""
    try:
        return said(context, await in_thread(work))
    except Trouble as trouble:
        return failed(context, f"{trouble}; {otherwise}")
    except OSError as error:
        return failed(context, f"{os_words(error, path)}; {otherwise}")
