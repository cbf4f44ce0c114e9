"""Writes the log: a thread that redacts and writes, the way from ``structlog`` and ``logging`` into
it, and the file that is rotated."""

from __future__ import annotations

import errno
import gzip
import json
import logging
import os
import queue
import select
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Generator, Mapping, MutableMapping
from contextlib import contextmanager, suppress
from datetime import UTC, datetime
from logging.handlers import QueueHandler, QueueListener
from pathlib import Path
from typing import Any, BinaryIO, TextIO, cast

import structlog

from ohmo.logs.redaction import Redactor

GRAVE = frozenset({"warning", "error", "critical"})
_HEAD = ("at", "level", "event")  # of a line that a person reads


class Writer(QueueListener):
    """The thread behind the log: cleans what it is handed, shows it and writes it. What hands it
    over never waits; what finds no room in the queue or on the disk is counted, and the count is
    written as soon as there is room."""

    def __init__(
        self,
        file: RotatingFile,
        redactor: Redactor,
        human: TextIO | None,
        depth: int = 10_000,
        grave: frozenset[str] | None = None,
    ) -> None:
        """``grave``: the only levels shown to ``human``; None: all."""
        self._events: queue.Queue[dict[str, Any] | None] = queue.Queue(depth)
        super().__init__(self._events)
        self._file = file
        self._redactor = redactor
        self._human = human
        self._grave = grave
        self._lost = 0
        self._counting = threading.Lock()
        self.start()

    @property
    def lost(self) -> int:
        """Lines that found no room and are not yet mentioned in the file."""
        return self._lost

    def put(self, event: dict[str, Any]) -> None:
        """Never waits."""
        try:
            self._events.put_nowait(event)
        except queue.Full:
            self._count(1)

    def close(self, timeout: float = 2.0) -> None:
        """Write what is queued, for at most ``timeout`` seconds: ``stop`` would wait for a disk
        that hangs."""
        try:
            self._events.put(None, timeout=timeout)
        except queue.Full:
            return
        assert self._thread is not None
        self._thread.join(timeout)
        if not self._thread.is_alive():
            self._file.close()

    def handle(self, record: Any) -> None:
        clean: dict[str, Any] = self._redactor.value(record)
        if self._grave is None or clean.get("level") in self._grave:
            self._show(clean)
        lost = self._lost
        try:
            if lost:
                warning = {"at": _now(), "level": "warning", "event": "log.lost", "lines": lost}
                self._file.write(_line(warning))
                self._count(-lost)
            self._file.write(_line(clean))
        except OSError:
            self._count(1)

    def _count(self, lines: int) -> None:
        with self._counting:
            self._lost += lines

    def _show(self, event: Mapping[str, Any]) -> None:
        if self._human is None or not _takes(self._human):
            return
        at, level, name = (str(event.get(key, "")) for key in _HEAD)
        words = [f"{at[:19]}Z", f"{level:7}", name]
        for key, value in event.items():
            if key in (*_HEAD, "exception") or value == "":
                continue
            text = value if isinstance(value, str) else _json(value)
            words.append(f"{key}={text if len(text) <= 200 else f'{text[:200]}…'}")
        lines = [" ".join(words)]
        if "exception" in event:
            lines.append(event["exception"])
        try:
            print(*lines, sep="\n", file=self._human, flush=True)
        except (OSError, ValueError):
            self._human = None  # the terminal is gone


def _takes(human: TextIO) -> bool:
    """Whether a line goes through without waiting: a pipe whose reader hangs must not hold up the
    file, and the end of the process."""
    try:
        handle = human.fileno()
    except (OSError, ValueError):  # no file of the system
        return True
    poll = select.poll()
    poll.register(handle, select.POLLOUT)
    return bool(poll.poll(0))


@contextmanager
def logging_to(
    path: Path,
    *,
    secrets: Callable[[], Collection[str]] = frozenset,
    level: int = logging.INFO,
    human: TextIO | None = None,
    grave: frozenset[str] | None = None,
    max_bytes: int = 10 * 2**20,
    keep: int = 5,
) -> Generator[Writer]:
    """Everything that structlog and ``logging`` say inside it goes to ``path``, and to ``human`` as
    well; there only the levels in ``grave``, None: all."""
    writer = Writer(RotatingFile(path, max_bytes, keep), Redactor(secrets), human, grave=grave)

    def hand_over(_: object, name: str, event: MutableMapping[str, Any]) -> str:
        writer.put(_event(name, event))
        raise structlog.DropEvent

    structlog.configure(
        processors=[structlog.contextvars.merge_contextvars, hand_over],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=structlog.ReturnLoggerFactory(),
        cache_logger_on_first_use=False,
    )
    handler = _FromLibraries(writer)
    root = logging.getLogger()
    before = root.level
    root.addHandler(handler)
    root.setLevel(max(level, logging.WARNING))
    try:
        yield writer
    finally:
        root.removeHandler(handler)
        root.setLevel(before)
        structlog.reset_defaults()
        writer.close()


def is_read_live() -> bool:
    """Standard error is a terminal: a person reads along."""
    stderr = cast("TextIO | None", sys.stderr)  # None: it was closed before the start
    return stderr is not None and stderr.isatty()


class _FromLibraries(QueueHandler):
    """What SDKs say through ``logging``."""

    def __init__(self, writer: Writer) -> None:
        super().__init__(writer.queue)
        self._writer = writer

    def prepare(self, record: logging.LogRecord) -> dict[str, Any]:
        try:
            message = record.getMessage()
        except (TypeError, ValueError):  # a library's own format and arguments do not fit
            message = str(record.msg)
        fields = {"event": message, "logger": record.name, "exc_info": record.exc_info}
        return _event(record.levelname.lower(), fields)

    def enqueue(self, record: Any) -> None:
        self._writer.put(record)


def _event(level: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
    fields = dict(event)
    failure = fields.pop("exc_info", None)
    found = {"at": _now(), "level": level, "event": str(fields.pop("event", ""))}
    found |= {key: _plain(value) for key, value in fields.items()}
    # ``exc_info`` as ``logging`` takes it.
    if failure is True:
        failure = sys.exception()
    if isinstance(failure, tuple):
        parts = cast("tuple[Any, ...]", failure)
        failure = parts[1] if len(parts) > 1 else None
    if isinstance(failure, BaseException):
        found["exception"] = "".join(traceback.format_exception(failure)).rstrip()
    return found


def _plain(value: Any, depth: int = 0) -> Any:
    """A copy that JSON knows; made by the caller, because the value may change before the thread
    comes to it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if depth < 6 and isinstance(value, Mapping):
        items = list(cast("Mapping[Any, Any]", value).items())
        return {str(key): _plain(item, depth + 1) for key, item in items}
    if depth < 6 and isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, depth + 1) for item in list(cast("Collection[Any]", value))]
    try:
        return str(value)
    except (TypeError, ValueError, AttributeError, RuntimeError):
        return f"<{type(value).__name__}>"


def _line(event: Mapping[str, Any]) -> bytes:
    return _json(event).encode("utf-8", "replace") + b"\n"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


class RotatingFile:
    """Appends lines; at ``max_bytes``, and at the first line of a new day (UTC), the file becomes
    ``.1`` and the oldest of ``keep`` goes. ``.1`` stays as it is, so that whoever follows the log
    reads it to its end; older ones are compressed. A file that cannot be turned over grows to twice
    its size. Any OSError is the caller's to survive.

    Not ``logging.handlers.RotatingFileHandler``: for all of this (also mode 0600, a line that was
    cut, a full disk that is told of) each of its methods would have to be replaced."""

    def __init__(
        self,
        path: Path,
        max_bytes: int,
        keep: int,
        today: Callable[[], int] = lambda: int(time.time() // 86_400),
    ) -> None:
        self._path = path
        self._max = max_bytes
        self._keep = keep
        self._today = today
        self._file: BinaryIO | None = None
        self._size = self._day = 0

    def write(self, line: bytes) -> None:
        """Raises OSError; the next call starts afresh."""
        try:
            if self._file is None:
                self._open()
            if self._size and (self._size + len(line) > self._max or self._day != self._today()):
                try:
                    self._rotate()
                except OSError:
                    self._open()
                    if self._size + len(line) > 2 * self._max:
                        raise
                else:
                    self._open()
            assert self._file is not None
            written = self._file.write(line)
            self._size += written
            if written < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        if self._file is not None:
            with suppress(OSError):
                self._file.close()
            self._file = None

    def _open(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(handle, "ab", buffering=0)
        found = os.fstat(handle)
        self._size = found.st_size
        self._day = int(found.st_mtime // 86_400) if found.st_size else self._today()
        last = os.pread(handle, 1, self._size - 1) if self._size else b""
        if last not in (b"\n", b""):  # a line was cut by a full disk or a kill
            self._size += self._file.write(b"\n")

    def _rotate(self) -> None:
        self.close()
        for number in range(self._keep - 1, 0, -1):
            # where both are there, the packed one was cut by a kill; the plain one takes its place
            for ending in (".gz", ""):
                older = self._numbered(number, ending)
                if older.exists():
                    older.replace(self._numbered(number + 1, ending))
                    self._numbered(number + 1, "" if ending else ".gz").unlink(missing_ok=True)
        self._path.replace(self._numbered(1, ""))
        if self._keep > 1 and self._numbered(2, "").exists():
            self._compress_second()

    def _compress_second(self) -> None:
        """What cannot be compressed (no room for both) stays as it is."""
        plain, packed = self._numbered(2, ""), self._numbered(2, ".gz")
        try:
            with plain.open("rb") as old, packed.open("wb") as raw:
                os.fchmod(raw.fileno(), 0o600)
                with gzip.GzipFile("", "wb", 6, raw) as file:
                    shutil.copyfileobj(old, file)
        except OSError:
            packed.unlink(missing_ok=True)
            return
        plain.unlink()

    def _numbered(self, number: int, ending: str) -> Path:
        return self._path.with_name(f"{self._path.name}.{number}{ending}")
