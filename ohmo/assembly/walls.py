"""From ``sandbox`` of the configuration to the walls around commands."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from pathlib import Path

import ohmo
from ohmo.config.load import Config
from ohmo.permissions.policy import Host, snapshot_of
from ohmo.permissions.sensitive_places import ABSOLUTE, ANYWHERE
from ohmo.sandbox.walls import CageSettings, Standing, Walls
from ohmo.shell.parsing import DEFAULT_PATH


def build_walls(config: Config, host: Host) -> Walls:
    """Tries nothing yet."""
    written = config.sandbox
    settings = CageSettings(
        backend=written.backend,
        network=written.network,
        memory=written.memory,
        cpus=written.cpus,
        pids=written.pids,
        home=host.home,
        root=host.root,
        workspace=config.workspace,
        absolute=(*ABSOLUTE, *snapshot_of(config).closed),
        anywhere=ANYWHERE,
        path=host.path,
        installed=(Path(sys.prefix), Path(sys.base_prefix), Path(ohmo.__file__).parents[1]),
        image=written.image,
        engine=host.engine,
        socket=config.home.socket,
    )
    return Walls(settings)


def walls_tried(config: Config, environ: Mapping[str, str]) -> Standing:
    """Whether they hold here and now, tried. Not within an event loop."""
    home = Path(environ.get("HOME", "~")).expanduser()
    host = Host(
        home, config.home.root, environ.get("PATH", DEFAULT_PATH), environ.get("DOCKER_HOST", "")
    )

    async def tried() -> Standing:
        return await build_walls(config, host).standing()

    return asyncio.run(tried())
