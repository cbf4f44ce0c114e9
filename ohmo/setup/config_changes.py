"""What is wanted at a page, as changes of keys in ``config.yaml`` and of secrets in ``.env``."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from channels.contract import Manifest
from channels.platform_calls import is_loopback
from channels.record import record
from ohmo.config.load import Config
from ohmo.config.models import DEFAULT_KEY
from ohmo.config.problems import nearest
from ohmo.config.rewriting import Keys
from ohmo.config.source import Plain
from ohmo.config.values import Secret
from ohmo.contracts.errors import ConfigError
from ohmo.contracts.setup import ModelWish, PeopleSetup, RulesSetup
from ohmo.setup import platforms
from ohmo.setup.answers import variable

ROLES = ("admin", "user", "guest")
_RULES = ("allow", "ask", "deny")


@record
class Change:
    """What shall be so."""

    keys: Mapping[Keys, Plain]  # in config.yaml
    secrets: Mapping[str, str]  # in .env, by variable


def model_change(now: Config, wish: ModelWish) -> Change:
    """Raises ConfigError: the key that is there would go to another address."""
    profile, name = now.profile, now.profile_name
    same = profile.provider == wish.provider
    moved = not same or (profile.base_url or "") != wish.base_url
    place: Keys = ("profiles", name)
    keys: dict[Keys, Plain] = {(*place, "provider"): wish.provider}
    if (profile.base_url or "") != wish.base_url:
        keys[*place, "base_url"] = wish.base_url or None
    if (profile.models[-1] if profile.models else "") != wish.model:
        others = [] if moved else [one for one in profile.models if one != wish.model]
        keys[*place, "models"] = [*others, wish.model] if wish.model else []
    written = profile.api_key if same else None
    leaves = moved and bool(wish.base_url) and not is_loopback(wish.base_url)
    if leaves and not wish.key:
        present = written or Secret(f"env:{_usual_key(wish.provider)}")
        if now.vault.find(present) is not None:
            raise ConfigError(
                f"key: say it for {wish.base_url}, too; the one that is there was given for"
                " another address"
            )
    reference, secrets = _reference(wish.key, written, _usual_key(wish.provider))
    if reference:
        keys[*place, "api_key"] = reference
    elif not same and profile.api_key is not None and "api_key" in _table(now, place):
        keys[*place, "api_key"] = DEFAULT_KEY.get(wish.provider)
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
    place: Keys = ("channels", name)
    if isinstance(_value(now, place), list):
        raise ConfigError(
            f"channels.{name}: has several accounts; change them in {file_of(now).name}"
        )
    asks = {ask.key: ask for ask in platforms.setup_of(manifest).asks}
    keys: dict[Keys, Plain] = {(*place, "enabled"): enabled}
    secrets: dict[str, str] = {}
    there = _table(now, place)
    for key, said in given.items():
        ask = asks.get(key)
        if ask is None:
            close = nearest(key, list(asks))
            hint = f", did you mean {close}?" if close else ""
            raise ConfigError(f"channels.{name}.{key[:60]}: is not asked for here{hint}")
        value = said.strip()
        if not value:
            continue
        if ask.secret:
            written = there.get(key)
            present = Secret(written) if isinstance(written, str) else None
            reference, held = _reference(value, present, variable(name, key))
            keys[*place, key] = reference
            secrets |= held
        elif there.get(key, ask.default) != value:
            keys[*place, key] = value
    if any("://" in str(value) and not is_loopback(str(value)) for value in keys.values()):
        for key, ask in asks.items():
            if ask.secret and key in there and not given.get(key, "").strip():
                raise ConfigError(f"channels.{name}.{key}: say it for the new address, too")
    for key, ask in asks.items():  # what is looked for under another name than the usual is named
        if ask.secret and key not in there and (*place, key) not in keys:
            keys[*place, key] = f"env:{variable(name, key)}"
    return Change(_changed_only(now, keys), secrets)


def people_change(now: Config, people: PeopleSetup) -> Change:
    roles = now.access.roles
    present: dict[Keys, tuple[Plain, Plain]] = {
        ("owner",): (list(now.owner), list(people.owner)),
        ("access", "default_role"): (now.access.default_role, people.default_role),
    }
    for role in ROLES:
        pair: tuple[Plain, Plain] = (list(getattr(roles, role)), list(getattr(people, role)))
        present["access", "roles", role] = pair
    return _of_pairs(present)


def rules_change(now: Config, rules: RulesSetup) -> Change:
    present: dict[Keys, tuple[Plain, Plain]] = {
        ("permissions", "preset"): (now.permissions.preset, rules.preset)
    }
    for kind in _RULES:
        pair: tuple[Plain, Plain] = (list(written_rules(now, kind)), list(getattr(rules, kind)))
        present["permissions", kind] = pair
    return _of_pairs(present)


def _of_pairs(pairs: Mapping[Keys, tuple[Plain, Plain]]) -> Change:
    """What is so, and what shall be: only what differs is written."""
    return Change({keys: wanted for keys, (there, wanted) in pairs.items() if there != wanted}, {})


def file_of(config: Config) -> Path:
    """Where its keys are written."""
    return config.file or config.home.config


def secret_of(settings: Mapping[str, Plain], channel: str, key: str) -> Secret:
    written = settings.get(key)
    usual = f"env:{variable(channel, key)}"
    return Secret(written if isinstance(written, str) and written else usual)


def _reference(said: str, written: Secret | None, usual: str) -> tuple[str, dict[str, str]]:
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


def written_rules(config: Config, kind: str) -> tuple[str, ...]:
    """As the file has them: what a preset adds is not among them, and names of folders stay
    names."""
    found = _value(config, ("permissions", kind))
    return tuple(str(one) for one in found) if isinstance(found, list) else ()
