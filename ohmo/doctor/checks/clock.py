"""The clock of this machine against those of the platforms and of the model's endpoint: the Date
that a web server puts into every answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Sequence
from email.utils import parsedate_to_datetime
from urllib.parse import urlsplit

import aiohttp

from channels.platform_calls import is_loopback, proxy_for
from channels.record import record
from ohmo.config.channels import open_channels
from ohmo.config.load import Config
from ohmo.doctor.check import Check, Facts, Finding, config, needs, ok, problem, skipped

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


@record
class Offset:
    """``seconds`` by which our clock is ahead of ``host``; negative: behind; 0: what the trip and
    the whole seconds of a Date may explain."""

    host: str
    seconds: float


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
    # this machine itself has the same clock: it is asked when there is nobody else
    asked = [url for url in urls if not is_loopback(url)] or list(urls)
    patience = min(PATIENCE, facts.patience)
    offsets = asyncio.run(compare(asked, patience, facts.machine.clock))
    if not offsets:
        return skipped("nobody who could be asked for the time answered")
    least = min(offsets, key=lambda offset: abs(offset.seconds))  # one may be wrong itself
    seconds = abs(least.seconds)
    if seconds <= LIMIT:
        return ok(f"as {least.host} has it")
    length = f"{seconds / 60:.0f} minutes"
    if seconds >= 2 * 3_600:
        length = f"{seconds / 3_600:.0f} hours"
    if seconds >= 2 * 86_400:
        length = f"{seconds / 86_400:.0f} days"
    side = "ahead of" if least.seconds > 0 else "behind"
    hosts = sorted({offset.host for offset in offsets})
    return problem(
        f"the clock of this machine is {length} {side} that of {' and '.join(hosts)}: signed"
        " requests are refused from 5 minutes on, and jobs run at the wrong time",
        _SET,
    )


def _addresses(facts: Facts, config: Config) -> Iterable[str]:
    enabled = [
        channel for channel in config.channels if channel.enabled and channel.name in _ADDRESS
    ]
    for channel in open_channels(enabled, facts.manifests):
        yield str(getattr(channel.settings, _ADDRESS[channel.manifest.name], ""))
    profile = config.profile
    if profile.base_url is not None:
        yield profile.base_url
    for maker, url in _MAKERS.items() if profile.base_url is None else ():
        if profile.provider == maker or (
            profile.provider == "auto" and facts.environ.get(f"{maker.upper()}_API_KEY")
        ):
            yield url


async def compare(
    urls: Sequence[str], limit: float, clock: Callable[[], float] = time.time
) -> list[Offset]:
    """One of each that answers within ``limit`` seconds and says a time. ``clock``: seconds of the
    epoch. Raises nothing."""
    # Nothing is sent and only a time is believed. A certificate counts for nothing here: with a
    # wrong clock every one is out of date.
    connector = aiohttp.TCPConnector(ssl=False)
    timeout = aiohttp.ClientTimeout(total=limit)
    jar = aiohttp.DummyCookieJar()
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, cookie_jar=jar) as http:
        offsets = await asyncio.gather(*(_ask(http, url, clock) for url in urls))
    return [offset for offset in offsets if offset is not None]


async def _ask(http: aiohttp.ClientSession, url: str, clock: Callable[[], float]) -> Offset | None:
    try:
        before = clock()
        async with http.head(url, allow_redirects=False, proxy=proxy_for(url)) as response:
            after = clock()
            headers = response.headers
            host = response.url.host or url
        then = parsedate_to_datetime(headers["Date"]).timestamp()  # RFC 9110, 6.6.1
    except (aiohttp.ClientError, TimeoutError, OSError, KeyError, ValueError, OverflowError):
        return None
    age = headers.get("Age", "")  # of an answer that a cache kept (RFC 9111, 5.1)
    if age.isascii() and age.isdigit() and len(age) < 9:
        then += int(age)
    ahead = before - then
    return Offset(host, ahead - 1 if ahead > 1 else min(0.0, after - then))


CHECKS = (Check("machine.clock", "the clock is right", clock, live=True),)
