"""Take a backup back; what it replaces is kept aside. Refuses while the daemon runs."""

from __future__ import annotations

import os
import shlex
from datetime import UTC, datetime
from pathlib import Path

import click


@click.command("restore", help=__doc__)
@click.argument("path", type=click.Path(path_type=Path))
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def COMMAND(path: Path, as_json: bool) -> None:
    from ohmo.cli.show import as_json_text
    from ohmo.config.home import find_home
    from ohmo.storefile.archive import backups
    from ohmo.storefile.lock import hold_home
    from ohmo.storefile.restore import restore

    home = find_home(os.environ)
    if path.is_dir():
        found = backups(path, datetime.now(UTC))
        if not found:
            raise click.ClickException(
                f"{path}: there is no backup in it; ohmo backup {path} makes one"
            )
        path = found[-1].path
    home.prepare()
    with hold_home(home.root):
        done = restore(path.expanduser().absolute(), home.root, datetime.now(UTC))
    if as_json:
        rows = {
            "path": str(path),
            "restored": list(done.names),
            "rows": dict(done.rows),
            "aside": str(done.aside) if done.aside else None,
        }
        if done.reconciled is not None:
            rows |= {
                "open": done.reconciled.open,
                "unsent": done.reconciled.unsent,
                "later_known": done.reconciled.later,
            }
        click.echo(as_json_text(rows))
        return
    click.echo(f"restored {', '.join(done.names)} with {sum(done.rows.values())} rows from {path}")
    if done.aside is not None:
        click.echo(f"what was there before lies in {done.aside}; delete it when nothing is missing")
    if done.reconciled is not None:
        lost = (
            done.aside
            if not done.reconciled.later
            and done.aside is not None
            and (done.aside / "ohmo.db").exists()
            else None
        )
        for line in _told(
            done.reconciled.open, done.reconciled.unsent, later=done.reconciled.later, lost=lost
        ):
            click.echo(line)
    click.echo("next: ohmo doctor, then ohmo run, or ohmo service start")


def _told(count: int, unsent: int, *, later: bool, lost: Path | None) -> list[str]:
    """What became of the messages that were open, and whether a platform may tell some of them
    again. ``lost``: where a store lies that could not be read whole."""
    from channels.text import some

    lines: list[str] = []
    if count:
        lines.append(
            f"{some(count, 'message')} had no answer yet and may have got one since; not tried"
            " again by themselves: ohmo inbox list --state dead"
        )
    if unsent:
        lines.append(
            f"{some(unsent, 'answer')} may not have come; not sent again by themselves: ohmo outbox"
            " list --state dead"
        )
    if not later:
        lines.append(
            "what was said since the backup is not known: where a platform keeps its history, ohmo"
            " reads it again and answers it"
        )
    if lost is not None:
        look = f"OHMO_HOME={shlex.quote(str(lost))} ohmo inbox list"
        lines.append(
            "the store that was replaced could not be read whole; what was open in it, as far as"
            f" it can be read: {look}"
        )
    return lines
