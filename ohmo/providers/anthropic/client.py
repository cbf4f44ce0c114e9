"""Talks to an Anthropic-compatible endpoint through the official SDK; imports it, so load this
module late."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any, Literal, cast

import anthropic
import httpx2
from anthropic import AsyncAnthropic, DefaultAioHttpClient

from ohmo.contracts.errors import CutOff, ProviderError, TimedOut
from ohmo.contracts.messages import ModelStep, Text, Thinking, ToolCall, Usage
from ohmo.contracts.provider import Billed, Delta, ModelEvent, ModelRequest, Reply
from ohmo.providers.anthropic.wire import keeps_tools_back, rendering
from ohmo.providers.models import Endpoint, plain_name
from ohmo.providers.sdk.event_stream import StreamingPost, events
from ohmo.providers.wire_parts import (
    BROKEN,
    NO_EFFORT,
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

# "Preserved thinking": something before a thinking block is not what it was
_UNBOUND = "in `thinking` block"
_BY_REFERENCE = ("defer_loading", "tool_reference", "Tool reference")


class AnthropicClient:
    """One HTTP client for the life of the process. The body is bytes of our own, which spares the
    SDK a deep copy and its json."""

    def __init__(self, endpoint: Endpoint, *, references: bool | None = None) -> None:
        """``references``: whether the endpoint keeps tools back itself; None: what is known about
        it."""
        self._endpoint = endpoint
        # API overview, "Authentication": the key goes into ``x-api-key``. The SDK sends it as a
        # bearer only, which Anthropic takes and not every endpoint that speaks its wire does:
        # those are shown both.
        headers = dict(endpoint.headers)
        if endpoint.base_url and endpoint.api_key:
            headers["X-Api-Key"] = endpoint.api_key
        base = endpoint.base_url.rstrip("/").removesuffix("/v1") if endpoint.base_url else None
        http = DefaultAioHttpClient()
        timeout = httpx2.Timeout(endpoint.silence, connect=min(10.0, endpoint.silence))
        self._sdk = AsyncAnthropic(
            # No key is the endpoint's to judge; it says so in words.
            api_key=endpoint.api_key or "unset",
            base_url=base,
            default_headers=headers,
            max_retries=0,
            timeout=timeout,
            http_client=http,
        )
        self._post = StreamingPost(self._sdk, anthropic, http, "/v1/messages", timeout)
        # The SDK has an environment variable for it.
        known = keeps_tools_back(endpoint) and self._sdk.base_url.host == "api.anthropic.com"
        self._references = known if references is None else references
        self.rendering = rendering(references=self._references)
        self._marks = True
        self._effortless: set[str] = set()
        self._windows: dict[str, int] = {}

    def learnt_window(self, model: str) -> int | None:
        return self._windows.get(model)

    async def aclose(self) -> None:
        await self._sdk.close()

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        """See ``ohmo.contracts.provider.Provider.stream``. No retries but these, each once: a
        request whose old thinking is not accepted any more (history was cut, the prompt changed)
        goes out without it, one whose pictures are not accepted only tells of them; an endpoint
        that does not keep tools back, or knows no cache mark or no effort, is not asked to from
        then on."""
        unbound = False
        while True:
            if request.model in self._effortless:
                request = replace(request, effort=None)
            reading = Reading(request)
            rendered = await self.rendering(request)
            try:
                response = await self._post(rendered.body)
                try:
                    yield began(response.headers)
                    async for event in _answered(response):
                        for told in reading.told(event):
                            yield told
                finally:
                    await response.aclose()
                reply = reading.reply()
            except anthropic.APIStatusError as error:
                if error.status_code not in (400, 413, 422):
                    raise self._classified(request, error) from error
                pictures = NO_PICTURES.search(str(error))
                if pictures and self.rendering.conversations.without_pictures(request.steps):
                    continue
                if self._references and any(word in str(error) for word in _BY_REFERENCE):
                    self._references, self.rendering = False, rendering(references=False)
                elif _UNBOUND in str(error) and not unbound:
                    unbound = True
                    self.rendering.conversations.without_thinking(request.steps)
                elif self._marks and "cache_control" in str(error):
                    self._marks = self._references = False
                    self.rendering = rendering(marks=False)
                elif request.effort is not None and NO_EFFORT.search(str(error)):
                    self._effortless.add(request.model)
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
                    gateway=self._endpoint.gateway,
                )
            case anthropic.APIConnectionError():
                return out_of_reach(where, error)
            case _:
                return CutOff(
                    f"{where}: the connection broke in the middle of the answer ({error})"
                )


_Event = dict[str, Any]


async def _answered(response: httpx2.Response) -> AsyncIterator[_Event]:
    """The events of an answer ("Streaming messages" in the API's documentation). Raises
    APIStatusError for a refusal and for an error event in the middle."""
    if not response.is_success:
        await response.aread()
        raise _status_error(response, response.text.strip())
    async for name, data in events(response):
        if name == b"ping":
            continue
        event: _Event = {} if name == b"error" else json.loads(data)
        if name == b"error" or event.get("type") == "error":
            raise _status_error(response, data.decode(errors="replace"))
        yield event


def _status_error(response: httpx2.Response, text: str) -> anthropic.APIStatusError:
    try:
        body: object = json.loads(text)
    except ValueError:
        body = text
    message = text or f"status {response.status_code}"
    return anthropic.APIStatusError(message, response=response, body=body)


_STOPS: dict[str, Literal["end", "tools", "length", "refusal"]] = {
    "end_turn": "end",
    "stop_sequence": "end",
    "pause_turn": "end",
    "tool_use": "tools",
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "refusal",
}


class Reading:
    """Feed every event; ``reply`` after the last. Raises CutOff when the stream ended before
    message_stop."""

    def __init__(self, request: ModelRequest) -> None:
        self._request = request
        self._measure = Measure(request)
        self._blocks: dict[int, _Event] = {}
        self._texts: dict[int, list[str]] = {}
        self._usage: dict[str, int] = {}
        self._counted = False
        self._model = request.model
        self._stop = ""
        self._ended = False

    def feed(self, event: _Event) -> str:
        """The text to show, mostly empty."""
        match event.get("type"):
            case "content_block_delta":
                return self._delta(int(event["index"]), event["delta"])
            case "content_block_start":
                index = int(event["index"])
                self._blocks[index] = dict(event["content_block"])
                self._texts[index] = []
                if self._blocks[index].get("type") == "text":
                    # The documented start is empty; some gateways put the first words here.
                    return self._collect(index, str(self._blocks[index].get("text") or ""))
            case "message_start":
                message = cast("_Event", event["message"])
                self._model = str(message.get("model") or self._model)
                self._count(message.get("usage"))
            case "message_delta":
                self._stop = str(event["delta"].get("stop_reason") or self._stop)
                self._count(event.get("usage"))
            case "message_stop":
                self._ended = True
            case _:
                pass
        return ""

    def reply(self) -> Reply:
        if not self._ended:
            raise CutOff(f"{self._request.model}: the stream ended in the middle of the answer")
        read = [self._block(index) for index in sorted(self._blocks)]
        blocks = tuple(block for block in read if block is not None)
        stop = _STOPS.get(self._stop, "end")
        if any(isinstance(block, ToolCall) for block in blocks):
            stop = "tools"
        elif stop == "tools":
            stop = "end"
        return Reply(ModelStep(blocks, self._model, stop), self._used())

    def told(self, event: _Event) -> Iterator[Delta | Billed]:
        """Feeds the event: what is shown of it, and what the answer took so far when it says so."""
        text = self.feed(event)
        if text:
            yield Delta(text)
        if self._counted:
            self._counted = False
            yield Billed(self._used())

    def _used(self) -> Usage:
        return Usage(
            self._request.model,
            self._request.purpose,
            input=self._usage.get("input_tokens", 0),
            cached=self._usage.get("cache_read_input_tokens", 0),
            written=self._usage.get("cache_creation_input_tokens", 0),
            output=self._usage.get("output_tokens", 0),
            micro_usd=None,
        )

    def _delta(self, index: int, delta: _Event) -> str:
        match delta.get("type"):
            case "text_delta":
                return self._collect(index, str(delta.get("text") or ""))
            case "input_json_delta":
                self._collect(index, str(delta.get("partial_json") or ""))
            case "thinking_delta":
                self._collect(index, str(delta.get("thinking") or ""))
            case "signature_delta":
                block = self._blocks[index]
                signed = str(block.get("signature") or "")
                block["signature"] = signed + str(delta.get("signature") or "")
            case _:
                pass
        return ""

    def _collect(self, index: int, text: str) -> str:
        if text:
            self._measure.count(text)
            self._texts.setdefault(index, []).append(text)
        return text

    def _block(self, index: int) -> Text | Thinking | ToolCall | None:
        start, text = self._blocks[index], "".join(self._texts.get(index, ()))
        match start.get("type"):
            case "text":
                return Text(text) if text else None
            case "tool_use":
                given = text or json.dumps(start.get("input") or {})
                identity = str(start.get("id") or f"call_{index}")
                return ToolCall(identity, str(start.get("name") or ""), arguments(given), identity)
            case "thinking":
                whole = {
                    "type": "thinking",
                    "thinking": str(start.get("thinking") or "") + text,
                    "signature": start.get("signature") or "",
                }
                return Thinking(
                    "anthropic", json.dumps(whole, ensure_ascii=False, separators=(",", ":"))
                )
            case _:  # redacted_thinking and whatever comes later goes back as it came
                return Thinking(
                    "anthropic", json.dumps(start, ensure_ascii=False, separators=(",", ":"))
                )

    def _count(self, usage: object) -> None:
        """Counts are cumulative: the newest wins."""
        if isinstance(usage, dict):
            self._counted = True
            self._usage |= {
                key: value for key, value in cast("_Event", usage).items() if isinstance(value, int)
            }
