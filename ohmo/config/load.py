"""Reading ``config.yaml``: file and environment in, one frozen ``Config`` or every problem out; and
the copy the daemon last ran with, for a start with a broken file."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field, replace
from pathlib import Path

from pydantic import ValidationError

from channels.contract import Manifest
from channels.durable import write_whole
from channels.record import record
from ohmo.config.agent import DEFAULT_KEY, Budgets, Context, Profile, Prompt
from ohmo.config.chain import chain_problems
from ohmo.config.channels import LITERAL, PUT_IT, RawChannel, channel_problems, read_channels
from ohmo.config.home import Home, find_home
from ohmo.config.models import (
    Access,
    Backups,
    Checkpoints,
    Control,
    Cron,
    Limits,
    McpServer,
    Permissions,
    Retention,
    Sandbox,
    Sessions,
    Webhook,
    WebSearch,
    Written,
    fill,
)
from ohmo.config.problems import from_pydantic, not_yet, raise_all, unknown_name
from ohmo.config.source import OVERRIDE, Plain, Problem, Source, read
from ohmo.config.source import Path as KeyPath
from ohmo.config.values import Expansion, Secret, SecretMissing, Vault
from ohmo.contracts.errors import ConfigError

_SQLITE = "sqlite:///"


@record
class Config:
    """Everything the owner decided."""

    home: Home
    file: Path | None  # None: no file, only defaults
    profile: Profile  # the active one
    profile_name: str
    fallback: tuple[tuple[str, Profile], ...]  # profiles to try after it, in order
    workspace: Path
    permissions: Permissions
    sandbox: Sandbox
    budgets: Budgets
    prompt: Prompt
    context: Context
    limits: Limits
    sessions: Sessions
    store_url: str = field(repr=False)  # may hold a password
    control: Control
    owner: tuple[str, ...]
    access: Access
    channels: tuple[RawChannel, ...]
    mcp: Mapping[str, McpServer]
    cron: Cron
    webhooks: Mapping[str, Webhook]
    retention: Retention
    backups: Backups
    checkpoints: Checkpoints
    web_search: WebSearch
    written: Written = field(repr=False)
    source: Source = field(repr=False)
    vault: Vault = field(repr=False)
    #: No plugins, no hooks, no cron: asked for with --safe, or after a crash loop.
    safe: bool = False
    #: For one command: no cron, and nothing is tidied; what forbids something still does.
    alone: bool = False

    @property
    def database(self) -> Path | None:
        """The store's file; None when it is in PostgreSQL."""
        if not self.store_url.startswith(_SQLITE):
            return None
        written = self.store_url.removeprefix(_SQLITE)
        return Path(written) if written else self.home.database


def load(
    path: Path | None = None,
    *,
    environ: Mapping[str, str],
    profile: str | None = None,
    manifests: Mapping[str, Manifest] | None = None,
    text: str | None = None,
) -> Config:
    """``path`` (``--config``), else ``$OHMO_CONFIG``, else ``$OHMO_HOME/config.yaml`` when it
    exists, else defaults. ``profile`` (``--profile``), else ``$OHMO_PROFILE``, else the file's.
    ``OHMO__SECTION__KEY`` variables win over the file. With ``manifests`` the platforms' own keys
    are checked too. ``text``: what the file would say, instead of what it says. Writes nothing.

    Raises ConfigError: one line for each problem, ``config.yaml:LINE: key: what is wrong, what to
    do``."""
    home = find_home(environ)
    file = _file(path, environ, home, new=text is not None)
    source = read(file, text).overridden(environ)
    vault = Vault(environ)
    channels, wrong = read_channels(source, vault)
    problems = [*source.problems, *wrong]
    problems += channel_problems(channels, manifests) if manifests is not None else []
    chosen = profile or environ.get("OHMO_PROFILE", "").strip()
    data = {**source.data, "profile": chosen} if chosen else source.data
    written = _checked(data, source, home, environ, problems)
    if manifests is not None:
        problems += _unknown_channels(written, source, sorted(manifests))
    names = _fallback_chain(written, source, problems)
    problems += _secret_problems(written, names, source, vault)
    store_url, wrong = _store_url(written, source, vault)
    raise_all([*problems, *wrong])
    return Config(
        home=home,
        file=file,
        profile=written.profiles[written.profile],
        profile_name=written.profile,
        fallback=tuple((name, written.profiles[name]) for name in names[1:]),
        workspace=written.workspace,
        permissions=fill(written.permissions),
        sandbox=written.sandbox,
        budgets=written.budgets,
        prompt=written.prompt,
        context=written.context,
        limits=written.limits,
        sessions=written.sessions,
        store_url=store_url,
        control=written.control,
        owner=written.owner,
        access=written.access,
        channels=channels,
        mcp=written.mcp,
        cron=written.cron,
        webhooks=written.webhooks,
        retention=written.retention,
        backups=written.backups,
        checkpoints=written.checkpoints,
        web_search=written.web_search,
        written=written,
        source=source,
        vault=vault,
    )


def key_is_optional(profile: Profile) -> bool:
    """``auto`` looks around, ``offline`` needs none, and a server of one's own (``base_url``) may
    need none."""
    if profile.provider in ("auto", "offline"):
        return True
    default = DEFAULT_KEY.get(profile.provider)
    usual = default is not None and profile.api_key == Secret(default)
    return profile.base_url is not None and usual


def _checked(
    data: Mapping[str, Plain],
    source: Source,
    home: Home,
    environ: Mapping[str, str],
    problems: list[Problem],
) -> Written:
    """Raises ConfigError when there is no model to go on with; what else is wrong is added to
    ``problems``."""
    name = data.get("profile", "default")
    profiles = data.get("profiles")
    names = list(profiles) if isinstance(profiles, dict) else ["default"]
    if isinstance(name, str) and name not in names:
        text = unknown_name("profile", name, names)
        problem = source.problem(("profile",), text)
        if data is not source.data:  # --profile or OHMO_PROFILE
            problem = Problem("--profile", "", text)
        problems.append(problem)
    user = environ.get("HOME", "").strip()
    if not user:
        user = os.path.expanduser("~")  # noqa: PTH111 - without a user it must not fail
    if not Path(user).is_absolute():
        problems.append(Problem("HOME", "", "must be an absolute path"))
    # ${WORKSPACE} is the workspace of this very file.
    text = source.data.get("workspace", "~/ohmo-workspace")
    workspace = ""
    if isinstance(text, str):
        with suppress(ValueError):  # said by the model, with its line
            workspace = str(Expansion({"OHMO_HOME": str(home.root), "HOME": user}).path(text))
    expansion = Expansion({"OHMO_HOME": str(home.root), "WORKSPACE": workspace, "HOME": user})
    try:
        written = Written.model_validate(data, context=expansion)
    except ValidationError as error:
        raise_all([*problems, *from_pydantic(error, Written, source)])
        raise ConfigError(str(error)) from error  # not reached: there is at least one detail
    problems += not_yet(written, source)
    problems += chain_problems(written.chain, source)
    # The home is closed to tools, so nothing could be done in a workspace that lies in it.
    if Path(os.path.realpath(written.workspace)).is_relative_to(os.path.realpath(home.root)):
        problems.append(
            source.problem(
                ("workspace",),
                f"lies in the agent's home {home.root}, which is closed to tools; name a folder"
                " outside it, for example ~/ohmo-workspace",
            )
        )
    return written


def _unknown_channels(written: Written, source: Source, channels: Sequence[str]) -> list[Problem]:
    """Addresses whose channel there is not: nobody would have that role, and nothing would arrive
    there. ``house`` is the keyboard."""
    roles = written.access.roles
    lists: dict[KeyPath, Sequence[str]] = {
        ("owner",): written.owner,
        ("access", "roles", "owner"): roles.owner,
        ("access", "roles", "admin"): roles.admin,
        ("access", "roles", "user"): roles.user,
        ("access", "roles", "guest"): roles.guest,
    }
    addresses: dict[KeyPath, str | None] = {}
    for path, people in lists.items():
        for number, person in enumerate(people):
            addresses[*path, number] = person
    for number, job in enumerate(written.cron.jobs):
        addresses["cron", "jobs", number, "to"] = job.to
    for name, hook in written.webhooks.items():
        addresses["webhooks", name, "to"] = hook.to
    problems: list[Problem] = []
    for path, address in addresses.items():
        channel = "house" if address is None else address.partition(":")[0]
        if channel not in (*channels, "house"):
            problems.append(source.problem(path, unknown_name("channel", channel, channels)))
    return problems


def _file(path: Path | None, environ: Mapping[str, str], home: Home, *, new: bool) -> Path | None:
    """``new``: it need not be there yet. None: there is none."""
    if path is not None:
        return path
    if environ.get("OHMO_CONFIG"):
        return Path(environ["OHMO_CONFIG"]).expanduser()
    try:
        is_there = new or (home.config.exists() and not home.foreign())
    except OSError as error:
        raise ConfigError(
            f"{home.root}: cannot be read ({error.strerror}); set OHMO_HOME to a folder you own"
        ) from error
    return home.config if is_there else None


def _fallback_chain(written: Written, source: Source, problems: list[Problem]) -> list[str]:
    """The active profile and its fallbacks, each once, in the order they are tried. A fallback that
    does not exist is added to ``problems``."""
    profiles = written.profiles
    for name, profile in profiles.items():
        for number, other in enumerate(profile.fallback):
            if other not in profiles:
                path: KeyPath = ("profiles", name, "fallback", number)
                problems.append(source.problem(path, unknown_name("profile", other, [*profiles])))
    chain = [written.profile] if written.profile in profiles else []
    for name in chain:  # grows while it is walked
        for other in profiles[name].fallback:
            if other in profiles and other not in chain:
                chain.append(other)
    return chain


def _secret_problems(
    written: Written, names: Sequence[str], source: Source, vault: Vault
) -> Iterator[Problem]:
    """Secrets that are missing (``names``: the profiles that may be asked), and those that stand in
    a file which others can read."""
    for name in names:
        profile = written.profiles[name]
        if profile.api_key is None or key_is_optional(profile):
            continue
        try:
            vault.reveal(profile.api_key)
        except SecretMissing as error:
            yield source.problem(
                ("profiles", name, "api_key"),
                f"{error}; set it, or write api_key: env:NAME, file:PATH or keyring:SERVICE/NAME",
            )
    needed: dict[KeyPath, Secret | None] = {
        ("web_search", "api_key"): written.web_search.key,
        ("images", "api_key"): written.images.api_key,
    }
    for name, hook in written.webhooks.items():
        needed["webhooks", name, "secret"] = hook.secret
    for name, house in written.remotes.items():
        needed["remotes", name, "secret"] = house.secret
    headers = {
        ("profiles", name, "headers", header): secret
        for name, profile in written.profiles.items()
        for header, secret in profile.headers.items()
    }
    needed |= {path: secret for path, secret in headers.items() if path[1] in names}
    for path, secret in needed.items():
        try:
            if secret is not None:
                vault.reveal(secret)
        except SecretMissing as error:
            yield source.problem(path, f"{error}; {PUT_IT}")
    if source.private:
        return
    secrets = needed | headers
    for name, profile in written.profiles.items():
        secrets["profiles", name, "api_key"] = profile.api_key
    if written.remote is not None:
        secrets["remote", "access_key"] = written.remote.access_key
        secrets["remote", "secret_key"] = written.remote.secret_key
    for path, secret in secrets.items():
        literal = secret is not None and secret.kind == "literal"
        if literal and not source.place(path).startswith(OVERRIDE):
            yield source.problem(path, LITERAL)


def _store_url(written: Written, source: Source, vault: Vault) -> tuple[str, list[Problem]]:
    path: KeyPath = ("store", "url")
    url = written.store.url
    secret = Secret(url)
    if secret.kind != "literal":
        try:
            url = vault.reveal(secret)
        except SecretMissing as error:
            return "", [source.problem(path, f"{error}; {PUT_IT}")]
    if url.startswith(("postgresql://", "postgres://")):
        later = (
            "a daemon on PostgreSQL comes in a later version; write sqlite:///${OHMO_HOME}/ohmo.db"
        )
        return "", [source.problem(path, later)]
    user, at, _ = written.store.url.partition("://")[2].rpartition("@")
    if at and ":" in user and not source.private:
        return "", [source.problem(path, LITERAL)]
    return url, []


def copy_of(home: Home) -> Path:
    """Where the copy lies: in a folder no tool may read, because a file of one's own may hold
    secrets."""
    return home.root / "backups" / "config.last-good.yaml"


def remember(config: Config, environ: Mapping[str, str], manifests: Mapping[str, Manifest]) -> bool:
    """Keeps the file as it is now if it still loads. False: there is no file, it does not load any
    more, or the copy cannot be written."""
    if config.file is None:
        return False
    copy = copy_of(config.home)
    try:
        text = config.file.read_text(encoding="utf-8-sig")
        if copy.exists() and copy.read_text(encoding="utf-8") == text:
            return True
        load(config.file, environ=environ, manifests=manifests)
        copy.parent.mkdir(mode=0o700, exist_ok=True)
        write_whole(copy, text)
    except (OSError, UnicodeDecodeError, ConfigError):
        return False
    return True


def boot(
    path: Path | None,
    *,
    environ: Mapping[str, str],
    profile: str | None,
    manifests: Mapping[str, Manifest],
) -> tuple[Config, str]:
    """The configuration, and a line for the owner when it is the copy because the file is broken.
    Raises ConfigError: the copy does not help."""
    try:
        return load(path, environ=environ, profile=profile, manifests=manifests), ""
    except ConfigError as error:
        copy = copy_of(find_home(environ))
        if not copy.exists():
            raise
        try:
            config = load(copy, environ=environ, profile=profile, manifests=manifests)
        except ConfigError:
            raise error from None
        first, *more = str(error).splitlines() or [""]
        rest = f" (and {len(more)} more)" if more else ""
        line = (
            f"The configuration is broken, so ohmo runs with the last good copy: {first}{rest}."
            " Mend it; `ohmo config check` says when it is right."
        )
        return replace(config, file=path or config.home.config), line
