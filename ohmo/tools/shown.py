"""What of a program's output the model sees: clean text, head and tail cut at line ends."""

from __future__ import annotations

import re

from ohmo.processes.job import Stream

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


def shown(stream: Stream, room: int, where: str) -> str:
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


def share(out: Stream, err: Stream, room: int) -> tuple[int, int]:
    """Splits the room between the two outputs: a short one is whole, two long ones get half
    each."""
    half = room // 2
    if err.total <= half:
        return room - err.total, err.total
    if out.total <= half:
        return out.total, room - out.total
    return half, half
