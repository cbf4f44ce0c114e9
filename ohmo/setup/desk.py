"""Set-up without a terminal: reads ``config.yaml``, tries what is wanted, and writes it with every
remark and every order of its owner kept."""

from __future__ import annotations

import asyncio
import hashlib
import os
import stat
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from channels.contract import Manifest
from channels.durable import write_whole
from channels.errors import ChannelError
from channels.proxies import is_loopback
from channels.record import record
from channels.setup import Ask
from ohmo.config.channels import open_channels
from ohmo.config.envfile import env_file, environment, read
from ohmo.config.load import Config, load
from ohmo.config.models import DEFAULT_KEY
from ohmo.config.problems import nearest
from ohmo.config.rewriting import Keys, rewritten
from ohmo.config.secrets import Secret
from ohmo.config.source import Plain, dotted
from ohmo.contracts.errors import ConfigError
from ohmo.contracts.setup import (
    ChannelSetup,
    HouseSetup,
    KeyAsked,
    ModelSetup,
    ModelWish,
    PeopleSetup,
    RulesSetup,
    Stale,
    Tried,
)
from ohmo.discovery import scan
from ohmo.logs.redaction import Redactor
from ohmo.providers import build
from ohmo.providers.build import endpoint_of
from ohmo.providers.model_list import offered
from ohmo.providers.trial import try_model
from ohmo.setup import platforms
from ohmo.setup.answers import Answers, config_text, variable
from ohmo.setup.connecting import connected_as
from ohmo.setup.furnish import put_secrets

_OVERRIDE = "OHMO__"
_ROLES = ("admin", "user", "guest")


@record
class _Change:
    """``keys``: what config.yaml shall say; ``secrets``: what .env shall hold, by variable."""

    keys: Mapping[Keys, Plain]
    secrets: Mapping[str, str]


@record
class _Read:
    """The file as it is: ``text`` None when there is none. ``config`` None: it cannot be loaded,
    ``problem`` says why."""

    version: str
    text: str | None
    config: Config | None
    problem: str


class SetupDesk:
    """Implements ``SetUp``. ``running``: the configuration the house lives with. ``outside``: the
    environment that the process was given, without what ``.env`` adds."""

    def __init__(
        self, running: Config, outside: Mapping[str, str], manifests: Mapping[str, Manifest]
    ) -> None:
        self._running = running
        self._outside = {**outside, "OHMO_HOME": str(running.home.root)}
        self._manifests = manifests
        self._file = running.file or running.home.config
        self._writing = threading.Lock()
        self._trying = asyncio.Lock()  # one try at a time

    async def state(self) -> HouseSetup:
        return await asyncio.to_thread(self._state)

    async def try_model(self, wish: ModelWish) -> Tried:
        async with self._trying:
            config, environ = await asyncio.to_thread(
                self._candidate, lambda now: self._model(now, wish)
            )
            wanted, known = (
                endpoint_of(config.profile_name, config.profile, config),
                build.manifests(scan),
            )
            names: Sequence[str] = ()
            if wanted.provider in known and wanted.provider != "offline":
                names = sorted(await offered(build.settled(wanted, known, environ)))
            if not wanted.models and wanted.base_url is not None and names:
                return Tried(
                    False,
                    wanted.provider,
                    "choose one of the models that this endpoint has",
                    "then test again",
                    tuple(names),
                )
            found = await try_model(config, environ, config.profile_name, config.profile)
        words = Redactor(lambda: config.vault.values).words
        return Tried(found.fine, found.who, words(found.text), words(found.next), tuple(names))

    async def choose_model(self, version: str, wish: ModelWish) -> str:
        return await asyncio.to_thread(self._save, version, lambda now: self._model(now, wish))

    async def try_channel(self, name: str, keys: Mapping[str, str]) -> Tried:
        async with self._trying:
            config, _ = await asyncio.to_thread(
                self._candidate, lambda now: self._channel(now, name, keys, enabled=True)
            )
            words = Redactor(lambda: config.vault.values).words
            for one in open_channels(config.channels, self._manifests):
                if one.manifest.name == name:
                    try:
                        return Tried(True, await connected_as(one))
                    except ChannelError as error:
                        asks = platforms.setup_of(one.manifest).asks
                        pages = ", ".join(dict.fromkeys(ask.page for ask in asks if ask.secret))
                        return Tried(
                            False, name, words(str(error) or type(error).__name__), f"see {pages}"
                        )
        raise ConfigError(f"{name}: is not one channel of config.yaml")

    async def set_channel(
        self, version: str, name: str, *, enabled: bool, keys: Mapping[str, str]
    ) -> str:
        return await asyncio.to_thread(
            self._save, version, lambda now: self._channel(now, name, keys, enabled=enabled)
        )

    async def set_people(self, version: str, people: PeopleSetup) -> str:
        keys: dict[Keys, Plain] = {
            ("owner",): list(people.owner),
            ("access", "default_role"): people.default_role,
        }
        for role in _ROLES:
            keys["access", "roles", role] = list(getattr(people, role))
        return await asyncio.to_thread(
            self._save, version, lambda now: _Change(_unlike(_people(now), keys), {})
        )

    async def set_rules(self, version: str, rules: RulesSetup) -> str:
        keys: dict[Keys, Plain] = {("permissions", "preset"): rules.preset}
        for kind in ("allow", "ask", "deny"):
            keys["permissions", kind] = list(getattr(rules, kind))
        return await asyncio.to_thread(
            self._save, version, lambda now: _Change(_unlike(_rules(now), keys), {})
        )

    # reading
    def _environ(self) -> dict[str, str]:
        return environment(self._outside)

    def _read(self) -> _Read:
        text, raw = None, b""
        try:
            raw = self._file.read_bytes()
            text = raw.decode("utf-8-sig")
        except FileNotFoundError:
            pass
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{self._file}: cannot be read"
                f" ({getattr(error, 'strerror', None) or 'not UTF-8 text'})"
            ) from error
        try:
            secrets = env_file(self._running.home).read_bytes()
        except OSError:
            secrets = b""
        version = hashlib.sha256(
            b"\0".join((hashlib.sha256(raw).digest(), hashlib.sha256(secrets).digest()))
        ).hexdigest()[:32]
        try:
            config = self._load(self._environ(), text)
        except ConfigError as error:
            return _Read(version, text, None, str(error).partition("\n")[0])
        return _Read(version, text, config, "")

    def _load(self, environ: Mapping[str, str], text: str | None) -> Config:
        return load(
            self._running.file,
            environ=environ,
            profile=self._running.profile_name,
            manifests=self._manifests,
            text=text,
        )

    def _state(self) -> HouseSetup:
        now = self._read()
        config = now.config or self._running
        profile = config.profile
        key = profile.api_key
        return HouseSetup(
            version=now.version,
            file=str(self._file),
            taken=now.config is not None and self._is_taken(now.config),
            problem=now.problem,
            model=ModelSetup(
                config.profile_name,
                profile.provider,
                profile.base_url or "",
                profile.models,
                key.written() if key is not None else "",
                config.vault.find(key) is not None,
            ),
            channels=tuple(
                self._shown(config, name) for name in platforms.NAMES if name in self._manifests
            ),
            people=PeopleSetup(
                config.owner,
                *(tuple(getattr(config.access.roles, role)) for role in _ROLES),
                default_role=config.access.default_role,
            ),
            rules=RulesSetup(
                config.permissions.preset,
                config.permissions.mode,
                *(_written_rules(config, kind) for kind in ("allow", "ask", "deny")),
            ),
        )

    def _is_taken(self, now: Config) -> bool:
        """The house was built from this file, and from what .env holds."""
        if now.source.data != self._running.source.data:
            return False
        held = {
            name: value
            for name, value in read(env_file(now.home)).items()
            if name not in self._outside and value.strip()
        }
        return all(
            self._running.vault.find(Secret(f"env:{name}")) == value.strip()
            for name, value in held.items()
        )

    def _shown(self, config: Config, name: str) -> ChannelSetup:
        manifest = self._manifests[name]
        setup = platforms.setup_of(manifest)
        accounts = [channel for channel in config.channels if channel.name == name]
        first = accounts[0] if accounts else None
        settings: Mapping[str, Plain] = first.settings if first is not None else {}
        asked = tuple(_asked(ask, settings, name, config) for ask in setup.asks)
        said = {one.key: one.value or one.default for one in asked if not one.secret}
        told = {
            one.key: config.vault.find(_secret(settings, name, one.key)) or ""
            for one in asked
            if one.secret
        }

        def shown(text: str) -> str:
            """Discord's invite link is made from its token; the token itself is told nobody."""
            for value in filter(None, told.values()):
                text = text.replace(value, "…")
            return text

        return ChannelSetup(
            name,
            manifest.title,
            any(one.enabled for one in accounts),
            len(accounts) > 1,
            setup.steps,
            {document.name: shown(document.text({**said, **told})) for document in setup.documents},
            asked,
            tuple(shown(line) for line in setup.after({**said, **told})),
        )

    # what is wanted, as changes of keys
    def _model(self, now: Config, wish: ModelWish) -> _Change:
        profile, name = now.profile, now.profile_name
        same = profile.provider == wish.provider
        place: Keys = ("profiles", name)
        keys: dict[Keys, Plain] = {(*place, "provider"): wish.provider}
        if (profile.base_url or "") != wish.base_url:
            keys[*place, "base_url"] = wish.base_url or None
        if (profile.models[-1] if profile.models else "") != wish.model:
            others = (
                [one for one in profile.models if one != wish.model]
                if same and (profile.base_url or "") == wish.base_url
                else []
            )
            keys[*place, "models"] = [*others, wish.model] if wish.model else []
        written = profile.api_key if same else None
        moved = not same or (profile.base_url or "") != wish.base_url
        leaves = moved and bool(wish.base_url) and not is_loopback(wish.base_url)
        if (
            leaves
            and not wish.key
            and now.vault.find(written or Secret(f"env:{_usual_key(wish.provider)}")) is not None
        ):
            raise ConfigError(
                f"key: say it for {wish.base_url}, too; the one that is there was given for another"
                " address"
            )
        reference, secrets = _kept(wish.key, written, _usual_key(wish.provider))
        if reference:
            keys[*place, "api_key"] = reference
        elif not same and profile.api_key is not None and "api_key" in _table(now, place):
            keys[*place, "api_key"] = DEFAULT_KEY.get(wish.provider)
        return _Change(_changed_only(now, keys), secrets)

    def _channel(
        self, now: Config, name: str, given: Mapping[str, str], *, enabled: bool
    ) -> _Change:
        manifest = self._manifests.get(name)
        if manifest is None or name not in platforms.NAMES:
            raise ConfigError(
                f"{name[:60]}: there is no such channel here; there are"
                f" {', '.join(platforms.NAMES)}"
            )
        place: Keys = ("channels", name)
        if isinstance(_value(now, place), list):
            raise ConfigError(
                f"channels.{name}: has several accounts; change them in {self._file.name}"
            )
        asks = {ask.key: ask for ask in platforms.setup_of(manifest).asks}
        keys: dict[Keys, Plain] = {(*place, "enabled"): enabled}
        secrets: dict[str, str] = {}
        there = _table(now, place)
        for key, said in given.items():
            ask = asks.get(key)
            if ask is None:
                close = nearest(key, list(asks))
                raise ConfigError(
                    f"channels.{name}.{key[:60]}: is not asked for here"
                    + (f", did you mean {close}?" if close else "")
                )
            value = said.strip()
            if not value:
                continue
            if ask.secret:
                written = there.get(key)
                reference, held = _kept(
                    value,
                    Secret(written) if isinstance(written, str) else None,
                    variable(name, key),
                )
                keys[*place, key] = reference
                secrets |= held
            elif there.get(key, ask.default) != value:
                keys[*place, key] = value
        if any("://" in str(value) and not is_loopback(str(value)) for value in keys.values()):
            missing = [
                key
                for key, ask in asks.items()
                if ask.secret and key in there and not given.get(key, "").strip()
            ]
            if missing:
                raise ConfigError(f"channels.{name}.{missing[0]}: say it for the new address, too")
        for (
            key,
            ask,
        ) in asks.items():  # what is looked for under another name than the usual one is named
            if ask.secret and key not in there and (*place, key) not in keys:
                keys[*place, key] = f"env:{variable(name, key)}"
        return _Change(_changed_only(now, keys), secrets)

    # writing
    def _candidate(self, wanted: Callable[[Config], _Change]) -> tuple[Config, Mapping[str, str]]:
        """The configuration as it would be, and its environment. Raises ConfigError: it would be
        refused."""
        found = self._read()
        change = wanted(found.config or self._running)
        text = rewritten(self._text(found), change.keys)
        return self._checked(change, text)

    def _checked(self, change: _Change, text: str) -> tuple[Config, Mapping[str, str]]:
        for name, value in change.secrets.items():
            if self._outside.get(name, value) != value:
                raise ConfigError(
                    f"{name} is set in the environment that ohmo was started with, which wins over"
                    " .env; change it there"
                )
        environ = {**self._environ(), **change.secrets}
        config = self._load(environ, text)
        for keys in change.keys:
            if (place := config.source.place(keys)).startswith(_OVERRIDE):
                raise ConfigError(
                    f"{dotted(keys)}: the environment says it with {place}, which wins over the"
                    " file; change it there"
                )
        return config, environ

    def _save(self, version: str, wanted: Callable[[Config], _Change]) -> str:
        with self._writing:
            found = self._read()
            if found.version != version:
                raise Stale
            if found.config is None:
                raise ConfigError(f"{found.problem}; mend this in the file first")
            change = wanted(found.config)
            text = rewritten(self._text(found), change.keys)
            self._checked(change, text)
            if change.secrets:
                put_secrets(env_file(self._running.home), change.secrets)
            place = Path(os.path.realpath(self._file))  # a link stays one
            if self._text_now() != found.text:
                raise Stale
            try:
                if text != found.text:
                    write_whole(
                        place, text, stat.S_IMODE(place.stat().st_mode) if place.exists() else 0o600
                    )
            except OSError as error:
                raise ConfigError(f"{self._file}: cannot be written ({error.strerror})") from error
            return self._read().version

    def _text_now(self) -> str | None:
        try:
            return self._file.read_bytes().decode("utf-8-sig")
        except FileNotFoundError:
            return None

    def _text(self, found: _Read) -> str:
        return found.text if found.text is not None else config_text(Answers(channels={"web": {}}))


def _asked(ask: Ask, settings: Mapping[str, Plain], channel: str, config: Config) -> KeyAsked:
    if ask.secret:
        secret = _secret(settings, channel, ask.key)
        return KeyAsked(
            ask.key,
            ask.question,
            ask.page,
            True,
            "",
            "",
            secret.written(),
            config.vault.find(secret) is not None,
        )
    written = settings.get(ask.key)
    text = written if isinstance(written, str) else ""
    return KeyAsked(ask.key, ask.question, ask.page, False, ask.default or "", text, "", bool(text))


def _secret(settings: Mapping[str, Plain], channel: str, key: str) -> Secret:
    written = settings.get(key)
    return Secret(
        written if isinstance(written, str) and written else f"env:{variable(channel, key)}"
    )


def _kept(said: str, written: Secret | None, usual: str) -> tuple[str, dict[str, str]]:
    """The reference that the file shall hold, and the secret behind it when its value was said. A
    reference cannot be said here: with an address beside it, whoever sits at the page could have
    any secret sent there."""
    if not said:
        return "", {}
    if Secret(said).kind != "literal":
        raise ConfigError(
            f"{said[:60]}: is a reference; write it into config.yaml, or say the value itself"
        )
    name = written.name if written is not None and written.kind == "env" else usual
    return f"env:{name}", {name: said}


def _usual_key(provider: str) -> str:
    return DEFAULT_KEY.get(provider, DEFAULT_KEY["auto"]).removeprefix("env:")


def _value(config: Config, keys: Keys) -> Plain:
    found: Plain = config.source.data
    for key in keys:
        found = found.get(key) if isinstance(found, dict) else None
    return found


def _table(config: Config, keys: Keys) -> Mapping[str, Plain]:
    found = _value(config, keys)
    return found if isinstance(found, dict) else {}


def _changed_only(now: Config, keys: Mapping[Keys, Plain]) -> dict[Keys, Plain]:
    return {key: value for key, value in keys.items() if _value(now, key) != value}


def _unlike(now: Mapping[Keys, Plain], keys: Mapping[Keys, Plain]) -> dict[Keys, Plain]:
    return {key: value for key, value in keys.items() if now[key] != value}


def _people(now: Config) -> dict[Keys, Plain]:
    found: dict[Keys, Plain] = {
        ("owner",): list(now.owner),
        ("access", "default_role"): now.access.default_role,
    }
    for role in _ROLES:
        found["access", "roles", role] = list(getattr(now.access.roles, role))
    return found


def _rules(now: Config) -> dict[Keys, Plain]:
    found: dict[Keys, Plain] = {("permissions", "preset"): now.permissions.preset}
    for kind in ("allow", "ask", "deny"):
        found["permissions", kind] = list(_written_rules(now, kind))
    return found


def _written_rules(config: Config, kind: str) -> tuple[str, ...]:
    """As the file has them: what a preset adds is not among them, and names of folders stay
    names."""
    found = _value(config, ("permissions", kind))
    return tuple(str(one) for one in found) if isinstance(found, list) else ()
