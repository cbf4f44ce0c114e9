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
            endpoint = endpoint_of(config.profile_name, config.profile, config)
            known = build.manifests(scan)
            names: Sequence[str] = ()
            if endpoint.provider in known and endpoint.provider != "offline":
                names = sorted(await offered(build.settled(endpoint, known, environ)))
            if not endpoint.models and endpoint.base_url is not None and names:
                return Tried(
                    False,
                    endpoint.provider,
                    "choose one of the models that this endpoint has",
                    "then test again",
                    tuple(names),
                )
            result = await try_model(config, environ, config.profile_name, config.profile)
        words = Redactor(lambda: config.vault.values).words
        return Tried(result.fine, result.who, words(result.text), words(result.next), tuple(names))

    async def choose_model(self, version: str, wish: ModelWish) -> str:
        return await asyncio.to_thread(self._save, version, lambda now: model_change(now, wish))

    async def try_channel(self, name: str, keys: Mapping[str, str]) -> Tried:
        manifest = self._manifests.get(name)
        async with self._trying:
            config, _ = await asyncio.to_thread(
                self._candidate, lambda now: channel_change(now, manifest, name, keys, enabled=True)
            )
            words = Redactor(lambda: config.vault.values).words
            for channel in open_channels(config.channels, self._manifests):
                if channel.manifest.name != name:
                    continue
                try:
                    return Tried(True, await connected_as(channel))
                except ChannelError as error:
                    asks = platforms.setup_of(channel.manifest).asks
                    pages = dict.fromkeys(ask.page for ask in asks if ask.secret)
                    text = words(str(error) or type(error).__name__)
                    return Tried(False, name, text, f"see {', '.join(pages)}")
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

    def refuse_keys(self, change: Change) -> None:
        """Raises ConfigError: the configuration would not be taken so."""
        self._candidate(lambda _: change)

    def set_keys(self, change: Change) -> None:
        """Written to the file as it is now. Raises ConfigError, Stale."""
        self._save(self._read().version, lambda _: change)

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
            reason = getattr(error, "strerror", None) or "not UTF-8 text"
            raise ConfigError(f"{self._file}: cannot be read ({reason})") from error
        try:
            secrets = env_file(self._running.home).read_bytes()
        except OSError:
            secrets = b""
        digests = (hashlib.sha256(raw).digest(), hashlib.sha256(secrets).digest())
        version = hashlib.sha256(b"\0".join(digests)).hexdigest()[:32]
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
        roles = config.access.roles
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
                roles.admin,
                roles.user,
                roles.guest,
                default_role=config.access.default_role,
            ),
            rules=RulesSetup(
                config.permissions.preset,
                config.written.permissions.mode,
                written_rules(config, "allow"),
                written_rules(config, "ask"),
                written_rules(config, "deny"),
            ),
        )

    def _is_taken(self, now: Config) -> bool:
        """The house was built from this file, and from what .env holds."""
        if now.source.data != self._running.source.data:
            return False
        for name, value in read_env(env_file(now.home)).items():
            if name in self._outside or not value.strip():
                continue
            if self._running.vault.find(Secret(f"env:{name}")) != value.strip():
                return False
        return True

    def _shown(self, config: Config, name: str) -> ChannelSetup:
        manifest = self._manifests[name]
        setup = platforms.setup_of(manifest)
        accounts = [channel for channel in config.channels if channel.name == name]
        first = accounts[0] if accounts else None
        settings: Mapping[str, Plain] = first.settings if first is not None else {}
        asked: list[KeyAsked] = []
        values: dict[str, str] = {}
        secrets: list[str] = []
        for ask in setup.asks:
            if ask.secret:
                secret = secret_of(settings, name, ask.key)
                value = config.vault.find(secret) or ""
                secrets += [value] if value else []
                field = (True, "", "", secret.written(), bool(value))
            else:
                written = settings.get(ask.key)
                text = written if isinstance(written, str) else ""
                default = ask.default or ""
                value = text or default
                field = (False, default, text, "", bool(text))
            values[ask.key] = value
            asked.append(KeyAsked(ask.key, ask.question, ask.page, *field))

        def shown(text: str) -> str:
            """Discord's invite link is made from its token; the token itself is told nobody."""
            for secret in secrets:
                text = text.replace(secret, "…")
            return text

        return ChannelSetup(
            name,
            manifest.title,
            any(account.enabled for account in accounts),
            len(accounts) > 1,
            setup.steps,
            {document.name: shown(document.text(values)) for document in setup.documents},
            tuple(asked),
            tuple(shown(line) for line in setup.after(values)),
        )

    def _candidate(self, change_of: Callable[[Config], Change]) -> tuple[Config, Mapping[str, str]]:
        """The configuration as it would be, and its environment. Raises ConfigError: it would be
        refused."""
        now = self._read()
        change = change_of(now.config or self._running)
        text = rewritten(self._text(now), change.keys)
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
            variable = config.source.place(keys)
            if variable.startswith(_OVERRIDE):
                raise ConfigError(
                    f"{dotted(keys)}: the environment says it with {variable}, which wins over the"
                    " file; change it there"
                )
        return config, environ

    def _save(self, version: str, change_of: Callable[[Config], Change]) -> str:
        with self._writing:
            now = self._read()
            if now.version != version:
                raise Stale
            if now.config is None:
                raise ConfigError(f"{now.problem}; mend this in the file first")
            change = change_of(now.config)
            text = rewritten(self._text(now), change.keys)
            self._checked(change, text)
            if change.secrets:
                put_secrets(env_file(self._running.home), change.secrets)
            path = Path(os.path.realpath(self._file))  # a link stays one
            if self._text_now() != now.text:
                raise Stale
            try:
                if text != now.text:
                    mode = stat.S_IMODE(path.stat().st_mode) if path.exists() else 0o600
                    write_whole(path, text, mode)
            except OSError as error:
                raise ConfigError(f"{self._file}: cannot be written ({error.strerror})") from error
            return self._read().version

    def _text_now(self) -> str | None:
        try:
            return self._file.read_bytes().decode("utf-8-sig")
        except FileNotFoundError:
            return None

    def _text(self, now: _Read) -> str:
        return now.text if now.text is not None else config_text(Answers(channels={"web": {}}))
