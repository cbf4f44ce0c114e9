"""Figure G8: turns that are interrupted anywhere, again and again; their transcript must stay one
that every endpoint accepts."""

from __future__ import annotations

import asyncio
import json
import random
from contextlib import suppress
from dataclasses import dataclass

from pool_rig import Rig, violations

from ohmo.contracts.messages import Image, ModelStep
from ohmo.contracts.provider import ModelRequest
from ohmo.providers.anthropic.wire import MessagesWire
from ohmo.providers.openai.responses_wire import ResponsesWire
from ohmo.providers.openai.wire import CompletionsWire
from ohmo.providers.request_bytes import GONE, ConversationCache, Unseen, Wire
from ohmo_testing.scripted import Says
from tests.platforms.model.responses_wire import fault as responses_fault
from tests.platforms.model.validity import anthropic_fault, openai_fault

TOOLS = ("Look", "Once", "Again", "Nosuch")
ENDS = ("kill", "kill", "stop", "graceful", "store away", "interrupt")
BUSY = ("queue", "steer", "interrupt", "collect")


@dataclass(frozen=True, slots=True)
class Story:
    """``rounds``: the calls of each model step. ``lives``: how each ends, after how many turns of
    the event loop."""

    rounds: list[list[str]]
    lives: list[tuple[str, int]]
    busy: str


def drawn(chance: random.Random) -> Story:
    rounds = [
        [chance.choice(TOOLS) for _ in range(chance.randint(1, 4))]
        for _ in range(chance.randint(1, 3))
    ]
    lives = [(chance.choice(ENDS), chance.randint(0, 90)) for _ in range(chance.randint(1, 4))]
    return Story(rounds, lives, chance.choice(BUSY))


async def told(story: Story) -> int:
    """How many turns were interrupted. AssertionError when a transcript or a request was ever
    invalid, or an effect came twice."""
    rig = Rig(busy=story.busy)  # pyright: ignore[reportArgumentType]
    _script(rig, story.rounds)
    interrupted = 0
    for how, after in story.lives:
        if rig.is_quiet():
            await rig.says("go")
        interrupted += await _one_life(rig, how, after)
        assert violations(rig.steps(), open_allowed=True) == []
    await _comes_to_rest(rig)
    last_turn_open = rig.endings()[-1:] in (["stopped"], ["dead"])
    assert violations(rig.steps(), open_allowed=last_turn_open) == []
    assert [name for name, count in rig.once.begun.items() if count > 1] == []
    assert [fault for request in rig.model.requests for fault in faults(request)] == []
    return interrupted


def faults(request: ModelRequest) -> list[str]:
    """What the endpoints would say of it."""
    found = [
        anthropic_fault(
            {"model": "m", "max_tokens": 1, "messages": _written(MessagesWire(), request)}
        ),
        openai_fault({"messages": _written(CompletionsWire(), request)}),
        responses_fault({"model": "m", "input": _written(ResponsesWire(), request)}),
    ]
    return [fault for fault in found if fault is not None]


def _written(wire: Wire, request: ModelRequest) -> list[dict[str, object]]:
    conversations = ConversationCache(wire)
    body, tail = conversations.write(conversations.open(request.steps), _no_picture)
    return json.loads(b"[" + bytes(body) + (b"," if body and tail else b"") + tail + b"]")


def _no_picture(_: Image) -> Unseen:
    return GONE


def _script(rig: Rig, rounds: list[list[str]]) -> None:
    """The model asks for each round, whatever became of it, and then answers; so again for the next
    words."""
    names = iter(range(10_000))

    def answer(request: ModelRequest) -> Says:
        asked = sum(isinstance(step, ModelStep) for step in request.steps) % (len(rounds) + 1)
        if asked == len(rounds):
            return Says("done")
        return Says("", calls=tuple((tool, {"name": f"{next(names)}"}) for tool in rounds[asked]))

    rig.model.default = answer


def _runs(rig: Rig) -> bool:
    return any(turn.state == "running" for turn in rig.store.tables.turns.values())


async def _one_life(rig: Rig, how: str, after: int) -> bool:
    """Was a turn interrupted by its end?"""
    if how == "kill":
        await rig.killed_after(after)
        return _runs(rig)
    pool = rig.pool()
    await rig.store.reclaim(f"life-{len(rig.handles)}")
    task = asyncio.create_task(pool.run())
    for _ in range(after):
        await asyncio.sleep(0)
    interrupted = _runs(rig)
    if how == "stop":
        await rig.stops(pool)
        await rig.says("and now?")
    elif how == "interrupt":
        await rig.says("listen")
        for thread in rig.store.tables.threads:
            pool.arrived(thread)
    elif how == "store away":
        rig.handles[-1].away = {"record", "finish"}
        for _ in range(10):
            await asyncio.sleep(0)
        rig.handles[-1].away = set()
    for _ in range(after // 2):
        await asyncio.sleep(0)
    await pool.drain(0)
    task.cancel()
    with suppress(asyncio.CancelledError):
        await task
    return interrupted


async def _comes_to_rest(rig: Rig) -> None:
    for _ in range(12):
        if rig.is_quiet():
            return
        rig.clock.tick(600)
        async with rig.life():
            for _ in range(400):
                await asyncio.sleep(0)
                if rig.is_quiet():
                    break
    assert rig.is_quiet(), rig.endings()
