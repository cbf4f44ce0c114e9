"""What a folder or a file consists of, and one digest over all of it: what is trusted is trusted by
this, and used as it was read here."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator, Mapping, Sequence
from hashlib import sha256
from pathlib import Path

import ohmo
from channels.record import record
from ohmo.regular_file import NotRegular, open_regular

MOST_BYTES = 8 << 20  # of all files together
MOST_FILES = 2_000
MOST_LEVELS = 16
SHOWN = 8  # lines of what one may do that are told
MOST_TEXT = 256 << 10  # bytes of a file that is read as text
#: What a file of words begins with, in between.
FRONT_MATTER = re.compile(r"---[ \t]*\r?\n(.*?)^---[ \t]*(?:\r?\n|\Z)", re.DOTALL | re.MULTILINE)
#: How a folder says which ohmo it needs.
NEEDED = re.compile(r"ohmo\s*>=\s*(\d+(?:\.\d+)*)")


class Unfit(Exception):
    """Why something has no digest: one line, which names the file below the folder."""


class _TooMuch(Exception):
    """More bytes than there may be."""


@record
class Part:
    data: bytes
    runs: bool  # its owner may execute it


@record
class Content:
    """``digest``: SHA-256 in hex over every file's path, bytes and whether it runs. ``files``: by
    path below the folder with ``/``, in order; a single file is under its name."""

    digest: str
    files: Mapping[str, Part]


def content_of(path: Path, *, most_bytes: int = MOST_BYTES) -> Content:
    """Blocks: reads all of it, whatever its name. A link counts as the file it leads to, which must
    lie in the folder. Raises Unfit."""
    try:
        files = dict(sorted(_files(path, most_bytes)))
    except _TooMuch:
        size, unit = (most_bytes >> 20, "MiB") if most_bytes >> 20 else (most_bytes >> 10, "KiB")
        raise Unfit(f"it is larger than {size} {unit}") from None
    except (OSError, RuntimeError) as error:  # RuntimeError: links in a circle
        why = error.strerror if isinstance(error, OSError) else "its links lead in a circle"
        raise Unfit(why or "cannot be read") from None
    return Content(digest_of_files(files), files)


def digest_of_files(files: Mapping[str, Part]) -> str:
    """Over every path, bytes and whether it runs, in their order."""
    digest = sha256()
    for name, part in files.items():
        spelled = os.fsencode(name)
        digest.update(b"%d %d %d\n" % (len(spelled), part.runs, len(part.data)))
        digest.update(spelled)
        digest.update(part.data)
    return digest.hexdigest()


def digest_of(digests: Mapping[str, str]) -> str:
    """Of several contents together, by their names."""
    lines = (f"{digest} {name}\0" for name, digest in sorted(digests.items()))
    return sha256(b"".join(map(os.fsencode, lines))).hexdigest()


def stamps_of(path: Path) -> tuple[tuple[str, int, int, int], ...]:
    """Blocks: what changes whenever a file below is written, made or taken away (nobody without
    rights of the system sets the time of a change back). Cheap; no proof of anything. What cannot
    be read is left out."""
    found: list[tuple[str, int, int, int]] = []
    for folder, folders, names in os.walk(path):
        for name in ("", *names):
            try:
                status = os.stat(os.path.join(folder, name))  # noqa: PTH116, PTH118 - many of them
            except OSError:
                continue
            stamp = (status.st_ino, status.st_size, status.st_ctime_ns)
            found.append((f"{folder}/{name}", *stamp))
        if len(found) > 2 * MOST_FILES:  # nothing that is fit has as many
            break
        folders.sort()
    return tuple(found)


def _files(path: Path, room: int) -> Iterator[tuple[str, Part]]:
    root = path.resolve(strict=True)
    if not root.is_dir():
        yield path.name, _read(root, path.name, room)[0]
        return
    for count, (file, is_folder) in enumerate(_walk(root, 0)):
        if count >= MOST_FILES:
            raise Unfit(f"it has more than {MOST_FILES} files and folders")
        if is_folder:
            continue
        name = str(file.relative_to(root))
        real = file
        if file.is_symlink():
            real = file.resolve(strict=True)
            if not real.is_relative_to(root):
                raise Unfit(f"{shown(name)}: a link that leads out of the folder")
        part, room = _read(real, name, room)
        yield name, part


def _walk(folder: Path, level: int) -> Iterator[tuple[Path, bool]]:
    """And whether it is a folder."""
    if level > MOST_LEVELS:
        raise Unfit(f"it has more than {MOST_LEVELS} levels of folders")
    with os.scandir(folder) as entries:
        for entry in sorted(entries, key=lambda entry: entry.name):
            if entry.is_dir(follow_symlinks=False):
                yield folder / entry.name, True
                yield from _walk(folder / entry.name, level + 1)
            else:
                yield folder / entry.name, False


def _read(path: Path, name: str, room: int) -> tuple[Part, int]:
    """And the room that is left."""
    try:
        with open_regular(path) as file:
            runs = bool(os.fstat(file.fileno()).st_mode & stat.S_IXUSR)
            data = file.read(room + 1)
    except NotRegular:
        raise Unfit(f"{shown(name)}: neither a file nor a folder of files") from None
    if len(data) > room:
        raise _TooMuch
    return Part(data, runs), room - len(data)


def text_in(content: Content, name: str) -> str:
    """Of one of its files. Raises Unfit."""
    data = content.files[name].data
    if len(data) > MOST_TEXT:
        most = f"{MOST_TEXT >> 10} KiB"
        raise Unfit(f"{shown(name)} is larger than {most}; move parts to other files")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        raise Unfit(f"{shown(name)} is not UTF-8; save it so") from None
    if "\0" in text:
        raise Unfit(f"{shown(name)} is no text; write it anew")
    return text


def one_line(text: str) -> str:
    """What somebody else wrote, without what could pass for something else on a screen."""
    return "".join(char for char in " ".join(text.split()) if char.isprintable())


def newer(version: str) -> bool:
    """Than this ohmo."""
    return _numbers(version) > _numbers(ohmo.__version__)


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part[:9]) for part in re.findall(r"\d+", version)[:4])


def shown(name: str) -> str:
    """A name that somebody else chose, on one line."""
    plain = "".join(char if char.isprintable() else "?" for char in name)
    return plain[:200]


def cut(text: str, most: int) -> str:
    """In the middle, for what is meant often stands at the end."""
    if len(text) <= most:
        return text
    tail = most // 3
    return f"{text[: most - tail]}… ({len(text)} characters) …{text[-tail:]}"


def some(lines: Sequence[str], most: int, where: str = "") -> list[str]:
    """The first ones, each of ``most`` characters; then how many more there are, and ``where``."""
    more = [f"and {len(lines) - SHOWN} more{where}"] if len(lines) > SHOWN else []
    return [*(cut(line, most) for line in lines[:SHOWN]), *more]
