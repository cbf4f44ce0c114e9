"""What every session is built from, and what a turn runs with: model, prompt, tools, folder, mode
and on whose behalf."""

from __future__ import annotations

import asyncio
import platform
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import datetime, timedelta, tzinfo
from pathlib import Path
from typing import Literal, Protocol

from channels.contract import Address, Inbound, Outbound
from channels.record import record
from ohmo.ambient import Ambient
from ohmo.config.load import Config
from ohmo.config.values import Secret
from ohmo.context.layers import SystemLayer
from ohmo.context.prompt import Facts, system_prompt, too_big
from ohmo.context.rules import ProjectRules, project_rules
from ohmo.context.surroundings import surroundings
from ohmo.context.window import spec_tokens
from ohmo.contracts.agent import Agent, Event
from ohmo.contracts.arrivals import Arrival, Wake
from ohmo.contracts.cron import Report
from ohmo.contracts.inwriter import Begins, Card, Closing, ToStep, in_writer
from ohmo.contracts.messages import Json, ToolCall, ToolResult
from ohmo.contracts.outbox import OWN_CHANNELS
from ohmo.contracts.provider import Section, ToolSpec
from ohmo.contracts.store import Store
from ohmo.contracts.tool import (
    BegunUnder,
    Mode,
    PolicySnapshot,
    Question,
    Standing,
    Toolbox,
    least,
    strictest,
)
from ohmo.contracts.turns import Claim, TurnCost, Work
from ohmo.memory.scopes import Viewer
from ohmo.permissions.policies import Policies
from ohmo.providers.build import Model
from ohmo.providers.models import known
from ohmo.sessions.clock import HeldClock
from ohmo.sessions.compacting import Compacting
from ohmo.sessions.user_steps import TurnContext
from ohmo.skills.shelf import Skills

LEAST_BUDGET = 2_000  # tokens of conversation even with the smallest model
Effort = Literal["low", "medium", "high"]
SESSIONS = 2_000  # whose prompts and tools are remembered
FOUND_TOKENS = 4_000  # room for tools that a session finds; the reserve bears what is beyond


@record
class TurnPlan:
    """``tools``: all that the turn may use. ``budget``: tokens for the conversation. ``effort``:
    how hard the model shall think, None: its own default. ``too_big``: why the model cannot be
    asked, and what to do: prompt and tools fill its window alone."""

    model: str
    system: tuple[Section, ...]
    tools: tuple[ToolSpec, ...]
    budget: int
    max_output: int
    effort: Effort | None
    cwd: Path
    mode: Mode
    role: Standing
    person: str
    busy: Literal["queue", "steer", "interrupt", "collect"]
    rules: tuple[str, ...] = ()
    secrets: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    until: datetime | None = None  # it may start and ask until then; None: as every turn
    # when ``full_auto`` ends and ``mode_after`` holds, also within the turn
    free_until: datetime | None = None
    mode_after: Mode = "default"
    planning: bool = False  # plan mode holds beside ``mode``, until it is left
    policy: PolicySnapshot | None = None  # the one the turn began under, None: not known
    new_rules: ProjectRules | None = None  # of the folder, where this process reads them first
    agent: str = ""  # who runs it; empty: the engine of the house
    private: bool = False  # only ``person`` reads what is said in its thread
    too_big: str = ""
    # what the configuration that holds at a call leaves of mode and role
    capped: Callable[[Mode, Standing], tuple[Mode, Standing]] = lambda mode, role: (mode, role)

    def mode_at(self, now: datetime) -> Mode:
        """What holds for a call that is made now."""
        over = self.free_until is not None and now >= self.free_until
        return self.mode_after if over else self.mode

    @property
    def core(self) -> tuple[ToolSpec, ...]:
        """Tools the model is always shown."""
        return tuple(tool for tool in self.tools if not tool.deferred)

    @property
    def deferred(self) -> tuple[ToolSpec, ...]:
        """Tools the model has to look for."""
        return tuple(tool for tool in self.tools if tool.deferred)


@record
class UserSide:
    """The user this process runs as: their home, above which no rules are looked for; the zone in
    which times are told; which paths no model may be shown; which skills there are."""

    home: Path
    zone: tzinfo
    hides: Callable[[str], bool]
    skills: Skills


class Planner:
    """Called once per run of a turn. The system prompt of a session is made once, so that its bytes
    stay.

    A turn that began under another configuration, also before a restart, keeps its folder and its
    busy mode, and may no more than either lets it. The model is the present one's: what leads to
    the other may be gone."""

    def __init__(
        self,
        config: Config,
        policies: Policies,
        model: Model,
        toolbox: Toolbox,
        standing_of: Callable[[Arrival], Standing],
        clock: HeldClock,
        user: UserSide,
    ) -> None:
        """``standing_of``: on whose rights a turn runs that begins with this."""
        self._config = config
        self._policies = policies
        self._model = model
        self._toolbox = toolbox
        self._standing_of = standing_of
        self._clock = clock
        self._user = user
        self._prompts: dict[tuple[str, int, str, str, str], tuple[Section, ...]] = {}
        self._cores: dict[tuple[str, int], tuple[ToolSpec, ...]] = {}
        self._tool_tokens = (0, 0)  # revision of the toolbox, tokens

    @in_writer
    def under(self, first: Arrival) -> BegunUnder:
        """What holds for a turn that begins with this now."""
        return BegunUnder(self._policies.present, self._standing_of(first))

    async def __call__(self, claim: Claim, work: Work) -> TurnPlan:
        return await self.of(replace(claim, settings=claim.settings.at(self._clock())), work)

    async def of(self, claim: Claim, work: Work) -> TurnPlan:
        """The plan of a turn as of the time of its claim. Raises ConfigError: a secret of its job
        leads to nothing any more."""
        first = work.arrivals[0]
        settings = claim.settings
        under = work.under or self.under(first)
        configured = await self._policies.mode_found(under.policy)
        mode = settings.mode or configured
        cwd = _folder(settings.workspace or under.policy.workspace)
        model = settings.model or self._model.model
        effort = settings.effort or self._config.profile.effort
        system, new_rules = await self._prompt(claim, cwd, mode, effort)
        max_output = min(8_192, known(model).max_output)
        budget, wrong = self._budget(model, system, max_output)
        # ``CHANNEL:PERSON``, the name under which permissions are remembered
        speaker = first.person if isinstance(first, Wake) else first.person.id
        person = f"{claim.address.channel}:{speaker}"
        terms = None
        if isinstance(first, Wake):
            terms = first.terms
            if ":" in first.person and (first.again is None or terms is not None):
                person = first.person
        until = None
        secrets: dict[str, str] = {}
        if terms is not None:
            for name, reference in terms.secrets:
                secrets[name] = self._config.vault.reveal(Secret(reference))
            if terms.deadline is not None:
                length = timedelta(seconds=terms.deadline)
                until = first.at + length + self._clock.set_since(first.at)
        return TurnPlan(
            model=model,
            system=system,
            tools=self._tools(claim),
            budget=budget,
            max_output=max_output,
            effort=effort,
            cwd=cwd,
            mode=mode,
            role=under.role,
            person=person,
            busy=settings.busy or under.policy.busy,
            rules=terms.rules if terms is not None else (),
            secrets=secrets,
            until=until,
            free_until=settings.free_until if mode == "full_auto" else None,
            mode_after=configured,
            planning=claim.plans,
            policy=under.policy,
            new_rules=new_rules,
            agent=settings.agent or "",
            private=private_chat(work.arrivals),
            too_big=wrong,
            capped=self._capped(first, mode_chosen=settings.mode is not None),
        )

    def _capped(
        self, first: Arrival, *, mode_chosen: bool
    ) -> Callable[[Mode, Standing], tuple[Mode, Standing]]:
        """``mode_chosen``: with ``/mode``, which no configuration overrules."""

        def capped(mode: Mode, role: Standing) -> tuple[Mode, Standing]:
            if not mode_chosen:
                mode = strictest((mode, self._policies.mode()))
            return mode, least(role, self._standing_of(first))

        return capped

    def _budget(self, model: str, system: tuple[Section, ...], longest: int) -> tuple[int, str]:
        """And ``TurnPlan.too_big``."""
        window = self._model.window(model)
        reserve = min(max(self._config.limits.compaction_reserve, longest), window // 4)
        prompt = SystemLayer(system).tokens
        revision, tools = self._tool_tokens
        if revision != self._toolbox.revision:
            sizes = [(spec.deferred, spec_tokens(spec)) for spec in self._toolbox.specs()]
            shown = sum(tokens for deferred, tokens in sizes if not deferred)
            found = sum(tokens for deferred, tokens in sizes if deferred)
            tools = shown + min(FOUND_TOKENS, found)
            self._tool_tokens = (self._toolbox.revision, tools)
        wrong = too_big(window, system, tools) if prompt + tools >= window else ""
        return max(LEAST_BUDGET, window - reserve - prompt - tools), wrong

    def _tools(self, claim: Claim) -> tuple[ToolSpec, ...]:
        """The core a session began with, and whatever can be looked for now."""
        key = (claim.thread, claim.session_seq)
        specs = self._toolbox.specs()
        core = self._cores.pop(key, None) or tuple(spec for spec in specs if not spec.deferred)
        self._cores[key] = core
        if len(self._cores) > SESSIONS:
            self._cores.pop(next(iter(self._cores)))
        return (*core, *(spec for spec in specs if spec.deferred))

    async def _prompt(
        self, claim: Claim, cwd: Path, mode: str, effort: Effort | None
    ) -> tuple[tuple[Section, ...], ProjectRules | None]:
        """Sections of a session, made once; and its rules where they were read now."""
        key = (claim.thread, claim.session_seq, str(cwd), mode, effort or "")
        prompt = self._prompts.pop(key, None)
        rules: ProjectRules | None = None
        skills = await self._user.skills.told(cwd, self._config.prompt.budgets.skills)
        if prompt is None:
            layout = self._config.prompt
            rules = ProjectRules(cwd)
            if "project_rules" in layout.sections:
                rules = await asyncio.to_thread(
                    project_rules,
                    cwd,
                    self._user.home,
                    hides=self._user.hides,
                    although_ignored=layout.ignored_rules,
                )
            machine = f"{platform.system()} {platform.machine()}"
            facts = Facts(self._config.home.root, cwd, machine, mode, effort, rules, skills)
            prompt = system_prompt(layout, facts)
            newest = next(reversed(self._prompts.values()), prompt)
            if newest == prompt:
                prompt = newest  # the sessions of a day share one
        self._prompts[key] = prompt
        if len(self._prompts) > SESSIONS:
            self._prompts.pop(next(iter(self._prompts)))
        return prompt, rules

    def surroundings(self, cwd: Path) -> str:
        """How things stand now, for a turn that works in this folder."""
        layout, user = self._config.prompt, self._user
        now = self._clock().astimezone(user.zone)
        later = user.skills.later(cwd)
        return surroundings(layout.changing, layout.budgets.changing, cwd, user.home, now, later)


def private_chat(arrivals: Sequence[Arrival]) -> bool:
    """Whether all of it was said by one person where nobody else reads: in a one-to-one chat, or at
    the owner's own machine. Of what does not tell, it is not."""
    people: set[str] = set()
    for arrival in arrivals:
        match arrival:
            case Inbound(private=True, person=person):
                people.add(person.id)
            case Wake(origin="api" | "owner", person="owner", terms=None, place=place):
                if place.channel not in OWN_CHANNELS:
                    return False
                people.add("owner")
            case _:
                return False
    return len(people) == 1


def _folder(path: str | Path) -> Path:
    """Where tools work, made where it is missing."""
    folder = Path(path)
    if not folder.is_dir():
        folder.mkdir(parents=True, exist_ok=True)
    return folder


Busy = Literal["queue", "steer", "interrupt", "collect"]
Ended = Sequence[tuple[ToolCall, ToolResult]]


class Reporting(Protocol):
    """What a turn that nobody sits in front of says. ``calls``: those of the turn that ended."""

    def first(self, wake: Wake) -> Mapping[str, Json] | None:
        """Arguments of the Bash call that such a turn begins with by itself, None: the model
        begins."""
        ...

    def stands(self, wake: Wake, calls: Ended) -> bool:
        """Whether there is a report without a word of the model."""
        ...

    async def __call__(
        self, wake: Wake, text: str, refused: Sequence[str], calls: Ended
    ) -> tuple[Outbound | None, Report]: ...


@record(kw_only=True)
class TurnInput:
    """What the model is told."""

    step: ToStep  # of an arrival
    context: TurnContext | None = None  # before the words of a turn
    # brings attachments to their paths; says what could not be had
    fetch: Callable[[Arrival], Awaitable[Sequence[str]]]
    # notes that fit words, but for what was told already; "" for none
    recall: Callable[[Viewer, str, Sequence[str]], Awaitable[str]] | None = None


@record(kw_only=True)
class TurnOutput:
    """What people see."""

    emit: Callable[[str, Event], None]
    card: Card
    closing: Closing
    # where a turn ended in a dead letter, where that was said, and why
    dead: Callable[[Address, Address | None, str], Awaitable[None]]
    # how far a draft has grown since it was stored
    grown: Callable[[str], str | None] = lambda _: None
    # beneath an answer in a place; "" for nothing
    footnote: Callable[[Address, TurnCost], str] = lambda _, __: ""
    # whether only a guest reads the answer
    guest: Callable[[Work], bool] = lambda _: False


@record(kw_only=True)
class TurnLimits:
    """How long, in seconds, and what meanwhile."""

    busy: Busy  # of threads whose people chose nothing
    turn_timeout: float
    # a question may stay open: of a call of this tool, in a turn that may ask until then
    patience: Callable[[str, datetime | None], float]
    # of silence by the wall clock, after which a thread begins a new session now
    idle: Callable[[], float | None] = lambda: None
    # whether an old message is still wanted
    late: Callable[[Work], Question | None] = lambda _: None

    def busy_in(self, claim: Claim) -> Busy:
        """What its people chose, else the configuration."""
        return claim.settings.busy or self.busy


@record(kw_only=True)
class SessionDeps:
    """What the other rooms do for a turn."""

    store: Store
    agents: Callable[[TurnPlan], Agent]  # who runs a turn
    plan: Callable[[Claim, Work], Awaitable[TurnPlan]]  # decides model, prompt and permissions
    input: TurnInput
    output: TurnOutput
    limits: TurnLimits
    ambient: Ambient
    report: Reporting | None = None  # for turns that nobody sits in front of
    compacting: Compacting | None = None  # None: nothing is ever made shorter
    under: Begins | None = None  # what holds for a turn that begins, kept with it

    async def aclose(self) -> None:
        """When no turn runs any more."""
        if self.compacting is not None:
            await self.compacting.aclose()
