"""Create the home: config.yaml, SOUL.md, USER.md, AGENTS.md. What exists is left alone."""

from __future__ import annotations

import os

import click

from ohmo.config.home import find_home

_PROVIDERS = ("auto", "anthropic", "openai", "offline")
_CHANNELS = ("slack", "telegram", "matrix")


@click.command("init", help=__doc__)
@click.option("--provider", type=click.Choice(_PROVIDERS), default="auto", show_default=True)
@click.option("--preset", type=click.Choice(["safe", "balanced", "full"]), default="balanced", show_default=True)
@click.option("--channel", "channels", type=click.Choice(_CHANNELS), multiple=True, help="Enable it; repeatable.")
@click.option("--owner", default="", metavar="CHANNEL:ID", help="Who hears of trouble, e.g. slack:U123.")
def COMMAND(provider: str, preset: str, channels: tuple[str, ...], owner: str) -> None:  # noqa: N802 - the name every command file exports
    from ohmo.config import starter
    from ohmo.config.writing import write_whole

    if owner and (":" not in owner or any(c in owner for c in '"\\\n')):
        raise click.UsageError(f"--owner {owner!r}: expected CHANNEL:ID, for example slack:U123")
    home = find_home(os.environ)
    home.prepare()
    files = {
        home.config: starter.config(provider=provider, preset=preset, owner=owner, enabled=("web", *channels)),
        home.root / "SOUL.md": starter.SOUL,
        home.root / "USER.md": starter.USER,
        home.root / "AGENTS.md": starter.AGENTS,
    }
    for path, text in files.items():
        if path.exists():
            click.echo(f"kept    {path}")
        else:
            write_whole(path, text)
            click.echo(f"created {path}")
    click.echo("next: put tokens and keys into the environment, then ohmo config check, then ohmo run")
