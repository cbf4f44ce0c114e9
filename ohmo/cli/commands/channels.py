"""Which platforms are connected, and whether one would be."""

from __future__ import annotations

import asyncio
import os

import click

from ohmo.cli.client import NotRunning
from ohmo.cli.connect import connect
from ohmo.cli.show import Columns, Group, ago, as_json_text, client_options, print_rows


@click.group("channels", cls=Group, help=__doc__)
def COMMAND() -> None:
    pass


@COMMAND.command("list")
@client_options
def list_(as_json: bool, remote: str | None) -> None:
    """Every channel and its state; without a running daemon, what config.yaml says."""
    try:
        table = dict(connect(remote).get("/api/v1/status")["channels"])
        rows = [{"name": name, **channel} for name, channel in table.items()]
    except NotRunning:
        if remote is not None:
            raise
        from ohmo.config.load import load

        rows = [
            {
                "name": channel.name,
                "state": "off",
                "detail": "enabled, but ohmo is not running" if channel.enabled else "not enabled",
            }
            for channel in load(environ=os.environ).channels
        ]
    if as_json:
        click.echo(as_json_text(rows))
        return
    columns: Columns = {
        "CHANNEL": lambda row: row["name"],
        "STATE": lambda row: row["state"],
        "LAST EVENT": lambda row: ago(row.get("last_event")),
        "LAST DELIVERY": lambda row: ago(row.get("last_delivery")),
        "DETAIL": lambda row: row["detail"],
    }
    print_rows(rows, columns, "no channel is enabled")


@COMMAND.command()
@click.argument("name")
def test(name: str) -> None:
    """Connect once with the credentials of config.yaml and say as whom; reads and sends nothing."""
    from channels.errors import ChannelError
    from ohmo.cli.home_config import installed_manifests, load_config
    from ohmo.config.channels import open_channels
    from ohmo.setup.platforms import connected_as

    known = installed_manifests()
    found = [
        each for each in open_channels(load_config().channels, known) if each.manifest.name == name
    ]
    if not found and name not in known:
        import difflib

        close = difflib.get_close_matches(name, known, n=1)
        raise click.ClickException(
            f"there is no channel {name!r}, "
            + (f"did you mean {close[0]}?" if close else f"only {', '.join(sorted(known))}")
        )
    if not found:
        raise click.ClickException(
            f"{name}: not enabled; set channels.{name}.enabled: true in config.yaml, then ohmo"
            " config check"
        )
    for each in found:
        try:
            account = asyncio.run(connected_as(each))
        except ChannelError as error:
            raise click.ClickException(f"{name}: {error or type(error).__name__}") from error
        click.echo(f"{name}: connected as {account}")
