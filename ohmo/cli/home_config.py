"""The configuration of this home, checked with every platform's own keys."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import click

from channels.contract import Manifest
from channels.registry import DuplicateChannel, discover
from ohmo.cli.show import clean
from ohmo.config.home import environment, find_home
from ohmo.config.load import Config, load
from ohmo.contracts.errors import ConfigError


def installed_manifests() -> Mapping[str, Manifest]:
    """Every channel that is installed, by name; a broken package is named on standard error and
    left out. Raises ConfigError for two of one name."""
    try:
        catalogue = discover()
    except DuplicateChannel as error:
        raise ConfigError(str(error)) from error
    for line in catalogue.broken:
        click.echo(f"ohmo: {clean(line)}", err=True)
    return catalogue.manifests


def process_environment() -> dict[str, str]:
    """The environment, and what ``$OHMO_HOME/.env`` adds to it. Raises ConfigError."""
    return environment(os.environ)


def service_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """What a service knows, which nobody's shell starts: the paths, and ``$OHMO_HOME/.env``. Raises
    ConfigError."""
    paths = {
        "PATH": environ.get("PATH", ""),
        "HOME": environ.get("HOME", ""),
        "OHMO_HOME": str(find_home(environ).root),
    }
    return environment(paths)


def load_config(file: Path | None = None, profile: str | None = None) -> Config:
    """Raises ConfigError with one line for each problem."""
    manifests = installed_manifests()
    return load(file, environ=process_environment(), profile=profile, manifests=manifests)
