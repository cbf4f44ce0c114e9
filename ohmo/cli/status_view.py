"""The answer of ``/api/v1/status`` as a person reads it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ohmo.cli.show import Columns, ago, clean, moment, print_rows
from ohmo.contracts.messages import cost_words


def show_status(status: Mapping[str, Any]) -> None:
    """Prints the answer of ``/api/v1/status``."""
    ready = "ready" if status["ready"] else "not ready yet"
    click.echo(f"ohmo {status['version']}: {ready}, started {ago(status['started'])} ago")
    model = clean(status["model"])
    provider = clean(status["provider"])
    named = provider if provider.startswith(model) else f"{model} ({provider})"
    click.echo(f"model: {named}")
    messages = _counts(dict(status["inbox"]))
    click.echo(f"messages: {messages}; oldest waiting: {ago(status['oldest_waiting'])}")
    click.echo(f"answers: {_counts(dict(status['outbox']))}")
    click.echo(
        f"turns: {status['turns_running']} running, {status['turns_parked']} waiting for an answer"
    )
    cron = dict(status["cron"])
    lag = cron.get("lag_seconds")
    due = cron.get("next")
    late = f"{lag:.0f} s behind" if isinstance(lag, int | float) and lag >= 1 else "on time"
    click.echo(f"cron: {late}, next run {moment(due)}" if due else "cron: nothing is due")
    # of the UTC day; against the limits of budgets.day where there are any
    day = dict(status["budget"].get("day", {}))
    usd = day.get("usd", 0)
    usd_limit = day.get("usd_limit")
    tokens_limit = day.get("tokens_limit")
    cost = cost_words(None if usd is None else round(usd * 1e6), day.get("unpriced", 0))
    if usd_limit is not None:
        cost += f" of ${usd_limit:.4g}"
    tokens = f"{day.get('tokens', 0)} tokens"
    if tokens_limit is not None:
        tokens += f" of {tokens_limit}"
    click.echo(f"spent today: {cost}, {tokens}")
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
    counts: list[str] = []
    for state, number in table.items():
        if number:
            counts.append(f"{number} {_STATES.get(state, state)}")
    return ", ".join(counts) or "none"
