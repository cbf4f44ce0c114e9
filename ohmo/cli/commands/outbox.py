"""What is being said, and what could not be said."""

from __future__ import annotations

import click

from ohmo.cli.connect import connect_or_open
from ohmo.cli.show import (
    Columns,
    Group,
    address,
    ago,
    as_json_text,
    clean,
    client_options,
    print_rows,
)


@click.group("outbox", cls=Group, help=__doc__)
def COMMAND() -> None:
    pass


@COMMAND.command("list")
@click.option(
    "--state",
    type=click.Choice(["ready", "sending", "sent", "dropped", "dead"]),
    help="Only these.",
)
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@client_options
def list_(state: str | None, limit: int, as_json: bool, remote: str | None) -> None:
    """The newest posts."""
    found = connect_or_open(remote).get("/api/v1/outbox", state=state, limit=limit)
    if as_json:
        click.echo(as_json_text(found["outbox"]))
        return
    columns: Columns = {
        "ID": lambda row: row["row"]["id"],
        "WRITTEN": lambda row: ago(row["started"]),
        "WHERE": lambda row: address(row["row"]["outbound"]["address"]),
        "KIND": lambda row: row["row"]["kind"],
        "STATE": lambda row: row["state"],
        "TRIES": lambda row: row["attempts"],
        "TEXT": lambda row: clean(row["row"]["outbound"]["text"])[:80],
    }
    print_rows(
        found["outbox"], columns, f"nothing is {state}" if state else "nothing was posted yet"
    )


@COMMAND.command()
@click.argument("id")
@client_options
def retry(id: str, as_json: bool, remote: str | None) -> None:
    """Send a dead post again."""
    _act(id, "retry", "will be sent again", as_json, remote)


@COMMAND.command()
@click.argument("id")
@client_options
def drop(id: str, as_json: bool, remote: str | None) -> None:
    """Do not send a waiting post."""
    _act(id, "drop", "will not be sent", as_json, remote)


def _act(id: str, what: str, done: str, as_json: bool, remote: str | None) -> None:
    if not id.isalnum():
        raise click.UsageError(f"{id!r}: expected an id as `ohmo outbox list` shows it")
    found = connect_or_open(remote).post(f"/api/v1/outbox/{id}/{what}", {})
    click.echo(as_json_text(found) if as_json else f"{id}: {done}")
