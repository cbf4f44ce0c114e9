"""Every key of ``config.yaml`` with its type and default. Unknown keys are errors, values are
frozen. What ``permissions.preset`` fills in, explicit keys win over."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from channels.record import record
from ohmo.config.agent import CHAIN, Budgets, Context, Pricing, Profile, Prompt
from ohmo.config.rules import Rule
from ohmo.config.section import Section
from ohmo.config.values import (
    LISTEN,
    Amount,
    Count,
    Duration,
    Flag,
    Keep,
    Listen,
    Many,
    Name,
    PersonAddress,
    Place,
    Secret,
    Size,
    StoreUrl,
    Url,
    Zone,
)

Mode = Literal["default", "plan", "full_auto"]


def _unwritten() -> Any:
    return {}


class PermissionSettings(Section):
    mode: Mode = "default"
    preset: Literal["safe", "balanced", "full"] = "balanced"
    allow: Many[Rule] = ()
    ask: Many[Rule] = ()
    deny: Many[Rule] = ()
    read_outside: Literal["ask", "allow"] = "ask"
    approval_timeout: Duration = timedelta(seconds=300)


class Sandbox(Section):
    backend: Literal["auto", "bubblewrap", "landlock", "docker", "none"] = "auto"
    # With less no program starts, and more is no number of the kernel's.
    memory: Annotated[Size, Field(ge=32 * 2**20, le=2**50)] = 2 * 2**30
    cpus: Annotated[float, Field(ge=0.01, le=4096)] = 1.0
    pids: Annotated[Count, Field(ge=16, le=2**22)] = 256
    timeout: Duration = timedelta(seconds=600)
    image: str | None = None
    network: Literal["ask", "on", "off"] = "ask"


class Limits(Section):
    max_steps: Count = 50
    turn_timeout: Duration = timedelta(minutes=30)
    parallel_tools: Count = 8
    concurrent_turns: Count = 32
    queue: Count = 1024
    compaction_reserve: Annotated[int, Field(ge=0)] = 13_000
    bash_output: Annotated[Size, Field(ge=1024, le=64 * 1024)] = 12 * 1024
    web_output: Annotated[Size, Field(ge=1024, le=1024 * 1024)] = 50 * 1024
    read_lines: Count = 200


class Sessions(Section):
    scope: Literal["per_thread", "per_person"] = "per_thread"
    busy: Literal["queue", "steer", "interrupt", "collect"] = "queue"
    idle_reset: Duration | None = None
    # A message that waited longer is answered only when its person still wants it.
    ask_after: Duration | None = timedelta(hours=12)


class StoreSettings(Section):
    url: StoreUrl = "sqlite:///${OHMO_HOME}/ohmo.db"


class Control(Section):
    listen: Listen = "127.0.0.1:7717"
    metrics: Flag = True
    names: Many[Annotated[str, Field(min_length=1)]] = ()  # hosts of a reverse proxy before it

    @property
    def address(self) -> tuple[str, int] | None:
        """Host and port; None: the unix socket only."""
        match = LISTEN.fullmatch(self.listen or "")
        if match is None:
            return None
        return match["host"].strip("[]"), int(match["port"])


class Roles(Section):
    owner: Many[PersonAddress] = ()
    admin: Many[PersonAddress] = ()
    user: Many[PersonAddress] = ()
    guest: Many[PersonAddress] = ()


class Access(Section):
    roles: Roles = Roles()
    default_role: Literal["guest", "user", "admin"] = "user"


class AllowList(Section):
    people: Many[Name] = ()
    groups: Many[Name] = ()


class CatchUp(Section):
    max_age: Duration = timedelta(hours=24)
    max_messages: Annotated[int, Field(ge=0)] = 100


class ChannelPolicy(Section):
    """The keys every channel takes."""

    enabled: Flag = False
    dm: Literal["pairing", "allowlist", "open", "off"] = "pairing"
    groups: Literal["allowlist", "open", "off"] = "allowlist"
    mention: Literal["required", "optional"] = "required"
    allow: AllowList = AllowList()
    catch_up: CatchUp = CatchUp()
    streaming: Literal["off", "edits", "native", "preview"] | None = (
        None  # None: the best the platform offers
    )
    activity: Literal["live", "keep", "off"] | None = (
        None  # None: live, and off where the channel shows it in its own way
    )
    bots: Literal["ignore", "answer"] = "ignore"  # what other bots say
    account: Name | None = None  # the owner's word for one of several accounts


class OfProgram(Section):
    read: Many[Place] = ()
    write: Many[Place] = ()
    off: Flag = False


def _off(written: object) -> object:
    return {"off": True} if written == "off" else written


class McpServer(Section):
    command: str | None = None
    args: Many[str] = ()
    env: Mapping[str, Secret] = Field(default_factory=dict)
    url: Url | None = None
    transport: Literal["http", "sse"] = "http"
    headers: Mapping[str, Secret] = Field(default_factory=dict)
    sandbox: Annotated[OfProgram, BeforeValidator(_off)] = OfProgram()

    @model_validator(mode="after")
    def _one_way(self) -> McpServer:
        if (self.command is None) == (self.url is None):
            raise ValueError("give either command (a program to start) or url (a server to reach)")
        return self


class Job(Section):
    name: Annotated[str, Field(min_length=1)]
    prompt: Annotated[str, Field(min_length=1)]
    schedule: str | None = None
    at: str | None = None
    every: Duration | None = None
    tz: str | None = None
    to: PersonAddress | None = None
    thread: str | None = None
    rules: Many[Rule] = ()
    secrets: Mapping[str, Secret] = Field(default_factory=dict)
    deadline: Duration | None = None
    catch_up: Literal["none", "once", "all"] = "once"
    overlap: Literal["skip", "queue"] = "skip"
    when: Literal["always", "changed", "wrong"] = "always"
    jitter: Duration | None = None
    retry: Annotated[int, Field(ge=0, le=10)] = 0
    expires: str | None = None
    enabled: Flag = True

    @model_validator(mode="after")
    def _one_time(self) -> Job:
        if sum(value is not None for value in (self.schedule, self.at, self.every)) != 1:
            raise ValueError("give exactly one of schedule, at, every")
        return self


class Cron(Section):
    timezone: Zone = "local"
    jobs: Many[Job] = ()


class Webhook(Section):
    secret: Secret
    style: Literal["ohmo", "github", "gitlab"] = "ohmo"
    prompt: Annotated[str, Field(min_length=1)] | None = None
    deliver: Annotated[str, Field(min_length=1)] | None = None
    to: PersonAddress | None = None
    rules: Many[Rule] = ()
    when: Literal["always", "wrong"] = "always"
    role: Literal["guest", "user", "admin", "owner"] = "user"
    deadline: Duration | None = None
    window: Duration = timedelta(minutes=5)

    @model_validator(mode="after")
    def _one_effect(self) -> Webhook:
        if (self.prompt is None) == (self.deliver is None):
            raise ValueError("give either prompt (a turn runs) or deliver (the text is posted)")
        if self.deliver is not None and self.to is None:
            raise ValueError("deliver needs to: where the text is posted, for example slack:C123")
        return self


class MemoryKeys(Section):
    opaque_names: Flag = False
    consolidate: Annotated[str, Field(min_length=1)] = "off"  # or cron fields


class SkillPlaces(Section):
    folders: Many[Place] = ()  # of skills, beside $OHMO_HOME/skills


class Retention(Section):
    inbox: Keep = timedelta(days=30)
    transcripts: Keep = None
    spill: Keep = timedelta(days=7)
    media: Keep = timedelta(days=90)
    logs: Keep = timedelta(days=30)


class Backups(Section):
    every: Duration | None = timedelta(hours=24)  # None: never by itself
    keep: Count = 7
    folder: Place | None = None  # None: $OHMO_HOME/backups


class Checkpoints(Section):
    enabled: Flag = True
    per_thread: Count = 20
    size: Size = 2**30
    timeout: Duration = timedelta(seconds=20)


class WebSearch(Section):
    provider: Literal["brave", "tavily", "searxng"] | None = None
    api_key: Secret | None = None
    url: Url | None = None  # None: the service's own; SearXNG has none

    @model_validator(mode="after")
    def _complete(self) -> WebSearch:
        if self.provider == "searxng" and self.url is None:
            raise ValueError("searxng needs url: the address of the server, for example your own")
        return self

    @property
    def key(self) -> Secret | None:
        """What stands in ``api_key``, else the usual variable of the service."""
        usual = {"brave": "env:BRAVE_API_KEY", "tavily": "env:TAVILY_API_KEY"}
        if self.api_key is None and self.provider in usual:
            return Secret(usual[self.provider])
        return self.api_key


class Images(Section):
    """Pictures are made by the ``/images/generations`` of an endpoint of OpenAI's kind."""

    model: Annotated[str, Field(min_length=1)] | None = None
    base_url: Url | None = None  # None: the profile's, and its key
    api_key: Secret | None = None
    usd: Amount | None = None  # of one picture; None: nobody knows it


class OtherHouse(Section):
    """A webhook of another ohmo."""

    url: Annotated[Url, Field(pattern=r"/hooks/[A-Za-z0-9_-]{1,64}$")]
    secret: Secret


class Remote(Section):
    endpoint: Url
    bucket: str
    prefix: str = ""
    access_key: Secret
    secret_key: Secret
    pull: Duration = timedelta(seconds=30)


class Written(Section):
    """The whole file. Channels stay raw: their platforms know their own keys."""

    profile: str = "default"
    profiles: Mapping[str, Profile] = Field(
        default_factory=lambda: {"default": Profile.model_validate({})}
    )
    chain: Many[str] = CHAIN
    workspace: Place = Path("~/ohmo-workspace")
    permissions: PermissionSettings = PermissionSettings()
    sandbox: Sandbox = Sandbox()
    budgets: Budgets = Budgets()
    pricing: Mapping[Annotated[str, Field(min_length=1)], Pricing] = Field(default_factory=dict)
    prompt: Prompt = Prompt()
    context: Context = Context()
    limits: Limits = Limits()
    sessions: Sessions = Sessions()
    # Its default holds ${OHMO_HOME}, so it is read like a written one.
    store: StoreSettings = Field(default_factory=_unwritten)
    control: Control = Control()
    owner: Many[PersonAddress] = ()
    access: Access = Access()
    channels: Mapping[str, Any] = Field(default_factory=dict)
    mcp: Mapping[
        Annotated[str, Field(max_length=32, pattern=r"^[A-Za-z0-9](?:_?[A-Za-z0-9-]){0,31}$")],
        McpServer,
    ] = Field(default_factory=dict)
    cron: Cron = Cron()
    webhooks: Mapping[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]{1,64}$")], Webhook] = Field(
        default_factory=dict
    )
    memory: MemoryKeys = MemoryKeys()
    skills: SkillPlaces = SkillPlaces()
    retention: Retention = Retention()
    backups: Backups = Backups()
    checkpoints: Checkpoints = Checkpoints()
    web_search: WebSearch = WebSearch()
    images: Images = Images()
    remotes: Mapping[Name, OtherHouse] = Field(default_factory=dict)
    remote: Remote | None = None


_NETWORK = ("WebFetch", "WebSearch")
_REMEMBERS = "MemoryWrite"


@record
class Permissions:
    """What the gate starts from. deny beats ask beats allow."""

    mode: Mode
    caged: bool  # ``mode`` is the preset's ``full``: it holds only where a sandbox does
    preset: Literal["safe", "balanced", "full"]
    allow: tuple[str, ...]
    ask: tuple[str, ...]
    deny: tuple[str, ...]
    read_outside: Literal["ask", "allow"]
    approval_timeout: timedelta


def fill(written: PermissionSettings) -> Permissions:
    """The owner's rules first, then the preset's. ``balanced`` lets a person's words be remembered
    unasked; what commands only read passes the gate by their grammar. ``full`` is ``balanced`` with
    ``full_auto`` where a sandbox holds; a written mode wins over it."""
    ask, allow = written.ask, written.allow
    if written.preset == "safe":
        allowed = {rule.partition("(")[0] for rule in written.allow}
        for tool in _NETWORK:
            if tool not in allowed and tool not in ask:
                ask = (*ask, tool)
    elif _REMEMBERS not in (*allow, *ask):
        allow = (*allow, _REMEMBERS)
    caged = written.preset == "full" and "mode" not in written.model_fields_set
    return Permissions(
        mode="full_auto" if caged else written.mode,
        caged=caged,
        preset=written.preset,
        allow=allow,
        ask=ask,
        deny=written.deny,
        read_outside=written.read_outside,
        approval_timeout=written.approval_timeout,
    )
