"""How ohmo is: the model, what waits, every channel."""

from __future__ import annotations

import click

from ohmo.cli.connect import connect
from ohmo.cli.show import as_json_text, client_options
from ohmo.cli.status_view import show_status

PROBE, ANSWER = (
    4.0,
    10.0,
)  # seconds: a probe has to say no before whoever probes gives it up (5 s in our manifests)


@click.command("status", help=__doc__)
@click.option(
    "--check",
    type=click.Choice(["live", "ready"]),
    help="Say nothing; exit 0 when alive or ready, else 1.",
)
@client_options
@click.pass_context
def COMMAND(ctx: click.Context, check: str | None, as_json: bool, remote: str | None) -> None:
    client = connect(remote, timeout=PROBE if check is not None else ANSWER)
    if check is not None:
        ctx.exit(0 if client.probe("/healthz" if check == "live" else "/readyz") else 1)
    status = client.get("/api/v1/status")
    if as_json:
        click.echo(as_json_text(status))
        return
    show_status(status)
