"""What the model calls of the last days used and cost."""

from __future__ import annotations

import click

from ohmo.cli.reach import reach
from ohmo.cli.show import Columns, as_json_text, client_options, print_rows


@click.command("usage", help=__doc__)
@click.option("--days", type=click.IntRange(1, 3660), default=30, show_default=True)
@client_options
def COMMAND(days: int, as_json: bool, remote: str | None) -> None:  # noqa: N802 - the name every command file exports
    rows = reach(remote).get("/api/v1/usage", days=days)["usage"]
    if as_json:
        click.echo(as_json_text(rows))
        return
    columns: Columns = {
        "DAY": lambda row: row["day"],
        "MODEL": lambda row: row["model"],
        "CALLS": lambda row: row["calls"],
        "INPUT": lambda row: row["input"],
        "CACHED": lambda row: row["cached"],
        "WRITTEN": lambda row: row["written"],
        "OUTPUT": lambda row: row["output"],
        "USD": lambda row: f"{row['micro_usd'] / 1e6:.4f}",
    }
    print_rows(rows, columns, "no model was called yet")
    if rows:
        click.echo(f"together: {sum(row['calls'] for row in rows)} calls, {sum(row['micro_usd'] for row in rows) / 1e6:.4f} USD")
