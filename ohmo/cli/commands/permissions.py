"""What people allowed for longer than once, and what would become of a call."""

from __future__ import annotations

import json
from typing import Any

import click

from ohmo.cli.connect import connect_or_open
from ohmo.cli.show import Columns, Group, ago, as_json_text, clean, client_options, print_rows


@click.group("permissions", cls=Group, help=__doc__)
def COMMAND() -> None:
    pass


@COMMAND.command("list")
@client_options
def list_(as_json: bool, remote: str | None) -> None:
    """Every permission that was given with a button, with the rule it stands for."""
    found = connect_or_open(remote).get("/api/v1/permissions")["permissions"]
    if as_json:
        click.echo(as_json_text(found))
        return
    columns: Columns = {
        "ID": lambda row: row["id"],
        "GIVEN": lambda row: ago(row["at"]),
        "FOR": lambda row: row["person"],
        "UNTIL": lambda row: "revoked" if row["until"] == "always" else "its session ends",
        "ALLOWS": lambda row: row["means"],
        "RULE": lambda row: row["rule"],
    }
    print_rows(
        found,
        columns,
        "nothing was allowed for longer than once; rules of config.yaml are not listed here",
    )


@COMMAND.command()
@click.argument("id")
@client_options
def revoke(id: str, as_json: bool, remote: str | None) -> None:
    """Take one back: the next call it covered asks again."""
    if not id.isalnum():
        raise click.UsageError(f"{id!r}: expected an id as `ohmo permissions list` shows it")
    found = connect_or_open(remote).post(f"/api/v1/permissions/{id}/revoke", {})
    click.echo(as_json_text(found) if as_json else f"{id}: revoked")


@COMMAND.command()
@click.argument("tool")
@click.argument("arguments", default="")
@click.option(
    "--mode", type=click.Choice(["default", "plan", "full_auto"]), help="Default: as configured."
)
@click.option("--role", type=click.Choice(["guest", "user", "admin", "owner"]), default="owner")
@click.option("--cwd", default="", metavar="FOLDER", help="Where; default: the workspace.")
@client_options
def test(
    tool: str,
    arguments: str,
    mode: str | None,
    role: str,
    cwd: str,
    as_json: bool,
    remote: str | None,
) -> None:
    """Say which layer and rule would decide about a call, without making it: `Bash "git push"`,
    `Read /etc/passwd`; ARGUMENTS are the tool's first argument, or all of them as a JSON object."""
    given: str | dict[str, Any] = arguments
    if arguments.startswith('{"'):
        try:
            given = json.loads(arguments)
        except ValueError as error:
            raise click.UsageError(f"ARGUMENTS are no JSON object: {error}") from error
    wanted = {"tool": tool, "arguments": given, "mode": mode, "role": role, "cwd": cwd}
    found = connect_or_open(remote).post("/api/v1/permissions/test", wanted)
    if as_json:
        click.echo(as_json_text(found))
        return
    words = {"allow": "allowed", "ask": "a person is asked", "deny": "not allowed"}
    click.echo(f"{words[found['verdict']]}, by {clean(found['by'])}")
    if found["why"]:
        click.echo(clean(found["why"]))
    if found["remembers"]:
        click.echo(f"an answer for longer would store {clean(found['remembers'])}")
