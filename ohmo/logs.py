"""The log: JSON lines in ``logs/ohmo.jsonl``, readable lines on a terminal, secrets blotted out, and never a reason to stop or wait.

Rooms say ``structlog.get_logger().info("turn.started", turn=…, thread=…)``. The caller only queues; a thread cleans, writes and rotates.
What does not fit into the queue or onto the disk is counted, and the count is written as soon as there is room.
"""

from __future__ import annotations

import errno
import gzip
import json
import logging
import os
import queue
import re
import select
import shutil
import sys
import threading
import time
import traceback
from collections.abc import Callable, Collection, Generator, Mapping, MutableMapping
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, BinaryIO, TextIO

import structlog

BLOT = "********"
REDACTED = "[redacted]"  # the same in words that are rendered: asterisks are markup there
_SHAPES = (  # what a credential looks like, whoever wrote it into the line; the source is each issuer's page on token formats
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)",  # PEM
    r"sk-ant-[\w-]{8,}",  # Anthropic
    r"\bsk-[A-Za-z0-9][\w-]{15,}",  # OpenAI and those who follow it
    r"\b(?:sk|rk|whsec)_(?:live_|test_)?[A-Za-z0-9]{16,}",  # Stripe
    r"\bxox[a-z]-[\w-]{8,}",  # Slack bot, user, refresh
    r"\bxapp-\d-[\w-]{8,}",  # Slack app level
    r"https://hooks\.slack\.com/services/[\w/]+",  # Slack webhook
    r"(?<!\d)\d{6,12}:[A-Za-z0-9_-]{30,}",  # Telegram bot
    r"\b(?:syt|syl|syr|mct|mcr)_[\w=+/-]{8,}",  # Matrix
    r"\b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}",  # Discord
    r"\bgh[pousr]_[A-Za-z0-9]{16,}",  # GitHub
    r"\bgithub_pat_\w{20,}",
    r"\bglpat-[\w-]{16,}",  # GitLab
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b",  # AWS
    r"\bAIza[\w-]{30,}",  # Google API key
    r"\bya29\.[\w-]{16,}",  # Google OAuth
    r"\bhf_[A-Za-z0-9]{16,}",  # Hugging Face
    r"\bnpm_[A-Za-z0-9]{30,}",
    r"\bpypi-[\w-]{16,}",
    r"\b(?:gsk_|xai-)[A-Za-z0-9]{16,}",  # Groq, xAI
    r"\bSG\.[\w-]{16,}\.[\w-]{16,}",  # SendGrid
    r"(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*",  # JWT
)
_SHAPE = re.compile("|".join(_SHAPES), re.DOTALL)
_IN_CONTEXT = re.compile(  # the word before it gives it away; that word stays
    r"(?P<before>\b(?:Bearer|Basic)\s+(?!Info)|[?&](?:access_token|token|api_?key|key|code|secret|password)=)[^\s&@\"']{4,}|(?P<user>://[^/\s:@]*:)[^/\s@]+(?=@)",
    re.IGNORECASE,
)
_PRIVATE_FIELD = re.compile(r"(?:^|_)(?:token|password|secret|api_?key|authorization|cookie)$", re.IGNORECASE)
# bidirectional controls reorder what a person reads; control characters command terminals; lone surrogates cannot be written
_UNSAFE = re.compile("[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]")
GRAVE = frozenset({"warning", "error", "critical"})
_SHORTEST_SECRET = 6
_SHORTEST_IN_WORDS = 8  # what is shorter may be a word that people use


class Redactor:
    """Blots out secrets. ``secrets``: the values known at this moment."""

    def __init__(self, secrets: Callable[[], Collection[str]] = frozenset) -> None:
        self._secrets = secrets
        self._known: frozenset[str] = frozenset()
        self._literal: re.Pattern[str] | None = None

    def text(self, text: str) -> str:
        """The text without secrets, control and bidirectional characters (tab and line feed stay)."""
        known = frozenset(value for value in self._secrets() if len(value) >= _SHORTEST_SECRET)
        if known != self._known:
            self._known = known
            self._literal = re.compile("|".join(re.escape(value) for value in sorted(known, key=len, reverse=True))) if known else None
        if self._literal is not None:
            text = self._literal.sub(BLOT, text)
        text = _SHAPE.sub(BLOT, text)
        text = _IN_CONTEXT.sub(lambda match: f"{match['before'] or match['user']}{BLOT}", text)
        return _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text)

    def words(self, text: str) -> str:
        """What people or the model will read: known values and the shapes of tokens are taken out, everything else stays as it is."""
        for value in sorted(self._secrets(), key=len, reverse=True):
            if len(value) >= _SHORTEST_IN_WORDS and value in text:
                text = text.replace(value, REDACTED)
        return _SHAPE.sub(REDACTED, text)

    def value(self, value: Any, field: str = "") -> Any:
        """The same for everything inside lists and mappings."""
        if isinstance(value, str):
            return BLOT if value and _PRIVATE_FIELD.search(field) else self.text(value)
        if isinstance(value, dict):
            return {self.text(str(key)): self.value(item, str(key)) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        if isinstance(value, list):
            return [self.value(item, field) for item in value]  # pyright: ignore[reportUnknownVariableType]
        return value


class RotatingFile:
    """Appends lines; at ``max_bytes``, and at the first line of a new day (UTC), the file becomes ``.1`` and the oldest of ``keep`` goes. ``.1`` stays
    as it is, so that whoever follows the log reads it to its end; older ones are compressed. A file that cannot be turned over grows to twice
    its size. Any OSError is the caller's to survive."""

    def __init__(self, path: Path, max_bytes: int, keep: int, today: Callable[[], int] = lambda: int(time.time() // 86_400)) -> None:
        self._path, self._max, self._keep, self._today = path, max_bytes, keep, today
        self._file: BinaryIO | None = None
        self._size = self._day = 0

    def write(self, line: bytes) -> None:
        """Raises OSError; the next call starts afresh."""
        try:
            if self._file is None:
                self._open()
            if self._size and (self._size + len(line) > self._max or self._day != self._today()):
                self._turn_over(len(line))
            assert self._file is not None
            written = self._file.write(line)
            self._size += written
            if written < len(line):
                raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        except OSError:
            self.close()
            raise

    def close(self) -> None:
        file, self._file = self._file, None
        if file is not None:
            try:
                file.close()
            except OSError:
                return

    def _open(self) -> None:
        self._path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle = os.open(self._path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        self._file = os.fdopen(handle, "ab", buffering=0)
        found = os.fstat(handle)
        self._size, self._day = found.st_size, int(found.st_mtime // 86_400) if found.st_size else self._today()
        if self._size and os.pread(handle, 1, self._size - 1) not in (b"\n", b""):  # a line was cut by a full disk or a kill
            self._size += self._file.write(b"\n")

    def _turn_over(self, more: int) -> None:
        try:
            self._rotate()
        except OSError:
            self._open()
            if self._size + more > 2 * self._max:
                raise
        else:
            self._open()

    def _rotate(self) -> None:
        self.close()
        for number in range(self._keep - 1, 0, -1):
            for ending in (".gz", ""):  # where both are there, the packed one was cut by a kill, and the plain one takes its place
                older = self._numbered(number, ending)
                if older.exists():
                    older.replace(self._numbered(number + 1, ending))
                    self._numbered(number + 1, "" if ending else ".gz").unlink(missing_ok=True)
        self._path.replace(self._numbered(1, ""))
        if self._keep > 1 and self._numbered(2, "").exists():
            self._compress(2)

    def _compress(self, number: int) -> None:
        """What cannot be compressed (no room for both) stays as it is."""
        plain, packed = self._numbered(number, ""), self._numbered(number, ".gz")
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


class Writer:
    """The thread behind the log."""

    def __init__(
        self, file: RotatingFile, redactor: Redactor, human: TextIO | None, depth: int = 10_000, grave: frozenset[str] | None = None
    ) -> None:
        """``grave``: the only levels shown to ``human``; None: all."""
        self._file, self._redactor, self._human, self._grave = file, redactor, human, grave
        self._queue: queue.Queue[dict[str, Any] | None] = queue.Queue(depth)
        self._lost = 0
        self._counting = threading.Lock()
        self._thread = threading.Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    @property
    def lost(self) -> int:
        """Lines that found no room and are not yet mentioned in the file."""
        return self._lost

    def put(self, event: dict[str, Any]) -> None:
        """Never waits."""
        try:
            self._queue.put_nowait(event)
        except queue.Full:
            self._count(1)

    def close(self, timeout: float = 2.0) -> None:
        """Write what is queued, for at most ``timeout`` seconds."""
        try:
            self._queue.put(None, timeout=timeout)
        except queue.Full:
            return
        self._thread.join(timeout)

    def _run(self) -> None:
        while (event := self._queue.get()) is not None:
            clean: dict[str, Any] = self._redactor.value(event)
            if self._human is not None and (self._grave is None or clean.get("level") in self._grave):
                self._show(clean)
            self._write(clean)
        self._file.close()

    def _write(self, event: dict[str, Any]) -> None:
        lost = self._lost
        try:
            if lost:
                self._file.write(_line({"at": _now(), "level": "warning", "event": "log.lost", "lines": lost}))
                self._count(-lost)
            self._file.write(_line(event))
        except OSError:
            self._count(1)

    def _count(self, lines: int) -> None:
        with self._counting:
            self._lost += lines

    def _show(self, event: Mapping[str, Any]) -> None:
        rest = " ".join(
            f"{key}={_short(value)}" for key, value in event.items() if key not in ("at", "level", "event", "exception") and value != ""
        )
        if self._human is None or not _takes(self._human):
            return
        text = f"{str(event.get('at', ''))[:19]}Z {event.get('level', '')!s:7} {event.get('event', '')} {rest}".rstrip()
        try:
            print(text, *([event["exception"]] if "exception" in event else []), sep="\n", file=self._human, flush=True)
        except (OSError, ValueError):
            self._human = None  # the terminal is gone


def _takes(human: TextIO) -> bool:
    """Whether a line goes through without waiting: a pipe whose reader hangs must not hold up the file, and the end of the process."""
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
    """Everything that structlog and ``logging`` say inside it goes to ``path``, and to ``human`` as well; there only the levels in ``grave``, None: all."""
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
    return sys.stderr is not None and sys.stderr.isatty()  # pyright: ignore[reportUnnecessaryComparison] - None under pythonw


class _FromLibraries(logging.Handler):
    """What SDKs say through ``logging``."""

    def __init__(self, writer: Writer) -> None:
        super().__init__()
        self._writer = writer

    def emit(self, record: logging.LogRecord) -> None:
        try:
            message = record.getMessage()
        except (TypeError, ValueError):  # a library's own format and arguments do not fit
            message = str(record.msg)
        self._writer.put(_event(record.levelname.lower(), {"event": message, "logger": record.name, "exc_info": record.exc_info}))


def _event(level: str, event: MutableMapping[str, Any]) -> dict[str, Any]:
    fields = dict(event)
    failure = fields.pop("exc_info", None)
    plain = {"at": _now(), "level": level, "event": str(fields.pop("event", "")), **{key: _plain(value) for key, value in fields.items()}}
    text = _exception(failure)
    return {**plain, "exception": text} if text else plain


def _exception(failure: object) -> str:
    if failure is True:
        failure = sys.exception()
    if isinstance(failure, tuple):
        failure = failure[1] if len(failure) > 1 else None  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    return "".join(traceback.format_exception(failure)).rstrip() if isinstance(failure, BaseException) else ""


def _plain(value: Any, depth: int = 0) -> Any:
    """A copy that JSON knows; made by the caller, because the value may change before the thread comes to it."""
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if depth < 6 and isinstance(value, Mapping):
        return {str(key): _plain(item, depth + 1) for key, item in list(value.items())}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    if depth < 6 and isinstance(value, list | tuple | set | frozenset):
        return [_plain(item, depth + 1) for item in list(value)]  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
    try:
        return str(value)
    except (TypeError, ValueError, AttributeError, RuntimeError):
        return f"<{type(value).__name__}>"


def _line(event: Mapping[str, Any]) -> bytes:
    return json.dumps(event, ensure_ascii=False, default=str).encode("utf-8", "replace") + b"\n"


def _short(value: object) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 200 else f"{text[:200]}…"


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
