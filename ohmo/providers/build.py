"""From profiles to a model one can ask: covers, endpoints, the chain. The assembly calls this and
nothing else of the room."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from channels.record import record
from ohmo.contracts.errors import ConfigError
from ohmo.contracts.provider import Provider
from ohmo.ids import IdSource, NewId
from ohmo.providers.cover import Call, Cover, Endpoint, Load
from ohmo.providers.detect import Detected, Probe, detect, probe
from ohmo.providers.late import LateProvider
from ohmo.providers.middleware.fallback import Alternative, fallback
from ohmo.providers.middleware.prefix import unprefixed
from ohmo.providers.middleware.pricing import priced
from ohmo.providers.middleware.repair import repair
from ohmo.providers.middleware.retry import Patience, retry
from ohmo.providers.middleware.waiting import waiting
from ohmo.providers.models import Price
from ohmo.providers.offered import offered
from ohmo.providers.rendering import Rendering

_ASKED = 3.0  # seconds somebody waits who names a model that no profile has
Scan = Callable[[str, str], dict[str, object]]


@record
class Model:
    """What a profile has become. ``call``: the chain, for the reasoner. ``explanation``: one line
    for status. ``renderings``: makes those of all its endpoints, in order, for a replay.
    ``offers``: asks the first endpoint which models it has; empty: it does not say."""

    provider: Provider
    call: Call
    models: tuple[str, ...]
    explanation: str
    parts: tuple[LateProvider, ...]
    renderings: Callable[[], Sequence[Rendering]] = tuple
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


def covers(scan: Scan) -> dict[str, Cover]:
    """Every provider there is, by name; anthropic before openai, which is also the order of
    ``auto``."""
    found = scan("ohmo.providers", "MANIFEST")
    return {name: cover for name, cover in found.items() if isinstance(cover, Cover)}


def settled(wanted: Endpoint, known: Mapping[str, Cover], environ: Mapping[str, str]) -> Endpoint:
    """A profile that names its provider, with models and key filled in. Raises ConfigError naming
    what there is."""
    cover = known.get(wanted.provider)
    if cover is None:
        names = ", ".join(("auto", *known))
        raise ConfigError(
            f"profiles.{wanted.profile}.provider: {wanted.provider!r} is not known; there are"
            f" {names}"
        )
    key = wanted.api_key or (environ.get(cover.key_environment) if cover.key_environment else None)
    return replace(wanted, models=wanted.models or cover.models, api_key=key)


async def model(
    wanted: Sequence[Endpoint],
    known: Mapping[str, Cover],
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
        LateProvider(known[each.endpoint.provider], each.endpoint, load, whole=whole)
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
