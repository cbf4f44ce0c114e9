"""Files as tools read and write them. What was judged is opened folder by folder from the root,
following no link, and compared once it is open; and written in one step, whole or not at all, also
when the power fails: its coding, line ends and mode stay, and nothing is written when it changed
since it was read. Bytes become text and back without losing any of them; of a file of any size a
window is shown in bounded memory (some lines, or a piece of one long line)."""

from __future__ import annotations

import codecs
import errno
import fcntl
import os
import stat
import sys
import unicodedata
from collections import OrderedDict
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Lock
from typing import BinaryIO

from channels.durable import replacing
from channels.record import record
from ohmo.permissions.sensitive_places import FileAliases, Touch
from ohmo.tools.results import ToolError

# Only to stand in: Linux needs no right to list a folder for that (open(2), O_PATH).
_FOLDER = getattr(os, "O_PATH", os.O_RDONLY) | os.O_DIRECTORY | os.O_NOFOLLOW
_FILE = os.O_RDONLY | os.O_NONBLOCK | os.O_NOFOLLOW | os.O_NOCTTY


class Opening:
    """For one call. Paths are absolute and were resolved when they were judged; a link in one of
    them was put there since, and nothing is opened. ``hides``: whether no tool may look at a
    resolved path."""

    def __init__(self, hides: Callable[[str], bool], aliases: FileAliases) -> None:
        self.hides = hides
        self._aliases = aliases

    def file(self, path: Path) -> BinaryIO:
        """A regular file, to be read: a pipe waits for ever, a device never ends. Raises ToolError,
        OSError."""
        with self.folder(path.parent) as folder:
            fd = _opened(path.name or ".", _FILE, folder, path)
        try:
            status = os.fstat(fd)
            if stat.S_ISDIR(status.st_mode):
                raise ToolError(f"{path} is a folder; use Glob to list it")
            if not stat.S_ISREG(status.st_mode):
                raise unfit(path)
            actual = self.still(fd, path)
            alias = self._aliases.sensitive(status) or self._aliases.at(actual) is Touch.INSIDE
            if self.hides(actual) or alias:
                raise closed(path)
        except BaseException:
            os.close(fd)
            raise
        return os.fdopen(fd, "rb")

    def content(self, path: Path, most: int) -> tuple[bytes, os.stat_result]:
        """All of a file of at most ``most`` bytes, whatever size it claims, and how it looked when
        it was opened. Raises ToolError, OSError."""
        with self.file(path) as file:
            status = os.fstat(file.fileno())
            data = file.read(most + 1)
        if len(data) > most:
            raise ToolError(f"{path} is larger than {most} bytes; use Bash")
        return data, status

    @contextmanager
    def folder(self, path: Path, *, make: bool = False) -> Generator[int]:
        """A descriptor for ``dir_fd``. ``make``: folders that are not there are made (mkdir(2),
        0777 less the umask). Raises ToolError, OSError."""
        here = os.open("/", _FOLDER)
        try:
            for name in path.parts[1:]:
                try:
                    below = _opened(name, _FOLDER, here, path)
                except FileNotFoundError:
                    if not make:
                        raise
                    # Somebody else may make it meanwhile; what it is, is seen next.
                    with suppress(FileExistsError):
                        os.mkdir(name, dir_fd=here)
                    below = _opened(name, _FOLDER, here, path)
                os.close(here)
                here = below
            if self._aliases.at(self.still(here, path)) is Touch.INSIDE:
                raise closed(path)
            yield here
        finally:
            os.close(here)

    @contextmanager
    def listed(self, path: Path) -> Generator[int]:
        """A descriptor for ``os.scandir`` and ``os.listdir``. Raises ToolError, OSError."""
        with self.folder(path) as folder:
            here = os.open(".", os.O_RDONLY | os.O_DIRECTORY, dir_fd=folder)
        try:
            yield here
        finally:
            os.close(here)

    def status(self, path: Path) -> os.stat_result:
        """Of what is at the path. Raises ToolError, OSError."""
        with self.folder(path.parent) as folder:
            status = os.stat(path.name or ".", dir_fd=folder, follow_symlinks=False)
        if stat.S_ISLNK(status.st_mode):
            raise exchanged(path)
        return status

    def still(self, fd: int, path: Path) -> str:
        """Where the system says that an open file or folder is (proc(5); fcntl(2) of macOS): at
        ``path``. Raises ToolError."""
        if sys.platform == "darwin":
            actual = os.fsdecode(fcntl.fcntl(fd, fcntl.F_GETPATH, bytes(1024)).rstrip(b"\0"))
        else:
            try:
                actual = os.readlink(f"/proc/self/fd/{fd}")  # noqa: PTH115
            except OSError:  # it does not say; the way was walked without a link
                return str(path)
            if os.fstat(fd).st_nlink == 0:
                # What has just been replaced by a newer file was at this path.
                actual = actual.removesuffix(" (deleted)")
        if _same(actual) != _same(str(path)):
            raise exchanged(path)
        return actual


def exchanged(path: Path) -> ToolError:
    return ToolError(
        f"{path}: something on the way to it was exchanged after the call was judged; nothing of it"
        " was read or written. Look at where its links lead, and try again"
    )


def closed(path: Path) -> ToolError:
    return ToolError(
        f"{path} is what no tool may open, maybe under another name; a person does it by hand"
    )


def unfit(path: Path) -> ToolError:
    return ToolError(f"{path} is a device, pipe or socket; only files can be read")


def _opened(name: str, flags: int, folder: int, path: Path) -> int:
    """``name`` is one name, so a link could only stand in its own place."""
    try:
        return os.open(name, flags, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            linked = True  # gone again: whatever it was, it was exchanged
            with suppress(OSError):
                linked = stat.S_ISLNK(os.lstat(name, dir_fd=folder).st_mode)
            if linked:
                raise exchanged(path) from error
        if error.errno == errno.ENXIO:  # a socket
            raise unfit(path) from error
        error.filename = str(path)
        raise


def _same(path: str) -> str:
    """The disks of macOS take both cases of a letter, and its two spellings in Unicode, for one."""
    return unicodedata.normalize("NFC", path).casefold() if sys.platform == "darwin" else path


Stamp = tuple[int, int, int]
_MOST_STAMPS = 10_000


def stamp_of(status: os.stat_result) -> Stamp:
    return (status.st_mtime_ns, status.st_size, status.st_ino)


class FileStamps:
    """Bounded; what is forgotten counts as never read. Used from threads."""

    def __init__(self) -> None:
        self._seen: OrderedDict[tuple[str, str], Stamp] = OrderedDict()
        self._lock = Lock()

    def remember(self, thread: str, path: Path, status: os.stat_result) -> None:
        with self._lock:
            self._seen[(thread, str(path))] = stamp_of(status)
            self._seen.move_to_end((thread, str(path)))
            if len(self._seen) > _MOST_STAMPS:
                self._seen.popitem(last=False)

    def changed(self, thread: str, path: Path, status: os.stat_result | None) -> bool:
        """Whether the thread knows the file and it looks different now. ``status``: None: it is
        gone."""
        with self._lock:
            seen = self._seen.get((thread, str(path)))
        return seen is not None and (status is None or stamp_of(status) != seen)


def replace_file(
    opening: Opening, path: Path, data: bytes, known: os.stat_result | None
) -> os.stat_result:
    """Writes beside ``path``, syncs, renames, all from the folder that was opened as judged;
    missing folders are made. ``known``: the file as it was opened, whose mode and, where allowed,
    owner are kept; None: there is none. How the new one looks. Raises ToolError, OSError."""
    if not path.name:
        raise ToolError(f"{path} is a folder")
    with opening.folder(path.parent, make=True) as folder:
        if opening.hides(f"{opening.still(folder, path.parent)}/{path.name}"):
            raise ToolError(f"{path} is what no tool may write; a person does it by hand")
        if known is not None and not os.access(path.name, os.W_OK, dir_fd=folder):
            raise PermissionError(13, "the file is read-only", str(path))
        with replacing(Path(path.name), 0o666, folder) as file:
            file.write(data)
            file.flush()
            if known is not None:
                os.fchmod(file.fileno(), stat.S_IMODE(known.st_mode))
                with suppress(PermissionError):
                    os.fchown(file.fileno(), known.st_uid, known.st_gid)
            opening.still(folder, path.parent)
            return os.fstat(file.fileno())


MOST = 50 * 1024 * 1024


def rewrite(
    path: Path, opening: Opening, stamps: FileStamps, thread: str, change: Callable[[str], str]
) -> None:
    """``path`` as it was judged. ``change`` gets the text and gives the new one. Raises ToolError,
    OSError, and what ``change`` raises."""
    data, status = opening.content(path, MOST)
    if stamps.changed(thread, path, status):
        raise ToolError(f"{path} changed since you last read it; Read it again first")
    before = decode(data)
    if before is None:
        raise ToolError(f"{path} is binary")
    text, coding = before
    after = change(text)
    try:
        data = encode(after, coding)
    except UnicodeEncodeError as error:
        raise ToolError(
            f"{path} is coded in {coding.name}, which cannot say {after[error.start]!r}; Write the"
            " whole file to change to UTF-8"
        ) from error
    stamps.remember(thread, path, replace_file(opening, path, data, status))


_BOMS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)
PEEK = 8192


@record
class Coding:
    """How a file says text. Latin-1 stands in for unknown eight-bit codings: every byte
    survives."""

    name: str
    bom: bytes = b""


def coding_of(start: bytes, *, whole: bool) -> Coding | None:
    """From the first bytes; None: binary. ``whole``: the bytes are the whole file, so a cut
    character counts as wrong."""
    for bom, name in _BOMS:
        if start.startswith(bom):
            return Coding(name, bom)
    if b"\0" in start[:PEEK]:
        return None
    try:
        codecs.getincrementaldecoder("utf-8")().decode(start, final=whole)
    except UnicodeDecodeError:
        return Coding("latin-1")
    return Coding("utf-8")


def decode(data: bytes) -> tuple[str, Coding] | None:
    """The text, line ends as they are. None: binary."""
    coding = coding_of(data, whole=True)
    if coding is None:
        return None
    try:
        return data[len(coding.bom) :].decode(coding.name), coding
    except UnicodeDecodeError:
        return None


def encode(text: str, coding: Coding) -> bytes:
    """Raises UnicodeEncodeError when the file's coding has no such character."""
    return coding.bom + text.encode(coding.name)


def windows_ends(text: str) -> bool:
    """Whether every line of the text ends as on Windows."""
    return "\r\n" in text and text.count("\r\n") == text.count("\n")


_CHUNK = 1 << 16
PIECE = 10_000  # characters of one long line shown at once with char_offset


@record
class Window:
    """How much of a file is shown."""

    offset: int  # first line, from 1
    limit: int  # lines
    line_chars: int  # characters shown of a line
    most: int  # characters in all


def _texts(file: BinaryIO, coding: Coding) -> Iterator[str]:
    decoder = codecs.getincrementaldecoder(coding.name)("replace")
    file.seek(len(coding.bom))
    while chunk := file.read(_CHUNK):
        yield decoder.decode(chunk)
    yield decoder.decode(b"", final=True)


def _lines(file: BinaryIO, coding: Coding, keep: int) -> Iterator[tuple[str, int]]:
    """Each line's first ``keep`` characters and its length."""
    start, length = "", 0
    for text in _texts(file, coding):
        pieces = text.split("\n")
        for index, piece in enumerate(pieces):
            if len(start) < keep:
                start += piece[: keep - len(start)]
            length += len(piece)
            if index < len(pieces) - 1:
                yield start, length
                start, length = "", 0
    if length:
        yield start, length


def read_lines(file: BinaryIO, coding: Coding, window: Window) -> str:
    """Numbered lines and, when something was left out, a last line that says how to go on. Raises
    OSError."""
    shown: list[str] = []
    used = number = 0
    for number, (start, length) in enumerate(_lines(file, coding, window.line_chars + 1), 1):
        if number < window.offset:
            continue
        line = start.rstrip("\r")
        if length > window.line_chars:
            line = (
                start[: window.line_chars]
                + f" [... {length - window.line_chars} more characters: Read with offset={number},"
                f" char_offset={window.line_chars}]"
            )
        if len(shown) >= window.limit or used + len(line) > window.most:
            return "\n".join([*shown, f"[more lines follow: Read with offset={number}]"])
        shown.append(f"{number:>6}\t{line}")
        used += len(line) + 8
    if not shown:
        return (
            f"[the file has {number} lines; offset {window.offset} is past its end]"
            if number
            else "[the file is empty]"
        )
    return "\n".join(shown)


def read_piece(file: BinaryIO, coding: Coding, line: int, start: int) -> str:
    """Characters ``start`` to ``start + PIECE`` of one line. Raises OSError."""
    number = 1
    at = 0  # characters of the line that went by
    shown = ""
    more = False
    for text in _texts(file, coding):
        for index, piece in enumerate(text.split("\n")):
            if index:
                number += 1
                at = 0
            if number == line:
                begin = max(0, start - at)
                taken = piece[begin : begin + PIECE - len(shown)] if begin < len(piece) else ""
                shown += taken
                at += len(piece)
                more = at > start + PIECE
            elif number > line:
                break
        if number > line or more:
            break
    if not shown:
        return f"[line {line} has no character {start}]"
    if not more:
        return f"{shown}\n[end of line]"
    after = start + len(shown)
    return f"{shown}\n[the line goes on: Read with offset={line}, char_offset={after}]"
