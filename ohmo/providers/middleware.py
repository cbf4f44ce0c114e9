"""The chain around a model call: each piece takes a Call and gives a Call."""

from __future__ import annotations

import asyncio
import contextlib
import random
import re
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from dataclasses import replace

from channels.record import record
from ohmo.ambient import NewId
from ohmo.contracts.errors import (
    CutOff,
    Empty,
    NoSuchModel,
    Overloaded,
    ProviderError,
    Refused,
    TimedOut,
    TooLong,
)
from ohmo.contracts.messages import ModelStep, Text, ToolCall
from ohmo.contracts.provider import Call, Delta, ModelEvent, ModelRequest, Notice, Reply, Restarted
from ohmo.providers.models import Price, known, plain_name
from ohmo.providers.wire_parts import streaming


def says_something(event: ModelEvent) -> bool:
    """Whether the person has seen words of the answer by it."""
    match event:
        case Delta(text):
            return bool(text)
        case Notice() | Restarted() | Reply():
            return False


def waiting(call: Call, *, first: float = 25.0, then: float = 120.0) -> Call:
    """A Notice after ``first`` seconds without any event, and every ``then`` seconds further, until
    the model says something (and again after it began anew). An answer that has begun is visible by
    itself and bounded by the endpoint's ``silence``."""

    async def watched(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        async with streaming(call, request) as events:
            silent = True
            while True:
                if not silent:
                    event = await anext(events, None)
                else:
                    coming = asyncio.ensure_future(anext(events, None))
                    try:
                        waited, limit = 0.0, first
                        while not (await asyncio.wait((coming,), timeout=limit))[0]:
                            waited, limit = waited + limit, then
                            silence = f"{request.model} has not answered for {waited:.0f} s."
                            yield Notice(f"{silence} Still waiting.")
                        event = await coming
                    finally:
                        if not coming.done():
                            coming.cancel()
                            with contextlib.suppress(asyncio.CancelledError):
                                await coming
                if event is None:
                    return
                silent = not (isinstance(event, Reply) or says_something(event))
                yield event

    return watched


@record
class Alternative:
    """A model that may be asked."""

    call: Call
    name: str  # as a person reads it
    model: str | None = None  # None: the model the request names


def fallback(choices: Sequence[Alternative]) -> Call:
    """In order. A request that is too long or refused for what it is would fare no better
    elsewhere: those errors go through at once."""

    async def asked(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        for number, choice in enumerate(choices):
            said = False
            try:
                wanted = replace(request, model=choice.model) if choice.model else request
                async with streaming(choice.call, wanted) as events:
                    async for event in events:
                        yield event
                        said = said or says_something(event)
                return
            except (TooLong, Refused):
                raise
            except ProviderError as error:
                if number + 1 == len(choices):
                    raise
                if said:
                    yield Restarted()
                yield Notice(f"{error} Asking {choices[number + 1].name} instead.")

    return asked


@record
class Patience:
    """How long and how often something is tried. An endpoint's own Retry-After goes first."""

    tries: int = 4  # calls in all
    deadline: float = 600.0  # seconds from the first try after which no new try begins
    #: Seconds before the second try; doubled for each further one, with jitter from half to all.
    first: float = 1.0
    tell_from: float = 3.0  # shorter waits are not worth a line to the person
    sleep: Callable[[float], Awaitable[None]] = asyncio.sleep
    clock: Callable[[], float] = time.monotonic
    jitter: Callable[[], float] = random.random


def retry(call: Call, patience: Patience | None = None) -> Call:
    """After a try that had already said something the next one begins with ``Restarted``."""
    rule = patience or Patience()

    async def retried(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        started = rule.clock()
        for number in range(1, rule.tries + 1):
            said = False
            try:
                async with streaming(call, request) as events:
                    async for event in events:
                        yield event
                        said = said or says_something(event)
                return
            except (Overloaded, TimedOut, CutOff) as error:
                wait = rule.first * 2 ** (number - 1) * (0.5 + 0.5 * rule.jitter())
                if isinstance(error, Overloaded) and error.retry_after is not None:
                    wait = error.retry_after
                if number == rule.tries or rule.clock() + wait - started > rule.deadline:
                    raise
                if said:
                    yield Restarted()
                if wait >= rule.tell_from or number == 2:
                    again = f"Trying again in {wait:.0f} s ({number + 1} of {rule.tries})."
                    yield Notice(f"{error} {again}")
            await rule.sleep(wait)

    return retried


DECLINED = "The model declined to answer this."
LENGTH = "The answer did not fit into the allowed length."


def repair(call: Call, new_id: NewId) -> Call:
    """Every call gets an id of the house, unique for ever (models reuse theirs); the model's stays
    in ``foreign``. An empty answer raises Empty, so that it is asked again; a tool name nobody
    knows stays and ends as an error result."""

    async def repaired(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        async with streaming(call, request) as events:
            async for event in events:
                if isinstance(event, Reply):
                    names = [tool.name for tool in request.every]
                    yield replace(event, step=whole(event.step, names, new_id))
                else:
                    yield event

    return repaired


def whole(step: ModelStep, tools: Sequence[str], new_id: NewId) -> ModelStep:
    """The step with names and ids put right. Raises Empty when it says nothing and calls
    nothing."""
    blocks = list(step.blocks)
    says_nothing = True
    for at, block in enumerate(blocks):
        if isinstance(block, ToolCall):
            blocks[at] = replace(block, id=new_id(), name=tool_name(block.name, tools))
            says_nothing = False
        elif isinstance(block, Text) and block.text.strip():
            says_nothing = False
    if says_nothing:
        if step.stop == "end":
            raise Empty(f"{step.model} gave an empty answer.")
        blocks.append(Text(DECLINED if step.stop == "refusal" else LENGTH))
    return replace(step, blocks=tuple(blocks))


def tool_name(name: str, tools: Sequence[str]) -> str:
    """``functions.read_file`` is never guessed to be another tool; ``functions.read`` and ``READ``
    are Read, when there is exactly one."""
    if name in tools:
        return name
    plain = _plain(re.sub(r"^(?:functions?|tools?|default_api)[.:/]", "", name.strip()))
    found = [tool for tool in tools if _plain(tool) == plain]
    return found[0] if len(found) == 1 else name


def _plain(name: str) -> str:
    return re.sub(r"[\s_\-]", "", name).lower()


def priced(call: Call, pricing: Mapping[str, Price]) -> Call:
    """``pricing``: by the model's name as a profile writes it, with or without its maker; else the
    table's price. A usage that came with its cost keeps it."""

    async def asked(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        price = price_of(request.model, pricing)
        async with streaming(call, request) as events:
            async for event in events:
                if not isinstance(event, Reply) or price is None:
                    yield event
                    continue
                usage = event.usage
                if usage.micro_usd is None:
                    cost = price.micro_usd(usage.input, usage.cached, usage.written, usage.output)
                    usage = replace(usage, micro_usd=cost)
                yield replace(event, usage=usage)

    return asked


def price_of(model: str, pricing: Mapping[str, Price]) -> Price | None:
    """None: nobody knows it."""
    found = pricing.get(model) or pricing.get(plain_name(model))
    return found or known(model).price


def short_name(model: str) -> str:
    """What stands behind the first slash; empty without one."""
    return model.partition("/")[2]


def unprefixed(call: Call) -> Call:
    """Some gateways name their models ``openai/gpt-5``, most endpoints ``gpt-5``: the name goes out
    as it is written, and an endpoint that has no such model is asked for the short one, from then
    on at once."""
    shortened: set[str] = set()

    async def asked(request: ModelRequest) -> AsyncIterator[ModelEvent]:
        short = short_name(request.model)
        if short and request.model not in shortened:
            try:
                async with streaming(call, request) as events:
                    async for event in events:
                        yield event
                return
            except NoSuchModel as first:
                try:
                    async with streaming(call, replace(request, model=short)) as events:
                        async for event in events:
                            shortened.add(request.model)
                            yield event
                    return
                except NoSuchModel:
                    raise first from None
        wanted = replace(request, model=short) if short else request
        async with streaming(call, wanted) as events:
            async for event in events:
                yield event

    return asked
