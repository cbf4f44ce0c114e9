"""Find what is wrong and say the next step."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

from channels.text import some
from ohmo.cli.show import as_json_text, clean

if TYPE_CHECKING:
    from ohmo.doctor.check import Kept
    from ohmo.doctor.examination import Result

_SHOWN = ("problem", "warning", "note")

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
def COMMAND(
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
    from ohmo.config.home import find_home
    from ohmo.contracts.errors import ConfigError, OhmoError
    from ohmo.doctor.check import Facts
    from ohmo.doctor.examination import checks, examine, mend, survey

    known = {check.name for check in checks()}
    known |= {name.partition(".")[0] for name in known}
    for name in only:
        if name not in known:
            raise click.UsageError(
                f"--only {name}: there is no such check; ohmo doctor --all names them"
            )

    def ask(path: str) -> Json | None:
        try:
            return Client(path=find_home(os.environ).socket(), timeout=10.0).get(path)
        except (NotRunning, Refused, OhmoError):
            return None

    def facts() -> Facts:
        try:
            environ = process_environment()
        except ConfigError:
            # the check home.env_mode or home.env says why, and what to do
            environ = dict(os.environ)
        return survey(environ, ask, file=file, kept=lambda: _kept(environ))

    if fix:
        find_home(os.environ).refuse_root()
    first = facts()
    results = examine(first, live=live, only=only)
    if fix:
        results = mend(first, results, facts)
    counts = {state: sum(one.finding.state == state for one in results) for state in _MARK}
    if as_json:
        rows = [_row(result) for result in results]
        click.echo(as_json_text({"checks": rows, "counts": counts}))
    else:
        for result in results:
            if everything or result.mended or result.finding.state in _SHOWN:
                _print_result(result, fix=fix)
        summary = ", ".join(some(counts[state], state) for state in _SHOWN)
        click.echo(
            f"{len(results)} checks: {summary}, {counts['skipped']} skipped"
            + ("" if live else "; --live also asks the model and the platforms")
        )
    ctx.exit(1 if counts["problem"] else 0)


def _row(result: Result) -> dict[str, object]:
    return {
        "name": result.check.name,
        "title": result.check.title,
        "state": result.finding.state,
        "text": result.finding.text,
        "next": result.finding.next,
        "fixable": result.check.mend is not None,
        "mended": result.mended,
    }


def _print_result(result: Result, *, fix: bool) -> None:
    finding = result.finding
    line = (
        f"{_MARK[finding.state]} {result.check.name}: {clean(finding.text or result.check.title)}"
    )
    click.echo(line + (f" [{clean(result.mended)}]" if result.mended else ""))
    if finding.next:
        offered = result.check.mend is not None and not fix and "--fix" not in finding.next
        hint = " (or ohmo doctor --fix)" if offered else ""
        click.echo(f"          → {clean(finding.next)}{hint}")


def _kept(environ: Mapping[str, str]) -> Kept | None:
    """Who keeps the daemon of this home; None: a container engine does."""
    from ohmo.config.home import find_home
    from ohmo.contracts.errors import OhmoError
    from ohmo.doctor.check import Kept
    from ohmo.service.choice import Machine, choose
    from ohmo.service.systemd import SYSTEM_HOME
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
