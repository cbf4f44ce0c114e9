"""How ohmo is: the model, what waits, every channel."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import click

from ohmo.cli.connect import connect
from ohmo.cli.show import (
    Columns,
    ago,
    as_json_text,
    clean,
    client_options,
    ended_how,
    moment,
    print_rows,
)
from ohmo.contracts.messages import cost_words

# Seconds: a probe has to say no before whoever probes gives it up (5 s in our manifests).
PROBE = 4.0
ANSWER = 10.0
_STATES = {"taken": "being answered", "ready": "to be sent", "sending": "being sent"}


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


def show_status(status: Mapping[str, Any]) -> None:
    """Prints the answer of ``/api/v1/status``."""
    ready = "ready" if status["ready"] else "not ready yet"
    click.echo(f"ohmo {status['version']}: {ready}, started {ago(status['started'])} ago")
    model = clean(status["model"])
    provider = clean(status["provider"])
    named = provider if provider.startswith(model) else f"{model} ({provider})"
    click.echo(f"model: {named}")
    if status.get("sandbox"):  # an earlier daemon has none
        note = status.get("sandbox_note")
        click.echo(f"sandbox: {clean(status['sandbox'])}{clean(note) if note else ''}")
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
    servers = dict(status.get("mcp", {}))
    if servers:
        off = servers.pop("off", 0)
        wait = f"; {off} of their tools wait for ohmo mcp approve" if off else ""
        click.echo(f"MCP servers: {_counts(servers)}{wait}")
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


def _counts(table: dict[str, int]) -> str:
    counts: list[str] = []
    for state, number in table.items():
        if number:
            counts.append(f"{number} {_STATES.get(state, ended_how(state))}")
    return ", ".join(counts) or "none"
