"""Open questions, and your answers."""

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
    clean_text,
    client_options,
    print_rows,
)


@click.group("approvals", cls=Group, help=__doc__)
def COMMAND() -> None:
    pass


@COMMAND.command("list")
@client_options
def list_(as_json: bool, remote: str | None) -> None:
    """What waits for an answer."""
    found = connect_or_open(remote).get("/api/v1/approvals")
    if as_json:
        click.echo(as_json_text(found["approvals"]))
        return
    columns: Columns = {
        "ID": lambda row: row["ask"]["id"],
        "ASKED": lambda row: ago(row["asked_at"]),
        "WHERE": lambda row: address(row["address"]),
        "FOR": lambda row: row["person"],
        "QUESTION": lambda row: clean(row["ask"]["question"]["title"]),
    }
    print_rows(found["approvals"], columns, "nothing waits for an answer")


@COMMAND.command()
@click.argument("id")
@client_options
def show(id: str, as_json: bool, remote: str | None) -> None:
    """One question, whole."""
    client = connect_or_open(remote)
    page = client.get("/api/v1/approvals")
    found = [row for row in page["approvals"] if row["ask"]["id"] == id]
    while not found and page["next"] is not None:
        page = client.get("/api/v1/approvals", after=page["next"])
        found = [row for row in page["approvals"] if row["ask"]["id"] == id]
    if not found:
        raise click.UsageError(
            f"{id!r}: no such question is open; `ohmo approvals list` shows those that are"
        )
    if as_json:
        click.echo(as_json_text(found[0]))
        return
    question = found[0]["ask"]["question"]
    click.echo(f"{clean(question['title'])}\n\n{clean_text(question['detail'])}".rstrip())


@COMMAND.command()
@click.argument("id")
@click.option(
    "--scope",
    type=click.Choice(["once", "session", "always", "workspace"]),
    default="once",
    show_default=True,
    help="How long it holds.",
)
@click.option("--word", default="", help="An answer in words, for questions of the agent.")
@client_options
def approve(id: str, scope: str, word: str, as_json: bool, remote: str | None) -> None:
    """Allow it."""
    _answer(id, {"verdict": "allowed", "scope": scope, "word": word}, as_json, remote)


@COMMAND.command()
@click.argument("id")
@click.option("--word", default="", help="Why not, or what to do instead.")
@client_options
def deny(id: str, word: str, as_json: bool, remote: str | None) -> None:
    """Refuse it."""
    _answer(id, {"verdict": "denied", "word": word}, as_json, remote)


def _answer(id: str, body: dict[str, str], as_json: bool, remote: str | None) -> None:
    if not id.isalnum():
        raise click.UsageError(f"{id!r}: expected an id as `ohmo approvals list` shows it")
    found = connect_or_open(remote).post(f"/api/v1/approvals/{id}", body)
    click.echo(as_json_text(found) if as_json else f"{id}: {body['verdict']}")
