"""The HTTP side of the scripted model server, in this process or, with ``python -m
tests.platforms.model``, in one of its own."""

from __future__ import annotations

import asyncio
import contextlib
import json
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

from aiohttp import web

from tests.platforms.model import anthropic_wire, openai_wire, responses_wire
from tests.platforms.model.limits import Limits
from tests.platforms.model.script import Asked, Script, Turn, echo
from tests.platforms.model.validity import anthropic_fault, openai_fault

SUMMARISE = b"You shorten the record of a conversation"


def _summed(_: Asked) -> Turn:
    return Turn(text="Facts:\n- they talked")


class ModelServer:
    """Answers requests from ``script`` in turn, then by ``default``. ``open``: answers that are
    being streamed right now. ``go``: set, nobody is held any more (``Turn.hold``).

    ``strict`` refuses with 400 what the real endpoint would refuse. ``models``: what GET /v1/models
    lists and what exists (empty: any). ``limits``: what is over them is refused with 429."""

    def __init__(
        self,
        script: Iterable[Turn | Script] = (),
        *,
        default: Script = echo,
        strict: bool = True,
        models: Sequence[str] = (),
        limits: Limits | None = None,
    ) -> None:
        self.limits = limits
        self.script: deque[Turn | Script] = deque(script)
        self.default = default
        self.strict = strict
        self.models = list(models)
        self.asked: list[Asked] = []
        self.summaries: list[Asked] = []  # asked for beside the turns; the script is not for them
        self.summary: Script = _summed
        self.keep = True  # benchmarks switch recording off
        self.go = asyncio.Event()
        self.open = 0
        self.dropped = 0  # answers whose reader went away
        self.bills: list[dict[str, int]] = []  # of every answer that began: tokens, as it was told
        self.billed_models: list[str] = []  # whose they are
        self.count = 0
        self.url = ""

    def next(self, *turns: Turn | Script) -> None:
        """What the next requests get."""
        self.script.extend(turns)

    def application(self) -> web.Application:
        app = web.Application(client_max_size=256 << 20)
        app.router.add_post("/v1/messages", self._messages)
        app.router.add_post("/v1/chat/completions", self._completions)
        app.router.add_post("/v1/responses", self._responses)
        app.router.add_get("/v1/models", self._listed)
        app.router.add_post("/_script", self._scripted)
        app.router.add_get("/_asked", self._recorded)
        return app

    async def _messages(self, request: web.Request) -> web.StreamResponse:
        asked, turn = await self._turn(request)
        body = asked.body
        fault = anthropic_fault(body) if self.strict else None
        if not {"x-api-key", "authorization"} & set(map(str.lower, request.headers)):
            turn = Turn(status=401, message="x-api-key header is required")
        elif "anthropic-version" not in request.headers:
            turn = Turn(status=400, message="anthropic-version: header is required")
        elif fault is not None:
            turn = Turn(status=400, message=fault)
        elif self.models and body["model"] not in self.models:
            turn = Turn(status=404, message=f"model: {body['model']}")
        if turn.status != 200 and not turn.in_stream:
            return self._refusal(request, turn, anthropic_wire.error(turn, turn.status))
        text = self._text(turn, asked)
        events = anthropic_wire.events(turn, text, body["model"], len(asked.raw) // 4)
        return await self._stream(
            request,
            turn,
            (anthropic_wire.frame(name, data) for name, data in events),
            body["model"],
        )

    async def _completions(self, request: web.Request) -> web.StreamResponse:
        asked, turn = await self._openai(request, openai_fault)
        body = asked.body
        if turn.status != 200 and not turn.in_stream:
            return self._refusal(request, turn, openai_wire.error(turn, turn.status))
        usage = bool((body.get("stream_options") or {}).get("include_usage"))
        chunks = openai_wire.chunks(
            turn, self._text(turn, asked), body["model"], len(asked.raw) // 4, with_usage=usage
        )

        def frames() -> Iterator[bytes]:
            yield from (openai_wire.frame(chunk) for chunk in chunks)
            if not (turn.no_end or turn.in_stream):
                yield openai_wire.DONE

        return await self._stream(request, turn, frames(), body["model"])

    async def _responses(self, request: web.Request) -> web.StreamResponse:
        asked, turn = await self._openai(request, responses_wire.fault)
        if turn.status != 200 and not turn.in_stream:
            return self._refusal(request, turn, openai_wire.error(turn, turn.status))
        model, text = asked.body["model"], self._text(turn, asked)
        events = responses_wire.events(turn, text, model, len(asked.raw) // 4)
        return await self._stream(request, turn, map(responses_wire.frame, events), model)

    async def _openai(
        self, request: web.Request, fault_of: Callable[[Mapping[str, Any]], str | None]
    ) -> tuple[Asked, Turn]:
        """What was asked, and the turn, or the refusal that comes before it."""
        asked, turn = await self._turn(request)
        body = asked.body
        fault = fault_of(body) if self.strict else None
        if not request.headers.get("authorization", "").startswith("Bearer "):
            turn = Turn(status=401, message="You didn't provide an API key.")
        elif fault is not None:
            turn = Turn(status=400, message=fault)
        elif self.models and body["model"] not in self.models:
            missing = f"The model `{body['model']}` does not exist or you do not have access to it."
            turn = Turn(status=404, message=missing)
        return asked, turn

    async def _turn(self, request: web.Request) -> tuple[Asked, Turn]:
        asked = Asked(request.path, dict(request.headers), await request.read(), time.monotonic())
        if self.limits is not None:
            refused = self.limits.over(len(asked.raw) // 4)
            if refused is not None:
                return asked, refused
        if SUMMARISE in asked.raw:
            self.summaries.append(asked)
            return asked, self.summary(asked)
        self.count += 1
        if self.keep:
            self.asked.append(asked)
        found = self.script.popleft() if self.script else self.default
        turn = found if isinstance(found, Turn) else found(asked)
        if turn.delay:
            await asyncio.sleep(turn.delay)
        if turn.hold == 0:
            await self.go.wait()
        return asked, turn

    def _text(self, turn: Turn, asked: Asked) -> str:
        if turn.empty or (turn.text is None and turn.calls):
            return ""
        return turn.text if turn.text is not None else "echo: " + asked.said

    def _refusal(self, request: web.Request, turn: Turn, body: dict[str, Any]) -> web.Response:
        headers = self._told(request)
        if turn.retry_after is not None:
            headers["retry-after"] = f"{turn.retry_after:.9g}"
        return web.json_response(body, status=turn.status, headers=headers)

    def _told(self, request: web.Request) -> dict[str, str]:
        return {} if self.limits is None else self.limits.headers(request.path)

    async def _stream(
        self, request: web.Request, turn: Turn, frames: Iterator[bytes], model: str
    ) -> web.StreamResponse:
        response = web.StreamResponse(
            headers={
                "content-type": "text/event-stream; charset=utf-8",
                "cache-control": "no-cache",
                **self._told(request),
            }
        )
        response.enable_chunked_encoding()
        await response.prepare(request)
        self.billed_models.append(model)
        self.open += 1
        try:
            await self._frames(request, response, turn, frames)
        except (ConnectionResetError, asyncio.CancelledError):
            self.dropped += 1
            raise
        finally:
            self.open -= 1
        return response

    async def _frames(
        self,
        request: web.Request,
        response: web.StreamResponse,
        turn: Turn,
        frames: Iterator[bytes],
    ) -> None:
        bill = dict[str, int]()
        self.bills.append(bill)
        if not (turn.between or turn.stall is not None or turn.cut is not None or turn.hold):
            whole = list(frames)
            for frame in whole:
                bill |= _billed(frame)
            await response.write(b"".join(whole))
            await response.write_eof()
            return
        for number, frame in enumerate(frames):
            if number and number == turn.hold:
                await self.go.wait()
            if turn.stall is not None and number >= turn.stall:
                await _gone(request)
                raise ConnectionResetError
            if turn.cut is not None and number >= turn.cut:
                if request.transport is not None:
                    request.transport.abort()
                return
            bill |= _billed(frame)
            await response.write(frame)
            if turn.between:
                await asyncio.sleep(turn.between)
        await response.write_eof()

    @property
    def billed_by_model(self) -> Counter[str]:
        """The same, by the model that was asked."""
        sums = Counter[str]()
        for model, bill in zip(self.billed_models, self.bills, strict=True):
            sums[model] += sum(bill.values())
        return sums

    @property
    def billed(self) -> int:
        """Tokens of all answers so far, in and out."""
        return sum(sum(bill.values()) for bill in self.bills)

    async def _listed(self, _: web.Request) -> web.Response:
        return web.json_response(
            {
                "object": "list",
                "data": [{"id": name, "object": "model"} for name in self.models or ["fake-1"]],
            }
        )

    async def _scripted(self, request: web.Request) -> web.Response:
        """For a server in a process of its own: a JSON list of turns to append."""
        self.next(*(Turn.from_json(item) for item in await request.json()))
        return web.json_response({"waiting": len(self.script)})

    async def _recorded(self, _: web.Request) -> web.Response:
        return web.json_response(
            [{"path": asked.path, "at": asked.at, "body": asked.body} for asked in self.asked]
        )


# A count of a wire that is part of another one is not here.
_TOKENS = frozenset(
    "input_tokens cache_creation_input_tokens cache_read_input_tokens output_tokens prompt_tokens"
    " completion_tokens".split()
)


def _billed(frame: bytes) -> dict[str, int]:
    """What the frame says that the answer takes, so far."""
    if b'"usage"' not in frame:
        return {}
    data = json.loads(frame.partition(b"data: ")[2])
    inner = data.get("message") or data.get("response") or data
    usage = inner.get("usage") or {}
    return {name: tokens for name, tokens in usage.items() if name in _TOKENS}


async def _gone(request: web.Request) -> None:
    """Until the reader closes its connection."""
    while request.transport is not None and not request.transport.is_closing():
        await asyncio.sleep(0.01)


@asynccontextmanager
async def serving(server: ModelServer, *, port: int = 0) -> AsyncIterator[ModelServer]:
    """Listens on 127.0.0.1; ``server.url`` is set inside."""
    runner = web.AppRunner(
        server.application(), handler_cancellation=True, access_log=None, shutdown_timeout=0.1
    )
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", port)
    await site.start()
    server.url = f"http://127.0.0.1:{runner.addresses[0][1]}"
    try:
        yield server
    finally:
        await runner.cleanup()


async def run(port: int, script: str | None) -> None:
    turns = [Turn.from_json(item) for item in json.loads(script)] if script else []
    server = ModelServer(turns)
    async with serving(server, port=port):
        print(server.url.rsplit(":", 1)[1], flush=True)
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.Event().wait()
