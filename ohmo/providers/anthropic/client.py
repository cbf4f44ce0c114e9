"""Talks to an Anthropic-compatible endpoint through the official SDK; imports it, so load this
module late."""
# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# (the SDK's generic stream of plain JSON events has no types of its own)

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from typing import Any, cast

import anthropic
import httpx2
from anthropic import AsyncAnthropic, AsyncStream, DefaultAioHttpClient

from ohmo.contracts.errors import CutOff, ProviderError, TimedOut
from ohmo.contracts.provider import Delta, ModelEvent, ModelRequest
from ohmo.providers.anthropic.reading import Reading
from ohmo.providers.anthropic.wire import keeps_tools_back, rendering
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

# "Preserved thinking": something before a thinking block is not what it was
_UNBOUND = "in `thinking` block"
_BY_REFERENCE = ("defer_loading", "tool_reference", "Tool reference")


def _headers(endpoint: Endpoint) -> dict[str, str]:
    """API overview, "Authentication": the key goes into ``x-api-key``. The SDK sends it as a bearer
    only, which Anthropic takes and not every endpoint that speaks its wire does: those are shown
    both."""
    return {"X-Api-Key": endpoint.api_key} if endpoint.base_url and endpoint.api_key else {}


class AnthropicClient:
    """One HTTP client for the life of the process. The body is bytes of our own, which spares the
    SDK a deep copy and its json."""

    def __init__(self, endpoint: Endpoint, *, references: bool | None = None) -> None:
        """``references``: whether the endpoint keeps tools back itself; None: what is known about
        it."""
        self._endpoint = endpoint
        base = endpoint.base_url.rstrip("/").removesuffix("/v1") if endpoint.base_url else None
        self._sdk = AsyncAnthropic(
            api_key=endpoint.api_key
            or "unset",  # no key is the endpoint's to judge; it says so in words
            base_url=base,
            default_headers=_headers(endpoint),
            max_retries=0,
            timeout=httpx2.Timeout(endpoint.silence, connect=min(10.0, endpoint.silence)),
            http_client=DefaultAioHttpClient(),
        )
        # The SDK has an environment variable for it.
        known = keeps_tools_back(endpoint) and self._sdk.base_url.host == "api.anthropic.com"
        self._references = known if references is None else references
        self.rendering = rendering(references=self._references)
        self._windows: dict[str, int] = {}

    def learnt_window(self, model: str) -> int | None:
        return self._windows.get(model)

    async def aclose(self) -> None:
        await self._sdk.close()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See ``ohmo.contracts.provider.Provider.stream``. No retries but two, each once: a request
        whose old thinking is not accepted any more (history was cut, the prompt changed) goes out
        without it; an endpoint that does not keep tools back is not asked to from then on."""
        unbound = False
        while True:
            reading = Reading(request)
            rendered = await self.rendering(request)
            try:
                async with self._opened(rendered.body) as events:
                    async for event in events:
                        text = reading.feed(cast("dict[str, Any]", event))
                        if text:
                            yield Delta(text)
                reply = reading.reply()
            except anthropic.BadRequestError as error:
                if self._references and any(word in str(error) for word in _BY_REFERENCE):
                    self._references, self.rendering = False, rendering(references=False)
                elif _UNBOUND in str(error) and not unbound:
                    unbound = True
                    self.rendering.conversations.without_thinking(request.steps)
                else:
                    raise self._classified(request, error) from error
                continue
            except (anthropic.APIError, httpx2.HTTPError) as error:
                raise self._classified(request, error) from error
            except BROKEN as error:
                raise no_answer(
                    f"{self._endpoint.provider} ({self._sdk.base_url.host})", error
                ) from error
            yield replace(reply, step=replace(reply.step, request=rendered.digest))
            return

    @asynccontextmanager
    async def _opened(self, body: bytes) -> AsyncGenerator[AsyncStream[object]]:
        options: Any = {"headers": {"content-type": "application/json"}}
        stream = await self._sdk.post(
            "/v1/messages",
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
            case anthropic.APITimeoutError() if isinstance(
                error.__cause__, httpx2.ConnectTimeout
            ):  # a refused connection, too, on aiohttp
                return out_of_reach(where, error)
            case anthropic.APITimeoutError() | httpx2.TimeoutException():
                return TimedOut(f"{where}: no byte for {self._endpoint.silence:.0f} s")
            case anthropic.APIStatusError():
                message = str(error.api_message or error.message)
                found = told_window(message)
                if found is not None:
                    self._windows[request.model] = found
                # An error event inside a stream that began with 200.
                status = error.status_code if error.status_code >= 400 else None
                return classify(
                    where,
                    plain_name(request.model),
                    status,
                    str(error.type or ""),
                    message,
                    retry_after(error.response.headers),
                )
            case anthropic.APIConnectionError():
                return out_of_reach(where, error)
            case _:
                return CutOff(
                    f"{where}: the connection broke in the middle of the answer ({error})"
                )
