"""What may take part: what a project or a plugin brings does once you allow its very content."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, get_args

import click

from ohmo.cli.connect import connect_or_open
from ohmo.cli.show import Columns, Group, ago, as_json_text, clean, client_options, print_rows
from ohmo.contracts.errors import OhmoError
from ohmo.contracts.trust import SETTINGS, Kind

_API = "/api/v1/trust"
_FOLDERS = ("project", "hook", "mcp")  # whose names may be folders
_KIND = click.Choice(get_args(Kind))
_COLUMNS: Columns = {
    "KIND": lambda row: row["kind"],
    "NAME": lambda row: clean(row["name"]),
    "CONTENT": lambda row: row["digest"][:12],
    "BY": lambda row: clean(row["person"]),
    "ALLOWED": lambda row: "left off" if row["at"] == row["revoked_at"] else ago(row["at"]),
    "REVOKED": lambda row: ago(row["revoked_at"]) if row["revoked_at"] else "",
}
_folder = click.option(
    "--folder",
    type=click.Path(path_type=Path, file_okay=False, resolve_path=True),
    help="The folder that is worked in.  [default: the workspace]",
)


@click.group("trust", cls=Group, help=__doc__)
def COMMAND() -> None:
    pass


@COMMAND.command("list")
@_folder
@client_options
def list_(folder: Path | None, as_json: bool, remote: str | None) -> None:
    """What waits for your word, and what you allowed."""
    asked = {} if folder is None else {"folder": str(folder)}
    found = connect_or_open(remote).get(_API, **asked)
    if as_json:
        click.echo(as_json_text(found))
        return
    for one in found["waiting"]:
        if broken := one.get("broken"):  # an earlier daemon says none
            click.echo(clean(f"{one['kind']} {one['name']} does not count: {broken}"))
            continue
        click.echo(clean(f"{one['kind']} {one['name']} waits: it {one['may']}"))
        click.echo(clean(f"  {one['where']}, content {one['digest'][:12]}"))
    if found["waiting"]:
        click.echo("look into it, then: ohmo trust allow KIND NAME\n")
    print_rows(found["trusts"], _COLUMNS, "nothing was allowed yet")


@COMMAND.command()
@click.argument("kind", type=_KIND)
@click.argument("name")
@click.option("--digest", default="", help="How the content begins that you looked at.")
@click.option("--yes", is_flag=True, help="Do not ask.")
@_folder
@client_options
def allow(
    kind: str,
    name: str,
    digest: str,
    yes: bool,
    folder: Path | None,
    as_json: bool,
    remote: str | None,
) -> None:
    """Let it take part with exactly the content it has now; one changed byte asks again.

    Says first what it may do then, and at a terminal asks.
    """
    name = _spelled(kind, name)
    if kind in _FOLDERS and os.sep in name:
        folder = folder or Path(name.removesuffix(f"/{SETTINGS}"))
    asked = {} if folder is None else {"folder": str(folder)}
    house = connect_or_open(remote)
    shown = _shown(house.get(_API, **asked)["waiting"], kind, name, digest)
    click.echo(clean(f"{kind} {name}: it {shown['may']}"), err=True)
    if not (yes or digest) and sys.stdin.isatty() and not click.confirm("Allow this?", err=True):
        return
    wanted = {"kind": kind, "name": name, "digest": shown["digest"]}
    found = house.post(f"{_API}/allow", wanted | asked)["allowed"]
    line = clean(f"{kind} {name}: allowed with content {found['digest'][:12]}")
    click.echo(as_json_text(found) if as_json else line)


def _spelled(kind: str, name: str) -> str:
    """A folder in whole, with whatever links lie on the way."""
    is_path = kind in _FOLDERS and (name.startswith(".") or os.sep in name)
    return os.path.abspath(name) if is_path else name  # noqa: PTH100


def _shown(
    waiting: Sequence[Mapping[str, Any]], kind: str, name: str, digest: str
) -> Mapping[str, Any]:
    """The one that is meant: nothing is allowed that was not shown. Raises OhmoError."""
    there = [one for one in waiting if (one["kind"], one["name"]) == (kind, name)]
    fitting = [one for one in there if one["digest"].startswith(digest)]
    if not fitting:
        why = "it is not the content that was shown; look again" if there else "nothing waits"
        raise OhmoError(clean(f"{kind} {name}: {why}; ohmo trust list shows what does"))
    if len(fitting) > 1:
        begins = ", ".join(f"{one['digest'][:12]} ({one['where']})" for one in fitting)
        raise OhmoError(clean(f"{kind} {name}: there are several, name one by --digest: {begins}"))
    if broken := fitting[0].get("broken"):
        raise OhmoError(clean(f"{kind} {name}: {broken}"))
    return fitting[0]


@COMMAND.command()
@click.argument("kind", type=_KIND)
@click.argument("name")
@client_options
def revoke(kind: str, name: str, as_json: bool, remote: str | None) -> None:
    """Take back what you allowed: all contents of that name."""
    name = _spelled(kind, name)
    found = connect_or_open(remote).post(f"{_API}/revoke", {"kind": kind, "name": name})
    click.echo(as_json_text(found) if as_json else clean(f"{kind} {name}: revoked"))
