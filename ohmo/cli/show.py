"""What commands share: their options and groups, aligned columns for people, JSON for programs,
times, and text that cannot command a terminal."""

from __future__ import annotations

import json
import os
import shutil
import sys
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, ParamSpec, TypeVar

import click

from channels.text import wall
from ohmo.cron.times import local_zone, zone_of

P = ParamSpec("P")
R = TypeVar("R")
Row = Mapping[str, Any]
Columns = Mapping[str, Callable[[Row], object]]


def client_options(function: Callable[P, R]) -> Callable[P, R]:
    """``--json`` and ``--remote``."""
    function = click.option(
        "--remote", metavar="URL", help="A daemon elsewhere; its token in OHMO_TOKEN."
    )(function)
    return click.option("--json", "as_json", is_flag=True, help="Print JSON.")(function)


def warn(line: str) -> None:
    """On standard error, beside whatever is printed."""
    click.echo(f"ohmo: warning: {clean(line)}", err=True)


def as_json_text(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2)


def print_rows(rows: Sequence[Row], columns: Columns, empty: str) -> None:
    """One line for each row; ``empty`` when there is none. Lines are cut at a terminal's width, but
    never the reason of a trouble (``DETAIL``)."""
    if not rows:
        click.echo(empty)
        return
    lines = [[clean(read(row)) for read in columns.values()] for row in rows]
    table = [list(columns), *lines]
    widths = [max(map(_width, column)) for column in zip(*table, strict=True)]
    screen = 10_000
    if "DETAIL" not in columns and sys.stdout.isatty():
        screen = max(shutil.get_terminal_size((160, 24)).columns, 60)
    for cells in table:
        padded: list[str] = []
        for cell, width in zip(cells, widths, strict=True):
            padded.append(cell + " " * (width - _width(cell)))
        line = "  ".join(padded).rstrip()
        if len(line) > screen:
            line = f"{line[: screen - 1]}…"
        click.echo(line)


def address(value: Row | None) -> str:
    """``slack:C123/1700.1``."""
    if value is None:
        return ""
    place = f"{value.get('channel')}:{value.get('chat')}"
    topic = value.get("topic")
    return f"{place}/{topic}" if topic else place


def ago(value: object, now: datetime | None = None) -> str:
    """``3 min`` since an ISO time; ``-`` for none."""
    if not isinstance(value, str):
        return "-"
    now = now or datetime.now(UTC)
    seconds = (now - datetime.fromisoformat(value)).total_seconds()
    for unit, size in (("d", 86_400), ("h", 3_600), ("min", 60)):
        if seconds >= size:
            return f"{seconds / size:.0f} {unit}"
    return f"{max(seconds, 0):.0f} s"


def moment(value: object) -> str:
    """``2026-11-22 16:02:17 CET (Europe/Berlin)`` of an ISO time, in the zone of this terminal;
    ``-`` for none."""
    if not isinstance(value, str):
        return "-"
    zone = zone_of(local_zone(os.environ))
    return wall(datetime.fromisoformat(value), zone, "%Y-%m-%d %H:%M:%S")


def until(value: object, now: datetime | None = None) -> str:
    """``in 55 min`` until an ISO time, ``over`` when it has passed; ``-`` for none."""
    if not isinstance(value, str):
        return "-"
    then = datetime.fromisoformat(value)
    now = now or datetime.now(UTC)
    if then <= now:
        return "over"
    return f"in {ago(now.isoformat(), then)}"


def ended_how(ending: str) -> str:
    """As a person calls the ending of a message."""
    return "failed" if ending == "dead" else ending


def clean(value: object) -> str:
    """One line without characters that command a terminal or reorder what it shows."""
    text = "-" if value is None or value == "" else str(value)
    forbidden = ("Cc", "Cf", "Cs", "Zl", "Zp")
    return "".join(" " if unicodedata.category(c) in forbidden else c for c in text)


def clean_text(text: str) -> str:
    """The same for text of several lines: line feed and tab stay."""
    kept = "\n\t\u200d"
    forbidden = ("Cc", "Cf", "Cs")
    return "".join(
        "\ufffd" if c not in kept and unicodedata.category(c) in forbidden else c for c in text
    )


def _width(text: str) -> int:
    width = 0
    for c in text:
        if unicodedata.combining(c):
            continue
        width += 2 if unicodedata.east_asian_width(c) in "WF" else 1
    return width


class Group(click.Group):
    """Like click's own, which cuts a sentence that does not fit into one line."""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        rows: list[tuple[str, str]] = []
        for name in self.list_commands(ctx):
            command = self.get_command(ctx, name)
            if command is not None:
                rows.append((name, command.get_short_help_str(limit=1000).rstrip(".")))
        with formatter.section("Commands"):
            formatter.write_dl(rows)
