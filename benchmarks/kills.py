"""``kill -9`` with 50 messages in flight, before, during and after the model call: what is lost,
what is said twice. ``python -m benchmarks.kills``."""

from __future__ import annotations

import argparse
import asyncio

from benchmarks.rig import FIRST_CHAT, Chats, Daemon, home, show, telegram
from tests.platforms.model.script import Turn
from tests.platforms.model.server import ModelServer, serving

MARK = "may be a duplicate"
MOMENTS = ("before the model call", "during the model call", "half answered")


async def until(found: object, seconds: float = 60) -> None:
    async with asyncio.timeout(seconds):
        while not found():  # type: ignore[operator]
            await asyncio.sleep(0.002)


async def once(moment: str, count: int) -> tuple[int, int, int]:
    """Lost, said twice unmarked, said twice with a mark."""
    model = ModelServer()
    model.default = lambda asked: Turn(
        text="echo: " + asked.said, delay=1.0 if moment == MOMENTS[1] else 0.0
    )
    async with telegram() as chats, serving(model):
        with home(model.url, chats.server, limits="{concurrent_turns: 64}") as root:
            daemon = Daemon(root)
            await daemon.start()
            await daemon.ready()
            chats.says(FIRST_CHAT, "warm")
            await chats.answered(FIRST_CHAT, "warm")
            if moment == MOMENTS[2]:
                chats.server.faults.latency = 0.05  # so that sends are really in flight
            said = [(FIRST_CHAT + 1 + chat, f"word {chat}") for chat in range(count)]
            for chat, text in said:
                chats.says(chat, text)
            if moment == MOMENTS[0]:
                await until(
                    lambda: not chats.server.world.queue
                )  # confirmed: nobody but ohmo has them now
            elif moment == MOMENTS[1]:
                await until(lambda: model.count > count)
            else:
                await until(lambda: chats.seen.total - 3 > count // 2)
            await daemon.kill()
            await daemon.start()
            await daemon.ready()
            lost = await chats.all_answered(said, 90)
            await asyncio.sleep(1.5)
            await chats.all_answered((), 1)
            await daemon.stop()
    return len(lost), *twice(chats, said)


def twice(chats: Chats, said: list[tuple[int, str]]) -> tuple[int, int]:
    plain = marked = 0
    for chat, text in said:
        of_chat = [
            shown for (where, shown), times in chats.answers.items() if where == chat for _ in times
        ]
        extra = [shown for shown in of_chat if f"echo: {text}" in shown][1:]
        marked += sum(MARK in shown for shown in extra)
        plain += sum(MARK not in shown for shown in extra)
    return plain, marked


async def main(count: int, rounds: int) -> None:
    for moment in MOMENTS:
        for _ in range(rounds):
            lost, plain, marked = await once(moment, count)
            show(f"lost of {count}, killed {moment}", lost, "", "= 0")
            show(
                "    said twice / marked as a possible duplicate",
                plain,
                "",
                f"/ {marked}    = 0 / at most 4",
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=50)
    parser.add_argument("--rounds", type=int, default=1)
    given = parser.parse_args()
    asyncio.run(main(given.messages, given.rounds))
