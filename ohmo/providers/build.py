"""From profiles to a model one can ask: manifests, endpoints, the chain. The assembly calls this
and nothing else of the room."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from channels.record import record
from ohmo.config.load import Config, key_is_optional
from ohmo.config.models import Profile
from ohmo.contracts.errors import ConfigError
from ohmo.contracts.provider import Provider
from ohmo.ids import IdSource, NewId
from ohmo.providers.lazy_provider import LazyProvider
from ohmo.providers.manifest import Call, Endpoint, Load, Manifest
from ohmo.providers.middleware import (
    Alternative,
    Patience,
    fallback,
    priced,
    repair,
    retry,
    unprefixed,
    waiting,
)
from ohmo.providers.model_list import Detected, Probe, detect, offered, probe
from ohmo.providers.models import Price
from ohmo.providers.request_bytes import Rendering

_ASKED = 3.0  # seconds somebody waits who names a model that no profile has
Scan = Callable[[str, str], dict[str, object]]


@record
class Model:
    """What a profile has become."""

    provider: Provider
    call: Call  # the chain, for the reasoner
    models: tuple[str, ...]
    explanation: str  # one line for status
    parts: tuple[LazyProvider, ...]
    #: Makes those of all its endpoints, in order, for a replay.
    renderings: Callable[[], Sequence[Rendering]] = tuple
    #: Asks the first endpoint which models it has; empty: it does not say.
    offers: Callable[[], Awaitable[Sequence[str]]] | None = None

    @property
    def model(self) -> str:
        """The default model: the last of the tiers."""
        return self.models[-1]

    def window(self, model: str) -> int:
        return self.provider.window(model)

    async def warm(self) -> None:
        """Import the SDK of the first endpoint now, in a thread."""
        await self.parts[0].warm()

    async def aclose(self) -> None:
        for part in self.parts:
            await part.aclose()


def manifests(scan: Scan) -> dict[str, Manifest]:
    """Every provider there is, by name; anthropic before openai, which is also the order of
    ``auto``."""
    found = scan("ohmo.providers", "MANIFEST")
    return {name: manifest for name, manifest in found.items() if isinstance(manifest, Manifest)}


def settled(
    wanted: Endpoint, known: Mapping[str, Manifest], environ: Mapping[str, str]
) -> Endpoint:
    """A profile that names its provider, with models and key filled in. Raises ConfigError naming
    what there is."""
    manifest = known.get(wanted.provider)
    if manifest is None:
        names = ", ".join(("auto", *known))
        raise ConfigError(
            f"profiles.{wanted.profile}.provider: {wanted.provider!r} is not known; there are"
            f" {names}"
        )
    key = wanted.api_key or (
        environ.get(manifest.key_environment) if manifest.key_environment else None
    )
    return replace(wanted, models=wanted.models or manifest.models, api_key=key)


async def model(
    wanted: Sequence[Endpoint],
    known: Mapping[str, Manifest],
    load: Load,
    environ: Mapping[str, str],
    *,
    patience: Patience | None = None,
    ask: Probe = probe,
    new_id: NewId | None = None,
    pricing: Mapping[str, Price] | None = None,
) -> Model:
    """``wanted``: the profile, then its fallbacks in order. ``pricing``: of models by name, before
    the table's. Imports no SDK; ``warm`` or the first call does."""
    found: list[Detected] = []
    for each in wanted:
        if each.provider == "auto":
            found.append(await detect(each, known, environ, ask=ask))
        else:
            endpoint = settled(each, known, environ)
            found.append(
                Detected(endpoint, f"{endpoint.provider}: profile {endpoint.profile} says so")
            )
    whole = environ.get("OHMO_LEAN_IMPORTS") == "off"
    parts = tuple(
        LazyProvider(known[each.endpoint.provider], each.endpoint, load, whole=whole)
        for each in found
    )
    first = found[0]
    line = first.explanation + "".join(
        f"; then {each.endpoint.provider} {each.endpoint.model}" for each in found[1:]
    )
    endpoints = [each.endpoint for each in found]

    def renderings() -> list[Rendering]:
        ways = [(known[endpoint.provider].renderings, endpoint) for endpoint in endpoints]
        made = [
            cast("Callable[[Endpoint], Sequence[Rendering]]", load(spec))(endpoint)
            for spec, endpoint in ways
            if spec
        ]
        return [rendering for each in made for rendering in each]

    return Model(
        parts[0],
        chain(parts, endpoints, patience, new_id, pricing),
        first.endpoint.models,
        line,
        parts,
        renderings,
        partial(offered, first.endpoint, limit=_ASKED),
    )


def chain(
    parts: Sequence[Provider],
    endpoints: Sequence[Endpoint],
    patience: Patience | None = None,
    new_id: NewId | None = None,
    pricing: Mapping[str, Price] | None = None,
) -> Call:
    """waiting(fallback(retry(repair(priced(unprefixed(provider)))) ...)): a request names a model
    of the first endpoint; a fallback uses its own default."""
    ids = new_id or IdSource()
    choices = [
        Alternative(
            retry(repair(priced(unprefixed(part.stream), pricing or {}), ids), patience),
            f"{endpoint.provider} {endpoint.model}",
            endpoint.model if number else None,
        )
        for number, (part, endpoint) in enumerate(zip(parts, endpoints, strict=True))
    ]
    return waiting(choices[0].call if len(choices) == 1 else fallback(choices))


def endpoint_of(name: str, profile: Profile, config: Config) -> Endpoint:
    """A profile with its key looked up. Raises SecretMissing when the key is needed and not
    there."""
    key = (
        config.vault.find(profile.api_key)
        if key_is_optional(profile)
        else _revealed(profile, config)
    )
    return Endpoint(profile.provider, profile.models, profile.base_url, key, name)


def _revealed(profile: Profile, config: Config) -> str | None:
    return config.vault.reveal(profile.api_key) if profile.api_key is not None else None
