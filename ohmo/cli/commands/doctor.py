"""Find what is wrong and say the next step."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from ohmo.doctor.check import Kept

_MARK = {
    "ok": "ok      ",
    "note": "note    ",
    "warning": "warning ",
    "problem": "problem ",
    "skipped": "skipped ",
}


@click.command("doctor", help=__doc__)
@click.option("--live", is_flag=True, help="Also ask the model and the platforms.")
@click.option("--fix", is_flag=True, help="Mend what can be mended; may be repeated.")
@click.option(
    "--only",
    metavar="NAME",
    multiple=True,
    help="Only this check, or those of one part (home, channels, …). Repeatable.",
)
@click.option("--all", "everything", is_flag=True, help="Also show what is right.")
@click.option("--config", "file", type=click.Path(path_type=Path), help="Another config.yaml.")
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
@click.pass_context
def COMMAND(  # noqa: N802 - the name every command file exports
    ctx: click.Context,
    live: bool,
    fix: bool,
    only: tuple[str, ...],
    everything: bool,
    file: Path | None,
    as_json: bool,
) -> None:
    from ohmo.cli.client import Client, Json, NotRunning, Refused
    from ohmo.cli.home_config import process_environment
    from ohmo.cli.show import as_json_text, clean, some
    from ohmo.config.home import find_home
    from ohmo.contracts.errors import ConfigError, OhmoError
    from ohmo.doctor.check import Facts
    from ohmo.doctor.examination import checks, examine, mend, survey

    known = {name for one in checks() for name in (one.name, one.name.partition(".")[0])}
    if unknown := [name for name in only if name not in known]:
        raise click.UsageError(
            f"--only {unknown[0]}: there is no such check; ohmo doctor --all names them"
        )

    def ask(path: str) -> Json | None:
        try:
            return Client(path=find_home(os.environ).socket(), timeout=10.0).get(path)
        except (NotRunning, Refused, OhmoError):
            return None

    def facts() -> Facts:
        try:
            around = process_environment()
        except ConfigError:
            around = dict(
                os.environ
            )  # the check home.env_mode or home.env says why, and what to do
        return survey(around, ask, file=file, kept=lambda: _kept(around))

    if fix:
        find_home(os.environ).refuse_root()
    first = facts()
    results = examine(first, live=live, only=only)
    if fix:
        results = mend(first, results, facts)
    counted = {state: sum(one.finding.state == state for one in results) for state in _MARK}
    if as_json:
        rows = [
            {
                "name": one.check.name,
                "title": one.check.title,
                "state": one.finding.state,
                "text": one.finding.text,
                "next": one.finding.next,
                "fixable": one.check.mend is not None,
                "mended": one.mended,
            }
            for one in results
        ]
        click.echo(as_json_text({"checks": rows, "counts": counted}))
    else:
        for one in results:
            found = one.finding
            if everything or one.mended or found.state in ("problem", "warning", "note"):
                text = found.text or one.check.title
                click.echo(
                    f"{_MARK[found.state]} {one.check.name}: {clean(text)}"
                    + (f" [{clean(one.mended)}]" if one.mended else "")
                )
                if found.next:
                    fixable = "" if one.check.mend is None or fix else " (or ohmo doctor --fix)"
                    click.echo(
                        "          →"
                        f" {clean(found.next)}{fixable if '--fix' not in found.next else ''}"
                    )
        told = f"{len(results)} checks: " + ", ".join(
            some(counted[state], state) for state in ("problem", "warning", "note")
        )
        click.echo(
            f"{told}, {counted['skipped']} skipped"
            + ("" if live else "; --live also asks the model and the platforms")
        )
    ctx.exit(1 if counted["problem"] else 0)


def _kept(environ: Mapping[str, str]) -> Kept | None:
    """Who keeps the daemon of this home; None: a container engine does."""
    from ohmo.config.home import find_home
    from ohmo.contracts.errors import OhmoError
    from ohmo.doctor.check import Kept
    from ohmo.service.choice import Machine, choose
    from ohmo.service.systemd_unit import SYSTEM_HOME
    from ohmo.service.versions import installed

    if environ.get("OHMO_SERVICE") == "container":
        return None
    home = find_home(environ)
    machine = Machine(sys.platform, Path("/"), environ, os.geteuid())
    try:
        found = choose(
            machine,
            installed().python,
            home,
            system=home.root == SYSTEM_HOME / ".ohmo" and machine.booted_by_systemd,
        )
        if not found.installed():
            return Kept(found.name)
        return Kept(found.name, installed=True, stale=found.stale(), standing=found.standing())
    except (OhmoError, OSError) as error:  # TimeoutError is an OSError
        return Kept(broken=str(error))
