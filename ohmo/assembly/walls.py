"""From ``sandbox`` of the configuration to the walls around commands."""

from __future__ import annotations

import sys
from pathlib import Path

import ohmo
from ohmo.config.load import Config
from ohmo.permissions.policy import Host, snapshot_of
from ohmo.permissions.sensitive_places import ABSOLUTE, ANYWHERE
from ohmo.sandbox.walls import CageSettings, Walls


def build_walls(config: Config, host: Host) -> Walls:
    """Tries nothing yet."""
    written = config.sandbox
    assert written.backend != "docker"  # refused by the configuration
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
        socket=config.home.socket,
    )
    return Walls(settings)
