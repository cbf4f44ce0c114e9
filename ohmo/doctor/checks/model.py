"""Whether a model answers."""

from __future__ import annotations

import asyncio

from ohmo.config.load import Config
from ohmo.contracts.spending import KEYS
from ohmo.discovery import scan
from ohmo.doctor.check import Check, Facts, Finding, config, needs, note, ok, problem, skipped
from ohmo.providers.build import manifests, prices_of, try_model
from ohmo.providers.middleware.priced import price_of


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
                    f"budgets in usd cannot hold {model}: nobody knows its price",
                    f"give {model} its price under pricing:, or set tokens: in the budgets",
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
    Check("model.wire", "the key travels encrypted", wire),
    _live(0),
    _live(1),
)
