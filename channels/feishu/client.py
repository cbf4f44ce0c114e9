"""The wire to Feishu: lark_oapi's requests, tokens and answers on one HTTP client, and the one
place that turns failures into ours."""

# lark_oapi is annotated in part only, and re-exports by star.
# pyright: reportPrivateUsage=false
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, asynccontextmanager, suppress
from http import HTTPStatus
from pathlib import Path
from typing import Literal, cast

from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientResponse,
    ClientSession,
    ClientTimeout,
    ConnectionTimeoutError,
    FormData,
    InvalidURL,
)

from channels.errors import Ambiguous, AuthFailed, ChannelError, NotReady, RateLimited, Rejected
from channels.feishu.content import rows_of, word
from channels.no_retry import NoRetry
from channels.payloads import Body, soft
from channels.platform_calls import PartialImport, proxy_for, save
from channels.record import record

# The parts that speak: requests and answers, frames, the long connection.
LEAN = PartialImport(
    "lark_oapi",
    {"lark_oapi.event.dispatcher_handler": ("EventDispatcherHandler",)},
    closed=("lark_oapi", "lark_oapi.ws", "lark_oapi.event"),
)
with LEAN:
    import lark_oapi.ws.client as _ws
    from lark_oapi.core.const import AUTHORIZATION, CONTENT_TYPE, USER_AGENT
    from lark_oapi.core.enum import HttpMethod
    from lark_oapi.core.http.transport import _build_url as build_url
    from lark_oapi.core.log import logger
    from lark_oapi.core.model import BaseRequest, Config
    from lark_oapi.core.token.access_token_response import AccessTokenResponse
    from lark_oapi.core.token.create_self_tenant_token_request import CreateSelfTenantTokenRequest
    from lark_oapi.core.utils.user_agent import build_user_agent

# The SDK writes to standard output, addresses with tickets in them included.
logger.handlers.clear()
logger.addHandler(logging.NullHandler())
logger.propagate = False

Verb = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

# Server API, "Generic error codes", and the token page's own. Stale ones are asked again once, with
# a new token.
_STALE = frozenset({99991661, 99991663, 99991664, 99991665, 99991668, 99991671, 99991677})
CREDENTIALS = frozenset({10003, 10012, 10013, 10014, 10015, 99991401, 99991543, 99991662, 99991673})
_SCOPES = frozenset({99991672, 99991679})
# "Rate limits": the gateway's code, those of the message methods, and "the message is being sent"
# (the same uuid is on its way).
SLOW = frozenset({99991400, 230020, 230049, 11232, 11233, 11247, 300120})
_LATER = frozenset({1663, 2200, 55001})  # "internal error": nobody knows what was carried out


@record
class Pace:
    """How long the wire waits, in seconds."""

    call: float = 30.0  # one call as a whole
    connect: float = 10.0  # one TCP connection, and one handshake of the long connection
    # between pings of the long connection, and for the answer to one: a mute line is noticed after
    # two
    ping: float = 10.0
    # between the protocol's own pings, at most; a line that stopped answering them is given up
    # after two
    frames: float = 15.0
    upload: float = 300.0  # the bytes of one file, one way
    early: float = 300.0  # a token is renewed so long before it ends; it lives two hours
    # what was said before a first contact is looked for so much later: what is being said now goes
    # first
    lull: float = 2.0
    # a pressed button waits so long for the house's words; Feishu wants its answer within three
    answer: float = 1.5


@record
class Answer:
    status: int
    headers: Mapping[str, str]
    content: bytes


class Transport:
    """The SDK's headers and addresses on one HTTP client for life. The SDK itself makes a new httpx
    client, and a new TLS context, for every call."""

    def __init__(self, config: Config, pace: Pace) -> None:
        self._config = config
        self._pace = pace
        self._agent = build_user_agent()
        timeout = ClientTimeout(total=pace.call, sock_connect=pace.connect)
        self._session = ClientSession(
            timeout=timeout, proxy=proxy_for(config.domain), middlewares=(NoRetry(),)
        )

    async def close(self) -> None:
        await self._session.close()

    @asynccontextmanager
    async def asked(
        self, request: BaseRequest, token: str | None
    ) -> AsyncGenerator[ClientResponse]:
        """Raises what aiohttp raises, TimeoutError, and OSError for a file that cannot be read."""
        request.headers[USER_AGENT] = self._agent
        if token is not None:
            request.headers[AUTHORIZATION] = f"Bearer {token}"
        assert request.uri is not None
        assert request.http_method is not None
        url = build_url(self._config.domain, request.uri, request.paths)
        # Bytes of files take their time, one way or the other.
        slow = bool(request.files) or "/resources/" in request.uri
        timeout = ClientTimeout(
            total=self._pace.upload if slow else self._pace.call,
            sock_connect=self._pace.connect,
            sock_read=None if request.files else self._pace.call,
        )
        with ExitStack() as stack:
            content: bytes | FormData | None = None
            if request.files:
                content = FormData(cast("Body", request.body))
                files = cast("dict[str, tuple[str, Path]]", request.files)
                for part, (name, path) in files.items():
                    file = stack.enter_context(path.open("rb"))
                    content.add_field(
                        part, file, filename=name, content_type="application/octet-stream"
                    )
            elif request.body is not None:
                text = json.dumps(request.body, ensure_ascii=False)
                content = text.encode("utf-8", "replace")
                request.headers[CONTENT_TYPE] = "application/json; charset=utf-8"
            query = [(name, str(value)) for name, value in request.queries]
            async with self._session.request(
                request.http_method.name,
                url,
                params=query,
                headers=request.headers,
                data=content,
                timeout=timeout,
                allow_redirects=False,
            ) as response:
                yield response


class Refused(Rejected):
    """Feishu said no; ``code`` is its own number for the reason."""

    def __init__(self, method: str, code: int, reason: str, advice: str = "") -> None:
        super().__init__(f"Feishu: {method}: {code} {reason}{advice}")
        self.code = code


class Wire:
    """The open API of one app in one tenant. Every failure is a ChannelError; nothing is repeated
    here but a call whose token was stale."""

    def __init__(self, app_id: str, app_secret: str, domain: str, pace: Pace) -> None:
        self.pace = pace
        self.app = app_id
        self.config = Config()
        self.config.app_id = app_id
        self.config.app_secret = app_secret
        self.config.domain = domain
        self._console = f"Developer Console ({domain}/app/{app_id})"
        self._transport: Transport | None = None
        # monotonic; the SDK's own cache is one for the process and blind to domains and revocations
        self._token = ""
        self._until = 0.0
        self._renewing = asyncio.Lock()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        self._transport = transport = Transport(self.config, self.pace)
        self._token = ""
        self._until = 0.0
        try:
            yield
        finally:
            self._transport = None
            await transport.close()

    async def name_of(self, person: str) -> str:
        """Obtain user information, by open_id; "" when it tells no name."""
        answer = await self.call(
            "GET",
            "/open-apis/contact/v3/users/:user_id",
            paths={"user_id": person},
            query={"user_id_type": "open_id"},
        )
        user = soft(answer, "user")
        return word(user, "name") or word(user, "nickname") or word(user, "en_name")

    async def call(
        self,
        verb: Verb,
        uri: str,
        *,
        paths: Mapping[str, str] | None = None,
        query: Mapping[str, str | int] | None = None,
        body: Body | None = None,
        files: Body | None = None,
        once: bool = False,
    ) -> Body:
        """``data`` of the answer. ``files``: of a multipart call. ``once``: it shows something, so
        an unknown outcome is Ambiguous instead of NotReady."""
        method = _method(uri)
        for last in (False, True):
            token = await self._tenant_token()
            request = request_of(verb, uri, paths, query)
            request.body = body
            request.files = files
            answer = await self.send(method, request, token, once=once)
            if answer.get("code") not in _STALE or last:
                return self._data(method, answer, once=once)
            # It was revoked before its time. Nothing was carried out: asking again shows nothing
            # twice.
            self._token = "" if token == self._token else self._token
        raise AssertionError("unreachable")

    async def upload(self, uri: str, fields: Mapping[str, str], part: str, path: Path) -> Body:
        """A multipart call that nobody sees anything of (Upload image, Upload file). Raises
        OSError, too: the file cannot be read."""
        files = {part: (path.name, path)}
        return await self.call("POST", uri, body=dict(fields), files=files)

    async def download(
        self, uri: str, paths: Mapping[str, str], query: Mapping[str, str], into: Path, limit: int
    ) -> str:
        """The bytes of a resource into ``into``; its media type. Raises Rejected for more than
        ``limit`` bytes."""
        method = _method(uri)
        for last in (False, True):
            token = await self._tenant_token()
            request = request_of("GET", uri, paths, query)
            try:
                async with self._open_transport().asked(request, token) as response:
                    media_type = response.headers.get("content-type", "")
                    if response.status == HTTPStatus.OK and "application/json" not in media_type:
                        await save("Feishu", response.content.iter_chunked(1 << 16), into, limit)
                        return media_type.partition(";")[0].strip()
                    answer = self._judge(method, await _whole(response), once=False)
            except (ClientError, TimeoutError) as error:
                raise failure(method, error, once=False) from error
            except OSError as error:
                raise Rejected(f"Feishu: {into} cannot be written: {error.strerror}") from error
            if answer.get("code") not in _STALE or last:
                self._data(method, answer, once=False)
                raise Rejected(f"Feishu: {method}: no file came back")
            self._token = "" if token == self._token else self._token
        raise AssertionError("unreachable")

    async def _tenant_token(self) -> str:
        """Get custom app's tenant_access_token: two hours long the same; the SDK asks for it by a
        blocking call."""
        if self._token and time.monotonic() < self._until:
            return self._token
        async with self._renewing:
            if self._token and time.monotonic() < self._until:
                return self._token
            request = CreateSelfTenantTokenRequest()
            request.http_method = HttpMethod.POST
            request.uri = "/open-apis/auth/v3/tenant_access_token/internal"
            request.body = {"app_id": self.config.app_id, "app_secret": self.config.app_secret}
            answer = await self.send("tenant_access_token", request, None, once=False)
            made = AccessTokenResponse(answer)
            token = made.tenant_access_token
            if not made.success() or not isinstance(token, str) or not token:
                code = made.code if isinstance(made.code, int) else -1
                if code in _LATER or code == -1 or made.success():
                    raise NotReady(
                        f"Feishu: tenant_access_token: {code} {made.msg}: answered without a token"
                    )
                raise self.no_credentials("tenant_access_token", code, str(made.msg))
            lives = float(made.expire) if isinstance(made.expire, int | float) else 7200.0
            self._token = token
            self._until = time.monotonic() + max(1.0, lives - min(self.pace.early, lives / 2))
            return token

    async def send(
        self, method: str, request: BaseRequest, token: str | None, *, once: bool
    ) -> Body:
        """The answer's JSON, whatever its code; anything else is a failure."""
        wire = self._open_transport()
        try:
            async with wire.asked(request, token) as response:
                answer = await _whole(response)
        except (ClientError, TimeoutError) as error:
            raise failure(method, error, once=once) from error
        except UnicodeEncodeError as error:
            # Half a character in an id that a stranger made up: nothing was sent.
            raise Rejected(f"Feishu: {method}: {error.reason}") from error
        return self._judge(method, answer, once=once)

    def _judge(self, method: str, response: Answer, *, once: bool) -> Body:
        """ "Rate limits": 429, or an older method's 400, with the code 99991400 and
        x-ogw-ratelimit-reset in seconds."""
        try:
            body = json.loads(response.content)
        except (ValueError, RecursionError):
            body = None
        code = cast("Body", body).get("code") if isinstance(body, dict) else None
        if response.status == HTTPStatus.TOO_MANY_REQUESTS or code in SLOW:
            wait = 5.0 if code in {None, 99991400} else 1.0
            with suppress(ValueError):
                wait = float(response.headers.get("x-ogw-ratelimit-reset", wait))
                wait = min(3600.0, max(0.1, wait))
            raise RateLimited(wait)
        if isinstance(code, int) and response.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return cast("Body", body)
        if HTTPStatus.BAD_REQUEST <= response.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            raise Rejected(f"Feishu: {method}: HTTP {response.status}")
        text = f"Feishu: {method}: HTTP {response.status} without an answer that can be read"
        raise Ambiguous(text) if once else NotReady(text)

    def _data(self, method: str, answer: Body, *, once: bool) -> Body:
        code = int(answer["code"])
        reason = word(answer, "msg")
        if code == 0:  # "Obtain bot information" has no data
            return soft(answer, "data") if "data" in answer else answer
        if code in _STALE | CREDENTIALS:
            raise self.no_credentials(method, code, reason)
        if code in _LATER:
            text = f"Feishu: {method}: {code} {reason}"
            raise Ambiguous(text) if once else NotReady(text)
        if code in _SCOPES:
            violations = rows_of(soft(answer, "error"), "permission_violations")
            scopes = ", ".join(filter(None, (word(row, "subject") for row in violations)))
            which = f"one of the scopes {scopes}" if scopes else "the scope it names"
            advice = (
                f": give the app {which} in the {self._console}, Permissions & Scopes, and publish"
                " a version"
            )
            raise Refused(method, code, reason, advice)
        raise Refused(method, code, reason)

    def no_credentials(self, method: str, code: int, reason: str) -> AuthFailed:
        return AuthFailed(
            f"Feishu: {method}: {code} {reason}: put a valid app_id and app_secret into"
            f" channels.feishu ({self._console}, Credentials & Basic Info), and see that the app is"
            " published and its domain is right"
        )

    def _open_transport(self) -> Transport:
        if self._transport is None:
            raise NotReady("Feishu: not connected")
        return self._transport


def live_here() -> None:
    """The SDK starts its receiving task on one loop for the whole process, the one it found while
    it was imported: let it be this one."""
    _ws.loop = asyncio.get_running_loop()


async def _whole(response: ClientResponse) -> Answer:
    return Answer(response.status, response.headers, await response.read())


def failure(method: str, error: ClientError | TimeoutError, *, once: bool) -> ChannelError:
    """What the house is told. ``once``: the call may have shown something."""
    reason = str(error) or type(error).__name__
    if isinstance(error, ClientConnectorError | ConnectionTimeoutError | InvalidURL):
        return NotReady(f"Feishu: {method}: cannot connect: {reason}")
    return (Ambiguous if once else NotReady)(f"Feishu: {method}: no answer: {reason}")


def request_of(
    verb: Verb,
    uri: str,
    paths: Mapping[str, str] | None = None,
    query: Mapping[str, str | int] | None = None,
) -> BaseRequest:
    request = BaseRequest()
    request.http_method = HttpMethod[verb]
    request.uri = uri
    request.paths = dict(paths or {})
    for name, value in (query or {}).items():
        request.add_query(name, value)
    return request


def _method(uri: str) -> str:
    return uri.removeprefix("/open-apis/")
