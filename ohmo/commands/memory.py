"""``/memory``: what is remembered for you and in this place."""

from __future__ import annotations

import asyncio
from pathlib import Path

from ohmo.commands.contract import MEMBERS, Command, Desk, Effect, Order, Reply
from ohmo.contracts.outbox import OWN_CHANNELS
from ohmo.memory.desk import Memory
from ohmo.memory.scopes import Viewer
from ohmo.memory.talk import spoken


async def run(order: Order, desk: Desk) -> Effect:
    return Reply(await desk.memory_of(order))


async def remembered(memory: Memory, workspace: Path, order: Order) -> str:
    """``workspace``: where turns work for whom nobody chose another folder."""
    own = order.address.channel in OWN_CHANNELS
    # what the owner says by the local API is answered where the conversation is, before others
    alone = order.said is not None and order.said.private and (own or order.person != "owner")
    person = f"{order.address.channel}:{order.person}"
    cwd = Path(order.settings.workspace or workspace)
    viewer = Viewer(person, order.standing, alone, order.address, cwd)
    return await asyncio.to_thread(spoken, memory, viewer, order.argument, person)


COMMAND = Command(
    "memory",
    "what I remember",
    run,
    MEMBERS,
    usage="[show|search|forget|accept|reject WHAT]",
    place=105,
)
