"""Set up a home: model, channels, owner, service."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click

_PROVIDERS = ("auto", "anthropic", "openai", "offline")
_CHANNELS = ("slack", "discord", "telegram", "feishu", "matrix")


@click.command(
    "init",
    help=f"{__doc__} Asks at a terminal, takes flags in a script, overwrites nothing you edited.",
)
@click.option(
    "--provider",
    type=click.Choice(_PROVIDERS),
    help="auto looks for a key, then for a model server on this machine.",
)
@click.option(
    "--base-url", metavar="URL", help="Any endpoint that speaks like Anthropic or OpenAI."
)
@click.option(
    "--model",
    "models",
    metavar="M",
    multiple=True,
    help="Small to large, the last is used; repeatable.",
)
@click.option(
    "--api-key",
    metavar="REF",
    help="env:NAME, file:PATH, keyring:SERVICE/NAME, or - to read the key from standard input.",
)
@click.option(
    "--preset", type=click.Choice(["safe", "balanced", "full"]), help="How freely tools may act."
)
@click.option("--workspace", metavar="FOLDER", help="Where tools work.")
@click.option(
    "--channel",
    "channels",
    type=click.Choice(_CHANNELS),
    multiple=True,
    help="Enable it; repeatable.",
)
@click.option(
    "--set",
    "values",
    metavar="CHANNEL.KEY=VALUE",
    multiple=True,
    help="A key of a channel; secrets go to .env, not to config.yaml.",
)
@click.option(
    "--owner",
    metavar="CHANNEL:ID",
    multiple=True,
    help="Who hears of trouble, e.g. slack:U123; repeatable.",
)
@click.option(
    "--from",
    "source_kind",
    type=click.Choice(["openharness"]),
    help="Take over persona, memory, cron and channel tokens.",
)
@click.option(
    "--source", type=click.Path(path_type=Path), help="With --from: its folder (~/.ohmo)."
)
@click.option(
    "--test/--no-test",
    "test",
    default=True,
    help="Ask the model one word, and connect the channels that have credentials.",
)
@click.option(
    "--service/--no-service", "service", default=None, help="Install and start the service."
)
@click.option("--yes", is_flag=True, help="Ask nothing.")
@click.pass_context
def COMMAND(
    ctx: click.Context, *, test: bool, service: bool | None, yes: bool, **flags: object
) -> None:
    from channels.registry import discover
    from ohmo.cli.setup_checks import SetupChecks
    from ohmo.cli.wizard import InitFlags, Wizard

    at_terminal = sys.stdin.isatty()
    manifests = discover().manifests
    checks = SetupChecks(os.environ, manifests)
    wizard = Wizard(os.environ, manifests, checks, asking=at_terminal and not yes)
    asked = InitFlags(**flags)  # pyright: ignore[reportArgumentType] - click checked them
    deaf = not at_terminal and not yes
    ctx.exit(wizard.run(asked, test=test, service=service, deaf=deaf))
