"""What people allowed for longer than once."""

from __future__ import annotations

import click

from ohmo.cli.connect import connect_or_open
from ohmo.cli.show import Columns, Group, ago, as_json_text, client_options, print_rows


@click.group("permissions", cls=Group, help=__doc__)
def COMMAND() -> None:
    pass


@COMMAND.command("list")
@client_options
def list_(as_json: bool, remote: str | None) -> None:
    """Every permission that was given with a button, with the rule it stands for."""
    found = connect_or_open(remote).get("/api/v1/permissions")["permissions"]
    if as_json:
        click.echo(as_json_text(found))
        return
    columns: Columns = {
        "ID": lambda row: row["id"],
        "GIVEN": lambda row: ago(row["at"]),
        "FOR": lambda row: row["person"],
        "UNTIL": lambda row: "revoked" if row["until"] == "always" else "its session ends",
        "ALLOWS": lambda row: row["means"],
        "RULE": lambda row: row["rule"],
    }
    print_rows(
        found,
        columns,
        "nothing was allowed for longer than once; rules of config.yaml are not listed here",
    )


@COMMAND.command()
@click.argument("id")
@client_options
def revoke(id: str, as_json: bool, remote: str | None) -> None:
    """Take one back: the next call it covered asks again."""
    if not id.isalnum():
        raise click.UsageError(f"{id!r}: expected an id as `ohmo permissions list` shows it")
    found = connect_or_open(remote).post(f"/api/v1/permissions/{id}/revoke", {})
    click.echo(as_json_text(found) if as_json else f"{id}: revoked")
