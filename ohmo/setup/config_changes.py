"""What is wanted at a page, as changes of keys in ``config.yaml`` and of secrets in ``.env``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from channels.contract import Manifest
from channels.platform_calls import is_loopback
from channels.record import record
from ohmo.config.agent import DEFAULT_KEY
from ohmo.config.load import Config
from ohmo.config.problems import nearest
from ohmo.config.rewriting import Keys
from ohmo.config.source import Plain
from ohmo.config.values import Secret
from ohmo.contracts.errors import ConfigError
from ohmo.contracts.setup import ModelWish, PeopleSetup, RulesSetup
from ohmo.setup import platforms
from ohmo.setup.answers import variable


@record
class Change:
    """What shall be so."""

    keys: Mapping[Keys, Plain]  # in config.yaml
    secrets: Mapping[str, str]  # in .env, by variable


def model_change(now: Config, wish: ModelWish) -> Change:
    """Raises ConfigError: the key that is there would go to another address."""
    profile = now.profile
    same_provider = profile.provider == wish.provider
    same_address = (profile.base_url or "") == wish.base_url
    moves = not same_provider or not same_address
    above: Keys = ("profiles", now.profile_name)
    keys: dict[Keys, Plain] = {(*above, "provider"): wish.provider}
    if not same_address:
        keys[*above, "base_url"] = wish.base_url or None
    models = list(profile.models)
    if wish.model != (models[-1] if models else ""):
        others = [model for model in models if model != wish.model and not moves]
        keys[*above, "models"] = [*others, wish.model] if wish.model else []
    usual = DEFAULT_KEY.get(wish.provider, DEFAULT_KEY["auto"])
    written = profile.api_key if same_provider else None
    leaves = moves and wish.base_url and not is_loopback(wish.base_url)
    if leaves and not wish.key:
        present = written or Secret(usual)
        if now.vault.find(present) is not None:
            raise ConfigError(
                f"key: say it for {wish.base_url}, too; the one that is there was given for"
                " another address"
            )
    reference, secrets = _reference(wish.key, written, usual.removeprefix("env:"))
    if reference:
        keys[*above, "api_key"] = reference
    elif not same_provider and profile.api_key is not None and "api_key" in _table(now, above):
        keys[*above, "api_key"] = DEFAULT_KEY.get(wish.provider)
    return Change(_changed_only(now, keys), secrets)


def channel_change(
    now: Config, manifest: Manifest | None, name: str, given: Mapping[str, str], *, enabled: bool
) -> Change:
    """``given``: what was said, by key. Raises ConfigError: there is no such channel or key, or a
    secret would go to a new address unsaid."""
    if manifest is None or name not in platforms.NAMES:
        raise ConfigError(
            f"{name[:60]}: there is no such channel here; there are {', '.join(platforms.NAMES)}"
        )
    above: Keys = ("channels", name)
    if isinstance(_value(now, above), list):
        raise ConfigError(
            f"channels.{name}: has several accounts; change them in {file_of(now).name}"
        )
    asks = {ask.key: ask for ask in platforms.setup_of(manifest).asks}
    keys: dict[Keys, Plain] = {(*above, "enabled"): enabled}
    secrets: dict[str, str] = {}
    present = _table(now, above)
    for key, text in given.items():
        ask = asks.get(key)
        if ask is None:
            close = nearest(key, list(asks))
            hint = f", did you mean {close}?" if close else ""
            raise ConfigError(f"channels.{name}.{key[:60]}: is not asked for here{hint}")
        value = text.strip()
        if not value:
            continue
        if ask.secret:
            written = present.get(key)
            secret = Secret(written) if isinstance(written, str) else None
            keys[*above, key], values = _reference(value, secret, variable(name, key))
            secrets |= values
        elif present.get(key, ask.default) != value:
            keys[*above, key] = value
    leaves = any("://" in str(value) and not is_loopback(str(value)) for value in keys.values())
    for key in [ask.key for ask in asks.values() if ask.secret]:
        if key not in present:
            # What is looked for under another name than the usual is named.
            keys.setdefault((*above, key), f"env:{variable(name, key)}")
        elif leaves and not given.get(key, "").strip():
            raise ConfigError(f"channels.{name}.{key}: say it for the new address, too")
    return Change(_changed_only(now, keys), secrets)


def people_change(now: Config, people: PeopleSetup) -> Change:
    roles = now.access.roles
    pairs: dict[Keys, tuple[Plain, Plain]] = {
        ("owner",): (list(now.owner), list(people.owner)),
        ("access", "default_role"): (now.access.default_role, people.default_role),
        ("access", "roles", "admin"): (list(roles.admin), list(people.admin)),
        ("access", "roles", "user"): (list(roles.user), list(people.user)),
        ("access", "roles", "guest"): (list(roles.guest), list(people.guest)),
    }
    return _of_pairs(pairs)


def rules_change(now: Config, rules: RulesSetup) -> Change:
    pairs: dict[Keys, tuple[Plain, Plain]] = {
        ("permissions", "preset"): (now.permissions.preset, rules.preset),
        ("permissions", "allow"): (list(written_rules(now, "allow")), list(rules.allow)),
        ("permissions", "ask"): (list(written_rules(now, "ask")), list(rules.ask)),
        ("permissions", "deny"): (list(written_rules(now, "deny")), list(rules.deny)),
    }
    return _of_pairs(pairs)


def _of_pairs(pairs: Mapping[Keys, tuple[Plain, Plain]]) -> Change:
    """What is so, and what shall be: only what differs is written."""
    changed: dict[Keys, Plain] = {}
    for keys, (before, after) in pairs.items():
        if before != after:
            changed[keys] = after
    return Change(changed, {})


def file_of(config: Config) -> Path:
    """Where its keys are written."""
    return config.file or config.home.config


def secret_of(settings: Mapping[str, Plain], channel: str, key: str) -> Secret:
    written = settings.get(key)
    usual = f"env:{variable(channel, key)}"
    return Secret(written if isinstance(written, str) and written else usual)


def _reference(value: str, written: Secret | None, usual: str) -> tuple[str, dict[str, str]]:
    """The reference that the file shall hold, and the secret behind it when its value was said. A
    reference cannot be said here: with an address beside it, whoever sits at the page could have
    any secret sent there."""
    if not value:
        return "", {}
    if Secret(value).kind != "literal":
        raise ConfigError(
            f"{value[:60]}: is a reference; write it into config.yaml, or say the value itself"
        )
    name = usual
    if written is not None and written.kind == "env":
        name = written.name
    return f"env:{name}", {name: value}


def _value(config: Config, keys: Keys) -> Plain:
    value: Plain = config.source.data
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value


def _table(config: Config, keys: Keys) -> Mapping[str, Plain]:
    value = _value(config, keys)
    return value if isinstance(value, dict) else {}


def _changed_only(now: Config, keys: Mapping[Keys, Plain]) -> dict[Keys, Plain]:
    return {key: value for key, value in keys.items() if _value(now, key) != value}


def written_rules(config: Config, kind: str) -> tuple[str, ...]:
    """As the file has them: what a preset adds is not among them, and names of folders stay
    names."""
    rules = _value(config, ("permissions", kind))
    return tuple(str(rule) for rule in rules) if isinstance(rules, list) else ()
