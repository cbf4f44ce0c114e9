"""Keeps aiohttp from asking a second time where a second time is not wanted."""

from __future__ import annotations

from collections.abc import Collection

from aiohttp import (
    ClientConnectorError,
    ClientError,
    ClientHandlerType,
    ClientOSError,
    ClientRequest,
    ClientResponse,
    ServerDisconnectedError,
)


class Dropped(ClientError):
    """The connection broke after the request may have been sent."""


class NoRetry:
    """Middleware of one session. aiohttp sends GET, PUT and the like again when their connection
    breaks, as RFC 9112, 9.3.1 allows for connections that were used before. Here that holds for a
    session that had an answer already: until then there is none to be stale, and in an outage every
    try would be two. ``never``: methods that are never sent again, because that is for the house to
    say. Raises Dropped."""

    def __init__(self, never: Collection[str] = ()) -> None:
        self._never = frozenset(never)
        self._answered = False

    async def __call__(self, request: ClientRequest, handler: ClientHandlerType) -> ClientResponse:
        try:
            response = await handler(request)
        except ClientConnectorError:
            raise
        except (ClientOSError, ServerDisconnectedError) as error:
            if request.method in self._never or not self._answered:
                raise Dropped(str(error)) from error
            raise
        self._answered = True
        return response
