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
from channels.record import record
from channels.registry import Ask
from ohmo.config.channels import open_channels
from ohmo.config.home import env_file, environment, read_env
from ohmo.config.load import Config, load
from ohmo.config.rewriting import rewritten
from ohmo.config.source import Plain, dotted
from ohmo.config.values import Secret
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
from ohmo.providers.build import endpoint_of, try_model
from ohmo.providers.model_list import offered
from ohmo.setup import platforms
from ohmo.setup.answers import Answers, config_text, put_secrets
from ohmo.setup.config_changes import (
    ROLES,
    Change,
    channel_change,
    file_of,
    model_change,
    people_change,
    rules_change,
    secret_of,
    written_rules,
)
from ohmo.setup.platforms import connected_as

_OVERRIDE = "OHMO__"


@record
class _Read:
    """The file as it is."""

    version: str  # digest of it and of .env
    text: str | None  # None: there is none
    config: Config | None  # None: it cannot be loaded
    problem: str  # why not


class ConfigEditor:
    """Implements ``SetUp``. ``running``: the configuration the house lives with. ``outside``: the
    environment that the process was given, without what ``.env`` adds."""

    def __init__(
        self, running: Config, outside: Mapping[str, str], manifests: Mapping[str, Manifest]
    ) -> None:
        self._running = running
        self._outside = {**outside, "OHMO_HOME": str(running.home.root)}
        self._manifests = manifests
        self._file = file_of(running)
        self._writing = threading.Lock()
        self._trying = asyncio.Lock()  # one try at a time

    async def state(self) -> HouseSetup:
        return await asyncio.to_thread(self._state)

    async def try_model(self, wish: ModelWish) -> Tried:
        async with self._trying:
            config, environ = await asyncio.to_thread(
                self._candidate, lambda now: model_change(now, wish)
            )
            wanted = endpoint_of(config.profile_name, config.profile, config)
            known = build.manifests(scan)
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
        return await asyncio.to_thread(self._save, version, lambda now: model_change(now, wish))

    async def try_channel(self, name: str, keys: Mapping[str, str]) -> Tried:
        manifest = self._manifests.get(name)
        async with self._trying:
            config, _ = await asyncio.to_thread(
                self._candidate, lambda now: channel_change(now, manifest, name, keys, enabled=True)
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
        manifest = self._manifests.get(name)
        return await asyncio.to_thread(
            self._save,
            version,
            lambda now: channel_change(now, manifest, name, keys, enabled=enabled),
        )

    async def set_people(self, version: str, people: PeopleSetup) -> str:
        return await asyncio.to_thread(self._save, version, lambda now: people_change(now, people))

    async def set_rules(self, version: str, rules: RulesSetup) -> str:
        return await asyncio.to_thread(self._save, version, lambda now: rules_change(now, rules))

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
                *(tuple(getattr(config.access.roles, role)) for role in ROLES),
                default_role=config.access.default_role,
            ),
            rules=RulesSetup(
                config.permissions.preset,
                config.permissions.mode,
                *(written_rules(config, kind) for kind in ("allow", "ask", "deny")),
            ),
        )

    def _is_taken(self, now: Config) -> bool:
        """The house was built from this file, and from what .env holds."""
        if now.source.data != self._running.source.data:
            return False
        held = {
            name: value
            for name, value in read_env(env_file(now.home)).items()
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
            one.key: config.vault.find(secret_of(settings, name, one.key)) or ""
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

    def _candidate(self, wanted: Callable[[Config], Change]) -> tuple[Config, Mapping[str, str]]:
        """The configuration as it would be, and its environment. Raises ConfigError: it would be
        refused."""
        found = self._read()
        change = wanted(found.config or self._running)
        text = rewritten(self._text(found), change.keys)
        return self._checked(change, text)

    def _checked(self, change: Change, text: str) -> tuple[Config, Mapping[str, str]]:
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

    def _save(self, version: str, wanted: Callable[[Config], Change]) -> str:
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
        secret = secret_of(settings, channel, ask.key)
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
