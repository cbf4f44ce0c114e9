"""The daemon of this home; where none runs, the house of this process, which stands still while it
is looked at."""

from __future__ import annotations

import os

import click

from ohmo.cli.client import Client, connect
from ohmo.cli.show import warn
from ohmo.config.home import find_home


def reach(remote: str | None) -> Client:
    """As ``connect``; without a daemon it takes the home's lock until the command ends. A home that
    was never used stays as it is: then each call raises NotRunning. Raises OhmoError: HomeTaken,
    ConfigError."""
    client = connect(remote)
    home = find_home(os.environ)
    if (
        remote is not None
        or client.probe("/healthz")
        or not (home.database.exists() or home.config.exists())
    ):
        return client
    from ohmo.cli.house import settings, surroundings
    from ohmo.cli.lean import structlog_alone

    structlog_alone()
    from ohmo.daemon import one_shot

    return Client(
        path=click.get_current_context().with_resource(
            one_shot(settings(), surroundings(), still=True, tell=warn)
        )
    )
