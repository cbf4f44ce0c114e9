"""From the configuration to the walls around commands (``sandbox``), and around its secrets."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from functools import partial
from pathlib import Path
from typing import Any, cast

import ohmo
from channels.record import record
from ohmo.config.load import Config
from ohmo.discovery import load
from ohmo.logs.redaction import Redactor
from ohmo.permissions.cages import may_be_opened
from ohmo.permissions.policy import Host, sensitive_of, snapshot_of
from ohmo.permissions.sensitive_paths import FsCache
from ohmo.permissions.sensitive_places import ABSOLUTE, ANYWHERE
from ohmo.sandbox.proxy import Proxy
from ohmo.sandbox.walls import CageSettings, Standing, Walls
from ohmo.shell.parsing import DEFAULT_PATH
from ohmo.tools.web_addresses import is_elsewhere
from ohmo.tools.workbench import system_resolver


@record
class Walled:
    """``programs``: makes what is around hooks and MCP servers, with the first of them
    (``ohmo.contracts.sandbox.Programs``)."""

    walls: Walls
    programs: Callable[[], Any]


def host_of(config: Config, environ: Mapping[str, str]) -> Host:
    home = Path(environ.get("HOME", "~")).expanduser()
    path, engine = environ.get("PATH", DEFAULT_PATH), environ.get("DOCKER_HOST", "")
    return Host(home, config.home.root, path, engine)


def redactor(config: Config) -> Callable[[str], str]:
    """Takes the secrets of this house, and whatever looks like a token, out of words."""
    return Redactor(lambda: config.vault.values).words


def build_walls(config: Config, host: Host, began: datetime | None = None) -> Walls:
    """Tries nothing yet. ``began``: when this daemon did."""
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
        began=0.0 if began is None else began.timestamp(),
    )
    return Walls(settings, Proxy(system_resolver, is_elsewhere))


def walls_of(
    config: Config,
    environ: Mapping[str, str],
    began: datetime | None,
    tell: Callable[[str, str], Awaitable[object]],
) -> Walled:
    host = host_of(config, environ)
    walls = build_walls(config, host, began)
    return Walled(walls, partial(_programs, config, host, walls, tell))


def _programs(
    config: Config, host: Host, walls: Walls, tell: Callable[[str, str], Awaitable[object]]
) -> Any:
    sensitive = sensitive_of(snapshot_of(config), host)

    def opens(place: str) -> bool:
        return may_be_opened(place, sensitive, FsCache())

    make = cast("Callable[..., Any]", load("ohmo.sandbox.programs:Programs"))
    return make(walls, host.home, host.root, opens, tell)


def walls_tried(config: Config, environ: Mapping[str, str]) -> Standing:
    """Whether they hold here and now, tried. Not within an event loop."""

    async def tried() -> Standing:
        return await build_walls(config, host_of(config, environ)).standing()

    return asyncio.run(tried())
