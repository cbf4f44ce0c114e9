"""What the model calls of the last days used and cost."""

from __future__ import annotations

from collections.abc import Callable

import click

from channels.text import some
from ohmo.cli.connect import connect_or_open
from ohmo.cli.show import Columns, Row, address, as_json_text, client_options, print_rows
from ohmo.contracts.messages import cost_words


@click.command("usage", help=__doc__)
@click.option("--days", type=click.IntRange(1, 3660), default=30, show_default=True)
@click.option(
    "--by",
    type=click.Choice(["model", "person", "thread", "day", "job", "purpose"]),
    default="model",
    show_default=True,
    help="thread: the 50 that cost most.",
)
@client_options
def COMMAND(days: int, by: str, as_json: bool, remote: str | None) -> None:
    found = connect_or_open(remote).get("/api/v1/usage", days=days, by=by)
    rows = found["usage"]
    if as_json:
        click.echo(as_json_text(rows))
        return
    first: dict[str, Callable[[Row], object]] = {
        "DAY": lambda row: row["day"],
        "MODEL": lambda row: row["model"],
    }
    if by == "person":
        first |= {"PERSON": lambda row: row["who"], "ID": lambda row: row["id"] or "-"}
    if by == "thread":
        first = {
            "THREAD": lambda row: row["thread"] or "ohmo itself",
            "PLACE": lambda row: address(row["address"]),
            "TITLE": lambda row: row["title"],
        }
    if by in ("day", "job", "purpose"):
        first = {by.upper(): lambda row: row["name"] or "-"}
    columns: Columns = {
        **first,
        "CALLS": lambda row: row["calls"],
        "INPUT": lambda row: row["input"],
        "CACHED": lambda row: row["cached"],
        "WRITTEN": lambda row: row["written"],
        "OUTPUT": lambda row: row["output"],
        "COST": lambda row: cost_words(row["micro_usd"], row["unpriced"]),
    }
    print_rows(rows, columns, "no model was called yet")
    if rows:
        unpriced = sum(row["unpriced"] for row in rows)
        micro_usd = sum(row["micro_usd"] or 0 for row in rows)
        calls = sum(row["calls"] for row in rows)
        click.echo(f"together: {some(calls, 'call')}, {cost_words(micro_usd, unpriced)}")
        for budget in found.get("budgets", ()):
            click.echo(_budget(budget))
        if unpriced:
            click.echo("`pricing:` in config.yaml gives a model its price, from then on")


def _budget(row: Row) -> str:
    """What may be spent, and of the day what was."""
    limits: list[str] = []
    if row["usd_limit"] is not None:
        spent = f"${row['usd'] or 0:.4f} of " if "usd" in row else ""
        limits.append(f"{spent}${row['usd_limit']:.4f}")
    if row["tokens_limit"] is not None:
        spent = f"{row['tokens']:,} of " if "tokens" in row else ""
        limits.append(f"{spent}{row['tokens_limit']:,} tokens")
    return f"budgets.{row['budget']}: {', '.join(limits)}"
