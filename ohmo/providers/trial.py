"""One real question to a model, and what its failure means in the owner's words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from channels.record import record
from ohmo.config.load import Config
from ohmo.config.models import Profile
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
from ohmo.contracts.provider import ModelRequest, Reply, Section
from ohmo.discovery import load, scan
from ohmo.lifecycle import within
from ohmo.providers import build
from ohmo.providers.build import endpoint_of
from ohmo.providers.middleware import unprefixed
from ohmo.providers.model_list import in_words, offered
from ohmo.providers.streams import streaming


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
        wanted, known = endpoint_of(name, profile, config), build.manifests(scan)
        model = await build.model([wanted], known, load, environ)
    except ConfigError as error:
        return Trial(False, profile.provider, str(error), "ohmo config edit")
    who = f"{model.provider.name} {model.model}"
    if model.model == "offline":
        return Trial(True, "the offline provider", offline=True)
    request = ModelRequest(
        model.model,
        (Section("base", "You are a health check. Answer with one word."),),
        (),
        (UserStep((Text("Say: ready"),), "doctor", "notice"),),
        64,
        None,
        "check",
    )
    try:
        said = await within(limit, _ask(model, request))
    except (ProviderError, TimeoutError) as error:
        there = ()
        if isinstance(error, NoSuchModel | NotAllowed) and wanted.provider in known:
            there = await offered(build.settled(wanted, known, environ))
        return _explained(who, model.model, error, limit, there)
    finally:
        await model.aclose()
    if said:
        return Trial(True, who)
    return Trial(
        False,
        who,
        f"{who} answered with nothing",
        "try another model of the endpoint, or raise its output limit; weak models do this at"
        " times",
    )


async def _ask(model: build.Model, request: ModelRequest) -> bool:
    said = False
    async with streaming(
        unprefixed(model.parts[0].stream), request
    ) as events:  # the bare endpoint: a chain would wait and try again
        async for event in events:
            if isinstance(event, Reply):
                said = any(
                    isinstance(block, Text) and block.text.strip() for block in event.step.blocks
                )
    return said


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
