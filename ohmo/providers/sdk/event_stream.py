"""A request whose answer is an event stream ("Server-sent events" in WHATWG's HTML standard), sent
and read for both SDKs. Address, headers, connections and errors are the SDK's; from one request to
the next only the body differs, so everything else is made once."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from typing import Any, Protocol

import aiohttp
import httpx2

LONGEST = 32 << 20  # bytes of one line, far above any answer: what never ends must not fill memory


class SDKClient(Protocol):
    """What is asked of ``AsyncAnthropic`` and ``AsyncOpenAI``."""

    @property
    def base_url(self) -> httpx2.URL: ...

    @property
    def auth_headers(self) -> Mapping[str, Any]: ...

    @property
    def default_headers(self) -> Mapping[str, Any]: ...


class SDKErrors(Protocol):
    """The package of an SDK, for its errors: ``anthropic`` or ``openai``."""

    APITimeoutError: Any
    APIConnectionError: Any


class StreamingPost:
    """POSTs to one path of an endpoint. ``http``: the SDK's own client; ``timeout``: of one read
    and of connecting."""

    def __init__(
        self,
        sdk: SDKClient,
        errors: SDKErrors,
        http: httpx2.AsyncClient,
        path: str,
        timeout: httpx2.Timeout,
    ) -> None:
        self._sdk = sdk
        self._errors = errors
        self._http = http
        self._url = httpx2.URL(f"{str(sdk.base_url).rstrip('/')}{path}")
        self._extensions = {"timeout": timeout.as_dict()}
        self._headers: httpx2.Headers | None = None

    async def __call__(self, body: bytes) -> httpx2.Response:
        """The beginning of the answer, whatever its status; to be closed. Raises the SDK's
        APITimeoutError and APIConnectionError; UnicodeEncodeError for a key that no header can
        carry."""
        if self._headers is None:  # here, as the SDK names the loop it is used in
            given = {**self._http.headers, **self._sdk.auth_headers, **self._sdk.default_headers}
            texts = {name: value for name, value in given.items() if isinstance(value, str)}
            self._headers = httpx2.Headers(
                {name.encode("ascii"): text.encode("ascii") for name, text in texts.items()}
            )
        request = httpx2.Request(
            "POST", self._url, headers=self._headers, content=body, extensions=self._extensions
        )
        try:
            return await self._http.send(request, stream=True)
        except httpx2.TimeoutException as error:
            raise self._errors.APITimeoutError(request=request) from error
        except (httpx2.HTTPError, httpx2.InvalidURL, aiohttp.ClientError, OSError) as error:
            raise self._errors.APIConnectionError(request=request) from error


async def events(response: httpx2.Response) -> AsyncIterator[tuple[bytes, bytes]]:
    """Name (mostly empty with OpenAI) and data of each event. Raises httpx2.HTTPError when the
    connection breaks."""
    decoder = EventDecoder()
    async for chunk in response.aiter_bytes():
        for event in decoder.feed(chunk):
            yield event


class EventDecoder:
    """Bytes as they come, events as they are whole ("Interpreting an event stream" in the
    standard). Raises ValueError for a line that does not end."""

    def __init__(self) -> None:
        self._unfinished: list[bytes] = []
        self._waiting = 0  # bytes of it
        self._after_return = False
        self._name = b""
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[tuple[bytes, bytes]]:
        if self._after_return:  # a line end of two bytes, half of it in the chunk before
            chunk = chunk.removeprefix(b"\n")
        self._after_return = chunk.endswith(b"\r")
        lines = chunk.splitlines(keepends=True)
        if not lines:
            return []
        if self._unfinished and lines[0].endswith((b"\n", b"\r")):
            lines[0] = b"".join((*self._unfinished, lines[0]))
            self._unfinished.clear()
            self._waiting = 0
        if not lines[-1].endswith((b"\n", b"\r")):
            self._unfinished.append(lines.pop())
            self._waiting += len(self._unfinished[-1])
            if self._waiting > LONGEST:
                raise ValueError(f"a line of more than {LONGEST} bytes")
        events: list[tuple[bytes, bytes]] = []
        for line in lines:
            self._read(line.rstrip(b"\r\n"), events)
        return events

    def _read(self, line: bytes, events: list[tuple[bytes, bytes]]) -> None:
        if not line:
            data = b"\n".join(self._data)
            if data:
                events.append((self._name, data))
            self._data.clear()
            self._name = b""
            return
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if field == b"data":
            self._data.append(value)
        elif field == b"event":
            self._name = value
