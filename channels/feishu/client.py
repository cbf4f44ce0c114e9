"""The wire to Feishu: lark_oapi's requests, tokens and answers on one HTTP client, and the one
place that turns failures into ours."""

# lark_oapi is annotated in part only.
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
import json
import logging
import time
from collections.abc import AsyncGenerator, Mapping
from contextlib import asynccontextmanager
from http import HTTPStatus
from pathlib import Path
from typing import Literal, cast

from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientResponse,
    ConnectionTimeoutError,
    InvalidURL,
)

from channels.errors import Ambiguous, AuthFailed, ChannelError, NotReady, RateLimited, Rejected
from channels.feishu import client_sdk as sdk
from channels.feishu.client_sdk import Answer, Pace, Transport
from channels.feishu.content import rows_of, word
from channels.payloads import Body, soft
from channels.platform_calls import save

# The SDK writes to standard output, addresses with tickets in them included.
sdk.logger.handlers.clear()
sdk.logger.addHandler(logging.NullHandler())
sdk.logger.propagate = False

Verb = Literal["GET", "POST", "PUT", "PATCH", "DELETE"]

# Server API, "Generic error codes", and the token page's own. Stale ones are asked again once, with
# a new token.
_STALE = frozenset({99991661, 99991663, 99991664, 99991665, 99991668, 99991671, 99991677})
_CREDENTIALS = frozenset(
    {10003, 10012, 10013, 10014, 10015, 99991401, 99991543, 99991662, 99991673}
)
_SCOPES = frozenset({99991672, 99991679})
# "Rate limits": the gateway's code, those of the message methods, and "the message is being sent"
# (the same uuid is on its way).
_SLOW = frozenset({99991400, 230020, 230049, 11232, 11233, 11247, 300120})
_LATER = frozenset({1663, 2200, 55001})  # "internal error": nobody knows what was carried out
# Long connection, answers of the endpoint: busy, internal error, too many connections (50 an app).
_ENDPOINT_REFUSES = frozenset({403, 514, 1000040344})
TOO_MANY = 1000040350


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
        self._config = sdk.Config()
        self._config.app_id, self._config.app_secret, self._config.domain = (
            app_id,
            app_secret,
            domain,
        )
        self._console = f"Developer Console ({domain}/app/{app_id})"
        self._transport: Transport | None = None
        # monotonic; the SDK's own cache is one for the process and blind to domains and revocations
        self._token = ""
        self._until = 0.0
        self._renewing = asyncio.Lock()

    @asynccontextmanager
    async def open(self) -> AsyncGenerator[None]:
        self._transport = Transport(self._config, self.pace)
        self._token, self._until = "", 0.0
        try:
            yield
        finally:
            transport, self._transport = self._transport, None
            await transport.close()

    async def name_of(self, person: str) -> str:
        """Obtain user information, by open_id; "" when it tells no name."""
        found = await self.call(
            "GET",
            "/open-apis/contact/v3/users/:user_id",
            paths={"user_id": person},
            query={"user_id_type": "open_id"},
        )
        user = soft(found, "user")
        return word(user, "name") or word(user, "nickname") or word(user, "en_name")

    async def call(
        self,
        verb: Verb,
        uri: str,
        *,
        paths: Mapping[str, str] | None = None,
        query: Mapping[str, str | int] | None = None,
        body: Body | None = None,
        once: bool = False,
    ) -> Body:
        """``data`` of the answer. ``once``: it shows something, so an unknown outcome is Ambiguous
        instead of NotReady."""
        return await self._asked(verb, uri, paths, query, body, None, once=once)

    async def upload(self, uri: str, fields: Mapping[str, str], part: str, path: Path) -> Body:
        """A multipart call that nobody sees anything of (Upload image, Upload file). Raises
        OSError, too: the file cannot be read."""
        return await self._asked(
            "POST", uri, None, None, dict(fields), {part: (path.name, path)}, once=False
        )

    async def download(
        self, uri: str, paths: Mapping[str, str], query: Mapping[str, str], into: Path, limit: int
    ) -> str:
        """The bytes of a resource into ``into``; its media type. Raises Rejected for more than
        ``limit`` bytes."""
        method = _method(uri)
        for last in (False, True):
            token = await self._tenant_token()
            answer = await self._fetched(
                self._request("GET", uri, paths, query, None, None), token, into, limit
            )
            if isinstance(answer, str):
                return answer
            if answer.get("code") not in _STALE or last:
                self._data(method, answer, once=False)
                raise Rejected(f"Feishu: {method}: no file came back")
            self._token = "" if token == self._token else self._token
        raise AssertionError("unreachable")

    async def _fetched(
        self, request: sdk.BaseRequest, token: str, into: Path, limit: int
    ) -> str | Body:
        """The media type, or the answer that came instead of a file."""
        wire, method = self._open_transport(), _method(request.uri or "")
        try:
            async with wire.asked(request, token) as response:
                if response.status != HTTPStatus.OK or "application/json" in response.headers.get(
                    "content-type", ""
                ):
                    return self._judge(method, await _whole(response), once=False)
                await save("Feishu", response.content.iter_chunked(1 << 16), into, limit)
                return response.headers.get("content-type", "").partition(";")[0].strip()
        except (ClientError, TimeoutError) as error:
            raise failure(method, error, once=False) from error
        except OSError as error:
            raise Rejected(f"Feishu: {into} cannot be written: {error.strerror}") from error

    async def endpoint(self) -> tuple[str, sdk.ClientConfig | None]:
        """Where the long connection is opened, and how Feishu wants it kept; each address serves
        once.

        The SDK asks by a blocking call without a time limit; this one is neither. Raises
        AuthFailed, NotReady, RateLimited."""
        request = self._request("POST", sdk.GEN_ENDPOINT_URI, None, None, None, None)
        request.token_types = set()
        request.body = {"AppID": self._config.app_id, "AppSecret": self._config.app_secret}
        request.headers["locale"] = "zh"
        answer = await self._send("long connection", request, None, once=False)
        code = answer.get("code")
        if code != 0:
            raise self.no_line(code if isinstance(code, int) else -1, word(answer, "msg"))
        found = sdk.EndpointResp({"code": 0, "data": soft(answer, "data")}).data
        if (
            found is None
            or not isinstance(found.URL, str)
            or not found.URL.startswith(("wss://", "ws://"))
        ):
            raise NotReady("Feishu: long connection: answered without an address")
        return found.URL, (
            found.ClientConfig if isinstance(found.ClientConfig, sdk.ClientConfig) else None
        )

    def no_line(self, code: int, reason: str) -> ChannelError:
        """Why there is no address, or a handshake was refused (the SDK's ClientException and
        ServerException)."""
        if code in _CREDENTIALS | _ENDPOINT_REFUSES:
            return self._no_credentials("long connection", code, reason)
        if code in _SLOW:
            return RateLimited(5.0)
        more = (
            ": the app has more than 50 connections: is another process using the same app?"
            if code == TOO_MANY
            else ""
        )
        return NotReady(f"Feishu: long connection: {code} {reason}{more}")

    async def _asked(
        self,
        verb: Verb,
        uri: str,
        paths: Mapping[str, str] | None,
        query: Mapping[str, str | int] | None,
        body: Body | None,
        files: Body | None,
        *,
        once: bool,
    ) -> Body:
        method = _method(uri)
        for last in (False, True):
            token = await self._tenant_token()
            request = self._request(verb, uri, paths, query, body, files)
            answer = await self._send(method, request, token, once=once)
            if answer.get("code") not in _STALE or last:
                return self._data(method, answer, once=once)
            self._token = (
                "" if token == self._token else self._token
            )  # it was revoked before its time
            # refused before anything was carried out: asking again shows nothing twice
        raise AssertionError("unreachable")

    def _request(
        self,
        verb: Verb,
        uri: str,
        paths: Mapping[str, str] | None,
        query: Mapping[str, str | int] | None,
        body: Body | None,
        files: Body | None,
    ) -> sdk.BaseRequest:
        request = sdk.BaseRequest()
        request.http_method, request.uri, request.token_types = (
            sdk.HttpMethod[verb],
            uri,
            {sdk.AccessTokenType.TENANT},
        )
        request.paths, request.body, request.files = dict(paths or {}), body, files
        for name, value in (query or {}).items():
            request.add_query(name, value)
        return request

    async def _tenant_token(self) -> str:
        """Get custom app's tenant_access_token: two hours long the same; the SDK asks for it by a
        blocking call."""
        async with self._renewing:
            if self._token and time.monotonic() < self._until:
                return self._token
            request = sdk.CreateSelfTenantTokenRequest()
            request.http_method, request.uri = (
                sdk.HttpMethod.POST,
                "/open-apis/auth/v3/tenant_access_token/internal",
            )
            request.body = {"app_id": self._config.app_id, "app_secret": self._config.app_secret}
            answer = await self._send("tenant_access_token", request, None, once=False)
            found = sdk.AccessTokenResponse(answer)
            if (
                not found.success()
                or not isinstance(found.tenant_access_token, str)
                or not found.tenant_access_token
            ):
                code = found.code if isinstance(found.code, int) else -1
                if code in _LATER or code == -1 or found.success():
                    raise NotReady(
                        f"Feishu: tenant_access_token: {code} {found.msg}: answered without a token"
                    )
                raise self._no_credentials("tenant_access_token", code, str(found.msg))
            lives = float(found.expire) if isinstance(found.expire, int | float) else 7200.0
            self._token, self._until = (
                found.tenant_access_token,
                time.monotonic() + max(1.0, lives - min(self.pace.early, lives / 2)),
            )
            return self._token

    async def _send(
        self, method: str, request: sdk.BaseRequest, token: str | None, *, once: bool
    ) -> Body:
        """The answer's JSON, whatever its code; anything else is a failure."""
        wire = self._open_transport()
        try:
            async with wire.asked(request, token) as response:
                answer = await _whole(response)
        except (ClientError, TimeoutError) as error:
            raise failure(method, error, once=once) from error
        except (
            UnicodeEncodeError
        ) as error:  # half a character in an id that a stranger made up: nothing was sent
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
        if response.status == HTTPStatus.TOO_MANY_REQUESTS or code in _SLOW:
            raise RateLimited(_seconds(response.headers, 5.0 if code in {None, 99991400} else 1.0))
        if isinstance(code, int) and response.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            return cast("Body", body)
        if HTTPStatus.BAD_REQUEST <= response.status < HTTPStatus.INTERNAL_SERVER_ERROR:
            raise Rejected(f"Feishu: {method}: HTTP {response.status}")
        text = f"Feishu: {method}: HTTP {response.status} without an answer that can be read"
        raise Ambiguous(text) if once else NotReady(text)

    def _data(self, method: str, answer: Body, *, once: bool) -> Body:
        code, reason = int(answer["code"]), word(answer, "msg")
        if code in _STALE:
            raise self._no_credentials(method, code, reason)
        if code == 0:
            return (
                soft(answer, "data") if "data" in answer else answer
            )  # "Obtain bot information" has no data
        if code in _CREDENTIALS:
            raise self._no_credentials(method, code, reason)
        if code in _LATER:
            text = f"Feishu: {method}: {code} {reason}"
            raise Ambiguous(text) if once else NotReady(text)
        if code in _SCOPES:
            wanted = [
                word(one, "subject")
                for one in rows_of(soft(answer, "error"), "permission_violations")
            ]
            which = (
                f"one of the scopes {', '.join(filter(None, wanted))}"
                if any(wanted)
                else "the scope it names"
            )
            raise Refused(
                method,
                code,
                reason,
                f": give the app {which} in the {self._console}, Permissions & Scopes, and publish"
                " a version",
            )
        raise Refused(method, code, reason)

    def _no_credentials(self, method: str, code: int, reason: str) -> AuthFailed:
        return AuthFailed(
            f"Feishu: {method}: {code} {reason}: put a valid app_id and app_secret into"
            f" channels.feishu ({self._console}, Credentials & Basic Info), and see that the app is"
            " published and its domain is right"
        )

    def _open_transport(self) -> Transport:
        if self._transport is None:
            raise NotReady("Feishu: not connected")
        return self._transport


async def _whole(response: ClientResponse) -> Answer:
    return Answer(response.status, response.headers, await response.read())


def failure(method: str, error: ClientError | TimeoutError, *, once: bool) -> ChannelError:
    """What the house is told. ``once``: the call may have shown something."""
    reason = str(error) or type(error).__name__
    if isinstance(error, ClientConnectorError | ConnectionTimeoutError | InvalidURL):
        return NotReady(f"Feishu: {method}: cannot connect: {reason}")
    return (
        Ambiguous(f"Feishu: {method}: no answer: {reason}")
        if once
        else NotReady(f"Feishu: {method}: no answer: {reason}")
    )


def _seconds(headers: Mapping[str, str], otherwise: float) -> float:
    try:
        return min(3600.0, max(0.1, float(headers.get("x-ogw-ratelimit-reset", otherwise))))
    except ValueError:
        return otherwise


def _method(uri: str) -> str:
    return uri.removeprefix("/open-apis/")
