"""From profiles to a model one can ask: manifests, endpoints, the chain, and a trial of one
profile."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import cast

from channels.record import record
from ohmo.ambient import IdSource, NewId
from ohmo.config.agent import CHAIN, Profile
from ohmo.config.load import Config, key_is_optional
from ohmo.contracts.errors import (
    BadKey,
    ConfigError,
    NoMoney,
    NoSuchModel,
    NotAllowed,
    OutOfReach,
    Overloaded,
    ProviderError,
    Refused,
    TimedOut,
    TooLong,
)
from ohmo.contracts.messages import Text, UserStep
from ohmo.contracts.provider import Call, Link, ModelRequest, Provider, Reply, Section
from ohmo.discovery import from_packages, load, scan
from ohmo.lifecycle import within
from ohmo.providers.lazy_provider import LazyProvider
from ohmo.providers.middleware.hints import hinted
from ohmo.providers.middleware.link import (
    Alternative,
    LinkManifest,
    LinkParts,
    Patience,
    linked,
    through,
)
from ohmo.providers.middleware.priced import price_of
from ohmo.providers.middleware.unprefixed import unprefixed
from ohmo.providers.model_list import Detected, Probe, detect, in_words, offered, probe
from ohmo.providers.models import Endpoint, Load, Manifest, Price, weak
from ohmo.providers.request_bytes import Rendering
from ohmo.providers.wire_parts import streaming

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
    #: The chain with this link for the budgets, None: nothing is charged.
    charged: Callable[[Link], Call] | None = None
    price: Callable[[str], Price | None] = lambda _: None  # of a model by name, None: not known

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
    """Every provider there is, by name, those of other packages last; anthropic before openai,
    which is also the order of ``auto``."""
    found = scan("ohmo.providers", "MANIFEST")
    found |= from_packages("ohmo.providers", "MANIFEST", Manifest, taken=found).found
    return {name: manifest for name, manifest in found.items() if isinstance(manifest, Manifest)}


def links(scan: Scan) -> dict[str, LinkManifest]:
    """Every link of the chain there is, by name."""
    found = scan("ohmo.providers.middleware", "LINK")
    return {name: link for name, link in found.items() if isinstance(link, LinkManifest)}


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
    order: Sequence[str] = CHAIN,
    tokens: Callable[[ModelRequest], int] = lambda _: 0,
) -> Model:
    """``wanted``: the profile, then its fallbacks in order. ``pricing``: of models by name, before
    the table's. ``order``: of the links. ``tokens``: reckons what a request takes, where a profile
    bounds that. Imports no SDK; ``warm`` or the first call does."""
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
        found: list[Rendering] = []
        for endpoint in endpoints:
            spec = known[endpoint.provider].renderings
            if spec:
                made = cast("Callable[[Endpoint], Sequence[Rendering]]", load(spec))(endpoint)
                told = partial(hinted, helped=partial(weak, endpoint))
                hints = "hints" in order
                found += [each.prepared(told) if hints else each for each in made]
        return found

    chained = partial(
        chain, parts, endpoints, patience, new_id, pricing, order=order, tokens=tokens
    )
    return Model(
        parts[0],
        chained(),
        first.endpoint.models,
        line,
        parts,
        renderings,
        partial(offered, first.endpoint, limit=_ASKED),
        lambda budget: chained(budget=budget),
        partial(price_of, pricing=pricing or {}),
    )


def chain(
    parts: Sequence[Provider],
    endpoints: Sequence[Endpoint],
    patience: Patience | None = None,
    new_id: NewId | None = None,
    pricing: Mapping[str, Price] | None = None,
    budget: Link = through,
    *,
    order: Sequence[str] = CHAIN,
    tokens: Callable[[ModelRequest], int] = lambda _: 0,
) -> Call:
    """A request names a model of the first endpoint; a fallback uses its own default. What stands
    before ``fallback`` is there once, what stands behind it before every endpoint."""
    made = links(scan)
    fork = order.index("fallback")

    def before(number: int) -> Call:
        parts = LinkParts(endpoints[number], ids, rule, prices, budget, tokens)
        return linked([made[name].make(parts) for name in order[fork + 1 :]], streams[number])

    ids, rule, prices = new_id or IdSource(), patience or Patience(), pricing or {}
    streams = [part.stream for part in parts]
    others = [
        Alternative(before(number), f"{endpoint.provider} {endpoint.model}", endpoint.model)
        for number, endpoint in enumerate(endpoints)
        if number
    ]
    first = LinkParts(endpoints[0], ids, rule, prices, budget, tokens, others)
    return linked([made[name].make(first) for name in order[: fork + 1]], before(0))


def endpoint_of(name: str, profile: Profile, config: Config) -> Endpoint:
    """A profile with its key looked up. Raises SecretMissing when the key is needed and not
    there."""
    if profile.api_key is None or key_is_optional(profile):
        key = config.vault.find(profile.api_key)
    else:
        key = config.vault.reveal(profile.api_key)
    headers = {header: config.vault.reveal(secret) for header, secret in profile.headers.items()}
    return Endpoint(
        profile.provider,
        profile.models,
        profile.base_url,
        key,
        name,
        wire=profile.wire,
        headers=headers,
        hints=profile.weak_model_hints,
        rate=profile.rate,
    )


def prices_of(config: Config) -> dict[str, Price]:
    """Those that a home gives its models itself."""
    prices: dict[str, Price] = {}
    for name, pricing in config.written.pricing.items():
        cached = pricing.input if pricing.cache_read is None else pricing.cache_read
        stored = pricing.input if pricing.cache_write is None else pricing.cache_write
        prices[name] = Price(pricing.input, cached, stored, pricing.output)
    return prices


@record
class Trial:
    """``who``: provider and model. ``text``: what is wrong; ``next``: the step."""

    fine: bool
    who: str
    text: str = ""
    next: str = ""
    offline: bool = False


async def try_model(
    config: Config, environ: Mapping[str, str], name: str, profile: Profile, *, limit: float = 30.0
) -> Trial:
    """Asks for one word, without tools and without retries. ``limit``: seconds for everything, the
    import of the SDK too."""
    try:
        wanted, known = endpoint_of(name, profile, config), manifests(scan)
        built = await model([wanted], known, load, environ)
    except ConfigError as error:
        return Trial(False, profile.provider, str(error), "ohmo config edit")
    who = f"{built.provider.name} {built.model}"
    if built.model == "offline":
        return Trial(True, "the offline provider", offline=True)
    request = ModelRequest(
        built.model,
        (Section("base", "You are a health check. Answer with one word."),),
        (),
        (UserStep((Text("Say: ready"),), "doctor", "notice"),),
        64,
        None,
        "check",
    )
    try:
        answered = await within(limit, _answers(built, request))
    except (ProviderError, TimeoutError) as error:
        there = ()
        if isinstance(error, NoSuchModel | NotAllowed) and wanted.provider in known:
            there = await offered(settled(wanted, known, environ))
        return _explained(who, built.model, error, limit, there)
    finally:
        await built.aclose()
    if answered:
        return Trial(True, who)
    return Trial(
        False,
        who,
        f"{who} answered with nothing",
        "try another model of the endpoint, or raise its output limit; weak models do this at"
        " times",
    )


async def _answers(built: Model, request: ModelRequest) -> bool:
    """Whether the bare endpoint says anything; the chain would wait and try again."""
    texts: list[str] = []
    async with streaming(linked([unprefixed()], built.parts[0].stream), request) as events:
        async for event in events:
            if isinstance(event, Reply):
                texts = [block.text for block in event.step.blocks if isinstance(block, Text)]
    return any(text.strip() for text in texts)


def _explained(who: str, model: str, error: Exception, limit: float, there: Sequence[str]) -> Trial:
    """``there``: the models the endpoint has, where it was asked for them."""
    line = str(error).splitlines()[0][:300] if str(error) else type(error).__name__
    has = f"; it has {in_words(there, model)}" if there else ""
    choose = "write one of these into models:" if there else "write a model it has into models:"
    match error:
        case NoSuchModel():
            text, step = (
                f"there is no model {model} at this endpoint ({line}){has}",
                f"{choose}, or mend base_url",
            )
        case NotAllowed():
            text = f"the key may not use this ({line}){has}"
            step = "see in the provider's console what the key may use: models, project, region"
        case BadKey():
            text = f"the key is not accepted ({line})"
            step = "make a new key in the provider's console, put it where api_key points"
        case Overloaded():
            text = f"the endpoint is overloaded or out of quota ({line})"
            step = "wait, look at the plan's limits, or add a fallback profile"
        case OutOfReach():
            text = f"nobody answers there ({line})"
            step = "start the model server, or mend base_url: host and port"
        case TimedOut() | TimeoutError():
            text = f"no answer within {limit:.0f} s ({line})"
            step = "see that base_url is right and the network reaches it"
        case TooLong():
            text, step = (
                f"even one word is too long for {model} ({line})",
                "load the model with a larger context",
            )
        case NoMoney():
            text = f"the account cannot pay ({line})"
            step = "add credit in the provider's console, or add a fallback profile"
        case Refused():
            text = f"the endpoint refuses the request ({line})"
            step = "see that provider and base_url speak the same wire (anthropic or openai)"
        case _:
            text = f"the endpoint cannot be used ({line})"
            step = "see that base_url is right and something listens there"
    return Trial(False, who, text, step)
