"""The parts of lark_oapi that speak: frames, the long connection, requests and answers. Everything
else of it stays unimported."""

# lark_oapi is annotated in part only, and re-exports by star.
# pyright: reportPrivateUsage=false, reportUnknownVariableType=false

from __future__ import annotations

import asyncio

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
    "RawResponse",
    "RequestOption",
    "Response",
    "ServerException",
    "build_header",
    "build_url",
    "live_here",
    "logger",
    "new_ping_frame",
]
