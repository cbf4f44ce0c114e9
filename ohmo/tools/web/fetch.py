"""One page over HTTP(S): the name is looked up once, every address checked, and the connection made
to a checked address only."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Sequence

import aiohttp
from aiohttp.abc import AbstractResolver, ResolveResult
from yarl import URL

from channels.record import record
from ohmo.tools.results import ToolError
from ohmo.tools.web.addresses import Ip, literal, name_problem

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
Reachable = Callable[[Ip], bool]
_REDIRECTS = frozenset({301, 302, 303, 307, 308})
_MOST_REDIRECTS = 5
_AGENT = "ohmo/0.1 (personal agent)"
_ACCEPT = "text/markdown, text/html;q=0.9, text/plain;q=0.8, application/json;q=0.8, */*;q=0.5"


@record
class Page:
    """What a server answered."""

    url: str
    status: int
    kind: str  # its content type
    charset: str
    body: bytes
    cut: bool = False  # more than the limit came
    elsewhere: str = ""  # a redirect to another host, not followed


def checked_url(text: str) -> URL:
    """An http or https URL of a plain host. Raises ToolError that says what is wrong."""
    cleaned = text.strip()
    if any(ord(char) < 33 or ord(char) == 127 for char in cleaned) or "\\" in cleaned:
        raise ToolError("`url` holds spaces, control characters or backslashes; give a plain URL")
    try:
        url = URL(cleaned)
        host = (url.host or "").casefold()
        port = url.port
    except ValueError as error:
        raise ToolError(f"`url` is no URL: {error}") from error
    if url.scheme not in ("http", "https"):
        raise ToolError("`url` must start with http:// or https://")
    if url.user is not None or url.password is not None:
        raise ToolError("`url` holds a user name or password; leave it out")
    if not host or port is None or port == 0:
        raise ToolError("`url` has no host")
    if "%" in host:
        raise ToolError(f"{host}: it is no host name")
    return url


def url_host(text: str) -> str:
    """The host for rules, in the spelling the connection uses. Raises ToolError."""
    url = checked_url(text)
    return (url.raw_host or "").casefold().rstrip(".")


class _Checked(AbstractResolver):
    """Answers aiohttp's look-up with checked addresses; several answers are all or nothing."""

    def __init__(self, resolver: Resolver, reachable: Reachable) -> None:
        self._resolver = resolver
        self._reachable = reachable

    async def resolve(
        self,
        host: str,
        port: int = 0,
        family: socket.AddressFamily = socket.AF_INET,  # noqa: ARG002
    ) -> list[ResolveResult]:
        addresses = await self._resolver(host, port)
        results: list[ResolveResult] = []
        for address in addresses:
            ip = literal(address)
            if ip is None or not self._reachable(ip):
                raise ToolError(f"{host} leads to {address}, which is not on the public internet")
            kind = socket.AF_INET if ip.version == 4 else socket.AF_INET6
            results.append(
                ResolveResult(
                    hostname=host,
                    host=str(ip),
                    port=port,
                    family=kind,
                    proto=0,
                    flags=socket.AI_NUMERICHOST,
                )
            )
        if not results:
            raise OSError(f"{host} has no address")
        return results

    async def close(self) -> None:
        return


class Fetcher:
    """``seconds`` for the whole fetch with all its redirects, ``most`` bytes of body."""

    def __init__(
        self, resolver: Resolver, reachable: Reachable, *, seconds: float, most: int
    ) -> None:
        self._resolver = resolver
        self._reachable = reachable
        self._seconds = seconds
        self._most = most

    async def get(self, text: str) -> Page:
        """Raises ToolError with one line for everything that can go wrong."""
        url = checked_url(text)
        try:
            async with asyncio.timeout(self._seconds):
                return await self._follow(url)
        except TimeoutError as error:
            raise ToolError(f"{url.host} did not answer within {self._seconds:.0f} s") from error
        except aiohttp.ClientError as error:
            cause = error.__cause__ or error
            raise ToolError(f"{url.host}: {_words(cause)}") from error
        except (OSError, ValueError) as error:
            raise ToolError(f"{url.host}: {_words(error)}") from error

    def _check(self, url: URL) -> None:
        host = (url.raw_host or "").casefold()
        ip = literal(host)
        if ip is not None:
            if not self._reachable(ip):
                raise ToolError(f"{host} is not on the public internet")
            return
        problem = name_problem(host)
        if problem:
            raise ToolError(f"{host}: {problem}")

    async def _follow(self, url: URL) -> Page:
        connector = aiohttp.TCPConnector(
            resolver=_Checked(self._resolver, self._reachable),
            use_dns_cache=False,
            force_close=True,
        )
        async with aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            trust_env=False,
            auto_decompress=True,
        ) as session:
            start = url
            for _ in range(_MOST_REDIRECTS + 1):
                self._check(url)
                async with session.get(
                    url, allow_redirects=False, headers={"User-Agent": _AGENT, "Accept": _ACCEPT}
                ) as answer:
                    if answer.status in _REDIRECTS and "Location" in answer.headers:
                        target = checked_url(str(url.join(URL(answer.headers["Location"]))))
                        if _site(target) != _site(start):
                            self._check(target)
                            return Page(str(url), answer.status, "", "", b"", elsewhere=str(target))
                        url = target
                        continue
                    return await self._page(url, answer)
        raise ToolError(f"{start.host} redirects more than {_MOST_REDIRECTS} times")

    async def _page(self, url: URL, answer: aiohttp.ClientResponse) -> Page:
        body = bytearray()
        cut = False
        async for chunk in answer.content.iter_chunked(1 << 16):
            body += chunk
            if len(body) > self._most:
                cut = True
                del body[self._most :]
                break
        return Page(
            str(url), answer.status, answer.content_type, answer.charset or "", bytes(body), cut
        )


def _site(url: URL) -> tuple[str, int | None]:
    """Where a redirect may lead by itself: the same host, with or without www, also from http to
    https."""
    host = (url.raw_host or "").casefold().removeprefix("www.")
    return host, None if url.port in (80, 443) else url.port


def _words(error: BaseException) -> str:
    return str(error).split("\n", maxsplit=1)[0] or type(error).__name__
