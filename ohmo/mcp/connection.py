"""The official SDK: its sessions over programs that we start, and over HTTP. The only module that
imports it; loaded with the first server, in a thread."""

from __future__ import annotations

import asyncio
import base64
import binascii
import json
import logging
from collections.abc import AsyncGenerator, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, cast

import httpx2
from mcp import types
from mcp.client.session import ClientRequestContext, ClientSession, IncomingMessage
from mcp.client.sse import sse_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.exceptions import MCPError
from pydantic import ValidationError

from ohmo.content import one_line
from ohmo.contracts.messages import Json
from ohmo.mcp.contract import (
    Answer,
    Changed,
    Definition,
    Endpoint,
    Of,
    Offer,
    ServerFailed,
    Session,
)
from ohmo.mcp.listing import Lenient, Unjudged, pages, tools_of
from ohmo.mcp.oauth import Login
from ohmo.mcp.program import MOST_BYTES, Complaints, Watched, program

# what it logs repeats words of servers, tokens among them; what is wrong reaches us as an error
for _name in ("mcp", "client"):  # its sessions log as the latter
    logging.getLogger(_name).setLevel(logging.CRITICAL + 1)
_ME = types.Implementation(name="ohmo", version="1")
_PING = 5.0  # seconds
_PARTING = 0.05  # seconds in which the last words of a program are read
_MOST_IMAGES, _IMAGE = 8, 5 << 20
_PICTURES = frozenset({"image/png", "image/jpeg", "image/gif", "image/webp"})
_REFUSED = types.INVALID_REQUEST


def _asks(
    name: str, description: str, of: Of, fields: dict[str, Json], *required: str
) -> Definition:
    """A tool of ours for what a server has beside its tools."""
    schema: dict[str, Json] = {"type": "object", "properties": fields}
    if required:
        schema["required"] = list(required)
    return Definition(name, description, schema, reads_only=True, of=of)


_TEXT: Json = {"type": "string"}
_FILLED: Json = {"type": "object", "additionalProperties": _TEXT}
_OWN: Mapping[str, tuple[Definition, ...]] = {
    "resources": (
        _asks(
            "list_resources", "Lists the resources of this server: names and URIs.", "resources", {}
        ),
        _asks(
            "read_resource",
            "Reads one resource of this server by its URI.",
            "resource",
            {"uri": _TEXT},
            "uri",
        ),
    ),
    "prompts": (
        _asks(
            "list_prompts",
            "Lists the prompts this server offers, with their arguments.",
            "prompts",
            {},
        ),
        _asks(
            "get_prompt",
            "Reads one prompt of this server, filled in.",
            "prompt",
            {"name": _TEXT, "arguments": _FILLED},
            "name",
        ),
    ),
}


@asynccontextmanager
async def connect(
    endpoint: Endpoint, changed: Changed, login: Login | None = None
) -> AsyncGenerator[Session]:
    """Initialized. ``login``: of a person who is there. Raises ServerFailed; whatever else the SDK
    raises."""
    if login is None and endpoint.login is not None and endpoint.login.exists():
        login = await asyncio.to_thread(Login.kept, endpoint.login, endpoint.url, endpoint.name)
    complaints = Complaints()
    async with AsyncExitStack() as stack:
        if endpoint.kind == "stdio":
            read, write = await stack.enter_async_context(program(endpoint, complaints))
        elif endpoint.kind == "http":
            headers = dict(endpoint.headers or {})
            made = _client(frozenset({"GET", "POST"}), headers, auth=login)
            client = await stack.enter_async_context(made)
            streams = streamable_http_client(
                endpoint.url, http_client=client, max_sse_event_size=MOST_BYTES
            )
            read, write = await stack.enter_async_context(streams)
        else:
            streams = sse_client(
                endpoint.url,
                headers=dict(endpoint.headers or {}),
                httpx_client_factory=partial(_client, frozenset({"GET"})),
                auth=login,
            )
            read, write = await stack.enter_async_context(streams)
        watched = Watched(read)
        heard = _Heard(changed)

        async def roots(context: ClientRequestContext) -> types.ListRootsResult:
            del context
            uri = cast("Any", endpoint.cwd.as_uri())
            return types.ListRootsResult(roots=[types.Root(uri=uri, name="workspace")])

        lenient = Lenient(cast("Any", watched), write)
        session = await stack.enter_async_context(
            Unjudged(
                dispatcher=lenient,
                sampling_callback=None,  # the SDK's own answers refuse: no model is lent
                elicitation_callback=None,
                list_roots_callback=roots,
                message_handler=heard,
                client_info=_ME,
            )
        )
        try:
            able = await _greeted(session)
        except (MCPError, ValidationError, RuntimeError) as error:
            await asyncio.sleep(_PARTING)
            what = f"it could not be initialized: {_line(error)}{complaints.last()}"
            if endpoint.login is not None and (login is None or login.asked):
                what += f"; if it wants a login: ohmo mcp login {endpoint.name}"
            raise ServerFailed(what) from error
        yield _SdkSession(session, lenient, able, watched, complaints)


async def _greeted(session: ClientSession) -> types.ServerCapabilities:
    """What the server can, also one that knows no handshake any more (since 2026-07-28). Raises
    what the SDK does."""
    try:
        return (await session.initialize()).capabilities
    except MCPError as error:
        if error.code not in (types.METHOD_NOT_FOUND, types.UNSUPPORTED_PROTOCOL_VERSION):
            raise
        return (await session.discover()).capabilities


class _Bounded(httpx2.AsyncHTTPTransport):
    """Ends what is longer than one message may be, whatever its server said of the length. A stream
    of events has no end; the SDK bounds each event."""

    def __init__(self, streaming: frozenset[str]) -> None:
        """``streaming``: the methods whose answers may be such a stream."""
        super().__init__(trust_env=False)
        self._streaming = streaming

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        response = await super().handle_async_request(request)
        packed = response.headers.get("content-encoding", "identity")
        if packed != "identity":  # it could become longer than its bytes
            await response.aclose()
            raise httpx2.ReadError(f"an answer packed by {packed[:40]}, which was not asked for")
        kind = response.headers.get("content-type", "").partition(";")[0].strip().lower()
        events = kind == "text/event-stream" and response.status_code == 200
        if not (events and request.method in self._streaming):
            response.stream = _Counted(cast("httpx2.AsyncByteStream", response.stream))
        return response


class _Counted(httpx2.AsyncByteStream):
    def __init__(self, stream: httpx2.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncGenerator[bytes]:
        left = MOST_BYTES
        async for part in self._stream:
            left -= len(part)
            if left < 0:
                raise httpx2.ReadError(f"an answer of more than {MOST_BYTES} bytes")
            yield part

    async def aclose(self) -> None:
        await self._stream.aclose()


def _client(
    streaming: frozenset[str],
    headers: dict[str, Any] | None = None,
    timeout: httpx2.Timeout | None = None,
    auth: httpx2.Auth | None = None,
) -> httpx2.AsyncClient:
    """Follows no redirect and asks no proxy of the environment."""
    return httpx2.AsyncClient(
        headers={"accept-encoding": "identity", **(headers or {})},
        timeout=timeout or httpx2.Timeout(30.0, read=300.0),
        auth=auth,
        trust_env=False,
        transport=_Bounded(streaming),
    )


class _Heard:
    def __init__(self, changed: Changed) -> None:
        self._changed = changed

    async def __call__(self, message: IncomingMessage) -> None:
        if isinstance(message, types.ToolListChangedNotification):
            self._changed()


class _SdkSession:
    def __init__(
        self,
        session: ClientSession,
        lenient: Lenient,
        able: types.ServerCapabilities,
        watched: Watched,
        complaints: Complaints,
    ) -> None:
        self._session = session
        self._lenient = lenient
        self._able = able
        self._watched = watched
        self._complaints = complaints

    async def definitions(self) -> Offer:
        found: list[Definition] = []
        left_out: Mapping[str, str] = {}
        try:
            if self._able.tools is not None:
                found, left_out = await tools_of(self._session, self._lenient)
        except (MCPError, ValidationError, RuntimeError) as error:
            raise ServerFailed(f"it does not tell its tools: {_line(error)}") from error
        names = {each.name for each in found}
        own = [
            each
            for able, tools in _OWN.items()
            for each in tools
            if getattr(self._able, able) is not None and each.name not in names
        ]
        return Offer((*own, *found), left_out)

    async def call(self, tool: Definition, arguments: Mapping[str, Json], seconds: float) -> Answer:
        try:
            async with asyncio.timeout(seconds):
                return await self._asked(tool, dict(arguments))
        except MCPError as error:
            what = _line(error)
            if error.code == types.CONNECTION_CLOSED:
                cut = f"; {self._complaints.cut}" if self._complaints.cut else ""
                what = f"{what}{cut}; what the call did is unknown"
            raise ServerFailed(what) from error
        except (ValidationError, RuntimeError, ValueError) as error:
            raise ServerFailed(_line(error)) from error

    async def _asked(self, tool: Definition, arguments: dict[str, Any]) -> Answer:
        session = self._session
        match tool.of:
            case "tool":
                return _answer(await session.call_tool(tool.name, arguments))
            case "resources":
                listed = [page.resources async for page in pages(session.list_resources)]
                lines = [f"- {each.name}: {each.uri}" for part in listed for each in part]
                lines += await self._templates()
                return Answer("\n".join(lines) or "There are none.")
            case "resource":
                read = await session.read_resource(str(arguments["uri"]))
                return Answer("\n".join(_contents(each) for each in read.contents))
            case "prompts":
                prompts = [page.prompts async for page in pages(session.list_prompts)]
                lines = [_prompt(each) for part in prompts for each in part]
                return Answer("\n".join(lines) or "There are none.")
            case "prompt":
                prompt = await session.get_prompt(
                    str(arguments["name"]), arguments.get("arguments") or {}
                )
                words = [f"{each.role}: {_block(each.content)}" for each in prompt.messages]
                return Answer("\n\n".join(words))

    async def _templates(self) -> list[str]:
        """Of resources whose URI is to be filled in (RFC 6570), which few servers know of."""
        try:
            found = [each async for each in pages(self._session.list_resource_templates)]
        except MCPError as error:
            if error.code != types.METHOD_NOT_FOUND:
                raise
            return []
        return [
            f"- {each.name}: {each.uri_template} (fill in what stands in braces)"
            for page in found
            for each in page.resource_templates
        ]

    async def alive(self) -> bool:
        try:
            async with asyncio.timeout(_PING):
                await self._session.send_ping()
        except MCPError as error:  # also one that knows no ping is there
            return error.code == types.METHOD_NOT_FOUND
        except (TimeoutError, ValidationError, RuntimeError):
            return False
        return True

    async def ended(self) -> str:
        await self._watched.ended.wait()
        await asyncio.sleep(_PARTING)
        return f"it closed the connection{self._complaints.last()}"


def _answer(result: types.CallToolResult) -> Answer:
    """Structured content only where the server says nothing in words, as the protocol wants."""
    lines: list[str] = []
    images: list[tuple[str, bytes]] = []
    for block in result.content:
        if isinstance(block, types.ImageContent):
            picture = _picture(block)
            if picture is not None and len(images) < _MOST_IMAGES:
                images.append(picture)
                continue
        lines.append(_block(block))
    if not any(lines) and not images and result.structured_content is not None:
        lines = [json.dumps(result.structured_content, ensure_ascii=False, indent=1)]
    return Answer("\n".join(lines), result.is_error, tuple(images))


def _picture(block: types.ImageContent) -> tuple[str, bytes] | None:
    try:
        data = base64.b64decode(block.data, validate=True)
    except (binascii.Error, ValueError):
        return None
    fits = block.mime_type in _PICTURES and len(data) <= _IMAGE
    return (block.mime_type, data) if fits else None


def _block(block: types.ContentBlock) -> str:
    match block:
        case types.TextContent():
            return block.text
        case types.ResourceLink():
            return f"[resource {block.name}: {block.uri}]"
        case types.EmbeddedResource():
            return _contents(block.resource)
        case types.ImageContent() | types.AudioContent():
            size = len(block.data) * 3 // 4
            return f"[{block.mime_type}, {size} bytes, not shown]"


def _contents(found: types.TextResourceContents | types.BlobResourceContents) -> str:
    if isinstance(found, types.TextResourceContents):
        return found.text
    return f"[{found.uri}: {found.mime_type or 'binary'}, {len(found.blob) * 3 // 4} bytes]"


def _prompt(prompt: types.Prompt) -> str:
    wanted = ", ".join(each.name for each in prompt.arguments or [])
    return f"- {prompt.name}({wanted}): {prompt.description or ''}"


def _line(error: BaseException) -> str:
    text = str(error)
    if isinstance(error, ValidationError):
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))
        text = f"what it says is not of the protocol: {where}: {first['msg']}"
    return one_line(text)[:300] or type(error).__name__
