"""The wire to Discord: discord.py's calls, each made once, and the place that turns their failures
into ours. Its gateway: client_line.py."""

from __future__ import annotations

import asyncio
import contextlib
import json
import logging
import time
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar, cast
from urllib.parse import urlsplit

import aiohttp
import discord
from discord.gateway import DiscordClientWebSocketResponse
from discord.http import HTTPClient, MultipartParameters, Route

from channels.discord.client_line import (
    Line,
    Lost,
    Pace,
    Refused,
    answered,
    object_of,
    seconds,
    settled,
)
from channels.errors import NotReady, RateLimited, Rejected
from channels.no_retry import NoRetry
from channels.platform_calls import proxy_for, save

Body = dict[str, Any]
Result = TypeVar("Result")

# The SDK writes whole bodies on its lower levels, and "Attempting a reconnect" with a traceback on
# its higher ones.
logging.getLogger("discord").setLevel(logging.CRITICAL)

_UNSAID = (aiohttp.ClientError, TimeoutError, OSError)
_CANNOT_CONNECT = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientProxyConnectionError,
)
INTENTS = discord.Intents(
    guilds=True,
    guild_messages=True,
    dm_messages=True,
    guild_reactions=True,
    dm_reactions=True,
    message_content=True,
)
_LOOPBACK = frozenset({"127.0.0.1", "localhost", "::1"})
_HOSTS = (".discordapp.com", ".discordapp.net", ".discord.com")  # of files


class _Rest(HTTPClient):
    """The SDK's calls, each tried once: the SDK itself repeats some by itself and sleeps through
    rate limits, which the house must see."""

    def __init__(
        self, session: aiohttp.ClientSession, token: str, api_url: str, pace: Pace
    ) -> None:
        super().__init__(asyncio.get_running_loop())
        self.token = token
        self._http = session
        self._api_url = api_url
        self._pace = pace
        self._resting: dict[str, float] = {}  # bucket -> when it may be used again

    async def ws_connect(self, url: str, *, compress: int = 0) -> aiohttp.ClientWebSocketResponse:
        timeout = aiohttp.ClientWSTimeout(ws_close=2.0)  # pyright: ignore[reportCallIssue] - an attrs class
        headers = {"User-Agent": self.user_agent}
        return await self._http.ws_connect(
            url,
            max_msg_size=0,
            timeout=timeout,
            autoclose=False,
            headers=headers,
            compress=compress,
        )

    async def request(
        self, route: Route, *, files: Any = None, form: Any = None, **options: Any
    ) -> Any:
        """Raises AuthFailed, RateLimited, Refused; Lost when nobody knows what became of it;
        NotReady when nothing was sent."""
        bucket = f"{route.key}:{route.major_parameters}"
        rest = max(self._resting.get(bucket, 0.0), self._resting.get("", 0.0)) - time.monotonic()
        if rest > 0:
            raise RateLimited(rest)
        headers = {"User-Agent": self.user_agent, "Authorization": f"Bot {self.token}"}
        body = options.pop("json", None)
        options.pop("reason", None)
        if body is not None:
            headers["Content-Type"] = "application/json"
            options["data"] = json.dumps(body, separators=(",", ":")).encode()
        if form is not None:
            options["data"] = data = aiohttp.FormData(quote_fields=False)
            for part in form:
                data.add_field(**part)
        seconds = self._pace.upload if files else self._pace.call
        timeout = aiohttp.ClientTimeout(total=seconds, sock_connect=self._pace.connect)
        # The SDK's base address is one for the whole process.
        url = self._api_url + route.url.removeprefix(Route.BASE)
        try:
            async with self._http.request(
                route.method, url, headers=headers, timeout=timeout, **options
            ) as response:
                content = await response.read()
        except _CANNOT_CONNECT as error:
            raise NotReady(f"Discord: {route.key}: cannot connect: {error}") from error
        except _UNSAID as error:
            raise Lost(
                f"Discord: {route.key}: no answer: {str(error) or type(error).__name__}"
            ) from error
        return self._answer(route.key, bucket, response, content)

    def _answer(
        self, call: str, bucket: str, response: aiohttp.ClientResponse, content: bytes
    ) -> Any:
        """Rate limits: an exhausted bucket is left alone until it is full again; a limit for all
        calls rests them all."""
        rest = seconds(response.headers, "X-RateLimit-Reset-After")
        if response.headers.get("X-RateLimit-Remaining") == "0" and rest is not None:
            self._resting[bucket] = time.monotonic() + rest
        try:
            return answered(call, response.status, dict(response.headers), content)
        except RateLimited as limited:
            scope = response.headers.get("X-RateLimit-Scope")
            if response.headers.get("X-RateLimit-Global") or scope == "global":
                self._resting[""] = time.monotonic() + limited.retry_after
            raise  # of one place: whoever asked keeps away from it
        finally:
            if len(self._resting) > 500:
                now = time.monotonic()
                later = {name: until for name, until in self._resting.items() if until > now}
                self._resting = later

    async def close(self) -> None:
        """The session is opened and closed by Wire.open()."""


class Wire:
    """REST and gateway of one bot. Every failure is a ChannelError; nothing is repeated here but
    reads, which wait for their rate limit."""

    def __init__(self, token: str, api_url: str, pace: Pace) -> None:
        self.pace = pace
        self._token = token
        self._api_url = api_url
        self._http: _Rest | None = None
        self._session: aiohttp.ClientSession | None = None
        self._client: discord.Client | None = None
        self._identified = -pace.identify  # monotonic

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        connector = aiohttp.TCPConnector(limit=32, keepalive_timeout=60)
        async with aiohttp.ClientSession(
            connector=connector,
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=proxy_for(self._api_url),
            ws_response_class=DiscordClientWebSocketResponse,
            middlewares=(NoRetry(),),
        ) as session:
            client = discord.Client(
                intents=INTENTS,
                max_messages=None,
                member_cache_flags=discord.MemberCacheFlags.none(),
                chunk_guilds_at_startup=False,
            )
            async with client:  # gives the SDK its loop
                self._session, self._client = session, client
                self._http = client.http = _Rest(session, self._token, self._api_url, self.pace)
                try:
                    yield
                finally:
                    self._session = self._client = self._http = None

    @property
    def http(self) -> HTTPClient:
        if self._http is None:
            raise NotReady("Discord: not connected")
        return self._http

    # gateway

    async def gateway(self) -> str:
        """Get Gateway Bot: where to connect. Raises NotReady when Discord allows no more sessions
        today."""
        try:
            answer = await self.read(lambda http: http.request(Route("GET", "/gateway/bot")))
        except Refused as refused:
            if refused.status != 404:
                raise
            answer = await self.read(lambda http: http.request(Route("GET", "/gateway")))
        limit = object_of(object_of(answer).get("session_start_limit"))
        if limit.get("remaining") == 0:
            minutes = float(limit.get("reset_after") or 0) / 60_000
            raise NotReady(f"Discord: no gateway session is left for {minutes:.0f} minutes")
        url = object_of(answer).get("url")
        if not isinstance(url, str) or not url.startswith(("ws://", "wss://")):
            raise NotReady("Discord: Get Gateway Bot gave no address")
        return url

    async def dial(self, gateway: str, resume: tuple[str, int] | None = None) -> Line:
        """A new connection; whoever dials closes it. ``resume``: session and number of its last
        event. Raises NotReady, AuthFailed."""
        if self._client is None:
            raise NotReady("Discord: not connected")
        if resume is None:
            # Get Gateway Bot, max_concurrency: one in five seconds, else the new session is refused
            # and counts all the same.
            await asyncio.sleep(self._identified + self.pace.identify - time.monotonic())
        line = Line()
        try:
            await line.open(self._client, gateway, resume, self.pace)
            if resume is None:
                await line.ready(self.pace.hello)
        except BaseException:
            await line.close()
            raise
        finally:
            if resume is None and line.begun:
                self._identified = time.monotonic()
        return line

    # REST

    async def read(self, call: Callable[[HTTPClient], Coroutine[Any, Any, Result]]) -> Result:
        """A call without effect, or one whose repeat is harmless; a rate limit is waited for."""
        while True:
            try:
                return await settled(call(self.http), once=False)
            except RateLimited as limited:
                if limited.retry_after > 300:
                    raise
                await asyncio.sleep(limited.retry_after)

    async def write(
        self, call: Callable[[HTTPClient], Coroutine[Any, Any, Result]], *, once: bool = False
    ) -> Result:
        """``once``: a second identical call may show a second message, so an unknown outcome is
        Ambiguous instead of NotReady."""
        return await settled(call(self.http), once=once)

    async def user(self) -> Body:
        """Get Current User. Raises AuthFailed."""
        return object_of(await self.read(lambda http: http.request(Route("GET", "/users/@me"))))

    async def post(self, channel: str, body: Body, paths: Sequence[Path] = ()) -> Body:
        """Create Message; with files as multipart/form-data (Reference, "Uploading files")."""
        files: list[discord.File] = []
        form: list[dict[str, Any]] = [{"name": "payload_json", "value": json.dumps(body)}]
        with contextlib.ExitStack() as opened:
            for index, path in enumerate(paths):
                try:
                    file = discord.File(path, filename=path.name)
                except OSError as error:
                    raise Rejected(f"Discord: {path} cannot be read: {error.strerror}") from error
                opened.callback(file.close)
                files.append(file)
                form.append(
                    {
                        "name": f"files[{index}]",
                        "value": file.fp,
                        "filename": file.filename,
                        "content_type": "application/octet-stream",
                    }
                )
            params = MultipartParameters(
                payload=body, multipart=form if files else None, files=files or None
            )
            message = await self.write(
                lambda http: http.send_message(channel, params=params), once=True
            )
        return object_of(message)

    async def application(self) -> str:
        """The app's id: Get Current Bot Application Information."""
        route = Route("GET", "/oauth2/applications/@me")
        application = await self.write(lambda http: http.request(route))
        return str(object_of(application)["id"])

    async def edit(self, channel: str, message: str, body: Body) -> None:
        params = MultipartParameters(payload=body, multipart=None, files=None)
        await self.write(lambda http: http.edit_message(channel, message, params=params))

    async def call(self, method: str, path: str, body: object = None, **parameters: str) -> Any:
        """A call the SDK has no method of its own for, or hides behind its models; its repeat is
        harmless."""
        options: Body = {} if body is None else {"json": body}
        return await self.write(
            lambda http: http.request(Route(method, path, **parameters), **options)
        )

    async def channel(self, number: str) -> Body:
        """Get Channel. Raises Refused."""
        return object_of(await self.read(lambda http: http.get_channel(number)))

    async def message(self, channel: str, number: str) -> Body:
        """Get Channel Message. Raises Refused."""
        return object_of(await self.read(lambda http: http.get_message(channel, number)))

    async def history(
        self, channel: str, *, after: int | None = None, before: int | None = None, limit: int = 100
    ) -> list[Body]:
        """Get Channel Messages: at most 100 rows."""
        rows: Any = await self.read(
            lambda http: http.logs_from(channel, limit, before=before, after=after)
        )
        if not isinstance(rows, list):
            return []
        messages = map(object_of, cast("list[object]", rows))
        return [message for message in messages if message.get("id")]

    async def download(self, url: str, path: Path, limit: int) -> bool:
        """The bytes of an attachment into ``path``; False when its address has expired. The token
        stays here."""
        if not self._is_discord(url):
            raise Rejected(
                f"Discord: the file is not on Discord's hosts ({urlsplit(url).hostname})"
            )
        if self._session is None:
            raise NotReady("Discord: not connected")
        timeout = aiohttp.ClientTimeout(
            total=self.pace.upload, sock_connect=self.pace.connect, sock_read=self.pace.call
        )
        try:
            async with self._session.get(url, timeout=timeout, allow_redirects=False) as response:
                if response.status in {401, 403, 404, 410}:
                    return False
                if response.status == 429:
                    raise RateLimited(seconds(response.headers, "Retry-After") or 5.0)
                if response.status != 200:
                    raise NotReady(
                        f"Discord: the file could not be fetched: HTTP {response.status}"
                    )
                await save("Discord", response.content.iter_chunked(1 << 16), path, limit)
                return True
        except (aiohttp.ClientError, TimeoutError) as error:
            raise NotReady(
                f"Discord: the file could not be fetched: {type(error).__name__}"
            ) from error

    def _is_discord(self, url: str) -> bool:
        """Or the server that stands in for it: one on this machine may keep its files behind
        another port."""
        parts = urlsplit(url)
        ours = urlsplit(self._api_url)
        host = parts.hostname or ""
        if (parts.scheme, parts.netloc) == (ours.scheme, ours.netloc):
            return True
        if host in _LOOPBACK and ours.hostname in _LOOPBACK:
            return True
        return parts.scheme == "https" and host.endswith(_HOSTS)
