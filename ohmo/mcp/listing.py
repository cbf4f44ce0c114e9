"""What a server lists, as the SDK's sessions ask for it. One entry that is no tool of the protocol
is left out and said; the SDK would take the whole list for none."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import suppress
from typing import Any, Protocol, TypeVar, cast

from mcp import types
from mcp.client.session import ClientSession
from mcp.shared.dispatcher import CallOptions
from mcp.shared.jsonrpc_dispatcher import JSONRPCDispatcher
from mcp_types.methods import validate_server_result
from pydantic import ValidationError

from ohmo.content import one_line
from ohmo.mcp.contract import Definition

Page = TypeVar("Page", bound=types.PaginatedResult, covariant=True)
_PAGES = 200  # of a list; more is no list
_METHOD = "tools/list"
_MOST_LEFT_OUT = 20  # of which each is said


class Unjudged(ClientSession):
    """Its results are words for the model, whatever shape their server promised for them: the SDK
    would look for that with a validator whose patterns, the server's too, have no bound in time."""

    async def validate_tool_result(self, name: str, result: types.CallToolResult) -> None:
        del name, result


class Lenient(JSONRPCDispatcher[Any]):
    """``version``: of the protocol, that lists are held to. ``left_out``: since it was emptied."""

    version = ""

    def __init__(self, read: Any, write: Any) -> None:
        super().__init__(read, write)
        self.left_out: dict[str, str] = {}

    async def send_raw_request(
        self,
        method: str,
        params: Mapping[str, Any] | None,
        opts: CallOptions | None = None,
        **more: Any,
    ) -> dict[str, Any]:
        raw = await super().send_raw_request(method, params, opts, **more)
        if method != _METHOD or not isinstance(raw.get("tools"), list):
            return raw
        for check in (self._revision, _whatever_revision):
            entries = cast("list[Any]", raw["tools"])
            wrong = _wrong(check, raw)
            for at, why in wrong.items():
                self.left_out[_name(entries[at], at)] = why
            raw = raw | {"tools": [each for at, each in enumerate(entries) if at not in wrong]}
        return raw

    def _revision(self, raw: Mapping[str, Any]) -> None:
        with suppress(KeyError):  # as the SDK does: it holds such a result to nothing
            validate_server_result(_METHOD, self.version, raw)


async def tools_of(
    session: ClientSession, lenient: Lenient
) -> tuple[list[Definition], Mapping[str, str]]:
    """All of a server, and why what else it lists is none. Raises what the SDK does."""
    lenient.version, lenient.left_out = session.protocol_version or "", {}
    parts = [page.tools async for page in pages(session.list_tools)]
    left_out = dict(list(lenient.left_out.items())[:_MOST_LEFT_OUT])
    if more := len(lenient.left_out) - len(left_out):
        left_out["… and more"] = f"{more} others are no tools either"
    return [_definition(tool) for part in parts for tool in part], left_out


class _Listing(Protocol[Page]):
    async def __call__(self, *, params: types.PaginatedRequestParams | None = None) -> Page: ...


async def pages(ask: _Listing[Page]) -> AsyncGenerator[Page]:
    """All parts of a list, as far as ``_PAGES``."""
    cursor: str | None = None
    for _ in range(_PAGES):
        page = await ask(params=types.PaginatedRequestParams(cursor=cursor))
        yield page
        cursor = page.next_cursor
        if cursor is None:
            return


def _definition(tool: types.Tool) -> Definition:
    claims = tool.annotations
    reads_only = claims is not None and claims.read_only_hint is True
    return Definition(tool.name, tool.description or "", tool.input_schema, reads_only)


def _whatever_revision(raw: Mapping[str, Any]) -> None:
    types.ListToolsResult.model_validate(raw, by_name=False)


def _wrong(check: Callable[[Mapping[str, Any]], None], raw: Mapping[str, Any]) -> dict[int, str]:
    """Places in the list of tools, with the first that is wrong there."""
    found: dict[int, str] = {}
    try:
        check(raw)
    except ValidationError as error:
        for each in error.errors(include_url=False, include_input=False):
            match each["loc"]:
                case ("tools", int(at), *where):
                    why = ": ".join(filter(None, (".".join(map(str, where)), each["msg"])))
                    found.setdefault(at, one_line(f"it is no tool of the protocol: {why}")[:300])
                case _:
                    pass  # the SDK says so
    return found


def _name(entry: Any, at: int) -> str:
    name = cast("dict[str, Any]", entry).get("name") if isinstance(entry, dict) else None
    return one_line(name)[:80] if isinstance(name, str) and name else f"entry {at + 1} of its list"
