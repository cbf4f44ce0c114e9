"""The part of ``channels`` that every platform shares, and how a platform's own keys are read with
its own model."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from typing import Any, cast

from pydantic import TypeAdapter, ValidationError

from channels.contract import Manifest
from channels.record import record
from ohmo.config.models import ChannelPolicy
from ohmo.config.problems import from_pydantic, raise_all, unknown_key, unknown_name
from ohmo.config.source import Path, Plain, Problem, Source
from ohmo.config.values import Secret, SecretMissing, Vault

POLICY_KEYS = tuple(ChannelPolicy.model_fields)
ON_BY_DEFAULT = ("web",)
PUT_IT = (
    "set it there or in .env beside config.yaml, or write env:NAME, file:PATH or"
    " keyring:SERVICE/NAME"
)
LITERAL = "a secret stands in a file that others can read; run chmod 600 on it, or write env:NAME"


@record
class RawChannel:
    """One account of one platform: the shared keys read, the platform's own still as written."""

    name: str
    policy: ChannelPolicy
    settings: Mapping[str, Plain] = field(repr=False)  # literal secrets may stand in it
    path: Path = ()
    source: Source = field(default=Source("defaults"), repr=False)
    vault: Vault = field(default_factory=lambda: Vault({}), repr=False)

    @property
    def enabled(self) -> bool:
        return self.policy.enabled


@record
class Opened:
    """A channel that is enabled and whose settings its platform's model accepted. ``settings`` is a
    ``manifest.settings`` with secrets filled in."""

    manifest: Manifest
    policy: ChannelPolicy
    settings: Any = field(repr=False)


def read_channels(source: Source, vault: Vault) -> tuple[tuple[RawChannel, ...], list[Problem]]:
    """Every channel of the file, and those that are on by default."""
    written = source.data.get("channels")
    table = dict(written) if isinstance(written, dict) else {}
    for name in ON_BY_DEFAULT:
        table.setdefault(name, None)
    channels: list[RawChannel] = []
    problems: list[Problem] = []
    for name, body in table.items():
        above: Path = ("channels", name)
        accounts = {above: body}
        if isinstance(body, list):
            accounts = {(*above, number): account for number, account in enumerate(body)}
        for path, account in accounts.items():
            if account is not None and not isinstance(account, dict):
                problems.append(
                    source.problem(path, "expected keys and values, for example {enabled: true}")
                )
                continue
            shared: dict[str, Plain] = {"enabled": True} if name in ON_BY_DEFAULT else {}
            own: dict[str, Plain] = {}
            for key, value in (account or {}).items():
                (shared if key in POLICY_KEYS else own)[key] = value
            try:
                policy = ChannelPolicy.model_validate(shared)
            except ValidationError as error:
                problems += from_pydantic(error, ChannelPolicy, source, path)
            else:
                channels.append(RawChannel(name, policy, own, path, source, vault))
        problems += _twins([channel for channel in channels if channel.name == name])
    return tuple(channels), problems


def channel_problems(
    channels: Sequence[RawChannel], manifests: Mapping[str, Manifest]
) -> list[Problem]:
    """Everything wrong with the platforms' own keys; also unknown keys of disabled channels."""
    return _open_all(channels, manifests)[1]


def decode_channel(raw: RawChannel, manifest: Manifest) -> tuple[ChannelPolicy, Any]:
    """The shared keys, and the platform's own as an instance of ``manifest.settings`` with its
    secrets filled in.

    Only for an enabled channel. Raises ConfigError with one line for each problem."""
    settings, problems = _decode(raw, manifest)
    raise_all(problems)
    return raw.policy, settings


def open_channels(
    channels: Sequence[RawChannel], manifests: Mapping[str, Manifest]
) -> tuple[Opened, ...]:
    """All enabled channels. Raises ConfigError with every problem of every channel, also keys of
    disabled ones."""
    opened, problems = _open_all(channels, manifests)
    raise_all(problems)
    return tuple(opened)


def _open_all(
    channels: Sequence[RawChannel], manifests: Mapping[str, Manifest]
) -> tuple[list[Opened], list[Problem]]:
    opened: list[Opened] = []
    problems: list[Problem] = []
    for raw in channels:
        manifest = manifests.get(raw.name)
        if manifest is None:
            problems.append(
                raw.source.problem(raw.path, unknown_name("channel", raw.name, sorted(manifests)))
            )
        elif raw.enabled:
            settings, wrong = _decode(raw, manifest)
            problems += wrong
            if not wrong:
                opened.append(Opened(manifest, raw.policy, settings))
        else:
            problems += _unknown_keys(raw, manifest)
    return opened, problems


def _twins(accounts: Sequence[RawChannel]) -> list[Problem]:
    if len(accounts) < 2:
        return []
    names: set[str] = set()
    problems: list[Problem] = []
    for channel in accounts:
        name = channel.policy.account
        if name is None:
            text = "several accounts of one platform: give each its own account: NAME"
            problems.append(channel.source.problem(channel.path, text))
            continue
        if name in names:
            text = f"{name} is the name of another account; give each its own"
            problems.append(channel.source.problem((*channel.path, "account"), text))
        names.add(name)
    return problems


def _decode(raw: RawChannel, manifest: Manifest) -> tuple[Any, list[Problem]]:
    problems = _unknown_keys(raw, manifest)
    fields = _fields(manifest)
    values: dict[str, object] = {key: value for key, value in raw.settings.items() if key in fields}
    for name in manifest.secrets:
        problem = _fill_in(raw, name, fields.get(name), values)
        if problem is not None:
            problems.append(problem)
    if problems:
        return None, problems
    try:
        return TypeAdapter(manifest.settings).validate_python(values), []
    except ValidationError as error:
        return None, from_pydantic(error, manifest.settings, raw.source, raw.path, POLICY_KEYS)


def _unknown_keys(raw: RawChannel, manifest: Manifest) -> list[Problem]:
    fields = _fields(manifest)
    known = [*fields, *POLICY_KEYS]
    return [
        raw.source.problem((*raw.path, key), unknown_key(key, known))
        for key in raw.settings
        if key not in fields
    ]


def _fields(manifest: Manifest) -> dict[str, Any]:
    table = cast("Mapping[str, Any]", getattr(manifest.settings, "model_fields", {}))
    return {field.alias or name: field for name, field in table.items()}


def _fill_in(raw: RawChannel, name: str, field: Any, values: dict[str, object]) -> Problem | None:
    """Replace the reference by the value. Not written: the model's default, else
    ``env:CHANNEL_NAME``; a default that leads nowhere is left out when the model can do without."""
    written = raw.settings.get(name)
    path = (*raw.path, name)
    if name in raw.settings and not isinstance(written, str) and written is not None:
        return raw.source.problem(
            path, "expected env:NAME, file:PATH, keyring:SERVICE/NAME or the value in quotes"
        )
    optional = field is not None and not field.is_required()
    default: object = f"env:{raw.name.upper()}_{name.upper()}"
    if field is not None and optional:
        default = field.default
    if isinstance(default, str) and Secret(default).kind == "literal":
        default = None
    reference = written
    if name not in raw.settings and isinstance(default, str):
        reference = default
    if not isinstance(reference, str):
        values[name] = None
        if optional:
            return None
        missing = "missing secret: write env:NAME, file:PATH or keyring:SERVICE/NAME"
        return raw.source.problem(path, missing)
    secret = Secret(reference)
    if written is not None and secret.kind == "literal" and not raw.source.private:
        return raw.source.problem(path, LITERAL)
    try:
        values[name] = raw.vault.reveal(secret)
    except SecretMissing as error:
        values.pop(name, None)
        if written is None and field is not None and optional:
            with suppress(ValidationError):  # the model can do without
                values[name] = TypeAdapter(field.annotation).validate_python(None)
                return None
        return raw.source.problem(path, f"{error}; {PUT_IT}")
    return None
