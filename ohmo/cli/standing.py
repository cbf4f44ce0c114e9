"""How the house is, as a person reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ohmo.cli.show import Columns, ago, clean, print_rows


def show_status(status: Mapping[str, Any]) -> None:
    """Prints the answer of ``/api/v1/status``."""
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
