"""Who may talk to ohmo, and who asks to."""

from __future__ import annotations

import click

from ohmo.cli.connect import connect_or_open
from ohmo.cli.show import (
    Columns,
    Group,
    Row,
    as_json_text,
    clean,
    client_options,
    print_rows,
    until,
)


@click.group("pairing", cls=Group, help=__doc__)
def COMMAND() -> None:
    pass


@COMMAND.command("list")
@client_options
def list_(as_json: bool, remote: str | None) -> None:
    """Everybody who was let in or asks to be."""
    found = connect_or_open(remote).get("/api/v1/pairing")
    if as_json:
        click.echo(as_json_text(found["people"]))
        return
    columns: Columns = {
        "PERSON": _name,
        "NAME": lambda row: row["name"],
        "ROLE": lambda row: row["role"],
        "ACCOUNT": lambda row: row["account"],
        "BY": lambda row: row["by"],
        "CODE UNTIL": lambda row: until(row["expires"]) if row["role"] == "asking" else "-",
    }
    print_rows(found["people"], columns, "nobody was let in yet; who writes to the bot gets a code")


@COMMAND.command()
@click.argument("code")
@click.option(
    "--role",
    type=click.Choice(("guest", "user", "admin")),
    help="Default: guest; user for the first one where no owner is named.",
)
@client_options
def approve(code: str, role: str | None, as_json: bool, remote: str | None) -> None:
    """Let in the person who shows this code; they are told, and what they wrote is answered."""
    from ohmo.gateway.people import MAY

    found = connect_or_open(remote).post("/api/v1/pairing", {"code": code.strip(), "role": role})
    said = (
        f"{_name(found)} ({clean(found['name'])}) is let in as {found['role']}."
        f" {MAY[found['role']]}"
    )
    click.echo(as_json_text(found) if as_json else said)


@COMMAND.command()
@click.argument("person", metavar="CHANNEL:PERSON")
@click.option("--account", help="When the person is known to several accounts of the platform.")
@client_options
def revoke(person: str, account: str | None, as_json: bool, remote: str | None) -> None:
    """Let somebody in no more."""
    client = connect_or_open(remote)
    channel, _, who = person.partition(":")
    rows = [
        row
        for row in client.get("/api/v1/pairing")["people"]
        if (row["channel"], row["person"]) == (channel, who)
    ]
    rows = [row for row in rows if account in (None, row["account"])]
    if not rows:
        raise click.ClickException(f"{person}: was never let in; `ohmo pairing list` shows who was")
    if len(rows) > 1:
        raise click.UsageError(
            f"{person} is known to several accounts; add --account"
            f" {' or '.join(row['account'] for row in rows)}"
        )
    found = client.post(
        "/api/v1/pairing/revoke", {"channel": channel, "account": rows[0]["account"], "person": who}
    )
    click.echo(as_json_text(found) if as_json else f"{person}: is let in no more")


def _name(row: Row) -> str:
    return f"{row['channel']}:{row['person']}"
