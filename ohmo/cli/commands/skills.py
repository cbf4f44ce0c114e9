"""Instructions for kinds of work, as folders: which there are, and what is wrong with one."""

from __future__ import annotations

from pathlib import Path

import click

from ohmo.cli.connect import connect_or_open
from ohmo.cli.show import Columns, Group, as_json_text, clean, client_options, print_rows

_COLUMNS: Columns = {
    "NAME": lambda row: clean(row["name"]),
    "FROM": lambda row: row["source"],
    "STATE": lambda row: row["state"],
    "WHAT FOR, OR WHY NOT": lambda row: clean(row["why"] or row["description"])[:120],
}


@click.group("skills", cls=Group, help=__doc__)
def COMMAND() -> None:
    pass


@COMMAND.command("list")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False, resolve_path=True),
    help="The folder that is worked in.  [default: the workspace]",
)
@client_options
def list_(folder: Path | None, as_json: bool, remote: str | None) -> None:
    """All of them, in the order in which they count."""
    asked = {} if folder is None else {"folder": str(folder)}
    found = connect_or_open(remote).get("/api/v1/skills", **asked)["skills"]
    if as_json:
        click.echo(as_json_text(found))
        return
    print_rows(found, _COLUMNS, "there are no skills")
