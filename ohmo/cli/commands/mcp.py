"""MCP servers: whether they are connected, and their tools."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import click

from ohmo.cli.client import Client
from ohmo.cli.connect import connect
from ohmo.cli.main import FAILED
from ohmo.cli.show import Columns, Group, as_json_text, clean, client_options, print_rows
from ohmo.contracts.errors import OhmoError

_API = "/api/v1/mcp"
_COLUMNS: Columns = {
    "NAME": lambda row: row["name"],
    "KIND": lambda row: row["kind"],
    "STATE": lambda row: row["state"],
    "TOOLS": lambda row: str(len(row["tools"])),
    "OFF": lambda row: str(len(row["off"]) + len(row["waiting"])),
    "ERROR": lambda row: clean(row["error"]),
}


@click.group("mcp", cls=Group, help=__doc__)
def COMMAND() -> None:
    pass


@COMMAND.command("list")
@client_options
def list_(as_json: bool, remote: str | None) -> None:
    """All servers: of the configuration, and of the workspace's .mcp.json once you trust it."""
    house = connect(remote)
    found = house.get(_API)
    rows = found["servers"]
    if as_json:
        click.echo(as_json_text(rows))
    else:
        none = "no MCP server is configured; docs/mcp.md says how"
        print_rows(rows, _COLUMNS, none if rows else _due(house) or none)
    for row in () if as_json else rows:
        for line in _off(row):
            click.echo(f"{row['name']}: {line}", err=True)
    for line in found["notes"]:
        click.echo(clean(line), err=True)


@COMMAND.command()
@click.argument("name")
@client_options
def test(name: str, as_json: bool, remote: str | None) -> None:
    """Ask a server for its tools now, and list them."""
    found = connect(remote, timeout=90.0).post(f"{_API}/{name}/test", {})
    if as_json:
        click.echo(as_json_text(found))
    else:
        _show(found)
    if found["state"] != "connected":
        raise SystemExit(FAILED)


@COMMAND.command()
@click.argument("name")
@click.option("--digest", default="", help="How it begins, as list and test show it.")
@client_options
def approve(name: str, digest: str, as_json: bool, remote: str | None) -> None:
    """Let tools that changed or came new be used as they are now."""
    found = connect(remote).post(f"{_API}/{name}/approve", {"digest": digest})
    click.echo(as_json_text(found) if as_json else f"{name}: {found['approved']} approved")


@COMMAND.command()
@click.argument("name")
def login(name: str) -> None:
    """Log in at a server that wants it, with the browser of this machine."""
    from ohmo.cli.home_config import load_config
    from ohmo.lifecycle import failure_of
    from ohmo.mcp.connection import connect as connected
    from ohmo.mcp.contract import Endpoint, login_of
    from ohmo.mcp.oauth import login as waiting
    from ohmo.mcp.server import one_line

    config = load_config()
    server = config.mcp.get(name)
    if server is None or server.url is None:
        raise click.UsageError(f"{name[:80]!r} is no server of the configuration with a url")
    headers = {key: config.vault.reveal(secret) for key, secret in server.headers.items()}
    kept = login_of(config.home.root, name)
    endpoint = Endpoint(
        name, server.transport, config.workspace, url=server.url, headers=headers, login=kept
    )
    asked: list[bool] = []  # whether a person had to

    def show(address: str) -> None:
        click.echo(f"open this in a browser on this machine:\n{clean(address)}")

    async def log_in() -> None:
        made = await waiting(kept, endpoint.url, show)
        async with connected(endpoint, lambda: None, made):
            asked.append(made.asked)

    error = asyncio.run(failure_of(log_in()))
    if error is not None:
        raise click.ClickException(f"{name}: {clean(one_line(error))}")
    click.echo(f"{name}: logged in" if any(asked) else f"{name}: it wants no login now")
    with suppress(OhmoError):  # a daemon that does not run needs no word
        connect(None, timeout=90.0).post(f"{_API}/{name}/test", {})


def _due(house: Client) -> str:
    """What is said where plugins bring servers to a house that began without any."""
    names = [
        one["name"]
        for one in house.get("/api/v1/plugins")["plugins"]
        if one["state"] == "trusted" and any(line.startswith("server ") for line in one["runs"])
    ]
    come = f"come with the next start of ohmo: those of the plugins {', '.join(names)}"
    return f"no MCP server is connected; {come}" if names else ""


def _show(found: Mapping[str, Any]) -> None:
    error = f": {clean(found['error'])}" if found["error"] else ""
    click.echo(f"{found['name']}: {found['state']}{error}")
    for tool in found["tools"]:
        click.echo(f"  {clean(tool)}")
    for line in _off(found):
        click.echo(f"  {line}")


def _off(row: Mapping[str, Any]) -> list[str]:
    """What of a server cannot be used, and what the owner can do about it."""
    lines = [f"off: {clean(line)}" for line in row["off"]]
    lines += [f"off until you approve it: {clean(line)}" for line in row["waiting"]]
    if row["waiting"]:
        lines.append(f"allow: ohmo mcp approve {row['name']} --digest {row['digest'][:12]}")
    return lines
