"""Reading ``config.yaml``: file and environment in, one frozen ``Config`` or every problem out."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import field
from pathlib import Path

from pydantic import ValidationError

from channels.contract import Manifest
from channels.record import record
from ohmo.config.channels import LITERAL, PUT_IT, RawChannel, channel_problems, read_channels
from ohmo.config.home import Home, find_home
from ohmo.config.models import (
    DEFAULT_KEY,
    Access,
    Backups,
    Budgets,
    Control,
    Cron,
    Limits,
    McpServer,
    Permissions,
    Profile,
    Retention,
    Sandbox,
    Sessions,
    Webhook,
    WebSearch,
    Written,
    fill,
)
from ohmo.config.problems import from_pydantic, not_yet, raise_all, unknown_name
from ohmo.config.secrets import Secret, SecretMissing, Vault
from ohmo.config.source import Path as KeyPath
from ohmo.config.source import Plain, Problem, Source, parse, scalar
from ohmo.config.values import Expansion
from ohmo.contracts.errors import ConfigError

_SQLITE = "sqlite:///"
_OVERRIDE = "OHMO__"  # OHMO__CONTROL__LISTEN=0.0.0.0:7717 sets control.listen


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
    web_search: WebSearch
    written: Written = field(repr=False)
    source: Source = field(repr=False)
    vault: Vault = field(repr=False)
    #: No plugins, no hooks, no cron: asked for with --safe, or after a crash loop.
    safe: bool = False

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
    source = _with_environment(_read(file, text), environ)
    vault = Vault(environ)
    problems = list(source.problems)
    expansion = _expansion(source, home, environ, problems)
    channels, wrong = read_channels(source, vault)
    problems += wrong
    problems += channel_problems(channels, manifests) if manifests is not None else []
    chosen = profile or environ.get("OHMO_PROFILE", "").strip()
    data = {**source.data, "profile": chosen} if chosen else source.data
    problems += _active(data, source, chosen)
    written = _checked(data, expansion, source, problems)
    problems += _places(written, source, sorted(manifests)) if manifests is not None else []
    problems += _apart(written, home, source)
    names = _chain(written)
    problems += _missing_secrets(written, names, source, vault)
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
        web_search=written.web_search,
        written=written,
        source=source,
        vault=vault,
    )


def key_is_optional(profile: Profile) -> bool:
    """``auto`` looks around, ``offline`` needs none, and a server of one's own (``base_url``) may
    need none."""
    default = DEFAULT_KEY.get(profile.provider)
    usual = default is not None and profile.api_key == Secret(default)
    return profile.provider in ("auto", "offline") or (profile.base_url is not None and usual)


def _checked(
    data: Mapping[str, Plain], expansion: Expansion, source: Source, problems: list[Problem]
) -> Written:
    """Raises ConfigError when there is no model to go on with; what else is wrong is added to
    ``problems``."""
    try:
        written = Written.model_validate(data, context=expansion)
    except ValidationError as error:
        raise_all([*problems, *from_pydantic(error, Written, source)])
        raise ConfigError(
            str(error)
        ) from error  # not reached: a validation error has at least one detail
    problems += [
        *_profiles(written, source),
        *not_yet(written, source),
        *_literals(written, source),
    ]
    return written


def _places(written: Written, source: Source, channels: Sequence[str]) -> list[Problem]:
    """Addresses whose channel there is not: nobody would have that role, and nothing would arrive
    there. ``house`` is the keyboard."""
    roles = written.access.roles
    named: list[tuple[KeyPath, str | None]] = [
        (("owner", number), one) for number, one in enumerate(written.owner)
    ]
    for role in ("owner", "admin", "user", "guest"):
        people: Sequence[str] = getattr(roles, role)
        named += [(("access", "roles", role, number), one) for number, one in enumerate(people)]
    named += [
        (("cron", "jobs", number, "to"), job.to) for number, job in enumerate(written.cron.jobs)
    ]
    named += [(("webhooks", name, "to"), hook.to) for name, hook in written.webhooks.items()]
    return [
        source.problem(path, unknown_name("channel", address.partition(":")[0], channels))
        for path, address in named
        if address is not None and address.partition(":")[0] not in (*channels, "house")
    ]


def _apart(written: Written, home: Home, source: Source) -> Iterator[Problem]:
    """The home is closed to tools, so nothing could be done in a workspace that lies in it."""
    if Path(os.path.realpath(written.workspace)).is_relative_to(os.path.realpath(home.root)):
        where = f"lies in the agent's home {home.root}, which is closed to tools"
        text = f"{where}; name a folder outside it, for example ~/ohmo-workspace"
        yield source.problem(("workspace",), text)


def _file(asked: Path | None, environ: Mapping[str, str], home: Home, *, new: bool) -> Path | None:
    """``new``: it need not be there yet. None: there is none."""
    if asked is not None:
        return asked
    if environ.get("OHMO_CONFIG"):
        return Path(environ["OHMO_CONFIG"]).expanduser()
    try:
        there = new or (home.config.exists() and not home.foreign())
    except OSError as error:
        raise ConfigError(
            f"{home.root}: cannot be read ({error.strerror}); set OHMO_HOME to a folder you own"
        ) from error
    return home.config if there else None


def _read(file: Path | None, text: str | None) -> Source:
    if file is None:
        return Source("defaults")
    if text is not None and not file.exists():
        return parse(text, file.name)
    try:
        text = file.read_text(encoding="utf-8-sig") if text is None else text
        mode = stat.S_IMODE(file.stat().st_mode)
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{file}: not UTF-8 text at byte {error.start}; save it as UTF-8"
        ) from error
    except OSError as error:
        raise ConfigError(
            f"{file}: cannot be read ({error.strerror}); ohmo init writes one, --config names"
            " another"
        ) from error
    return parse(text, file.name, private=not mode & (stat.S_IRGRP | stat.S_IROTH))


def _with_environment(source: Source, environ: Mapping[str, str]) -> Source:
    changes = sorted((name, text) for name, text in environ.items() if name.startswith(_OVERRIDE))
    if not changes:
        return source
    data, places = _copy(source.data), dict(source.places)
    for name, text in changes:
        path: KeyPath = tuple(name.removeprefix(_OVERRIDE).lower().split("__"))
        table = data
        for depth, part in enumerate(path[:-1], start=1):
            inner = table.get(str(part))
            if not isinstance(inner, dict):
                inner = table[str(part)] = {}
                places[path[:depth]] = name  # nothing of the file stands there any more
            table = inner
        table[str(path[-1])] = scalar(text)
        places[path] = name
    return Source(source.name, data, places, source.problems, source.private)


def _copy(table: Mapping[str, Plain]) -> dict[str, Plain]:
    return {key: _copy(value) if isinstance(value, dict) else value for key, value in table.items()}


def _expansion(
    source: Source, home: Home, environ: Mapping[str, str], problems: list[Problem]
) -> Expansion:
    """``${WORKSPACE}`` is the workspace of this very file."""
    user = environ.get("HOME", "").strip()
    if not user:
        user = os.path.expanduser("~")  # noqa: PTH111 - without a user it must not fail
    names = {"OHMO_HOME": str(home.root), "HOME": user}
    text = source.data.get("workspace", "~/ohmo-workspace")
    try:
        workspace = str(Expansion(names).path(text)) if isinstance(text, str) else ""
    except ValueError:
        workspace = ""  # said by the model, with its line
    if not Path(user).is_absolute():
        problems.append(Problem("HOME", "", "must be an absolute path"))
    return Expansion({"OHMO_HOME": names["OHMO_HOME"], "WORKSPACE": workspace, "HOME": user})


def _active(data: Mapping[str, Plain], source: Source, chosen: str) -> Iterator[Problem]:
    table, name = data.get("profiles"), data.get("profile", "default")
    known = list(table) if isinstance(table, dict) else ["default"]
    if isinstance(name, str) and name not in known:
        problem = source.problem(("profile",), unknown_name("profile", name, known))
        yield Problem("--profile", "", problem.text) if chosen else problem


def _profiles(written: Written, source: Source) -> Iterator[Problem]:
    for name, profile in written.profiles.items():
        for number, other in enumerate(profile.fallback):
            if other not in written.profiles:
                yield source.problem(
                    ("profiles", name, "fallback", number),
                    unknown_name("profile", other, list(written.profiles)),
                )


def _chain(written: Written) -> list[str]:
    """The active profile and its fallbacks, each once, in the order they are tried."""
    chain = [name for name in (written.profile,) if name in written.profiles]
    for name in chain:  # grows while it is walked
        chain += [
            other
            for other in written.profiles[name].fallback
            if other not in chain and other in written.profiles
        ]
    return chain


def _missing_secrets(
    written: Written, names: Sequence[str], source: Source, vault: Vault
) -> Iterator[Problem]:
    """``names``: the profiles that may be asked."""
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
    for name, hook in written.webhooks.items():
        try:
            vault.reveal(hook.secret)
        except SecretMissing as error:
            yield source.problem(("webhooks", name, "secret"), f"{error}; {PUT_IT}")


def _literals(written: Written, source: Source) -> Iterator[Problem]:
    if source.private:
        return
    places: list[tuple[KeyPath, Secret | None]] = [
        (("profiles", name, "api_key"), p.api_key) for name, p in written.profiles.items()
    ]
    places.append((("web_search", "api_key"), written.web_search.api_key))
    places += [
        (("webhooks", name, "secret"), hook.secret) for name, hook in written.webhooks.items()
    ]
    if written.remote is not None:
        places += [
            (("remote", "access_key"), written.remote.access_key),
            (("remote", "secret_key"), written.remote.secret_key),
        ]
    for path, secret in places:
        if (
            secret is not None
            and secret.kind == "literal"
            and not source.place(path).startswith(_OVERRIDE)
        ):
            yield source.problem(path, LITERAL)


def _store_url(written: Written, source: Source, vault: Vault) -> tuple[str, list[Problem]]:
    path: KeyPath = ("store", "url")
    secret = Secret(written.store.url)
    found = written.store.url
    if secret.kind != "literal":
        try:
            found = vault.reveal(secret)
        except SecretMissing as error:
            return "", [source.problem(path, f"{error}; {PUT_IT}")]
    if found.startswith(("postgresql://", "postgres://")):
        later = (
            "a daemon on PostgreSQL comes in a later version; write sqlite:///${OHMO_HOME}/ohmo.db"
        )
        return "", [source.problem(path, later)]
    user, at, _ = written.store.url.partition("://")[2].rpartition("@")
    if at and ":" in user and not source.private:
        return "", [source.problem(path, LITERAL)]
    return found, []


__all__ = ["Config", "key_is_optional", "load"]
