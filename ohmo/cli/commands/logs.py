"""Show the log of this home, newest last."""

from __future__ import annotations

import gzip
import json
import os
import zlib
from collections import deque
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import click

from ohmo.cli.client import Client
from ohmo.cli.connect import connect
from ohmo.cli.show import clean
from ohmo.cli.tail import growing
from ohmo.config.home import find_home


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
def COMMAND(  # noqa: N802
    lines: int, follow: bool, level: str, thread: str | None, as_json: bool, remote: str | None
) -> None:
    wanted = _Wanted(level, thread, as_json)
    shown = 0
    for text in (
        _here(wanted, lines, follow)
        if remote is None
        else _elsewhere(connect(remote), wanted, lines, follow)
    ):
        shown += 1
        click.echo(text)
    if not shown and lines:
        of_thread = f" of thread {clean(thread)}" if thread else ""
        of_level = f" of level {level} or above" if level != "debug" else ""
        click.echo(f"no line{of_thread}{of_level}", err=True)


def _here(wanted: _Wanted, lines: int, follow: bool) -> Iterator[str]:
    path = find_home(os.environ).log
    if not path.exists() and not follow:
        raise click.ClickException(f"{path}: there is no log yet; it begins with: ohmo run")
    position = path.stat().st_size if path.exists() else 0
    yield from _last(path, position, lines, wanted)
    for line in growing(path, position) if follow else ():
        if (text := wanted.text(line)) is not None:
            yield text


def _elsewhere(client: Client, wanted: _Wanted, lines: int, follow: bool) -> Iterator[str]:
    found: deque[str] = deque()
    after, since = None, ""
    # newest first; the house cannot be asked for a part of a thread's name, so what it gives is
    # looked through once more
    while True:
        page = client.get(
            "/api/v1/logs", level=wanted.level, q=wanted.thread, limit=1000, after=after
        )
        since = since or str(page["since"])
        found.extendleft(
            text for event in page["logs"] if (text := wanted.text(_line(event))) is not None
        )
        after = page["next"]
        if after is None or len(found) >= lines:
            break
    yield from list(found)[max(0, len(found) - lines) :]
    if follow:
        with client.log(level=wanted.level, words=wanted.thread or "", since=since) as events:
            for event in events:
                if (
                    event is not None
                    and event.kind == "log"
                    and (text := wanted.text(_line(event.data))) is not None
                ):
                    yield text


def _line(event: Mapping[str, Any]) -> str:
    return json.dumps(
        {name: value for name, value in event.items() if name != "place"}, ensure_ascii=False
    )


class _Wanted:
    def __init__(self, level: str, thread: str | None, as_json: bool) -> None:
        self.level = level
        self.thread = thread
        self._least = _RANK[level]
        self._thread = thread
        self._as_json = as_json

    def text(self, line: str) -> str | None:
        """The line as it is shown; None when it is less grave than asked for."""
        known = _event(line)
        if self._thread is not None and (
            known is None or self._thread not in str(known.get("thread", ""))
        ):
            return None
        if known is None:
            return line.rstrip("\n") if self._as_json else clean(line.strip())
        if _RANK.get(str(known.get("level")), 1) < self._least:
            return None
        if self._as_json:
            return line.rstrip("\n")
        rest = " ".join(
            f"{key}={clean(value)}"
            for key, value in known.items()
            if key not in ("at", "level", "event", "exception")
        )
        trace = f"\n{known['exception']}" if "exception" in known else ""
        return (
            f"{clean(known.get('at'))} {clean(known.get('level')):8} {clean(known.get('event'))}"
            f" {rest}".rstrip()
            + trace
        )


def _last(path: Path, end: int, lines: int, wanted: _Wanted) -> deque[str]:
    """The last so many, from older files too when the present one has not enough."""
    found: deque[str] = deque()
    plain = (path.with_name(f"{path.name}.{number}") for number in range(1, 100))
    older = (
        one if one.exists() else one.with_name(f"{one.name}.gz") for one in plain
    )  # both stand there while one is packed
    for file in (one for one in (path, *older) if one.exists()):
        if len(found) >= lines:
            break
        text = _text(file, end if file == path else -1)
        shown = [line for one in text.splitlines() if (line := wanted.text(one)) is not None]
        found.extendleft(reversed(shown[max(0, len(shown) - (lines - len(found))) :]))
    return found


def _text(file: Path, end: int) -> str:
    """What can be read of it; what cannot is said, and hides no other file."""
    found: list[bytes] = []
    try:
        with gzip.open(file, "rb") if file.suffix == ".gz" else file.open("rb") as raw:
            while (end < 0 or sum(map(len, found)) < end) and (
                piece := raw.read(_PIECE if end < 0 else end)
            ):
                found.append(piece)
    except (OSError, EOFError, zlib.error) as error:
        click.echo(
            f"ohmo: {file}: cannot be read further ({getattr(error, 'strerror', None) or error});"
            " the other files follow",
            err=True,
        )
    return b"".join(found).decode("utf-8", "replace")


def _event(line: str) -> dict[str, Any] | None:
    try:
        found: Any = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None  # pyright: ignore[reportUnknownVariableType] - JSON


_PIECE = 1 << 16  # bytes
_RANK = {"debug": 0, "info": 1, "warning": 2, "error": 3, "critical": 4}
