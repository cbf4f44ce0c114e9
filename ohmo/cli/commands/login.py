"""Print a link that logs one browser in, once."""

from __future__ import annotations

import click

from ohmo.cli.connect import connect
from ohmo.cli.show import as_json_text, client_options


@click.command("login", help=__doc__)
@client_options
def COMMAND(as_json: bool, remote: str | None) -> None:
    found = connect(remote).post("/api/v1/login", {})
    click.echo(as_json_text(found) if as_json else found["url"])
