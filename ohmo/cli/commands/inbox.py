"""What arrived, what became of it, and why."""

from __future__ import annotations

import click

from channels.text import some
from ohmo.cli.connect import connect_or_open
from ohmo.cli.show import (
    Columns,
    Group,
    Row,
    address,
    ago,
    as_json_text,
    clean,
    client_options,
    print_rows,
)

_STATES = (
    "waiting",
    "taken",
    "ended",
    "answered",
    "merged",
    "noted",
    "refused",
    "stopped",
    "superseded",
    "dead",
)  # as the API knows them


@click.group("inbox", cls=Group, help=__doc__)
def COMMAND() -> None:
    pass


@COMMAND.command("list")
@click.option(
    "--state",
    type=click.Choice(_STATES),
    metavar="STATE",
    help=f"Only these: {', '.join(_STATES)}.",
)
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@client_options
def list_(state: str | None, limit: int, as_json: bool, remote: str | None) -> None:
    """The newest messages, also those of jobs and buttons."""
    found = connect_or_open(remote).get("/api/v1/inbox", state=state, limit=limit)
    if as_json:
        click.echo(as_json_text(found["inbox"]))
        return
    columns: Columns = {
        "ID": _id,
        "SAID": lambda row: ago(row["said_at"]),
        "WHERE": lambda row: address(_place(row)),
        "PERSON": lambda row: row["person"],
        "KIND": lambda row: row["kind"],
        "STATE": lambda row: row["ending"] or row["state"],
        "TEXT": _text,
    }
    print_rows(
        found["inbox"], columns, f"nothing is {state}" if state else "nothing has arrived yet"
    )


@COMMAND.command()
@client_options
@click.pass_context
def audit(ctx: click.Context, as_json: bool, remote: str | None) -> None:
    """Prove that every message that was taken in has one end or is on its way; exit 1 when not."""
    found = connect_or_open(remote).get("/api/v1/inbox/audit")
    if as_json:
        click.echo(as_json_text(found))
    else:
        endings = _numbers(found["endings"]) or "none ended"
        click.echo(
            f"{found['accepted']} accepted: {endings}, {found['waiting']} waiting, {found['taken']}"
            " in work"
        )
        click.echo(f"posts: {_numbers(found['posts']) or 'none'}")
        for line in found["problems"]:
            click.echo(f"problem: {clean(line)}")
        click.echo(
            "nothing is lost" if not found["problems"] else some(len(found["problems"]), "problem")
        )
    ctx.exit(1 if found["problems"] else 0)


@COMMAND.command()
@click.argument("id")
@client_options
def why(id: str, as_json: bool, remote: str | None) -> None:
    """What became of one message (ID as in list: THREAD/SEQ)."""
    thread, seq = _split(id)
    found = connect_or_open(remote).get(f"/api/v1/inbox/{thread}/{seq}")
    if as_json:
        click.echo(as_json_text(found))
        return
    click.echo(
        f"{_id(found)}: {found['kind']} of {clean(found['person'])} at {address(_place(found))},"
        f" said {ago(found['said_at'])} ago"
    )
    click.echo(f"text: {_text(found)}")
    line = f"state: {found['ending'] or found['state']}"
    if found["reason"]:
        line += f" ({clean(found['reason'])})"
    if found["turn"]:
        line += f", turn {found['turn']}"
    click.echo(line)


@COMMAND.command()
@click.argument("id")
@client_options
def retry(id: str, as_json: bool, remote: str | None) -> None:
    """Try a failed message again (ID as in list: THREAD/SEQ)."""
    thread, seq = _split(id)
    found = connect_or_open(remote).post(f"/api/v1/inbox/{thread}/{seq}/retry", {})
    click.echo(as_json_text(found) if as_json else f"{id}: will be tried again")


def _numbers(counts: Row) -> str:
    return ", ".join(f"{number} {name}" for name, number in counts.items())


def _split(text: str) -> tuple[str, int]:
    thread, slash, seq = text.rpartition("/")
    if not slash or not thread.isalnum() or not seq.isascii() or not seq.isdigit():
        raise click.UsageError(f"{text!r}: expected THREAD/SEQ as `ohmo inbox list` shows it")
    return thread, int(seq)


def _id(row: Row) -> str:
    return f"{row['thread']}/{row['seq']}"


def _place(row: Row) -> Row | None:
    arrival = row["arrival"]
    return arrival.get("address") or arrival.get("place")


def _text(row: Row) -> str:
    arrival = row["arrival"]
    values: list[object] = [arrival.get(name) for name in ("text", "prompt", "emoji", "choice")]
    return clean(next((value for value in values if value), None))[:80]
