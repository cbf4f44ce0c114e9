"""One true answer for each part of the house."""

from __future__ import annotations

import click

from ohmo.cli.client import connect
from ohmo.cli.show import Columns, ago, as_json_text, clean, client_options, print_rows


@click.command("status", help=__doc__)
@click.option("--check", type=click.Choice(["live", "ready"]), help="Say nothing; exit 0 when alive or ready, else 1.")
@client_options
@click.pass_context
def COMMAND(ctx: click.Context, check: str | None, as_json: bool, remote: str | None) -> None:  # noqa: N802 - the name every command file exports
    client = connect(remote)
    if check is not None:
        ctx.exit(0 if client.probe("/healthz" if check == "live" else "/readyz") else 1)
    status = client.get("/api/v1/status")
    if as_json:
        click.echo(as_json_text(status))
        return
    ready = "ready" if status["ready"] else "not ready yet"
    click.echo(f"ohmo {status['version']}: {ready}, started {ago(status['started'])} ago")
    model, provider = clean(status["model"]), clean(status["provider"])
    click.echo(f"model: {provider}" if provider.startswith(model) else f"model: {model} ({provider})")
    inbox, outbox = dict(status["inbox"]), dict(status["outbox"])
    click.echo(f"inbox: {_counts(inbox)}; oldest waiting: {ago(status['oldest_waiting'])}")
    click.echo(f"outbox: {_counts(outbox)}")
    click.echo(f"turns: {status['turns_running']} running, {status['turns_parked']} waiting for an answer")
    rows = [{"name": name, **channel} for name, channel in dict(status["channels"]).items()]
    columns: Columns = {
        "CHANNEL": lambda row: row["name"],
        "STATE": lambda row: row["state"],
        "LAST EVENT": lambda row: ago(row["last_event"]),
        "LAST DELIVERY": lambda row: ago(row["last_delivery"]),
        "DETAIL": lambda row: row["detail"],
    }
    print_rows(rows, columns, "no channel is enabled")
    for line in status.get("warnings", []):
        click.echo(f"warning: {clean(line)}")


def _counts(table: dict[str, int]) -> str:
    return ", ".join(f"{number} {name}" for name, number in table.items() if number) or "empty"
