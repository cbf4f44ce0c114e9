"""``ohmo init`` at a terminal: shows which models the endpoint has, and lets one be chosen."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence

import click

from ohmo.config.home import environment
from ohmo.config.problems import nearest
from ohmo.discovery import scan
from ohmo.providers import build
from ohmo.providers.manifest import Endpoint
from ohmo.providers.model_list import offered

_SHOWN = 40


def models_chosen(environ: Mapping[str, str], endpoint: Endpoint) -> tuple[str, ...]:
    """Empty: the provider's own. ``endpoint``: without models; its key may stand in the
    environment."""
    known = build.manifests(scan)
    found = asyncio.run(offered(build.settled(endpoint, known, environment(environ))))
    usual = known[endpoint.provider].models[-1]
    if not found:
        click.echo("        the endpoint does not say which models it has")
        default = "" if endpoint.base_url else usual
        said = click.prompt(
            "Model (empty: decide later)", default=default, show_default=bool(default)
        )
        return (said,) if said and said != usual else ()
    names = sorted(found, key=lambda name: (name != usual, name))
    for number, name in enumerate(names[:_SHOWN], 1):
        click.echo(f"  {number}) {name}")
    if len(names) > _SHOWN:
        click.echo(f"  and {len(names) - _SHOWN} more; any can be typed")
    said = click.prompt(
        "Model, its number or name", default=names[0], value_proc=lambda word: _one_of(names, word)
    )
    return (said,)


def _one_of(names: Sequence[str], word: str) -> str:
    said = word.strip()
    if said.isascii() and said.isdigit() and 1 <= int(said[:6]) <= min(len(names), _SHOWN):
        return names[int(said) - 1]
    if said not in names:
        close = nearest(said, names)
        raise click.UsageError(
            f"{said}: the endpoint has no such model"
            + (f", did you mean {close}?" if close else "")
        )
    return said
