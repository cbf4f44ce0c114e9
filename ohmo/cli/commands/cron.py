"""Jobs that run by the clock: make them, look at them, run them now."""

from __future__ import annotations

import json
import sys
import urllib.parse
from collections.abc import Callable, Mapping
from typing import Any, ParamSpec, TypeVar

import click

from ohmo.cli.connect import connect, connect_or_open
from ohmo.cli.show import (
    Columns,
    Group,
    ago,
    as_json_text,
    clean,
    clean_text,
    client_options,
    moment,
    print_rows,
)

P = ParamSpec("P")
R = TypeVar("R")
_API = "/api/v1/cron"


@click.group("cron", cls=Group, help=__doc__)
def COMMAND() -> None:
    pass


_FIELDS = [
    click.option(
        "--at",
        metavar="TIME",
        help=("Once: '2026-12-01 09:00', '17:30', 'tomorrow 9:00', 'in 20 minutes' or ISO 8601."),
    ),
    click.option("--every", metavar="SPAN", help="Again and again: 2s, 5m, 24h."),
    click.option(
        "--tz", metavar="ZONE", help="Of the schedule, e.g. Asia/Shanghai; else cron.timezone."
    ),
    click.option(
        "--to",
        metavar="ADDRESS",
        help="Where the report goes, e.g. slack:C123; else only into the history.",
    ),
    click.option(
        "--thread",
        metavar="T",
        help="A thread there; without --to the name of a conversation of its own.",
    ),
    click.option(
        "--prompt", metavar="TEXT", help="What shall be done ('-': read it from standard input)."
    ),
    click.option(
        "--rule",
        "rules",
        multiple=True,
        metavar="RULE",
        help="What it may do unasked, e.g. 'Bash(gh run list:*)'. Repeatable.",
    ),
    click.option(
        "--secret",
        "secrets",
        multiple=True,
        metavar="NAME=REF",
        help="For its commands, e.g. GH_TOKEN=env:GH_TOKEN. Repeatable.",
    ),
    click.option(
        "--deadline", metavar="SPAN", help="How long it may wait and ask; 2h when not given."
    ),
    click.option(
        "--catch-up",
        type=click.Choice(["none", "once", "all"]),
        help="Runs missed while ohmo was off.",
    ),
    click.option(
        "--overlap", type=click.Choice(["skip", "queue"]), help="When the last run has not ended."
    ),
    click.option(
        "--when",
        type=click.Choice(["always", "changed", "wrong"]),
        help="Whether a report is sent.",
    ),
    click.option("--jitter", metavar="SPAN", help="A delay by chance of at most this."),
    click.option("--retry", type=click.IntRange(0, 10), help="Tries after a failed run."),
    click.option(
        "--expires", metavar="DATE", help="No run after this day (2026-12-31), or this time."
    ),
]


def _fields(function: Callable[P, R]) -> Callable[P, R]:
    """The flags of ``add`` and ``edit``."""
    for option in reversed(_FIELDS):
        function = option(function)
    return function


@COMMAND.command("list")
@client_options
def list_(as_json: bool, remote: str | None) -> None:
    """Every job and when it is next due."""
    jobs = connect_or_open(remote).get(_API)["jobs"]
    if as_json:
        click.echo(as_json_text(jobs))
        return
    columns: Columns = {
        "NAME": lambda row: row["name"],
        "WHEN": lambda row: (
            row["schedule"] or (f"every {row['every']}" if row["every"] else "once")
        ),
        "NEXT": lambda row: row["next_local"] if row["enabled"] else "paused",
        "LAST": lambda row: row["last"]["state"] if row["last"] else "-",
        "TO": lambda row: row["to"],
        "FROM": lambda row: row["source"],
    }
    print_rows(jobs, columns, "there are no jobs yet; ohmo cron add --help makes one")


@COMMAND.command()
@click.argument("schedule", required=False)
@click.option(
    "--name",
    metavar="N",
    help="Its name; made from the prompt when not given, with a number where it is taken.",
)
@click.option("--recipe", metavar="NAME", help="Begin with a recipe, e.g. ci-triage.")
@click.option(
    "--set",
    "values",
    multiple=True,
    metavar="NAME=VALUE",
    help="A parameter of the recipe. Repeatable.",
)
@_fields
@click.option("--yes", is_flag=True, help="Do not ask before rules and secrets are allowed.")
@client_options
def add(
    schedule: str | None,
    name: str | None,
    recipe: str | None,
    values: tuple[str, ...],
    yes: bool,
    as_json: bool,
    remote: str | None,
    **flags: Any,
) -> None:
    """A new job: SCHEDULE is five cron fields (minute hour day month weekday), with seconds as a
    sixth if need be, or a name such as @daily; or give --at, --every or --recipe."""
    body = _body(schedule=schedule, name=name, recipe=recipe, **flags) | (
        {"set": _pairs(values, "--set")} if values else {}
    )
    client = connect_or_open(remote)
    looks = client.post(_API, {**body, "preview": True})
    if not _agreed(looks, yes):
        raise click.ClickException("nothing was made")
    made = client.post(_API, body)
    click.echo(as_json_text(made) if as_json else _summary(made))


@COMMAND.command()
@click.argument("name")
@client_options
def show(name: str, as_json: bool, remote: str | None) -> None:
    """One job whole."""
    found = connect_or_open(remote).get(_path(name))
    if as_json:
        click.echo(as_json_text(found))
        return
    for key, value in found.items():
        if value not in (None, "", [], {}):
            text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
            click.echo(f"{key}: {clean_text(text)}")


@COMMAND.command()
@click.argument("name")
@click.option(
    "--schedule",
    metavar="FIELDS",
    help="Other cron fields: minute hour day month weekday, and seconds as a sixth if need be.",
)
@_fields
@click.option("--yes", is_flag=True, help="Do not ask before rules and secrets are allowed.")
@client_options
def edit(name: str, yes: bool, as_json: bool, remote: str | None, **flags: Any) -> None:
    """Change a job: only what is given becomes another; an empty value ('') takes a field away."""
    body = _body(**flags)
    if not body:
        raise click.UsageError("say what shall change, for example --schedule '0 8 * * *'")
    if (body.get("rules") or body.get("secrets")) and not _agreed({"name": name, **body}, yes):
        raise click.ClickException("nothing was changed")
    client = connect_or_open(remote)
    made = client.post(_path(name), body)
    click.echo(as_json_text(made) if as_json else _summary(made))


@COMMAND.command()
@click.argument("name")
@client_options
def run(name: str, as_json: bool, remote: str | None) -> None:
    """Run a job now, beside its schedule."""
    _act(
        name, "run", f"runs now; ohmo cron history {clean(name)} shows how it ends", as_json, remote
    )


@COMMAND.command()
@click.argument("name")
@client_options
def pause(name: str, as_json: bool, remote: str | None) -> None:
    """No runs until it is resumed."""
    _act(name, "pause", "is paused", as_json, remote)


@COMMAND.command()
@click.argument("name")
@client_options
def resume(name: str, as_json: bool, remote: str | None) -> None:
    """Runs again, from its next time on."""
    _act(name, "resume", "runs again", as_json, remote)


@COMMAND.command()
@click.argument("name")
@client_options
def remove(name: str, as_json: bool, remote: str | None) -> None:
    """Remove a job; a run that is going on ends first."""
    found = connect_or_open(remote).delete(_path(name))
    click.echo(as_json_text(found) if as_json else f"{clean(name)}: removed")


@COMMAND.command()
@click.argument("name")
@click.option("--limit", type=click.IntRange(1, 1000), default=20, show_default=True)
@client_options
def history(name: str, limit: int, as_json: bool, remote: str | None) -> None:
    """What became of its runs, the latest first."""
    rows = connect_or_open(remote).get(f"{_path(name)}/history", limit=limit)["occurrences"]
    if as_json:
        click.echo(as_json_text(rows))
        return
    columns: Columns = {
        "DUE": lambda row: moment(row["due"]),
        "STATE": lambda row: row["state"],
        "ENDED": lambda row: f"{ago(row['ended'])} ago" if row["ended"] else "-",
        "TURN": lambda row: row["turn"],
        "WHY": lambda row: row["reason"],
        "ANSWER": lambda row: clean(row["preview"] or "")[:80],
    }
    print_rows(rows, columns, "it has not been due yet")


@COMMAND.command()
@client_options
def export(as_json: bool, remote: str | None) -> None:
    """Every job and its history as JSON lines."""
    del as_json  # it is nothing else
    client = connect_or_open(remote)
    for job in client.get(_API)["jobs"]:
        click.echo(json.dumps({"type": "job", **job}, ensure_ascii=False))
        for row in client.get(f"{_path(job['name'])}/history", limit=1000)["occurrences"]:
            click.echo(
                json.dumps({"type": "occurrence", "job": job["name"], **row}, ensure_ascii=False)
            )


def _path(name: str) -> str:
    return f"{_API}/{urllib.parse.quote(name, safe='')}"


def _body(**flags: Any) -> dict[str, Any]:
    given = {name: value for name, value in flags.items() if value not in (None, ())}
    if given.get("prompt") == "-":
        given["prompt"] = sys.stdin.read()
    if "rules" in given:
        given["rules"] = [rule for rule in given["rules"] if rule]
    if "secrets" in given:
        given["secrets"] = _pairs(
            tuple(secret for secret in given["secrets"] if secret), "--secret"
        )
    return given


def _pairs(texts: tuple[str, ...], flag: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for text in texts:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise click.UsageError(f"{flag} {text}: expected NAME=VALUE")
        found[name] = value
    return found


def _agreed(looks: Mapping[str, Any], yes: bool) -> bool:
    """Rules and secrets are shown once and allowed with the job."""
    rules: list[str] = list(looks.get("rules") or ())
    secrets: list[str] = list(looks.get("secrets") or ())
    if yes or not (rules or secrets):
        return True
    click.echo(f"The job {clean(looks['name'])} may then, without asking:", err=True)
    for rule in rules:
        click.echo(f"  {clean(rule)}", err=True)
    for name in secrets:
        click.echo(f"  use the secret {clean(name)}", err=True)
    if not sys.stdin.isatty():
        raise click.ClickException("nobody is there to allow this; say --yes")
    return click.confirm("Allow this?", err=True)


def _summary(job: Mapping[str, Any]) -> str:
    if not job["enabled"]:
        text = "paused"
    elif job["next_local"]:
        text = f"next run {clean(job['next_local'])}"
    else:
        text = "no further run"
    if not job["to"]:
        text += "; its reports are only kept in the history (--to sends them somewhere)"
    if job.get("note"):
        text += f"; {clean(job['note'])}"
    return f"{clean(job['name'])}: {text}"


def _act(name: str, what: str, done: str, as_json: bool, remote: str | None) -> None:
    # a run needs a daemon that goes on afterwards
    client = connect(remote) if what == "run" else connect_or_open(remote)
    found = client.post(f"{_path(name)}/{what}", {})
    click.echo(as_json_text(found) if as_json else f"{clean(name)} {done}")
