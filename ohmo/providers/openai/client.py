"""Talks to an OpenAI-compatible endpoint through the official SDK, over chat completions or
Responses; imports it, so load this module late."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Any, cast

import httpx2
import openai
from openai import AsyncOpenAI, DefaultAioHttpClient

from ohmo.contracts.errors import CutOff, ProviderError, TimedOut
from ohmo.contracts.provider import Delta, ModelEvent, ModelRequest
from ohmo.providers.models import Endpoint, plain_name
from ohmo.providers.openai.reading import CompletionsReading, ResponsesReading
from ohmo.providers.openai.responses_wire import Responses
from ohmo.providers.openai.wire import Completions, speaks_responses
from ohmo.providers.request_bytes import Rendering
from ohmo.providers.sdk.event_stream import StreamingPost, events
from ohmo.providers.wire_parts import (
    BROKEN,
    classify,
    no_answer,
    out_of_reach,
    retry_after,
    told_window,
)

# an endpoint may refuse this many optional keys, one after the other, before its refusal counts
_LESSONS = 4


class OpenAIClient:
    """One HTTP client for the life of the process; the body is bytes of our own."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        http = DefaultAioHttpClient()
        timeout = httpx2.Timeout(endpoint.silence, connect=min(10.0, endpoint.silence))
        self._sdk = AsyncOpenAI(
            # Local servers want none; OpenAI says in words that it is missing.
            api_key=endpoint.api_key or "unset",
            base_url=with_version(endpoint.base_url),
            max_retries=0,
            timeout=timeout,
            default_headers=endpoint.headers,
            http_client=http,
        )
        # The SDK has an environment variable for the address.
        if speaks_responses(endpoint, self._sdk.base_url.host):
            self._way, self._reading, path = Responses(), ResponsesReading, "/responses"
        else:
            self._way, self._reading = Completions(endpoint.base_url), CompletionsReading
            path = "/chat/completions"
        self._post = StreamingPost(self._sdk, openai, http, path, timeout)
        self._windows: dict[str, int] = {}

    def learnt_window(self, model: str) -> int | None:
        return self._windows.get(model)

    @property
    def rendering(self) -> Rendering:
        return self._way.rendering

    async def aclose(self) -> None:
        await self._sdk.close()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See ``ohmo.contracts.provider.Provider.stream``. No retries but one kind: what
        the endpoint says it does not know or take is left out from then on."""
        for lessons in range(_LESSONS + 1):
            reading = self._reading(request)
            rendered = await self.rendering(request)
            try:
                response = await self._post(rendered.body)
                try:
                    async for chunk in _answered(response):
                        text = reading.feed(chunk)
                        if text:
                            yield Delta(text)
                finally:
                    await response.aclose()
                reply = reading.reply()
            except openai.APIStatusError as error:
                taught = error.status_code in (400, 422) and lessons < _LESSONS
                if not (taught and self._way.learns(request, str(error))):
                    raise self._classified(request, error) from error
                continue
            except (openai.APIError, httpx2.HTTPError) as error:
                raise self._classified(request, error) from error
            except BROKEN as error:
                raise no_answer(
                    f"{self._endpoint.provider} ({self._sdk.base_url.host})", error
                ) from error
            yield replace(reply, step=replace(reply.step, request=rendered.digest))
            return

    def _classified(self, request: ModelRequest, error: Exception) -> ProviderError:
        where = f"{self._endpoint.provider} ({self._sdk.base_url.host})"
        match error:
            case openai.APITimeoutError() if isinstance(
                error.__cause__, httpx2.ConnectTimeout
            ):  # a refused connection, too, on aiohttp
                return out_of_reach(where, error)
            case openai.APITimeoutError() | httpx2.TimeoutException():
                return TimedOut(f"{where}: no byte for {self._endpoint.silence:.0f} s")
            case openai.APIStatusError():
                status, headers = error.status_code, dict(error.response.headers)
                return self._said(where, request, status, error, retry_after(headers))
            case openai.APIConnectionError() if isinstance(
                error.__cause__, httpx2.ReadError | httpx2.RemoteProtocolError
            ):
                return CutOff(f"{where}: the connection broke in the middle of the answer")
            case openai.APIConnectionError():
                return out_of_reach(where, error)
            case openai.APIError():  # an error object inside a stream that began with 200
                return self._said(where, request, None, error, None)
            case _:
                return CutOff(
                    f"{where}: the connection broke in the middle of the answer ({error})"
                )

    def _said(
        self,
        where: str,
        request: ModelRequest,
        status: int | None,
        error: openai.APIError,
        wait: float | None,
    ) -> ProviderError:
        message = error.message
        found = told_window(message)
        if found is not None:
            self._windows[request.model] = found
        return classify(
            where,
            plain_name(request.model),
            status,
            str(error.code or error.type or ""),
            message,
            wait,
        )


def with_version(base_url: str | None) -> str | None:
    """``http://127.0.0.1:1234`` and ``http://127.0.0.1:1234/v1`` are the same endpoint; any other
    path is left as it is."""
    if base_url is None:
        return None
    url = httpx2.URL(base_url)
    return str(url.copy_with(path="/v1")) if url.path in ("", "/") else base_url


_Chunk = dict[str, Any]


async def _answered(response: httpx2.Response) -> AsyncIterator[_Chunk]:
    """The chunks of an answer ("Streaming API responses" in the API's documentation). Raises
    APIStatusError for a refusal, APIError for an error in the middle."""
    if not response.is_success:
        await response.aread()
        text = response.text.strip()
        try:
            body: object = json.loads(text)
        except ValueError:
            body = text
        if isinstance(body, dict):  # what stands under ``error``, where there is such a thing
            body = cast("_Chunk", body).get("error", body)
        refusal = text or f"status {response.status_code}"
        raise openai.APIStatusError(refusal, response=response, body=body)
    async for _, data in events(response):
        if data.startswith(b"[DONE]"):
            continue  # read to its end the connection serves again
        chunk: _Chunk = json.loads(data)
        error = _fault(chunk)
        if error:
            reason = cast("_Chunk", error).get("message") if isinstance(error, dict) else error
            message = str(reason or "an error within the answer")
            raise openai.APIError(message, response.request, body=cast("object", error))
        yield chunk


def _fault(chunk: _Chunk) -> object:
    """What went wrong, where an event says that something did: chat completions have ``error``,
    Responses an event of that name, or the response that failed."""
    match chunk.get("type"):
        case "response.failed":
            return chunk["response"].get("error") or "the response failed"
        case "error":
            return chunk.get("error") or chunk
        case _:
            return chunk.get("error")
