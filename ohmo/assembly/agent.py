"""The agent: tools behind their gate, a model behind its chain, the engine over both. Shared by
everything that runs turns."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Protocol

from channels.contract import Address, Clock
from channels.record import record
from ohmo.ambient import Ambient
from ohmo.approvals.trusting import Candidates, TrustDesk
from ohmo.assembly.checkpoints import around_turns, build_folders
from ohmo.assembly.plugins import Brought
from ohmo.assembly.servers import build_servers, waiting_servers
from ohmo.assembly.tool_systems import systems_of
from ohmo.assembly.walls import Walled, host_of, redactor
from ohmo.checkpoints.folders import Folders
from ohmo.config.load import Config
from ohmo.context.rules import repository_of
from ohmo.context.window import request_tokens
from ohmo.contracts.cron import JobTools
from ohmo.contracts.hooks import HookRoom, Inquire
from ohmo.contracts.mcp import McpServers
from ohmo.contracts.provider import AskOnce, Call
from ohmo.contracts.store import Store
from ohmo.contracts.tool import Toolbox
from ohmo.contracts.trust import Trusts
from ohmo.contracts.turns import CheckpointRows
from ohmo.discovery import load, scan
from ohmo.engine.executor import Executor, nothing_before
from ohmo.engine.inquiry import Inquirer
from ohmo.engine.loop import Engine, Reasoner, nothing_after
from ohmo.memory.desk import Memory, MemorySettings
from ohmo.memory.tidying import Tidying
from ohmo.permissions.gate import LayeredGate
from ohmo.permissions.policies import Policies
from ohmo.permissions.policy import sensitive_of, snapshot_of
from ohmo.permissions.project_settings import ProjectSettings
from ohmo.permissions.trial import Trial
from ohmo.plugins.shelf import Plugins
from ohmo.processes.job import ProcessRunner
from ohmo.providers import build
from ohmo.providers.build import endpoint_of
from ohmo.providers.model_list import has, in_words
from ohmo.skills.shelf import BUNDLED, Place, Skills, no_plugins
from ohmo.tools.catalogue import catalogue, load_tools, with_strangers
from ohmo.tools.workbench import BackgroundJobs, Limits, Workbench


class AgentStore(Store, Trusts, CheckpointRows, Protocol):
    """What whoever runs turns asks of the store."""


@record
class AgentParts:
    """What runs turns, and what it is made of."""

    engine: Engine
    model: build.Model
    toolbox: Toolbox
    workbench: Workbench
    policies: Policies
    gate: LayeredGate
    ask: AskOnce  # for anything but the next step of a turn
    folders: Folders  # of checkpoints
    tidying: Tidying  # of what is remembered
    skills: Skills
    tools_skipped: tuple[str, ...]  # of other packages, a line for each
    server_file: Candidates  # a workspace's file of MCP servers, while it waits to be trusted
    hooks: HookRoom | None = None
    servers: McpServers | None = None  # None: none is configured
    brought: Brought | None = None  # by plugins

    @property
    def skipped(self) -> tuple[str, ...]:
        """What other packages bring and is broken, a line for each."""
        return (*self.tools_skipped, *(() if self.hooks is None else self.hooks.skipped))

    @property
    def plugins(self) -> Plugins | None:
        return None if self.brought is None else self.brought.plugins

    def trust_desk(self, trusts: Trusts, workspace: Path) -> TrustDesk:
        projects = self.policies.projects
        hooks = () if self.hooks is None else (self.hooks.candidates,)
        waiting = (*hooks, self.server_file, projects.candidates)
        if self.brought is not None:
            waiting = (partial(self.brought.candidates, servers=self.servers), *waiting)
        more = (waiting, self.plugins, projects.refresh, self.servers)
        return TrustDesk(trusts, self.skills, workspace, *more)

    def trial(self, workspace: Path) -> Trial:
        """Of calls, as they would be judged now."""
        walls, configured = self.workbench.walls, self.policies.mode
        return Trial(self.toolbox, self.gate, workspace, walls, configured)


async def build_model(config: Config, environ: Mapping[str, str]) -> build.Model:
    """What the profile and its fallbacks have become; asks loopback servers only for ``provider:
    auto`` without a key."""
    chain = [(config.profile_name, config.profile), *config.fallback]
    endpoints = [endpoint_of(name, profile, config) for name, profile in chain]
    known = build.manifests(scan)
    return await build.model(
        endpoints,
        known,
        load,
        environ,
        pricing=build.prices_of(config),
        order=config.written.chain,
        tokens=request_tokens,
    )


async def no_such_model(model: build.Model, name: str) -> str:
    """One line about a model that neither the profile nor its endpoint has; empty for one that may
    be there."""
    if name in model.models:
        return ""
    if model.model == "offline":
        return f"model {name[:100]}: no model is configured; docs/models.md says how to connect one"
    offered = await model.offers() if model.offers is not None else ()
    if not offered or has(offered, name):
        return ""
    return f"model {name[:100]}: the endpoint has no such model; it has {in_words(offered, name)}"


def build_agent(
    config: Config,
    model: build.Model,
    asking: tuple[Call, AskOnce],
    store: AgentStore,
    *,
    environ: Mapping[str, str],
    ambient: Ambient,
    background: BackgroundJobs,
    cron: JobTools,
    largest: Callable[[Address], int | None],
    hooks: Callable[[Inquire], HookRoom | None],
    brought: Brought | None,
    walled: Walled,
) -> AgentParts:
    """``asking``: for steps of turns; for the rest. ``largest``: bytes of what a place shows."""
    (call, ask), walls, host = asking, walled.walls, host_of(config, environ)
    tidying = _tidying(config, model, ask, _memory(config, environ, ambient.clock))
    skills = _skills(config, environ, store, brought)
    projects = ProjectSettings(config.home.state("projects"), store)
    policies = Policies(snapshot_of(config), host, walls, projects)
    bench = Workbench(
        config.home.spill,
        sensitive_of(policies.present, host),
        limits=_limits(config),
        processes=ProcessRunner(sandbox=walls),
        walls=walls,
        environ=environ,
        ripgrep=ripgrep(),
        background=background,
        systems=systems_of(config, model.models, ask),
        cron=cron,
        place=cron.place,
        largest=largest,
        memory=tidying.memory,
        skills=skills,
        steps=store.steps,
    )
    servers = build_servers(config, bench, store, brought, walled.programs)
    tools, skipped = with_strangers(load_tools(bench), bench, () if config.safe else None)
    toolbox = catalogue(tools, servers)
    gate = LayeredGate(policies.judging, store.grants)
    room = hooks(Inquirer(ask, toolbox, gate, redactor(config)))
    folders = build_folders(config, environ, store, ambient)
    turns = around_turns(config, folders, host.home)
    executor = Executor(
        toolbox,
        gate,
        width=config.limits.parallel_tools,
        failpoint=ambient.failpoint,
        redact=redactor(config),
        before=nothing_before if turns is None else turns.before,
        hooks=room,
        settled=walls.settled,
    )
    after = nothing_after if turns is None else turns.after
    reasoner, most = Reasoner(call, failpoint=ambient.failpoint), config.limits.max_steps
    engine = Engine(reasoner, executor, max_steps=most, hooks=room, after=after)
    waiting = waiting_servers(config, bench, store, servers)
    more = (tidying, skills, skipped, waiting, room, servers, brought)
    return AgentParts(engine, model, toolbox, bench, policies, gate, ask, folders, *more)


def _limits(config: Config) -> Limits:
    return Limits(
        bash_output=config.limits.bash_output,
        web_output=config.limits.web_output,
        read_lines=config.limits.read_lines,
        bash_timeout_most=config.sandbox.timeout.total_seconds(),
    )


def _tidying(config: Config, model: build.Model, ask: AskOnce, memory: Memory) -> Tidying:
    small = model.models[0]
    return Tidying(memory, ask, small, model.window(small), config.home.root / "cache")


def _memory(config: Config, environ: Mapping[str, str], clock: Clock) -> Memory:
    """Reads nothing yet."""
    home = Path(environ.get("HOME", "~")).expanduser()
    settings = MemorySettings(
        opaque=config.written.memory.opaque_names,
        environ={key: environ[key] for key in ("PATH", "HOME") if key in environ},
        root_of=lambda folder: repository_of(folder, home),
        redact=redactor(config),
        clock=clock,
    )
    root = config.home.root
    return Memory(root / "memory", root / "cache", settings)


def _skills(
    config: Config, environ: Mapping[str, str], trusts: Trusts, brought: Brought | None
) -> Skills:
    """Reads nothing yet."""
    home = Path(environ.get("HOME", "~")).expanduser()
    named = [Place("user", folder, owned=False) for folder in config.written.skills.folders]
    own = Place("user", config.home.root / "skills", owned=True)
    bundled = Place("bundled", BUNDLED, owned=True)
    lent = no_plugins if brought is None else brought.places
    places = (own, *named, bundled)
    return Skills(places, trusts, partial(repository_of, home=home), environ, lent=lent)


def ripgrep() -> Path | None:
    """``rg`` beside this interpreter (the wheel brings it) or on the PATH."""
    beside = Path(sys.executable).with_name("rg")
    if beside.exists():
        return beside
    path = shutil.which("rg")
    return Path(path) if path is not None else None
