"""What time it is elsewhere: the Date that a web server puts into every answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Sequence
from email.utils import parsedate_to_datetime

import aiohttp

from channels.platform_calls import proxy_for
from channels.record import record


@record
class Away:
    """``seconds`` by which our clock is ahead of ``host``; negative: behind; 0: what the trip and
    the whole seconds of a Date may explain."""

    host: str
    seconds: float


async def compare(
    urls: Sequence[str], limit: float, clock: Callable[[], float] = time.time
) -> list[Away]:
    """One of each that answers within ``limit`` seconds and says a time. ``clock``: seconds of the
    epoch. Raises nothing."""
    # Nothing is sent and only a time is believed. A certificate counts for nothing here: with a
    # wrong clock every one is out of date.
    connector = aiohttp.TCPConnector(ssl=False)
    timeout = aiohttp.ClientTimeout(total=limit)
    jar = aiohttp.DummyCookieJar()
    async with aiohttp.ClientSession(connector=connector, timeout=timeout, cookie_jar=jar) as http:
        found = await asyncio.gather(*(_ask(http, url, clock) for url in urls))
    return [one for one in found if one is not None]


async def _ask(http: aiohttp.ClientSession, url: str, clock: Callable[[], float]) -> Away | None:
    try:
        before = clock()
        async with http.head(url, allow_redirects=False, proxy=proxy_for(url)) as response:
            after, headers, host = clock(), response.headers, response.url.host or url
        then = parsedate_to_datetime(headers["Date"]).timestamp()  # RFC 9110, 6.6.1
    except (aiohttp.ClientError, TimeoutError, OSError, KeyError, ValueError, OverflowError):
        return None
    age = headers.get("Age", "")  # of an answer that a cache kept (RFC 9111, 5.1)
    then += int(age) if age.isascii() and age.isdigit() and len(age) < 9 else 0
    return Away(host, before - then - 1 if before - then > 1 else min(0.0, after - then))
