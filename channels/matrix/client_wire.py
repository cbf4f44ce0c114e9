"""The wire under the client: one call to the homeserver, with our own time limit and our own words
for its failures.

Source: Matrix Client-Server API, "API Standards" (errors, rate limiting)."""

from __future__ import annotations

import asyncio
import json
from typing import Any, cast

from aiohttp import ClientConnectorError, ClientResponse, ConnectionTimeoutError
from mautrix.api import HTTPAPI, Method, PathBuilder
from mautrix.errors import MatrixConnectionError
from yarl import URL

from channels.errors import Ambiguous, AuthFailed, ChannelError, NotReady, RateLimited, Rejected
from channels.payloads import Body, Garbled

WITHIN = 30.0  # seconds for an ordinary call
DEFAULT_WAIT = 5.0  # seconds after a 429 that names none
SIGNED_OUT = {
    "M_UNKNOWN_TOKEN",
    "M_MISSING_TOKEN",
    "M_USER_DEACTIVATED",
    "M_USER_LOCKED",
    "M_USER_SUSPENDED",
}


class Missing(Rejected):
    """The homeserver knows no such thing (404)."""


class Forbidden(Rejected):
    """We may not do this (403)."""


class SignedOut(AuthFailed):
    """The homeserver does not know our token (any more). ``soft``: the device is still there, a new
    login goes on with it."""

    def __init__(self, text: str, *, soft: bool) -> None:
        super().__init__(text)
        self.soft = soft


class Troubled(NotReady):
    """The homeserver answered, with an error of its own (5xx)."""


class _Answered(Exception):
    """The homeserver answered with an error."""

    def __init__(self, status: int, body: Body, retry_after: float) -> None:
        self.status = status
        self.code = str(body.get("errcode", ""))
        self.retry_after = retry_after
        self.soft = body.get("soft_logout") is True
        super().__init__(f"HTTP {status} {self.code}: {body.get('error', '')}"[:300])


class _Unreadable(Exception):
    """The homeserver answered something that is not JSON."""

    def __init__(self, body: bytes) -> None:
        super().__init__("not JSON")
        self.body = body


class Wire(HTTPAPI):
    """mautrix's HTTP layer, but a 429 keeps its waiting time and nothing that people write is
    logged."""

    async def _send(
        self,
        method: Method,
        url: URL,
        content: Any,
        query_params: dict[str, str],
        headers: dict[str, str],
    ) -> tuple[Any, ClientResponse]:
        request = self.session.request(
            str(method), url, data=content, params=query_params, headers=headers
        )
        async with request as response:
            if 200 <= response.status < 300:
                body = await response.read()
                try:
                    return json.loads(body), response
                except (ValueError, RecursionError) as error:
                    raise _Unreadable(body) from error
            raise await answered_by(response)

    def _log_request(self, *_: Any, **__: Any) -> None:
        """Nothing."""

    def _log_request_done(self, *_: Any, **__: Any) -> None:
        """Nothing."""

    async def call(
        self,
        method: Method,
        path: PathBuilder,
        content: Any = None,
        *,
        query: dict[str, str] | None = None,
        headers: dict[str, str] | None = None,
        within: float = WITHIN,
        shows: bool = False,  # other people see what this call does: an unknown end is Ambiguous
    ) -> Body:
        unknown = Ambiguous if shows else NotReady
        try:
            async with asyncio.timeout(within):
                answer = await self.request(method, path, content, headers, query)  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        except _Answered as answered:
            raise failure(answered, shows) from answered
        except MatrixConnectionError as error:
            if isinstance(error.__cause__, ClientConnectorError | ConnectionTimeoutError):
                text = f"the homeserver {self.base_url} cannot be reached: {error}"
                raise NotReady(text) from error
            raise unknown(f"the connection to {self.base_url} broke: {error}") from error
        except TimeoutError as error:
            text = f"the homeserver {self.base_url} did not answer within {within:.0f} s"
            raise unknown(text) from error
        except _Unreadable as error:
            text = f"the homeserver {self.base_url} answered something that is not JSON"
            raise (Ambiguous(text) if shows else Garbled(text, error.body)) from error
        if not isinstance(answer, dict):
            text = f"the homeserver {self.base_url} answered something unexpected"
            raise Ambiguous(text) if shows else Garbled(text, cast("object", answer))
        return cast("Body", answer)


async def answered_by(response: ClientResponse) -> _Answered:
    try:
        document = json.loads(await response.read())
    except (ValueError, RecursionError):
        document = None
    body = cast("Body", document) if isinstance(document, dict) else {}
    # The body's ``retry_after_ms`` is deprecated for the Retry-After header, homeservers send
    # either.
    wait = DEFAULT_WAIT
    milliseconds = body.get("retry_after_ms")
    header = response.headers.get("Retry-After", "")
    if isinstance(milliseconds, int | float) and milliseconds > 0:
        wait = milliseconds / 1000
    elif header.isdigit() and int(header) > 0:
        wait = float(header)
    return _Answered(response.status, body, wait)


def failure(answered: _Answered, shows: bool) -> ChannelError:
    """What the homeserver's answer means. Source: Client-Server API, "Standard error response"."""
    if answered.status == 429 or answered.code == "M_LIMIT_EXCEEDED":
        return RateLimited(answered.retry_after)
    if answered.status == 401 or answered.code in SIGNED_OUT:
        text = f"the homeserver does not accept the credentials ({answered})"
        if answered.code == "M_UNKNOWN_TOKEN":
            return SignedOut(text, soft=answered.soft)
        return AuthFailed(text)
    if answered.status >= 500:
        if shows:
            return Ambiguous(str(answered))
        return Troubled(str(answered))
    if answered.code == "M_RESOURCE_LIMIT_EXCEEDED":
        return NotReady(str(answered))
    return {403: Forbidden, 404: Missing}.get(answered.status, Rejected)(str(answered))
