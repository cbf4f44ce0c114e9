"""The clock of this machine against those of the platforms and of the model's endpoint."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import TYPE_CHECKING, Any, cast
from urllib.parse import urlsplit

from channels.platform_calls import is_loopback
from ohmo.config.channels import open_channels
from ohmo.config.load import Config
from ohmo.discovery import load
from ohmo.doctor.check import Check, Facts, Finding, config, needs, ok, problem, skipped

if TYPE_CHECKING:
    from ohmo.doctor.dates import Away

LIMIT = 120.0  # seconds; signed requests of Slack and of webhooks are refused from 300 on
PATIENCE = 10.0  # seconds
_ADDRESS = {
    "slack": "api_url",
    "discord": "api_url",
    "telegram": "api_url",
    "feishu": "domain",
    "matrix": "homeserver",
}
_MAKERS = {"anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com"}
_SET = (
    "set the clock right: timedatectl set-ntp true; in a container or a virtual machine on its"
    " host; under WSL: wsl --shutdown"
)


@needs(config)
def clock(facts: Facts, config: Config) -> Finding:
    urls: dict[str, None] = {}  # each once, in this order
    for address in map(urlsplit, _addresses(facts, config)):
        if address.hostname:
            urls[f"{address.scheme}://{address.netloc.rpartition('@')[2]}/"] = None
    if not urls:
        return skipped(
            "no platform and no model's endpoint is configured that could be asked for the time"
        )
    ask = cast(
        "Callable[..., Coroutine[Any, Any, Sequence[Away]]]", load("ohmo.doctor.dates:compare")
    )
    # this machine itself has the same clock: it is asked when there is nobody else
    asked = [url for url in urls if not is_loopback(url)] or list(urls)
    found = asyncio.run(ask(asked, min(PATIENCE, facts.patience), facts.machine.clock))
    if not found:
        return skipped("nobody who could be asked for the time answered")
    least = min(found, key=lambda one: abs(one.seconds))  # one of them may be wrong itself
    if abs(least.seconds) <= LIMIT:
        return ok(f"as {least.host} has it")
    side = "ahead of" if least.seconds > 0 else "behind"
    text = (
        f"the clock of this machine is {_length(abs(least.seconds))} {side} that of"
        f" {' and '.join(sorted({one.host for one in found}))}"
    )
    return problem(
        f"{text}: signed requests are refused from 5 minutes on, and jobs run at the wrong time",
        _SET,
    )


def _addresses(facts: Facts, config: Config) -> Iterable[str]:
    enabled = [
        channel for channel in config.channels if channel.enabled and channel.name in _ADDRESS
    ]
    for one in open_channels(enabled, facts.manifests):
        yield str(getattr(one.settings, _ADDRESS[one.manifest.name], ""))
    profile = config.profile
    if profile.base_url is not None:
        yield profile.base_url
    for maker, url in _MAKERS.items() if profile.base_url is None else ():
        if profile.provider == maker or (
            profile.provider == "auto" and facts.environ.get(f"{maker.upper()}_API_KEY")
        ):
            yield url


def _length(seconds: float) -> str:
    unit, size = next(
        (one for one in (("days", 86_400), ("hours", 3_600)) if seconds >= 2 * one[1]),
        ("minutes", 60),
    )
    return f"{seconds / size:.0f} {unit}"


CHECKS = (Check("machine.clock", "the clock is right", clock, live=True),)
