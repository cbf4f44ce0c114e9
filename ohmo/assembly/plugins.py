"""From the folder of plugins to the rooms that use what trusted ones bring; what a plugin has none
of is not imported for it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, cast

from channels.record import Recent
from ohmo.assembly.walls import redactor
from ohmo.commands.aliases import SAME
from ohmo.commands.contract import of_plugin, unknown
from ohmo.config.load import Config
from ohmo.contracts.arrivals import Wake
from ohmo.contracts.errors import ConfigError
from ohmo.contracts.mcp import McpServers
from ohmo.contracts.trust import Candidate, Trusts
from ohmo.contracts.turns import Claim, Work
from ohmo.discovery import load
from ohmo.plugins.manifest import Plugin
from ohmo.plugins.shelf import Judged, Plugins, Tell, Used
from ohmo.processes.job import child_environment
from ohmo.sessions.planner import TurnPlan
from ohmo.sessions.user_steps import words_behind
from ohmo.skills.folder import folders_in
from ohmo.skills.shelf import BUNDLED, PROJECT, Place

Plan = Callable[[Claim, Work], Awaitable[TurnPlan]]
_KNOWN = 64  # plugins whose hooks were read
SERVERS = 32  # of one plugin, as of one file


class Brought:
    """What trusted plugins bring, in the terms of those who use it. ``serves``: some plugin has MCP
    servers, trusted or not."""

    def __init__(self, plugins: Plugins, config: Config, environ: Mapping[str, str]) -> None:
        self.plugins = plugins
        self._config = config
        self._environ = environ
        self._hooks = Recent[str, tuple[Any, ...]](_KNOWN)

    @property
    def serves(self) -> bool:
        return any(one.plugin is not None and one.plugin.servers for one in self.plugins.entries)

    async def hooks(self) -> tuple[Any, ...]:
        """Raises StoreError."""
        await self.plugins.look()
        found: list[Any] = []
        for plugin, copy in self.plugins.trusted:
            if not plugin.hooks:
                continue
            key = f"{plugin.name} {plugin.digest}"  # two may be alike but for their folder's name
            if key not in self._hooks:
                read = await asyncio.to_thread(_hooks_in, plugin, copy, self._config)
                self._hooks[key] = read.hooks
            found += self._hooks[key]
        return tuple(found)

    async def places(self) -> Sequence[Place]:
        """Of skills. Raises StoreError."""
        await self.plugins.look()
        return [
            Place("plugin", copy / below, owned=True)
            for plugin, copy in self.plugins.trusted
            for below in plugin.skills
        ]

    async def candidates(self, folder: Path, *, servers: McpServers | None) -> list[Candidate]:
        """``servers``: None: nobody is there who would start those of a plugin. Raises
        StoreError."""
        found = await self.plugins.candidates(folder)
        if servers is not None:
            return found
        late = {one.name for one in self.plugins.entries if one.plugin and one.plugin.servers}
        more = "; its MCP servers from the next start on"
        return [replace(one, may=one.may + more) if one.name in late else one for one in found]

    async def look(self) -> Any:
        """Their MCP servers (``ohmo.mcp.written.Lender``). Raises StoreError."""
        await self.plugins.look()
        found: list[Any] = []
        notes: list[str] = []
        for plugin, copy in self.plugins.trusted:
            where = (plugin, copy, self._config, self._environ)
            endpoints, lines = await asyncio.to_thread(_servers_in, *where)
            found += endpoints
            notes += lines
        if found:
            work = self._config.workspace
            await asyncio.to_thread(work.mkdir, parents=True, exist_ok=True)
        make = cast("Callable[..., Any]", load("ohmo.mcp.written:Look"))
        return make(tuple(found), "plugins", tuple(notes))


def refusing(plan: Plan, spelled: Callable[[str], str | None]) -> Plan:
    """A job that says a command of a plugin that nobody trusts fails, as the command does in a
    chat: the model would make something up."""

    async def planned(claim: Claim, work: Work) -> TurnPlan:
        for said in work.arrivals:
            text = said.prompt if isinstance(said, Wake) else ""
            name = of_plugin(text)
            if name is not None and spelled(words_behind(text)) is None:
                raise ConfigError(unknown(name, ()))
        return await plan(claim, work)

    return planned


async def build_plugins(
    config: Config, environ: Mapping[str, str], trusts: Trusts, tell: Tell, known: Collection[str]
) -> Brought | None:
    """Those that are there. ``known``: names of the house's own commands. None: the house starts
    without. Raises StoreError."""
    if config.safe:
        return None
    home = config.home.root
    judge = partial(_judged, config=config, environ=environ)
    taken = partial(_taken, known=frozenset({*known, *SAME}), config=config)
    folders = (home / "plugins", home / "cache" / "plugins", _kept(config))
    plugins = Plugins(*folders, trusts, judge, tell, taken=taken)
    await plugins.look()
    return Brought(plugins, config, environ)


def _taken(used: Sequence[Used], *, known: frozenset[str], config: Config) -> Collection[str]:
    """What the house, or a skill of the house or its workspace, is called."""
    places = [config.home.root / "skills", *config.written.skills.folders, BUNDLED]
    places += [config.workspace / name for name in PROJECT]
    places += [copy / below for plugin, copy in used for below in plugin.skills]
    skills = {skill.name.lower() for place in places for skill in folders_in(place)}
    return known | skills


def _judged(plugin: Plugin, *, config: Config, environ: Mapping[str, str]) -> Judged:
    """What it would run, as it is written: nothing of it is used."""
    servers, notes = _servers_in(plugin, plugin.folder, config, environ)
    shown = cast("Callable[..., str]", load("ohmo.mcp.written:shown")) if servers else None
    given, redact = _given(plugin, plugin.folder, config, environ), redactor(config)
    runs, whole = (
        [
            f"server {one.name}: {shown(one, given, redact, whole=all_of)}"
            for one in servers
            if shown
        ]
        for all_of in (False, True)
    )
    if not plugin.hooks:
        return Judged(tuple(runs), tuple(notes), whole=tuple(whole))
    hooks = _hooks_in(plugin, plugin.folder, config)
    acts = [hook.may for hook in hooks.hooks]
    found = (*hooks.findings, *notes)
    return Judged((*acts, *runs), found, hooks.broken, (*acts, *whole))


def _hooks_in(plugin: Plugin, folder: Path, config: Config) -> Any:
    read = cast("Callable[..., Any]", load("ohmo.hooks.project:hooks_in"))
    return read(plugin.name, plugin.hooks, str(folder), str(_kept(config) / plugin.name))


def _kept(config: Config) -> Path:
    """Where each plugin has a folder to keep things in. Not below ``state``: a backup would read
    what plugins write, links and databases too."""
    return config.home.root / "plugin-data"


def _servers_in(
    plugin: Plugin, folder: Path, config: Config, environ: Mapping[str, str]
) -> tuple[list[Any], list[str]]:
    found: list[Any] = []
    notes: list[str] = []
    if not plugin.servers:
        return found, notes
    ground = cast("Callable[..., Any]", load("ohmo.mcp.written:Ground"))
    read = cast("Callable[..., Any]", load("ohmo.mcp.written:servers_in"))
    given = _given(plugin, folder, config, environ)
    for file, text in plugin.servers.items():
        place = f"plugin {plugin.name}: {file}"
        where = ground(
            place,
            config.workspace,
            given,
            config.mcp,
            f"plugin_{plugin.name.replace('_', '-')}_",
            str(folder),
            given["CLAUDE_PLUGIN_DATA"],
        )
        endpoints, lines = read(text, where)
        found += endpoints
        notes += lines
    if len(found) > SERVERS:
        brings = f"it brings {len(found)} MCP servers; the first {SERVERS} count"
        notes.append(f"plugin {plugin.name}: {brings}")
    return found[:SERVERS], notes


def _given(
    plugin: Plugin, folder: Path, config: Config, environ: Mapping[str, str]
) -> dict[str, str]:
    """What a program of a plugin finds in its environment."""
    own = {
        "CLAUDE_PLUGIN_ROOT": str(folder),
        "CLAUDE_PLUGIN_DATA": str(_kept(config) / plugin.name),
        "PYTHONDONTWRITEBYTECODE": "1",
    }
    return child_environment(environ, own)
