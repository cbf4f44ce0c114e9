"""Show the log of this home, newest last."""

from __future__ import annotations

import json
import os
from collections import deque
from typing import Any

import click

from ohmo.cli.show import clean
from ohmo.cli.tail import growing
from ohmo.config.home import find_home


@click.command("logs", help=__doc__)
@click.option("-n", "--lines", type=click.IntRange(0, 100_000), default=50, show_default=True, help="The last so many lines.")
@click.option("-f", "--follow", is_flag=True, help="Go on as the log grows.")
@click.option("--level", type=click.Choice(["debug", "info", "warning", "error"]), default="debug", help="At least this grave.")
@click.option("--json", "as_json", is_flag=True, help="Lines as they are in the file.")
def COMMAND(lines: int, follow: bool, level: str, as_json: bool) -> None:  # noqa: N802 - the name every command file exports
    path = find_home(os.environ).log
    if not path.exists() and not follow:
        raise click.ClickException(f"{path}: there is no log yet; it begins with: ohmo run")
    wanted = _Wanted(level, as_json)
    position = 0
    if path.exists():
        with path.open(encoding="utf-8", errors="replace") as file:
            for text in deque((text for line in file if (text := wanted.text(line)) is not None), maxlen=lines):
                click.echo(text)
            position = file.tell()
    for line in growing(path, position) if follow else ():
        if (text := wanted.text(line)) is not None:
            click.echo(text)


class _Wanted:
    def __init__(self, level: str, as_json: bool) -> None:
        self._least = _RANK[level]
        self._as_json = as_json

    def text(self, line: str) -> str | None:
        """The line as it is shown; None when it is less grave than asked for."""
        known = _event(line)
        if known is None:
            return line.rstrip("\n") if self._as_json else clean(line.strip())
        if _RANK.get(str(known.get("level")), 1) < self._least:
            return None
        if self._as_json:
            return line.rstrip("\n")
        rest = " ".join(f"{key}={clean(value)}" for key, value in known.items() if key not in ("at", "level", "event", "exception"))
        trace = f"\n{known['exception']}" if "exception" in known else ""
        return f"{clean(known.get('at'))} {clean(known.get('level')):8} {clean(known.get('event'))} {rest}".rstrip() + trace


def _event(line: str) -> dict[str, Any] | None:
    try:
        found: Any = json.loads(line)
    except ValueError:
        return None
    return found if isinstance(found, dict) else None  # pyright: ignore[reportUnknownVariableType] - JSON


_RANK = {"debug": 0, "info": 1, "warning": 2, "error": 3, "critical": 4}
