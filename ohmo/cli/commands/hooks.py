"""What runs before and after things happen: list it, and try it."""

from __future__ import annotations

import asyncio
import json
import shlex
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import click

from ohmo.cli.show import Columns, Group, as_json_text, clean, print_rows
from ohmo.content import cut
from ohmo.contracts.hooks import EVENTS, HookEvent

_COLUMNS: Columns = {
    "HOOK": lambda row: clean(row["name"]),
    "ON": lambda row: ",".join(row["events"]),
    "TOOLS": lambda row: clean(row["tools"]),
    "TYPE": lambda row: row["type"],
    "COUNTS": lambda row: row["counts"],
    "DOES": lambda row: cut(clean(row["does"]), 60),
}
_SAID: Columns = {
    "HOOK": lambda row: clean(row["name"]),
    "SAID": lambda row: row["said"],
    "MS": lambda row: str(row["ms"]),
    "WHY": lambda row: clean(row["why"]),
}


@click.group("hooks", cls=Group, help=__doc__)
def COMMAND() -> None:
    pass


@COMMAND.command("list")
@click.option(
    "--folder",
    type=click.Path(path_type=Path, exists=True, file_okay=False, resolve_path=True),
    help="The folder that is worked in.  [default: the workspace]",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def list_(folder: Path | None, as_json: bool) -> None:
    """Every hook of $OHMO_HOME/hooks.yaml, installed packages and the folder's project, in the
    order they are asked."""
    from ohmo.cli.home_config import load_config
    from ohmo.contracts.hooks import OWN_FILE
    from ohmo.doctor.checks.hooks import allowed
    from ohmo.hooks.hook import HookFile
    from ohmo.hooks.packages import packaged
    from ohmo.hooks.project import Projects, read_file

    config = load_config()
    own = read_file(config.home.root / OWN_FILE, OWN_FILE) or HookFile()
    folder = folder or config.workspace
    found = Projects().read(folder)
    theirs = found.file if found is not None else HookFile()
    counting = allowed(config.database, found) if found is not None else False
    said = {True: "yes", False: "no", None: "unknown"}[counting]
    rows: list[dict[str, Any]] = []
    offered = packaged()
    of_packages = HookFile(offered.hooks, offered.broken)
    for file, counts in ((own, "yes"), (of_packages, "yes"), (theirs, said)):
        rows += [
            {
                "name": hook.name,
                "file": hook.file,
                "events": hook.events,
                "tools": hook.tools or "*",
                "if": hook.condition,
                "type": hook.type,
                "does": hook.does,
                "timeout": hook.timeout,
                "counts": counts,
            }
            for hook in file.hooks
        ]
    notes = [
        line for line in (own.broken, *own.findings, *offered.broken, *theirs.findings) if line
    ]
    digest = found.digest if found is not None else ""
    if as_json:
        click.echo(as_json_text({"hooks": rows, "findings": notes, "project_digest": digest}))
        return
    none = f"there are no hooks; docs/hooks.md says what {OWN_FILE} may hold"
    if own.broken:
        none = f"{OWN_FILE} cannot be read; while ohmo runs, the hooks it read before still count"
    print_rows(rows, _COLUMNS, none)
    plugins = config.home.root / "plugins"
    if not config.safe and plugins.is_dir() and any(plugins.iterdir()):
        notes.append("hooks of plugins are shown by ohmo plugins list")
    if theirs.hooks and not counting:
        where = shlex.quote(str(folder))
        notes.append(
            f"hooks of {where} run once they are allowed; look into them, then: ohmo trust allow"
            f" hook {where}"
        )
    for line in notes:
        click.echo(f"note: {clean(line)}", err=True)


class _Event(click.Choice[str]):
    """As it was written, also as Claude Code spells it."""

    def convert(self, value: str, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from ohmo.hooks.claude_settings import NAMES

        super().convert(NAMES.get(value, value), param, ctx)
        return value


@COMMAND.command()
@click.argument("event", type=_Event(EVENTS))
@click.option(
    "--payload",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="JSON: tool_name, arguments, result, detail, text.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def test(event: str, payload: Path | None, as_json: bool) -> None:
    """Run the owner's hooks and those of packages for EVENT (also spelled as in Claude Code) now,
    and print which said what in how long.

    Hooks of a project are not run here, and no model is asked.
    """
    written = _payload(payload)
    rows = asyncio.run(_said(event, written))
    if as_json:
        click.echo(as_json_text(rows))
        return
    print_rows(rows, _SAID, f"no hook is about this {event}")


def _payload(file: Path | None) -> Mapping[str, Any]:
    if file is None:
        return {}
    try:
        found = json.loads(file.read_text(encoding="utf-8"))
    except (ValueError, OSError) as error:
        raise click.BadParameter(f"{file}: cannot be read as JSON: {error}") from error
    if not isinstance(found, dict):
        raise click.BadParameter(f"{file}: expected a JSON object")
    return cast("dict[str, Any]", found)


async def _said(spelled: str, written: Mapping[str, Any]) -> list[dict[str, Any]]:
    from dataclasses import replace

    from ohmo.assembly.deps import finding_programs
    from ohmo.assembly.hooks import about
    from ohmo.assembly.walls import walls_of
    from ohmo.cli.home_config import load_config, process_environment
    from ohmo.contracts.errors import ConfigError
    from ohmo.contracts.hooks import OWN_FILE, Hooked
    from ohmo.contracts.messages import ToolCall, ToolResult
    from ohmo.hooks.acting import Acting
    from ohmo.hooks.claude_settings import NAMES
    from ohmo.hooks.desk import say
    from ohmo.hooks.packages import packaged
    from ohmo.hooks.payload import concerns
    from ohmo.hooks.project import read_file

    config = load_config()
    file = read_file(config.home.root / OWN_FILE, OWN_FILE)
    if file is not None and file.broken:
        raise ConfigError(file.broken)
    event = cast("HookEvent", NAMES.get(spelled, spelled))
    failed = spelled == "PostToolUseFailure"
    arguments = written.get("arguments", written.get("tool_input", {}))
    name = str(written.get("tool_name", "Bash"))
    call = ToolCall("test.1", name, arguments, "") if event.endswith("tool_use") else None
    text = str(written.get("result", ""))
    result = ToolResult("test.1", text, error=failed) if event == "post_tool_use" else None
    detail = str(written.get("detail", "answered" if event == "turn_end" else "startup"))
    text = str(written.get("text", ""))
    what = Hooked(event, "test", "test", config.workspace, call, result, detail=detail, text=text)
    what = replace(what, session="test.0")
    environ = finding_programs(process_environment())

    async def tell(_: str, line: str) -> None:
        click.echo(line, err=True)

    walled = walls_of(config, environ, None, tell)
    acting = Acting(config.home.root / "spill" / "hooks", environ, None, walled.programs())
    spoken_of = about(config, environ)
    rows: list[dict[str, Any]] = []
    for hook in (*(file.hooks if file is not None else ()), *packaged().hooks):
        if not concerns(hook, what, spoken_of):
            continue
        said = await say(acting, hook, what)
        why = said.block or said.ask or said.context
        if said.arguments is not None:
            why = json.dumps(dict(said.arguments), ensure_ascii=False)
            call = replace(call, arguments=said.arguments) if call is not None else None
            what = replace(what, call=call)
        why = "; ".join(filter(None, (why, *said.findings)))
        row = {"name": hook.name, "said": said.short, "ms": round(said.seconds * 1000), "why": why}
        rows.append(row)
    return rows
