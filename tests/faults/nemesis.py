"""Kills a daemon at random moments while many people talk to it; shared by the test run and the
long campaign."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Sequence
from dataclasses import asdict

from tests.faults.daemon import Awake
from tests.faults.scene import Scene

SLOW = {"matrix": 0.4}  # a real homeserver takes its time: fewer messages there
Thread = tuple[str, str, str | None]  # platform, chat, topic


async def campaign(
    scene: Scene,
    chance: random.Random,
    *,
    kills: int,
    messages: int,
    threads: int = 50,
    pause: float = 1.2,
) -> list[dict[str, float]]:
    """``messages`` in ``threads`` threads over all platforms of the scene while the daemon is
    killed ``kills`` times, up to ``pause`` seconds after it is ready. Then the ledger: 0 lost;
    repeats on Telegram only, marked, at most 4 for each kill. Returns how soon the lives after
    kills were there, of those that were let live."""
    places = await chats(scene, threads)
    awoke: list[Awake] = []
    await scene.daemon.start()
    share = Share(messages // (kills + 1))
    talking = asyncio.create_task(
        _talk(scene, random.Random(chance.random()), places, messages, share)
    )
    try:
        for _ in range(kills):
            await asyncio.sleep(chance.uniform(0, pause))
            await scene.daemon.kill()
            share.next_life()
            await scene.daemon.start(ready=False)
            if chance.random() < 0.6:  # some die before they are ready
                awoke.append(await scene.daemon.awake())
        share.next_life(last=True)
        await talking
    finally:
        talking.cancel()
    await scene.daemon.ready()
    await scene.answered(within=120)
    await scene.check(repeats=4 * kills)
    return [asdict(one) for one in awoke]


class Share:
    """People say as much in every life (and the time before it), however long it takes, so that
    each kill meets some of it."""

    def __init__(self, each: int) -> None:
        self._each = each
        self._left = each
        self._more = asyncio.Event()
        self._more.set()

    def next_life(self, *, last: bool = False) -> None:
        self._left += 1 << 40 if last else self._each
        self._more.set()

    async def take(self) -> None:
        """Waits until there is something to say in this life."""
        if self._left <= 0:
            self._more.clear()
            await self._more.wait()
        self._left -= 1


async def chats(scene: Scene, threads: int) -> Sequence[Thread]:
    """Evenly over the platforms: threads of a group on Slack, direct chats elsewhere, rooms on
    Matrix."""
    each = max(1, threads // len(scene.rigs))
    found: list[Thread] = []
    for on in scene.rigs:
        for number in range(each):
            chat = f"dm:{number}" if on == "matrix" else scene.fresh_chat(on)
            if on == "matrix":
                await scene.rigs[on].creates(chat, "ada")
            topic = (
                await scene.rigs[on].says(f"thread {number}", chat=chat, mention=False)
                if on == "slack"
                else None
            )
            found.append((on, chat, topic))
    return found


async def _talk(
    scene: Scene, chance: random.Random, places: Sequence[Thread], messages: int, share: Share
) -> None:
    for _ in range(messages):
        await share.take()
        on, chat, topic = chance.choices(places, [SLOW.get(place[0], 1) for place in places])[0]
        await scene.says(
            f"#chunks{{{chance.randrange(1, 8)}}} #pace{{{chance.choice((0, 0.01, 0.1))}}}",
            on=on,
            chat=chat,
            topic=topic,
        )
        await asyncio.sleep(chance.uniform(0, 0.15))
