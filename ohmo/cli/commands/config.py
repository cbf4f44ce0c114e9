"""Check, show and edit config.yaml."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import click

from ohmo.cli.show import Group, as_json_text


@click.group("config", cls=Group, help=__doc__)
def COMMAND() -> None:
    pass


_file = click.option(
    "--config", "file", type=click.Path(path_type=Path), help="Another config.yaml."
)
_profile = click.option("--profile", metavar="NAME", help="Another profile of the file.")


@COMMAND.command()
@_file
@_profile
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def check(file: Path | None, profile: str | None, as_json: bool) -> None:
    """Name every problem with its line; exit 78 when there is one."""
    from datetime import UTC, datetime

    from ohmo.assembly.clockwork import specs
    from ohmo.cli.home_config import load_config

    found = load_config(file, profile)
    specs(found, "UTC", datetime.now(UTC))
    place = f"no file at {found.home.config}, so every default holds"
    if found.file is not None:
        place = str(found.file)
    channels = [channel.name for channel in found.channels if channel.enabled]
    if as_json:
        click.echo(
            as_json_text(
                {"ok": True, "file": str(found.file) if found.file else None, "channels": channels}
            )
        )
    else:
        click.echo(
            f"{place}: nothing is wrong; channels: {', '.join(channels) or 'none'}; profile:"
            f" {found.profile_name}"
        )


@COMMAND.command()
@_file
@_profile
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def show(file: Path | None, profile: str | None, as_json: bool) -> None:
    """What holds: file, environment and defaults together; no secret is shown."""
    from ruamel.yaml import YAML

    from ohmo.cli.home_config import installed_manifests, load_config
    from ohmo.config.export import effective

    found = effective(load_config(file, profile), installed_manifests())
    if as_json:
        click.echo(as_json_text(found))
        return
    writer: Any = YAML(typ="safe", pure=True)
    writer.default_flow_style = False
    writer.sort_base_mapping_type_on_output = False
    writer.dump(found, sys.stdout)


@COMMAND.command()
def schema() -> None:
    """Print the JSON Schema of config.yaml."""
    from ohmo.cli.home_config import installed_manifests
    from ohmo.config.export import schema as whole

    click.echo(json.dumps(whole(installed_manifests()), ensure_ascii=False, indent=2))


@COMMAND.command()
@_file
def edit(file: Path | None) -> None:
    """Edit a copy in $VISUAL or $EDITOR; it replaces the file only when nothing is wrong with
    it."""
    from channels.durable import write_whole
    from ohmo.cli.home_config import load_config
    from ohmo.config.home import find_home
    from ohmo.contracts.errors import ConfigError
    from ohmo.setup.answers import Answers, config_text

    home = find_home(os.environ)
    target = file or home.config
    if file is None:
        home.prepare()
    copy = target.with_name(f"{target.stem}.edited{target.suffix}")
    if not copy.exists():
        text = config_text(Answers(channels={"web": {}}))
        if target.exists():
            text = target.read_text(encoding="utf-8")
        write_whole(copy, text)
    click.edit(filename=str(copy))
    try:
        load_config(copy)
    except ConfigError as error:
        raise ConfigError(
            f"{error}\n{target} is unchanged; your version waits in {copy}: run ohmo config edit"
            " again, or delete it"
        ) from error
    write_whole(target, copy.read_text(encoding="utf-8"))
    copy.unlink()
    click.echo(f"{target}: written; a running daemon takes it over within a few seconds")
