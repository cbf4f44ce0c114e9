"""Folders that bring skills, hooks, MCP servers and commands: which there are."""

from __future__ import annotations

import click

from ohmo.cli.connect import connect_or_open
from ohmo.cli.show import Columns, Group, as_json_text, clean, client_options, print_rows

_STATES = {"untrusted": "not trusted"}
_COLUMNS: Columns = {
    "NAME": lambda row: clean(row["name"]),
    "VERSION": lambda row: clean(row["version"]),
    "STATE": lambda row: _STATES.get(row["state"], row["state"]),
    "WHAT FOR, OR WHY NOT": lambda row: clean(row["why"] or row["description"]),
}


@click.group("plugins", cls=Group, help=__doc__)
def COMMAND() -> None:
    pass


@COMMAND.command("list")
@client_options
def list_(as_json: bool, remote: str | None) -> None:
    """Those of $OHMO_HOME/plugins, and what each may run."""
    found = connect_or_open(remote).get("/api/v1/plugins")["plugins"]
    if as_json:
        click.echo(as_json_text(found))
        return
    print_rows(found, _COLUMNS, "there are no plugins; docs/plugins.md says where they belong")
    for row in found:
        if row["may"]:
            click.echo(clean(f"{row['name']}: it {row['may']}"))
        for line in row["notes"]:
            click.echo(f"note: {clean(row['name'])}: {clean(line)}", err=True)
