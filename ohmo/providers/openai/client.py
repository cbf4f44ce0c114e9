"""Talks to an OpenAI-compatible endpoint through the official SDK; imports it, so load this module
late."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (the SDK's generic stream of plain JSON chunks has no types of its own)

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import httpx2
import openai
from openai import AsyncOpenAI, AsyncStream, DefaultAioHttpClient

from ohmo.contracts.errors import CutOff, ProviderError, TimedOut
from ohmo.contracts.provider import Delta, ModelEvent, ModelRequest
from ohmo.providers.failures import (
    BROKEN,
    classify,
    no_answer,
    out_of_reach,
    retry_after,
    told_window,
)
from ohmo.providers.manifest import Endpoint
from ohmo.providers.models import plain_name
from ohmo.providers.openai.reading import Reading
from ohmo.providers.openai.wire import Dialect, first_dialect, learnt, spoken

# an endpoint may refuse this many optional keys, one after the other, before its refusal counts
_LESSONS = 4


class OpenAIClient:
    """One HTTP client for the life of the process; the body is bytes of our own."""

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._sdk = AsyncOpenAI(
            api_key=endpoint.api_key
            or "unset",  # local servers want none; OpenAI says in words that it is missing
            base_url=with_version(endpoint.base_url),
            max_retries=0,
            timeout=httpx2.Timeout(endpoint.silence, connect=min(10.0, endpoint.silence)),
            http_client=DefaultAioHttpClient(),
        )
        self._dialects: dict[str, Dialect] = {}
        self.rendering = spoken(self._dialect)
        self._windows: dict[str, int] = {}

    def learnt_window(self, model: str) -> int | None:
        return self._windows.get(model)

    async def aclose(self) -> None:
        await self._sdk.close()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See ``ohmo.contracts.provider.Provider.stream``. No retries but one kind: an optional key
        the endpoint does not know is left out from then on."""
        for lessons in range(_LESSONS + 1):
            reading = Reading(request)
            rendered = await self.rendering(request)
            try:
                async with self._opened(rendered.body) as chunks:
                    async for chunk in chunks:
                        text = reading.feed(cast("dict[str, Any]", chunk))
                        if text:
                            yield Delta(text)
                reply = reading.reply()
            except (openai.BadRequestError, openai.UnprocessableEntityError) as error:
                better = learnt(self._dialect(request.model), str(error))
                if better is None or lessons == _LESSONS:
                    raise self._classified(request, error) from error
                self._dialects[request.model] = better
                self.rendering.heads.clear()
                continue
            except (openai.APIError, httpx2.HTTPError) as error:
                raise self._classified(request, error) from error
            except BROKEN as error:
                raise no_answer(
                    f"{self._endpoint.provider} ({self._sdk.base_url.host})", error
                ) from error
            yield replace(reply, step=replace(reply.step, request=rendered.digest))
            return

    def _dialect(self, model: str) -> Dialect:
        return self._dialects.get(model) or first_dialect(model, self._endpoint.base_url)

    @asynccontextmanager
    async def _opened(self, body: bytes) -> AsyncGenerator[AsyncStream[object]]:
        options: Any = {"headers": {"content-type": "application/json"}}
        stream = await self._sdk.post(
            "/chat/completions",
            cast_to=object,
            content=body,
            options=options,
            stream=True,
            stream_cls=AsyncStream[object],
        )
        async with stream:
            yield stream

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
