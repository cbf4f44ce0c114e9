"""Kills a daemon at random moments while many people talk to it; shared by the test run and the long campaign."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence

from tests.faults.scene import Scene


async def campaign(scene: Scene, chance: random.Random, *, kills: int, messages: int, threads: int = 50, pause: float = 1.2) -> None:
    """``messages`` in ``threads`` threads over all platforms of the scene while the daemon is killed ``kills`` times, up to ``pause`` seconds
    after it is ready. Then the ledger: 0 lost; repeats on Telegram only, marked, at most 4 for each kill."""
    places = await chats(scene, threads)
    await scene.daemon.start()
    talking = asyncio.create_task(_talk(scene, chance, places, messages))
    try:
        for _ in range(kills):
            await asyncio.sleep(chance.uniform(0, pause))
            await scene.daemon.kill()
            await scene.daemon.start(ready=chance.random() < 0.7)  # some die before they are ready
        await talking
    finally:
        talking.cancel()
    await scene.daemon.ready()
    await scene.answered(within=120 + messages / 10)
    await scene.check(repeats=4 * kills)


async def chats(scene: Scene, threads: int) -> Sequence[tuple[str, str]]:
    """(platform, chat), evenly over the platforms; fewer rooms on Matrix, whose real homeserver takes its time."""
    each = max(1, threads // len(scene.rigs))
    found = [(on, scene.fresh_chat(on)) for on in scene.rigs if on != "matrix" for _ in range(each)]
    for number in range(min(each, 5) if "matrix" in scene.rigs else 0):
        await scene.rigs["matrix"].creates(f"dm:{number}", "ada")
        found.append(("matrix", f"dm:{number}"))
    return found


async def _talk(scene: Scene, chance: random.Random, places: Sequence[tuple[str, str]], messages: int) -> None:
    for _ in range(messages):
        on, chat = chance.choice(places)
        await scene.says(f"#chunks{{{chance.randrange(1, 8)}}} #pace{{{chance.choice((0, 0.01, 0.1))}}}", on=on, chat=chat)
        await asyncio.sleep(chance.uniform(0, 0.15))
