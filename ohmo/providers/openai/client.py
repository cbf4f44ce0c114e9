"""Talks to an OpenAI-compatible endpoint through the official SDK, over chat completions or
Responses; imports it, so load this module late."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from dataclasses import dataclass, field, replace
from typing import Any, Literal, cast

import httpx2
import openai
from openai import AsyncOpenAI, DefaultAioHttpClient

from ohmo.contracts.errors import CutOff, ProviderError, TimedOut
from ohmo.contracts.messages import ModelStep, Text, Thinking, ToolCall, Usage
from ohmo.contracts.provider import Billed, Delta, ModelEvent, ModelRequest, Reply
from ohmo.providers.models import Endpoint, plain_name
from ohmo.providers.openai.responses_wire import Responses, ResponsesReading
from ohmo.providers.openai.wire import KEPT, Completions, counted, speaks_responses
from ohmo.providers.request_bytes import Rendering
from ohmo.providers.sdk.event_stream import StreamingPost, events
from ohmo.providers.wire_parts import (
    BROKEN,
    NO_PICTURES,
    Measure,
    arguments,
    began,
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
                    yield began(response.headers)
                    async for chunk in _answered(response):
                        text = reading.feed(chunk)
                        if text:
                            yield Delta(text)
                        if (usage := reading.billed()) is not None:
                            yield Billed(usage)
                finally:
                    await response.aclose()
                reply = reading.reply()
            except openai.APIStatusError as error:
                seen = self.rendering.conversations
                taught = lessons < _LESSONS and (
                    (NO_PICTURES.search(str(error)) and seen.without_pictures(request.steps))
                    or (error.status_code in (400, 422) and self._way.learns(request, str(error)))
                )
                if not taught:
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
            gateway=self._endpoint.gateway,
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


@dataclass(slots=True)
class _Call:
    id: str = ""
    name: str = ""
    text: list[str] = field(default_factory=list[str])


class CompletionsReading:
    """A stream of chat completion chunks ("Chat completions streaming events"): feed every one,
    ``reply`` after the last. Raises CutOff when no choice was ever finished."""

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._measure = Measure(request)
        self._texts: list[str] = []
        self._refusal: list[str] = []
        self._thoughts: dict[str, str] = {}
        self._details: list[_Chunk] = []
        self._calls: list[_Call] = []
        self._by_index: dict[int, _Call] = {}
        self._model = request.model
        self._finish = ""
        self._usage: _Chunk = {}
        self._counted = False

    def feed(self, chunk: _Chunk) -> str:
        """The text to show, mostly empty."""
        self._model = str(chunk.get("model") or self._model)
        if chunk.get("usage"):
            self._usage = chunk["usage"]
            self._counted = True
        shown = ""
        for choice in cast("list[_Chunk]", chunk.get("choices") or ()):
            if choice.get("index", 0) != 0:
                continue
            self._finish = str(choice.get("finish_reason") or self._finish)
            delta = cast("_Chunk", choice.get("delta") or choice.get("message") or {})
            for call in cast("list[_Chunk]", delta.get("tool_calls") or ()):
                self._call(call)
            self._thought(delta)
            if delta.get("refusal"):
                self._refusal.append(str(delta["refusal"]))
            text = str(delta.get("content") or "")
            if text:
                self._measure.count(text)
                self._texts.append(text)
            shown += text
        return shown

    def _thought(self, delta: _Chunk) -> None:
        """DeepSeek and others say ``reasoning_content``, newer servers ``reasoning``; OpenRouter
        adds ``reasoning_details``, of which those with one index are one."""
        for key in ("reasoning_content", "reasoning"):
            if isinstance(piece := delta.get(key), str) and piece:
                self._measure.count(piece)
                self._thoughts[key] = self._thoughts.get(key, "") + piece
        for piece in cast("list[_Chunk]", delta.get("reasoning_details") or ()):
            self._measure.count(json.dumps(piece))
            last = self._details[-1] if self._details else {}
            if (last.get("index"), last.get("type")) != (piece.get("index"), piece.get("type")):
                self._details.append(dict(piece))
                continue
            for key, value in piece.items():
                grows = isinstance(value, str) and key in ("text", "summary", "data")
                if grows:
                    last[key] = str(last.get(key) or "") + value
                elif value is not None:
                    last[key] = value

    def _call(self, delta: _Chunk) -> None:
        function = cast("_Chunk", delta.get("function") or {})
        index = delta.get("index")
        identity = str(delta.get("id") or "")
        held = self._by_index.get(index) if isinstance(index, int) else None
        # Some servers give every call of an answer the index 0, each with an id and a name of its
        # own.
        other = held is not None and bool(identity and held.id) and identity != held.id
        if held is None or (other and function.get("name")):
            held = _Call(identity)
            self._calls.append(held)
            if isinstance(index, int):
                self._by_index[index] = held
        held.id = held.id or identity
        name = str(function.get("name") or "")
        if name and name != held.name:
            held.name += name
        given = function.get("arguments")
        if isinstance(given, str):
            self._measure.count(given)
            held.text.append(given)
        elif given is not None:
            held.text.append(json.dumps(given))

    def reply(self) -> Reply:
        if not self._finish:
            raise CutOff(f"{self._request.model}: the stream ended in the middle of the answer")
        text = "".join(self._texts) or "".join(self._refusal)
        blocks: list[Text | Thinking | ToolCall] = []
        thoughts = {"reasoning_details": self._details} if self._details else self._thoughts
        for key, thought in thoughts.items():
            kept = json.dumps({key: thought}, ensure_ascii=False, separators=(",", ":"))
            blocks.append(Thinking(KEPT, kept))
        blocks += [Text(text)] if text else []
        for number, call in enumerate(self._calls):
            given = arguments("".join(call.text))
            blocks.append(ToolCall(call.id or f"call_{number}", call.name, given, call.id))
        stop: Literal["end", "tools", "length", "refusal"] = "end"
        if self._calls:
            stop = "tools"
        elif self._refusal or self._finish == "content_filter":
            stop = "refusal"
        elif self._finish == "length":
            stop = "length"
        return Reply(ModelStep(tuple(blocks), self._model, stop), self._used())

    def billed(self) -> Usage | None:
        """What it took so far; None: nothing was said of that since it was asked last."""
        news = self._counted
        self._counted = False
        return self._used() if news else None

    def _used(self) -> Usage:
        return counted(self._request, self._usage, "prompt_tokens", "completion_tokens")
