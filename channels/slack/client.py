"""The wire to Slack: its Web API and the live feed, and what their failures mean to us."""

# slack_sdk is annotated in part only: its responses, bodies and listeners are untyped.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false
# pyright: reportMissingTypeArgument=false, reportUnknownParameterType=false

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Any, cast
from urllib.parse import urljoin, urlsplit

import aiohttp
from slack_sdk.web.async_client import AsyncWebClient
from slack_sdk.web.internal_utils import get_user_agent

from channels.errors import Ambiguous, AuthFailed, ChannelError, NotReady, RateLimited, Rejected
from channels.payloads import soft
from channels.platform_calls import proxy_for, save
from channels.slack.client_socket import Frame, Line, Pace

Body = dict[str, Any]
_JSON = "application/json;charset=utf-8"
_FORM = "application/x-www-form-urlencoded"
_CANNOT_CONNECT = (
    aiohttp.ClientConnectorError,
    aiohttp.ConnectionTimeoutError,
    aiohttp.ClientProxyConnectionError,
)

# A level of its own: with an unset level the SDK formats every body for a debug line that nobody
# reads.
_sdk_log = logging.getLogger("channels.slack.sdk")
_sdk_log.setLevel(logging.ERROR)

# Slack Web API, "Common errors" of every method page.
_AUTH = frozenset(
    {
        "invalid_auth",
        "not_authed",
        "account_inactive",
        "token_revoked",
        "token_expired",
        "org_login_required",
        "not_allowed_token_type",
        "team_access_not_granted",
        "access_denied",
        "app_not_installed",
        "invalid_app_id",
    }
)
_LATER = frozenset(
    {"service_unavailable", "request_timeout", "team_added_to_org", "accesslimited"}
)  # nothing was carried out
_PERHAPS = frozenset(
    {"fatal_error", "internal_error"}
)  # "some aspect of the operation may have succeeded"


class Refused(Rejected):
    """Slack said no; ``word`` is its own name for the reason."""

    def __init__(self, method: str, word: str, advice: str = "") -> None:
        super().__init__(f"Slack: {method}: {word}{advice}")
        self.word = word


class Feed:
    """The live side: at least one line, renewed without a gap when Slack asks for it."""

    def __init__(self, wire: Wire) -> None:
        self._wire = wire
        self._frames: asyncio.Queue[Frame] = (
            asyncio.Queue()
        )  # Slack itself holds back: nothing unacknowledged piles up without end
        self._lines: list[Line] = []  # the last one is current, others retire
        self.heard = False  # whether the last take() brought any sign of life

    async def renew(self) -> None:
        """A new line beside the old one, which Slack closes itself ("refresh_requested",
        "warning"). Raises ChannelError."""
        line = Line(self._wire.web, await self._wire.ticket(), self._wire.pace, self._frames)
        self._lines.append(line)
        await line.open()

    def is_current(self, line: Line) -> bool:
        return line is self._lines[-1]

    async def take(self) -> list[Frame]:
        """All frames that are there, in order, waiting a second for the first. Raises NotReady when
        the current line is gone."""
        frames: list[Frame] = []
        try:
            async with asyncio.timeout(1.0):
                frames.append(await self._frames.get())
        except TimeoutError:
            self.heard = await self._lines[-1].alive()
        else:
            self.heard = True
        while not self._frames.empty():
            frames.append(self._frames.get_nowait())
        for frame in [frame for frame in frames if frame.kind == "over"]:
            if self.is_current(frame.line) and len(frames) == 1:
                raise NotReady("Slack: the Socket Mode connection was lost")
            if self.is_current(frame.line):  # first what it still said; then its end once more
                self._frames.put_nowait(frame)
            else:
                await frame.line.close()
                self._lines.remove(frame.line)
            frames.remove(frame)
        return frames

    async def close(self) -> None:
        for line in self._lines:
            await line.close()


class Wire:
    """Web API and sockets of one app in one workspace. Every failure is a ChannelError; nothing is
    repeated here."""

    def __init__(self, bot_token: str, app_token: str, api_url: str, pace: Pace) -> None:
        self.pace = pace
        self._bot_token = bot_token
        self._app_token = app_token
        self._api_url = api_url
        self._ticket: tuple[str, float] | None = None
        self._session: aiohttp.ClientSession | None = None
        self._web: AsyncWebClient | None = None
        self._proxy: str | None = None
        self._agent = get_user_agent()

    @property
    def web(self) -> AsyncWebClient:
        if self._web is None:
            raise NotReady("Slack: not connected")
        return self._web

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        """One HTTP session for the life of the connection; the SDK would open one per call."""
        timeout = aiohttp.ClientTimeout(total=self.pace.call, sock_connect=self.pace.connect)
        cookies = aiohttp.DummyCookieJar()
        async with aiohttp.ClientSession(timeout=timeout, cookie_jar=cookies) as session:
            # For the sockets only: as its own calls would be made, ours are, without what nobody
            # reads of them; and it would repeat a post whose answer was lost: two messages.
            self._web = AsyncWebClient(session=session, retry_handlers=[], logger=_sdk_log)
            self._proxy = proxy_for(self._api_url)
            self._session = session
            try:
                yield
            finally:
                self._web = self._session = self._ticket = None

    async def prove(self) -> Body:
        """Both tokens: auth.test, and a ticket that the first line then uses. Raises AuthFailed,
        NotReady, RateLimited."""
        identity = await self.read("auth.test")
        self._ticket = (await self._new_ticket(), time.monotonic())
        return identity

    async def ticket(self) -> str:
        """A Socket Mode address; each serves once and for about half a minute
        (apps.connections.open)."""
        ticket, self._ticket = self._ticket, None
        if ticket is not None and time.monotonic() - ticket[1] < 10:
            return ticket[0]
        return await self._new_ticket()

    async def _new_ticket(self) -> str:
        method = "apps.connections.open"
        answer = await self._call(method, once=False, token=self._app_token)
        return need(method, answer, "url")

    @asynccontextmanager
    async def feed(self) -> AsyncGenerator[Feed]:
        feed = Feed(self)
        try:
            await feed.renew()
            yield feed
        finally:
            await feed.close()

    async def read(self, method: str, **arguments: str | int | bool) -> Body:
        """A call without effect, or one whose repeat is harmless, with form arguments (reading
        methods take no JSON)."""
        return await self._call(
            method,
            once=False,
            query={
                name: int(value) if isinstance(value, bool) else value
                for name, value in arguments.items()
                if value != ""
            },
        )

    async def name_of(self, user: str) -> str:
        """users.info; "" when it tells none."""
        person = soft(await self.read("users.info", user=user), "user")
        profile = soft(person, "profile")
        names = (profile.get("display_name"), profile.get("real_name"), person.get("name"))
        return next((name for name in names if isinstance(name, str) and name), "")

    async def write(self, method: str, body: Body, *, once: bool) -> Body:
        """``once``: a second identical call would show a second message, so an unknown outcome is
        Ambiguous instead of NotReady."""
        return await self._call(method, once=once, body=body)

    async def _call(
        self,
        method: str,
        *,
        once: bool,
        query: Body | None = None,
        body: Body | None = None,
        token: str = "",
    ) -> Body:
        """Web API, "Calling methods", as the SDK does it. ``token``: another than the bot's."""
        headers = {
            "Authorization": f"Bearer {token or self._bot_token}",
            "Content-Type": _JSON if body is not None else _FORM,
            "User-Agent": self._agent,
        }
        try:
            async with self._http().post(
                urljoin(self._api_url, method),
                params=query,
                data=None if body is None else json.dumps(body).encode(),
                headers=headers,
                proxy=self._proxy,
            ) as response:
                content = await response.read()
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise failure(method, error, once=once) from error
        try:
            answer = json.loads(content)
        except (ValueError, RecursionError):
            answer = None
        told = cast("Body", answer) if isinstance(answer, dict) else {}
        if response.status == HTTPStatus.OK and told.get("ok"):
            return told
        raise _refusal(method, response.status, response.headers, told, once=once)

    async def respond(self, url: str, body: Body) -> None:
        """A ``response_url`` (Handling user interaction, "Message responses"): takes messages
        without a token. Raises Ambiguous when it may be shown."""
        try:
            async with self._http().post(url, json=body, proxy=proxy_for(url)) as response:
                if response.status != HTTPStatus.OK:
                    raise _refusal("response_url", response.status, response.headers, once=True)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise failure("response_url", error, once=True) from error

    async def put(self, url: str, path: Path) -> None:
        """files.getUploadURLExternal, "Upload the file": the bytes go by POST to the given
        address."""
        try:
            with path.open("rb") as content:
                async with self._http().post(
                    url, data=content, proxy=proxy_for(url), timeout=self._long()
                ) as response:
                    if response.status != HTTPStatus.OK:
                        raise _refusal("file upload", response.status, response.headers, once=False)
        except (aiohttp.ClientError, TimeoutError) as error:
            raise failure("file upload", error, once=False) from error
        except OSError as error:
            raise Rejected(f"Slack: {path} cannot be read: {error.strerror}") from error

    async def get(self, url: str, path: Path, limit: int) -> str:
        """The bytes of a file into ``path``; its media type. Working with files: url_private wants
        the bot token as bearer.

        Raises Rejected for more than ``limit`` bytes, a foreign host, or a sign-in page instead of
        the file."""
        if not self._is_slack(url):
            raise Rejected(
                f"Slack: the file is not on Slack's hosts ({urlsplit(url).hostname}): the token"
                " stays here"
            )
        headers = {"Authorization": f"Bearer {self._bot_token}"}
        try:
            async with self._http().get(
                url,
                headers=headers,
                proxy=proxy_for(url),
                allow_redirects=False,
                timeout=self._long(),
            ) as response:
                if response.status in {301, 302, 303, 307, 308}:
                    raise Rejected(
                        "Slack: the file is not readable: give the app the scope files:read and"
                        " install it again"
                    )
                if response.status != HTTPStatus.OK:
                    raise _refusal("file download", response.status, response.headers, once=False)
                await save("Slack", response.content.iter_chunked(1 << 16), path, limit)
                return response.content_type
        except (aiohttp.ClientError, TimeoutError) as error:
            raise failure("file download", error, once=False) from error

    def _http(self) -> aiohttp.ClientSession:
        if self._session is None:
            raise NotReady("Slack: not connected")
        return self._session

    def _long(self) -> aiohttp.ClientTimeout:
        return aiohttp.ClientTimeout(
            total=self.pace.upload, sock_connect=self.pace.connect, sock_read=self.pace.call
        )

    def _is_slack(self, url: str) -> bool:
        parts, ours = urlsplit(url), urlsplit(self._api_url)
        if (parts.scheme, parts.netloc) == (ours.scheme, ours.netloc):
            return True
        host = parts.hostname or ""
        return parts.scheme == "https" and host.endswith(
            (".slack.com", ".slack-files.com", ".slack-edge.com")
        )


def need(method: str, body: Body, name: str, *, once: bool = False) -> str:
    """A field without which an ``ok`` answer says nothing."""
    value = body.get(name)
    if not isinstance(value, str) or not value:
        raise (Ambiguous if once else NotReady)(f"Slack: {method}: answered without {name}")
    return value


def failure(method: str, error: Exception, *, once: bool) -> ChannelError:
    """What the house is told. ``once``: the call may have shown something, and a second one would
    show it twice."""
    if isinstance(error, _CANNOT_CONNECT):
        return NotReady(f"Slack: {method}: cannot connect: {error}")
    unknown = Ambiguous if once else NotReady
    return unknown(f"Slack: {method}: no answer: {str(error) or type(error).__name__}")


def _refusal(
    method: str, status: int, headers: Mapping[str, str], body: Body | None = None, *, once: bool
) -> ChannelError:
    """What an answer means that is not ``ok``; ``once`` as for ``failure``."""
    unknown = Ambiguous if once else NotReady
    body = body or {}
    word = str(body.get("error") or "")
    if word in {"ratelimited", "rate_limited"} or status == HTTPStatus.TOO_MANY_REQUESTS:
        # Rate limits, "Responding to rate limiting conditions": whole seconds
        asked = headers.get("Retry-After", "")
        return RateLimited(float(asked) if asked.replace(".", "", 1).isdecimal() else 30.0)
    if not word or status >= HTTPStatus.INTERNAL_SERVER_ERROR:
        text = f"Slack: {method}: HTTP {status}"
        return Rejected(text) if 400 <= status < 500 else unknown(text)
    if word in _AUTH:
        return AuthFailed(
            f"Slack: {method}: {word}: put a valid token into channels.slack (api.slack.com/apps,"
            " your app)"
        )
    if word in _LATER:
        return NotReady(f"Slack: {method}: {word}")
    if word in _PERHAPS:
        return unknown(f"Slack: {method}: {word}")
    advice = ""
    if word == "missing_scope":
        advice = f": give the app the scope {body.get('needed', '?')} and install it again"
    return Refused(method, word, advice)
