"""Conversations: list, show, export, reset."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import click

from ohmo.cli.client import Client, Json, text_of
from ohmo.cli.connect import connect, connect_or_open
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

_PATIENCE = 10.0  # seconds; what is stored is carried out in any case


@click.group("sessions", cls=Group, help=__doc__)
def COMMAND() -> None:
    pass


@COMMAND.command("list")
@click.option("--channel", help="Only of this channel.")
@click.option("--limit", type=click.IntRange(1, 1000), default=50, show_default=True)
@client_options
def list_(channel: str | None, limit: int, as_json: bool, remote: str | None) -> None:
    """The latest conversations."""
    rows = connect_or_open(remote).get("/api/v1/sessions", channel=channel, limit=limit)["sessions"]
    if as_json:
        click.echo(as_json_text(rows))
        return
    columns: Columns = {
        "ID": lambda row: row["thread"],
        "LAST": lambda row: ago(row["last_at"]),
        "WHERE": lambda row: address(row["address"]),
        "STATE": lambda row: row["state"],
        "TITLE": lambda row: row["title"],
    }
    print_rows(rows, columns, "no conversation yet")


@COMMAND.command()
@click.argument("id")
@click.option(
    "--limit",
    type=click.IntRange(1, 1000),
    default=20,
    show_default=True,
    help="The last so many items.",
)
@click.option("--context", is_flag=True, help="What its next request would be made of instead.")
@client_options
def show(id: str, limit: int, context: bool, as_json: bool, remote: str | None) -> None:
    """One conversation, its last items."""
    client = connect_or_open(remote)
    if context:
        usage = client.get(f"/api/v1/sessions/{_id(id)}/context")
        lines = "\n".join(map(clean, usage["lines"]))
        click.echo(as_json_text(usage["context"]) if as_json else lines)
        return
    session, items = _whole(client, _id(id))
    items = items[-limit:]
    if as_json:
        click.echo(as_json_text({"session": session, "history": items}))
        return
    click.echo(
        f"{session['thread']} at {address(session['address'])}, {session['state']}, last"
        f" {ago(session['last_at'])} ago"
    )
    for line in _lines(items):
        click.echo(line)


@COMMAND.command()
@click.argument("id")
@client_options
def export(id: str, as_json: bool, remote: str | None) -> None:
    """A whole conversation as Markdown, or with --json one item per line."""
    session, items = _whole(connect_or_open(remote), _id(id))
    if as_json:
        for item in [session, *items]:
            click.echo(json.dumps(item, ensure_ascii=False))
        return
    click.echo(f"# {clean(session['title'] or address(session['address']))}\n")
    for line in _lines(items):
        click.echo(line + "\n")


@COMMAND.command()
@click.argument("id")
@client_options
def reset(id: str, as_json: bool, remote: str | None) -> None:
    """Stop what runs and waits in a conversation and begin a new session there, as /new does.
    Nothing is deleted."""
    client = connect(remote)
    stored = client.post(f"/api/v1/sessions/{_id(id)}/reset", {})
    path = f"/api/v1/inbox/{stored['thread']}/{stored['seq']}"
    deadline = time.monotonic() + _PATIENCE
    while (row := client.get(path))["state"] != "ended" and time.monotonic() < deadline:
        time.sleep(0.05)
    done = row["state"] == "ended"
    if as_json:
        click.echo(as_json_text({**stored, "done": done}))
    elif done:
        click.echo(f"{id}: a new session begins")
    else:
        click.echo(
            f"{id}: stored, and not carried out yet; ohmo inbox why {id}/{stored['seq']} says more"
        )


@COMMAND.command()
@click.argument("id")
@client_options
def replay(id: str, as_json: bool, remote: str | None) -> None:
    """Make the requests and decisions of a conversation's present session again, from its log, and
    compare: what was sent to the model byte for byte, permissions by today's rules. Nothing is run
    and nobody is asked. Exit 1 at the first difference, or with nothing to compare."""
    found = connect_or_open(remote).get(f"/api/v1/sessions/{_id(id)}/replay")
    compared = found["calls"] - found["unrecorded"]
    if as_json:
        click.echo(as_json_text(found))
    elif found["difference"] is not None:
        click.echo(f"step {found['seq']}: {clean(found['difference'])}")
        click.echo(
            f"before it: {found['same']} requests the same, {found['judged']} decisions the same"
        )
    elif not compared:
        click.echo("nothing to compare: no request of this session was recorded")
    else:
        click.echo(
            f"{found['same']} of {compared} requests are the same byte for byte, {found['judged']}"
            " decisions are the same"
        )
        if found["unrecorded"]:
            click.echo(
                f"{found['unrecorded']} more were not recorded: made by an older ohmo, or without"
                " a model endpoint"
            )
    if found["difference"] is not None or not found["same"]:
        raise click.exceptions.Exit(1)


def _id(text: str) -> str:
    if not text.isalnum():
        raise click.UsageError(f"{text!r}: expected an id as `ohmo sessions list` shows it")
    return text


def _whole(client: Client, thread: str) -> tuple[Json, list[Json]]:
    items: list[Json] = []
    session: Json = {}
    for page in client.history(thread, 0):
        session = page["session"]
        items += page["history"]
    return session, items


def _lines(items: list[Json]) -> Iterator[str]:
    for item in items:
        match item["type"]:
            case "arrival_info" if item["kind"] in ("message", "wake"):
                arrival = item["arrival"]
                name = arrival["person"]["name"] if item["kind"] == "message" else item["person"]
                yield (
                    f"**{clean(name)}:**"
                    f" {clean_text(arrival.get('text') or arrival.get('prompt') or '')}"
                )
            case "step_info" if item["step"]["type"] == "model_step":
                if text := text_of(item["step"]):
                    yield f"**ohmo:** {clean_text(text)}"
                for block in item["step"]["blocks"]:
                    if block["type"] == "tool_call":
                        arguments = clean(json.dumps(block["arguments"], ensure_ascii=False))
                        yield f"- {clean(block['name'])} {arguments[:300]}"
            case "step_info" if item["step"]["type"] == "call_result":
                yield f"  → {clean(item['step']['result']['text'])[:300]}"
            case _:
                pass
