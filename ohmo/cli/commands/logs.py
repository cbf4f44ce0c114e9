"""Show the log of this home, newest last."""

from __future__ import annotations

import gzip
import json
import os
import time
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, cast

import click

from ohmo.cli.client import Client
from ohmo.cli.connect import connect
from ohmo.cli.show import clean
from ohmo.config.home import find_home

_INTERVAL = 0.3  # seconds between two looks at a file that grows
_PIECE = 1 << 16  # bytes
_RANK = {"debug": 0, "info": 1, "warning": 2, "error": 3, "critical": 4}


@click.command("logs", help=__doc__)
@click.option(
    "-n",
    "--lines",
    type=click.IntRange(0, 100_000),
    default=50,
    show_default=True,
    help="The last so many lines.",
)
@click.option("-f", "--follow", is_flag=True, help="Go on as the log grows.")
@click.option(
    "--level",
    type=click.Choice(["debug", "info", "warning", "error"]),
    default="debug",
    help="At least this grave.",
)
@click.option(
    "--thread", metavar="TEXT", help="Only lines about this thread (its id, or a part of it)."
)
@click.option("--json", "as_json", is_flag=True, help="Lines as they are in the file.")
@click.option("--remote", metavar="URL", help="Of a daemon elsewhere; its token in OHMO_TOKEN.")
def COMMAND(
    lines: int, follow: bool, level: str, thread: str | None, as_json: bool, remote: str | None
) -> None:
    log_filter = _Filter(level, thread, as_json)
    if remote is None:
        texts = _local_lines(log_filter, lines, follow)
    else:
        texts = _remote_lines(connect(remote), log_filter, lines, follow)
    shown = 0
    for text in texts:
        shown += 1
        click.echo(text)
    if not shown and lines:
        of_thread = f" of thread {clean(thread)}" if thread else ""
        of_level = f" of level {level} or above" if level != "debug" else ""
        click.echo(f"no line{of_thread}{of_level}", err=True)


class _Filter:
    """Which lines are shown, and how."""

    def __init__(self, level: str, thread: str | None, as_json: bool) -> None:
        self.level = level
        self.thread = thread
        self._as_json = as_json

    def text(self, line: str) -> str | None:
        """The line as it is shown; None when it is left out."""
        try:
            event: Any = json.loads(line)
        except ValueError:
            event = None
        if not isinstance(event, dict):  # not ours, such as a traceback
            if self.thread is not None:
                return None
            return line.rstrip("\n") if self._as_json else clean(line.strip())
        return self.event_text(cast("dict[str, Any]", event), line)

    def event_text(self, event: Mapping[str, Any], line: str = "") -> str | None:
        """As ``text``. ``line``: as the event stands in the file; "": it comes from elsewhere."""
        if self.thread is not None and self.thread not in str(event.get("thread", "")):
            return None
        if _RANK.get(str(event.get("level")), 1) < _RANK[self.level]:
            return None
        if self._as_json:
            return line.rstrip("\n") or json.dumps(event, ensure_ascii=False)
        hidden = ("at", "level", "event", "exception")
        at = clean(event.get("at"))
        level = clean(event.get("level"))
        words = [f"{at} {level:8} {clean(event.get('event'))}"]
        for key, value in event.items():
            if key not in hidden:
                words.append(f"{key}={clean(value)}")
        text = " ".join(words).rstrip()
        if "exception" in event:
            text += f"\n{event['exception']}"
        return text


def _local_lines(log_filter: _Filter, lines: int, follow: bool) -> Iterator[str]:
    """The last so many, from older files too when the present one has not enough."""
    path = find_home(os.environ).log
    if not path.exists() and not follow:
        raise click.ClickException(f"{path}: there is no log yet; it begins with: ohmo run")
    end = path.stat().st_size if path.exists() else 0
    last: deque[str] = deque()
    for file in _files(path):
        if len(last) >= lines:
            break
        limit = end if file == path else -1
        content = bytearray()
        try:
            with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as raw:
                while limit < 0 or len(content) < limit:
                    piece = raw.read(_PIECE if limit < 0 else limit)
                    if not piece:
                        break
                    content += piece
        except (OSError, EOFError, zlib.error) as error:
            # what could be read of it is shown, and it hides no other file
            reason = getattr(error, "strerror", None) or error
            said = f"ohmo: {file}: cannot be read further ({reason}); the other files follow"
            click.echo(said, err=True)
        read = content.decode("utf-8", "replace").splitlines()
        texts = [log_filter.text(line) for line in read]
        shown = [text for text in texts if text is not None]
        missing = lines - len(last)
        last.extendleft(reversed(shown[max(0, len(shown) - missing) :]))
    yield from last
    for line in growing(path, end) if follow else ():
        text = log_filter.text(line)
        if text is not None:
            yield text


def _files(path: Path) -> Iterator[Path]:
    """The log and those that were rotated, newest first."""
    if path.exists():
        yield path
    for number in range(1, 100):
        plain = path.with_name(f"{path.name}.{number}")
        packed = path.with_name(f"{path.name}.{number}.gz")
        if plain.exists():  # both stand there while one is packed
            yield plain
        elif packed.exists():
            yield packed


def _remote_lines(client: Client, log_filter: _Filter, lines: int, follow: bool) -> Iterator[str]:
    last: deque[str] = deque()
    after: str | None = None
    since = ""
    # newest first; the daemon cannot be asked for a part of a thread's name, so what it gives is
    # filtered once more
    while True:
        page = client.get(
            "/api/v1/logs", level=log_filter.level, q=log_filter.thread, limit=1000, after=after
        )
        since = since or str(page["since"])
        texts = [log_filter.event_text(_without_place(event)) for event in page["logs"]]
        last.extendleft(text for text in texts if text is not None)
        after = page["next"]
        if after is None or len(last) >= lines:
            break
    yield from list(last)[max(0, len(last) - lines) :]
    if not follow:
        return
    words = log_filter.thread or ""
    with client.log(level=log_filter.level, words=words, since=since) as events:
        for event in events:
            if event is not None and event.kind == "log":
                text = log_filter.event_text(_without_place(event.data))
                if text is not None:
                    yield text


def _without_place(event: Mapping[str, Any]) -> dict[str, Any]:
    """Without where it stands in the log, which only readers of the API need."""
    return {name: value for name, value in event.items() if name != "place"}


def last_lines(path: Path, lines: int) -> tuple[list[str], int]:
    """The last ``lines`` of the file, and where it ended."""
    if not path.exists():
        return [], 0
    with path.open("rb") as file:
        end = file.seek(0, 2)
        start = end
        tail = b""
        while start > 0 and tail.count(b"\n") <= lines:
            step = min(_PIECE, start)
            start -= step
            file.seek(start)
            tail = file.read(step) + tail
    texts = tail.decode("utf-8", "replace").splitlines()
    return texts[-lines:] if lines else [], end


def growing(path: Path, position: int) -> Iterator[str]:
    """New lines behind ``position``. A file that is turned over is read to its end, then the one
    that came after it."""
    file: BinaryIO | None = None
    try:
        while True:
            if file is None and path.exists():
                file = path.open("rb")
                file.seek(position if position <= os.fstat(file.fileno()).st_size else 0)
            if file is None:
                time.sleep(_INTERVAL)
                continue
            # looked at first: what was written before it moved is then read
            moved = not _is_at(path, file)
            while raw := file.readline():
                if not raw.endswith(b"\n") and not moved:  # the rest of this line is still written
                    file.seek(-len(raw), os.SEEK_CUR)
                    break
                yield raw.decode("utf-8", "replace")
            if not moved:
                time.sleep(_INTERVAL)
                continue
            later = _files_after(path, file)
            file = None
            for older in later:
                yield from older.read_text("utf-8", "replace").splitlines(keepends=True)
            position = 0
    finally:
        if file is not None:
            file.close()


def _is_at(path: Path, file: BinaryIO) -> bool:
    """Whether it is still the file of that name, as long as it was."""
    try:
        opened, named = os.fstat(file.fileno()), path.stat()
    except FileNotFoundError:
        return False
    same = (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino)
    return same and named.st_size >= file.tell()


def _files_after(path: Path, file: BinaryIO) -> list[Path]:
    """Files that were turned over after this one, oldest first; closes it."""
    with file:
        inode = os.fstat(file.fileno()).st_ino
    files: list[Path] = []
    for number in range(1, 100):
        older = path.with_name(f"{path.name}.{number}")
        if not older.exists():
            return []  # it was deleted, or is compressed by now
        if older.stat().st_ino == inode:
            return files[::-1]
        files.append(older)
    return []
