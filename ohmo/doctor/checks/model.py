"""Whether a model answers."""

from __future__ import annotations

import asyncio

from ohmo.config.load import Config
from ohmo.contracts.spending import KEYS
from ohmo.discovery import scan
from ohmo.doctor.check import (
    Check,
    Facts,
    Finding,
    config,
    needs,
    note,
    ok,
    problem,
    skipped,
    warning,
)
from ohmo.providers.build import manifests, prices_of, try_model
from ohmo.providers.middleware.priced import price_of

ONE_REQUEST = 12_000  # tokens: the first of a conversation, and the longest answer it may get


@needs(config)
def key(facts: Facts, config: Config) -> Finding:
    profile = config.profile
    if profile.provider == "offline":
        return note(
            "provider: offline; tools can be tried by hand",
            "docs/models.md says how to get a model",
        )
    known = [name for name in ("ANTHROPIC_API_KEY", "OPENAI_API_KEY") if facts.environ.get(name)]
    if (
        profile.provider != "auto"
        or known
        or profile.base_url is not None
        or config.vault.find(profile.api_key)
    ):
        return ok()
    return note(
        "provider: auto finds no key in the environment; a model server on this machine is looked"
        " for at start",
        "set ANTHROPIC_API_KEY or OPENAI_API_KEY, or start Ollama or LM Studio; ohmo doctor --live"
        " asks it",
    )


@needs(config)
def chain(_: Facts, config: Config) -> Finding:
    names = [config.profile_name, *(name for name, _ in config.fallback)]
    keys = {
        name: (profile.provider, profile.base_url, tuple(profile.models))
        for name, profile in config.written.profiles.items()
    }
    same = [
        name
        for number, name in enumerate(names)
        if keys[name] in [keys[other] for other in names[:number]]
    ]
    if not same:
        return ok()
    return note(
        f"profiles.{same[0]} is the same endpoint and model as one before it: it helps nobody",
        f"remove {same[0]} from fallback",
    )


@needs(config)
def wire(_: Facts, config: Config) -> Finding:
    profile = config.profile
    if (
        profile.base_url is None
        or not profile.base_url.startswith("http://")
        or profile.api_key is None
    ):
        return ok()
    host = profile.base_url.removeprefix("http://").split("/")[0].rsplit(":", 1)[0].strip("[]")
    if host in ("127.0.0.1", "localhost", "::1") or not config.vault.find(profile.api_key):
        return ok()
    return problem(
        f"profiles.{config.profile_name}.base_url: the key goes to {host} unencrypted",
        "write https:// there",
    )


@needs(config)
def budgets(_: Facts, config: Config) -> Finding:
    if all(getattr(config.budgets, key).usd is None for key in KEYS.values()):
        return ok()
    prices = prices_of(config)
    known = manifests(scan)
    for profile in (config.profile, *(profile for _, profile in config.fallback)):
        usual = known[profile.provider].models if profile.provider in known else ()
        for model in profile.models or usual:
            if model != "offline" and price_of(model, prices) is None:
                return problem(
                    f"{model} has no known price, so what it costs counts as nothing and no budget"
                    " in usd stops it",
                    "write its price under pricing: in config.yaml (dollars per million tokens),"
                    " or bound it by tokens: in budgets: instead of usd:",
                )
    return ok()


@needs(config)
def rate(_: Facts, config: Config) -> Finding:
    profiles = {config.profile_name: config.profile, **dict(config.fallback)}
    for name, profile in profiles.items():
        tokens = profile.rate.tokens
        if tokens is not None and tokens < ONE_REQUEST:
            return warning(
                f"profiles.{name}.rate.tokens: {tokens} is less than one request with its longest"
                f" answer takes (about {ONE_REQUEST}): one is asked each minute",
                "write what the provider's plan lets you use in a minute, or null",
            )
        if profile.rate.requests == 1:
            return warning(
                f"profiles.{name}.rate.requests: 1 is less than an answer with one tool takes (2):"
                " it takes a minute or more",
                "write what the provider's plan lets you ask in a minute, or null",
            )
    return ok()


def _live(number: int) -> Check:
    """The active profile (0), or the first that is tried after it (1)."""

    @needs(config)
    def examine(facts: Facts, config: Config) -> Finding:
        chain = [(config.profile_name, config.profile), *config.fallback]
        if number >= len(chain):
            return skipped("no profile is tried after the first")
        trial = asyncio.run(try_model(config, facts.environ, *chain[number], limit=facts.patience))
        if trial.fine:
            return ok(f"{trial.who} answered")
        return problem(f"profiles.{chain[number][0]}: {trial.text}", trial.next)

    name = ("model.answers", "model.fallback")[number]
    return Check(
        name, ("the model answers", "the next profile answers")[number], examine, live=True
    )


CHECKS = (
    Check("model.key", "there is a way to a model", key),
    Check("model.chain", "the fallback is another one", chain),
    Check("model.budgets", "budgets can be kept", budgets),
    Check("model.rate", "a question fits into the rate limit", rate),
    Check("model.wire", "the key travels encrypted", wire),
    _live(0),
    _live(1),
)
