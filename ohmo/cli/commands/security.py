"""What a stranger could do here."""

from __future__ import annotations

import os
from pathlib import Path

import click


@click.group("security", help=__doc__)
def COMMAND() -> None:
    pass


@COMMAND.command()
@click.option("--config", "file", type=click.Path(path_type=Path), help="Another config.yaml.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.option("--fix", is_flag=True, help="Close files of the home that others can open.")
@click.pass_context
def audit(ctx: click.Context, file: Path | None, as_json: bool, fix: bool) -> None:
    """Name every way in and everything that lies open, gravest first; exit 1 when something is
    critical or high."""
    from ohmo.assembly.walls import walls_tried
    from ohmo.cli.home_config import load_config
    from ohmo.cli.show import as_json_text, clean
    from ohmo.doctor.audit import audit as look
    from ohmo.doctor.audit import close

    config = load_config(file)
    walls = walls_tried(config, os.environ)  # makes what of the home is not there
    if fix:
        config.home.refuse_root()
        for line in close(config):
            click.echo(clean(line), err=True)
    found = look(config, os.geteuid(), walls=walls)
    if as_json:
        rows = [
            {"name": risk.name, "severity": risk.severity, "text": risk.text, "next": risk.next}
            for risk in found
        ]
        click.echo(as_json_text({"findings": rows, "sandbox": walls.backend}))
    else:
        click.echo(clean(walls.words))
        for risk in found:
            click.echo(
                f"{risk.severity:8} {risk.name}: {clean(risk.text)}\n         → {clean(risk.next)}"
            )
        click.echo(f"{len(found)} findings" if found else "nothing lies open")
    ctx.exit(1 if any(risk.severity in ("critical", "high") for risk in found) else 0)
