"""What is remembered: notes in plain files, and changes that wait for your word."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click

from ohmo.cli.connect import connect_or_open
from ohmo.cli.show import (
    Columns,
    Group,
    ago,
    as_json_text,
    clean,
    clean_text,
    client_options,
    print_rows,
)

_API = "/api/v1/memory"
_COLUMNS: Columns = {
    "NAME": lambda row: row["name"],
    "SAID": lambda row: ago(row["at"] or None),
    "BY": lambda row: clean(row["said_by"]),
    "TITLE": lambda row: clean(row["title"]),
}


@click.group("memory", cls=Group, help=__doc__)
def COMMAND() -> None:
    pass


@COMMAND.command("list")
@click.option("--limit", type=click.IntRange(1, 1000), default=200, show_default=True)
@client_options
def list_(limit: int, as_json: bool, remote: str | None) -> None:
    """All notes, the newest first."""
    found = connect_or_open(remote).get(_API, limit=limit)
    if as_json:
        click.echo(as_json_text(found["notes"]))
        return
    print_rows(found["notes"], _COLUMNS, "nothing is remembered yet")
    for line in found["problems"]:
        click.echo(f"note: {clean(line)}", err=True)


@COMMAND.command()
@click.argument("words", nargs=-1, required=True)
@click.option("--limit", type=click.IntRange(1, 100), default=5, show_default=True)
@client_options
def search(words: tuple[str, ...], limit: int, as_json: bool, remote: str | None) -> None:
    """The notes that fit these words best."""
    found = connect_or_open(remote).get(_API, text=" ".join(words), limit=limit)
    if as_json:
        click.echo(as_json_text(found["notes"]))
        return
    print_rows(found["notes"], _COLUMNS, "nothing that is remembered fits")


@COMMAND.command()
@click.argument("name")
@client_options
def show(name: str, as_json: bool, remote: str | None) -> None:
    """One note, whole, with who said it where."""
    note = connect_or_open(remote).get(f"{_API}/note", name=name)
    if as_json:
        click.echo(as_json_text(note))
        return
    click.echo(clean(note["title"]))
    for key in ("said_by", "where", "at", "source", "description"):
        if note[key]:
            click.echo(f"{key.replace('_', ' ')}: {clean(note[key])}")
    click.echo(f"\n{clean_text(note['text'])}")


@COMMAND.command()
@click.argument("name")
@client_options
def forget(name: str, as_json: bool, remote: str | None) -> None:
    """Take a note away."""
    found = connect_or_open(remote).post(f"{_API}/forget", {"name": name})
    click.echo(as_json_text(found) if as_json else f"{name}: forgotten")


@COMMAND.command()
@client_options
def proposals(as_json: bool, remote: str | None) -> None:
    """What waits for your word, and what it would change."""
    found = connect_or_open(remote).get(f"{_API}/proposals")["proposals"]
    if as_json:
        click.echo(as_json_text(found))
        return
    for one in found:
        _show(one)
    if not found:
        click.echo("nothing waits for your word")


def _show(proposal: Mapping[str, Any]) -> None:
    behind = f", because of {proposal['why']}" if proposal["why"] else ""
    in_words = f"{proposal['number']}: {proposal['title']} (in {proposal['scope']}{behind})"
    click.echo(clean(in_words))
    click.echo(f"{clean_text(proposal['diff'])}\n")


@COMMAND.command()
@click.argument("scope", default="owner")
@client_options
def tidy(scope: str, as_json: bool, remote: str | None) -> None:
    """Have a model look for notes that say the same, are outdated or have a wrong title.

    SCOPE: what stands before the last stroke of a note's name, as `list` shows it. Nothing is
    changed before you accept it.
    """
    client = connect_or_open(remote, timeout=180.0)
    proposal = client.post(f"{_API}/tidy", {"scope": scope})["proposal"]
    if as_json:
        click.echo(as_json_text(proposal))
    elif proposal is None:
        click.echo("there is nothing to tidy")
    else:
        _show(proposal)
        number = proposal["number"]
        click.echo(f"ohmo memory accept {number}, or ohmo memory reject {number}")


@COMMAND.command()
@click.argument("number", type=click.IntRange(1, 999_999_999))
@client_options
def accept(number: int, as_json: bool, remote: str | None) -> None:
    """Do what a proposal says."""
    _decide(number, "accept", "done", as_json, remote)


@COMMAND.command()
@click.argument("number", type=click.IntRange(1, 999_999_999))
@client_options
def reject(number: int, as_json: bool, remote: str | None) -> None:
    """Do not do what a proposal says."""
    _decide(number, "reject", "nothing was changed", as_json, remote)


@COMMAND.command()
@click.argument("number", type=click.IntRange(1, 999_999_999))
@client_options
def undo(number: int, as_json: bool, remote: str | None) -> None:
    """Take back what an accepted proposal did."""
    _decide(number, "undo", "taken back", as_json, remote)


def _decide(number: int, what: str, done: str, as_json: bool, remote: str | None) -> None:
    found = connect_or_open(remote).post(f"{_API}/proposals/{number}/{what}", {})
    click.echo(as_json_text(found) if as_json else clean(f"{found['title']}: {done}"))


@COMMAND.command()
@client_options
def path(as_json: bool, remote: str | None) -> None:
    """The folder with its files, which you may read and edit."""
    folder = connect_or_open(remote).get(_API, limit=0)["path"]
    click.echo(as_json_text({"path": folder}) if as_json else str(Path(folder)))
