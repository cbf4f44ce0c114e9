"""The parts of lark_oapi that speak: frames, the long connection, requests and answers, and calls
made of them over one HTTP client with our limits. Everything else of it stays unimported."""

# lark_oapi is annotated in part only, and re-exports by star.
# pyright: reportPrivateUsage=false, reportUnknownVariableType=false
# pyright: reportUnknownMemberType=false, reportUnknownArgumentType=false

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path
from typing import cast

from aiohttp import ClientResponse, ClientSession, ClientTimeout, FormData

from channels.no_retry import NoRetry
from channels.payloads import Body
from channels.platform_calls import proxy_for
from channels.record import record
from channels.sdk_import import PartialImport

with PartialImport(
    "lark_oapi",
    {"lark_oapi.event.dispatcher_handler": ("EventDispatcherHandler",)},
    closed=("lark_oapi", "lark_oapi.ws", "lark_oapi.event"),
):
    import lark_oapi.ws.client as _ws
    from lark_oapi.core.const import AUTHORIZATION, CONTENT_TYPE
    from lark_oapi.core.enum import AccessTokenType, HttpMethod, LogLevel
    from lark_oapi.core.http.transport import _build_header as build_header
    from lark_oapi.core.http.transport import _build_url as build_url
    from lark_oapi.core.json import JSON
    from lark_oapi.core.log import logger
    from lark_oapi.core.model import BaseRequest, Config, RawResponse, RequestOption
    from lark_oapi.core.token.access_token_response import AccessTokenResponse
    from lark_oapi.core.token.create_self_tenant_token_request import CreateSelfTenantTokenRequest
    from lark_oapi.ws.client import Client
    from lark_oapi.ws.client import _new_ping_frame as new_ping_frame
    from lark_oapi.ws.const import (
        GEN_ENDPOINT_URI,
        HEADER_BIZ_RT,
        HEADER_MESSAGE_ID,
        HEADER_SEQ,
        HEADER_SUM,
        HEADER_TYPE,
    )
    from lark_oapi.ws.enum import FrameType, MessageType
    from lark_oapi.ws.exception import ClientException, ConnectionClosedException, ServerException
    from lark_oapi.ws.model import ClientConfig, EndpointResp, Response
    from lark_oapi.ws.pb.google.protobuf.message import DecodeError, EncodeError
    from lark_oapi.ws.pb.pbbp2_pb2 import Frame


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
        option = RequestOption()
        option.tenant_access_token = token
        build_header(request, option, self._config)
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
                content = (JSON.marshal(request.body) or "").encode("utf-8", "replace")
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


def live_here() -> None:
    """The SDK starts its receiving task on one loop for the whole process, the one it found while
    it was imported: let it be this one."""
    _ws.loop = asyncio.get_running_loop()


__all__ = [
    "AUTHORIZATION",
    "CONTENT_TYPE",
    "GEN_ENDPOINT_URI",
    "HEADER_BIZ_RT",
    "HEADER_MESSAGE_ID",
    "HEADER_SEQ",
    "HEADER_SUM",
    "HEADER_TYPE",
    "JSON",
    "AccessTokenResponse",
    "AccessTokenType",
    "Answer",
    "BaseRequest",
    "Client",
    "ClientConfig",
    "ClientException",
    "Config",
    "ConnectionClosedException",
    "CreateSelfTenantTokenRequest",
    "DecodeError",
    "EncodeError",
    "EndpointResp",
    "Frame",
    "FrameType",
    "HttpMethod",
    "LogLevel",
    "MessageType",
    "Pace",
    "RawResponse",
    "RequestOption",
    "Response",
    "ServerException",
    "Transport",
    "build_header",
    "build_url",
    "live_here",
    "logger",
    "new_ping_frame",
]
