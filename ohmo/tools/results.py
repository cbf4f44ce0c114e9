"""How a call ends: short ways to say it, and what of a long output the model sees (clean text, head
and tail cut at line ends)."""

from __future__ import annotations

import asyncio
import re
import tempfile
from collections.abc import AsyncGenerator, Callable
from contextlib import asynccontextmanager
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import TypeVar

from ohmo.contracts.messages import Image, ToolResult
from ohmo.contracts.tool import CallContext, ToolOutput
from ohmo.processes.job import Stream

Answer = TypeVar("Answer")


class ToolError(Exception):
    """What the model should read instead of a result."""


def text_result(
    context: CallContext, text: str, *, images: tuple[Image, ...] = (), spill: Path | None = None
) -> ToolOutput:
    return ToolOutput(ToolResult(context.call, text, images=images, spill=spill))


def error_result(context: CallContext, text: str, *, spill: Path | None = None) -> ToolOutput:
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


@asynccontextmanager
async def temporary_folder(prefix: str, within: Path | None = None) -> AsyncGenerator[Path]:
    """For as long as a call needs it. ``within``: None: where the system keeps such. Raises
    OSError."""
    made = await in_thread(lambda: tempfile.TemporaryDirectory(prefix=prefix, dir=within))
    try:
        yield Path(made.name)
    finally:
        await in_thread(made.cleanup)


def description(name: str, **values: object) -> str:
    """The text file ``texts/NAME.txt`` with its ``$limits`` filled in."""
    text = files("ohmo.tools").joinpath("texts", f"{name}.txt").read_text(encoding="utf-8")
    return Template(text.strip()).substitute({key: str(value) for key, value in values.items()})


def absolute_path(path: str, cwd: Path) -> Path:
    """The file a model means: absolute, below ``~``, or relative to the working directory. Not
    resolved."""
    try:
        return cwd / Path(path).expanduser()
    except RuntimeError:  # nobody's home: a file of that very name
        return cwd / path


def os_message(error: OSError, path: Path) -> str:
    """One line for a person: what, where."""
    return f"{path}: {(error.strerror or str(error)).lower()}"


async def change_in_thread(
    context: CallContext, path: Path, work: Callable[[], str], otherwise: str
) -> ToolOutput:
    """What ``work`` says, done in a thread; or why it was not done, and ``otherwise`` ("nothing was
    changed")."""
    try:
        return text_result(context, await in_thread(work))
    except ToolError as error:
        return error_result(context, f"{error}; {otherwise}")
    except OSError as error:
        return error_result(context, f"{os_message(error, path)}; {otherwise}")


# ECMA-48: CSI sequences, OSC and other strings ended by BEL or ST, two-character escapes; then the
# other control characters.
_ESCAPES = re.compile(
    r"\x1b\[[0-?]*[ -/]*[@-~]|\x1b[\]PX^_][^\x07\x1b]*(?:\x07|\x1b\\)?|\x1b[ -/]*[0-~]|\x9b[0-?]*["
    r" -/]*[@-~]"
)
_CONTROLS = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f\x1b]")


def clean(data: bytes) -> str:
    """UTF-8 with replacement, no escape sequences, no control characters but tab and newline; a
    line redrawn by CR shows its last state."""
    text = _CONTROLS.sub("", _ESCAPES.sub("", data.decode("utf-8", "replace"))).replace(
        "\r\n", "\n"
    )
    if "\r" not in text:
        return text
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


def head_cut(text: str, room: int) -> str:
    """At most ``room`` bytes, whole lines when a line end is in the second half."""
    data = text.encode()
    if len(data) <= room:
        return text
    cut = data[:room].decode("utf-8", "ignore")
    end = cut.rfind("\n")
    return cut[: end + 1] if end >= len(cut) // 2 else cut


def tail_cut(text: str, room: int) -> str:
    data = text.encode()
    if len(data) <= room:
        return text
    cut = data[-room:].decode("utf-8", "ignore") if room else ""
    start = cut.find("\n")
    return cut[start + 1 :] if 0 <= start < len(cut) // 2 else cut


def clipped(stream: Stream, room: int, where: str) -> str:
    """The stream within ``room`` bytes; ``where`` says in the middle where the whole is."""
    text = (
        clean(stream.head + stream.tail)
        if stream.total <= len(stream.head) + len(stream.tail)
        else ""
    )
    if text and len(text.encode()) <= room:
        return text
    if text:
        head = tail = text
    else:
        head, tail = clean(stream.head), clean(stream.tail)
    head, tail = head_cut(head, room // 2), tail_cut(tail, room // 2)
    left_out = max(0, stream.total - len(head.encode()) - len(tail.encode()))
    if not left_out:
        return head
    return (
        f"{head.rstrip(chr(10))}\n[... {left_out} of {stream.total} bytes left out{where}"
        f" ...]\n{tail}"
    )


def split_room(out: Stream, err: Stream, room: int) -> tuple[int, int]:
    """Splits the room between the two outputs: a short one is whole, two long ones get half
    each."""
    half = room // 2
    if err.total <= half:
        return room - err.total, err.total
    if out.total <= half:
        return out.total, room - out.total
    return half, half
