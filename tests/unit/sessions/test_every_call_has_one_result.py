"""G8: however a turn is interrupted, its transcript stays valid and nothing with an effect runs twice."""

from __future__ import annotations

import asyncio
from contextlib import suppress

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pool_rig import Rig, violations

from ohmo.contracts.messages import ModelStep
from ohmo.contracts.provider import ModelRequest
from ohmo.providers.scripted import Says

CALLS = st.lists(st.sampled_from(["Look", "Once", "Again", "Nosuch"]), min_size=1, max_size=4)
END = st.sampled_from(["kill", "kill", "stop", "graceful", "store away", "interrupt"])


def script(rig: Rig, rounds: list[list[str]]) -> None:
    """The model asks for each round once, whatever became of it, and then answers."""
    names = iter(range(10_000))

    def answer(request: ModelRequest) -> Says:
        asked = sum(isinstance(step, ModelStep) for step in request.steps)
        if asked >= len(rounds):
            return Says("done")
        return Says("", calls=tuple((tool, {"name": f"{next(names)}"}) for tool in rounds[asked]))

    rig.model.default = answer


async def one_life(rig: Rig, how: str, after: int) -> None:
    if how == "kill":
        await rig.killed_after(after)
        return
    pool = rig.pool()
    await rig.store.reclaim(f"life-{len(rig.handles)}")
    task = asyncio.create_task(pool.run())
    for _ in range(after):
        await asyncio.sleep(0)
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


async def story(rounds: list[list[str]], lives: list[tuple[str, int]], busy: str) -> None:
    rig = Rig(busy=busy)  # pyright: ignore[reportArgumentType]
    script(rig, rounds)
    await rig.says("go")
    for how, after in lives:
        await one_life(rig, how, after)
        assert violations(rig.steps(), open_allowed=True) == []
    for _ in range(12):
        if rig.is_quiet():
            break
        rig.clock.tick(600)
        async with rig.life():
            for _ in range(400):
                await asyncio.sleep(0)
                if rig.is_quiet():
                    break
    assert rig.is_quiet(), rig.endings()
    last_turn_open = rig.endings()[-1] in ("stopped", "dead")
    assert violations(rig.steps(), open_allowed=last_turn_open) == []
    assert [name for name, count in rig.once.begun.items() if count > 1] == []


@given(
    st.lists(CALLS, min_size=1, max_size=3),
    st.lists(st.tuples(END, st.integers(0, 90)), max_size=4),
    st.sampled_from(["queue", "steer", "interrupt", "collect"]),
)
@settings(max_examples=1000, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_turn_interrupted_anywhere_leaves_a_valid_transcript(rounds: list[list[str]], lives: list[tuple[str, int]], busy: str) -> None:
    asyncio.run(story(rounds, lives, busy))
