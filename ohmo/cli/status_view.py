"""How ohmo is, as a person reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ohmo.cli.show import Columns, ago, clean, moment, print_rows
from ohmo.contracts.reports import cost_words


def show_status(status: Mapping[str, Any]) -> None:
    """Prints the answer of ``/api/v1/status``."""
    ready = "ready" if status["ready"] else "not ready yet"
    click.echo(f"ohmo {status['version']}: {ready}, started {ago(status['started'])} ago")
    model, provider = clean(status["model"]), clean(status["provider"])
    click.echo(
        f"model: {provider}" if provider.startswith(model) else f"model: {model} ({provider})"
    )
    inbox, outbox = dict(status["inbox"]), dict(status["outbox"])
    click.echo(f"messages: {_counts(inbox)}; oldest waiting: {ago(status['oldest_waiting'])}")
    click.echo(f"answers: {_counts(outbox)}")
    click.echo(
        f"turns: {status['turns_running']} running, {status['turns_parked']} waiting for an answer"
    )
    click.echo(f"cron: {_cron(dict(status['cron']))}")
    click.echo(f"spent today: {_spent(dict(status['budget'].get('day', {})))}")
    if status.get("asking"):
        click.echo(
            f"people: {status['asking']} asking to be let in; ohmo pairing list, then ohmo pairing"
            " approve CODE"
        )
    rows = [{"name": name, **channel} for name, channel in dict(status["channels"]).items()]
    columns: Columns = {
        "CHANNEL": lambda row: row["name"],
        "STATE": lambda row: row["state"],
        "LAST EVENT": lambda row: ago(row["last_event"]),
        "LAST DELIVERY": lambda row: ago(row["last_delivery"]),
        "WAITING": lambda row: row.get("waiting", 0),
        "OLDEST": lambda row: ago(row.get("oldest_waiting")),
        "TO SEND": lambda row: row.get("outgoing", 0),
        "DEAD": lambda row: row.get("dead", 0),
        "DETAIL": lambda row: row["detail"],
    }
    print_rows(rows, columns, "no channel is enabled")
    for line in status.get("warnings", []):
        click.echo(f"warning: {clean(line)}")


_STATES = {
    "taken": "being answered",
    "dead": "failed",
    "ready": "to be sent",
    "sending": "being sent",
}


def _counts(table: dict[str, int]) -> str:
    return (
        ", ".join(f"{number} {_STATES.get(name, name)}" for name, number in table.items() if number)
        or "none"
    )


def _cron(cron: dict[str, Any]) -> str:
    lag, due = cron.get("lag_seconds"), cron.get("next")
    late = f"{lag:.0f} s behind" if isinstance(lag, int | float) and lag >= 1 else "on time"
    return f"{late}, next run {moment(due)}" if due else "nothing is due"


def _spent(day: dict[str, Any]) -> str:
    """Of the UTC day; against the limits of ``budgets.day`` where there are any."""
    usd, tokens = day.get("usd", 0), day.get("tokens", 0)
    cost = cost_words(None if usd is None else round(usd * 1e6), day.get("unpriced", 0))
    most, many = day.get("usd_limit"), day.get("tokens_limit")
    return (
        f"{cost}{f' of ${most:.4g}' if most is not None else ''}, {tokens}"
        f" tokens{f' of {many}' if many is not None else ''}"
    )
