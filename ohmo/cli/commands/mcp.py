"""MCP servers: whether they are connected, and their tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ohmo.cli.connect import connect
from ohmo.cli.main import FAILED
from ohmo.cli.show import Columns, Group, as_json_text, clean, client_options, print_rows

_API = "/api/v1/mcp"
_COLUMNS: Columns = {
    "NAME": lambda row: row["name"],
    "KIND": lambda row: row["kind"],
    "STATE": lambda row: row["state"],
    "TOOLS": lambda row: str(len(row["tools"])),
    "OFF": lambda row: str(len(row["off"])),
    "ERROR": lambda row: clean(row["error"]),
}


@click.group("mcp", cls=Group, help=__doc__)
def COMMAND() -> None:
    pass


@COMMAND.command("list")
@client_options
def list_(as_json: bool, remote: str | None) -> None:
    """All servers of the configuration."""
    found = connect(remote).get(_API)["servers"]
    if as_json:
        click.echo(as_json_text(found))
        return
    print_rows(found, _COLUMNS, "no MCP server is configured; docs/mcp.md says how")
    for row in found:
        for line in row["off"]:
            click.echo(f"{row['name']}: off: {clean(line)}", err=True)


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
@client_options
def approve(name: str, as_json: bool, remote: str | None) -> None:
    """Let its changed tools be used as they are now."""
    found = connect(remote).post(f"{_API}/{name}/approve", {})
    click.echo(as_json_text(found) if as_json else f"{name}: {found['approved']} approved")


def _show(found: Mapping[str, Any]) -> None:
    error = f": {clean(found['error'])}" if found["error"] else ""
    click.echo(f"{found['name']}: {found['state']}{error}")
    for tool in found["tools"]:
        click.echo(f"  {clean(tool)}")
    for line in found["off"]:
        click.echo(f"  off: {clean(line)}")
