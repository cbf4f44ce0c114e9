"""``/memory``: what is remembered is shown and changed at once; what a model has to read is told
later."""

from __future__ import annotations

import asyncio
from pathlib import Path

import structlog

from channels.text import literal
from ohmo.ambient import NewId
from ohmo.commands.contract import Order
from ohmo.contracts.outbox import OWN_CHANNELS
from ohmo.contracts.provider import Payer
from ohmo.contracts.reports import Reports
from ohmo.contracts.store import Store
from ohmo.gateway.answering import notice
from ohmo.lifecycle import failure_of
from ohmo.memory.notes import NotRemembered
from ohmo.memory.scopes import Scope, Viewer
from ohmo.memory.talk import change, spoken
from ohmo.memory.tidying import Tidying

log = structlog.get_logger("ohmo.gateway")


class MemoryOrders:
    """``workspace``: where turns work for whom nobody chose another folder."""

    def __init__(
        self, tidying: Tidying, workspace: Path, store: Store, reports: Reports, new_id: NewId
    ) -> None:
        self._tidying = tidying
        self._workspace = workspace
        self._store = store
        self._reports = reports
        self._new_id = new_id
        self._running: dict[str, asyncio.Task[None]] = {}

    async def __call__(self, order: Order) -> str:
        own = order.address.channel in OWN_CHANNELS
        # what the owner says by the local API is answered where the conversation is, before others
        alone = order.said is not None and order.said.private and (own or order.person != "owner")
        person = f"{order.address.channel}:{order.person}"
        cwd = Path(order.settings.workspace or self._workspace)
        viewer = Viewer(person, order.standing, alone, order.address, cwd)
        memory = self._tidying.memory
        verb, _, label = order.argument.partition(" ")
        if verb != "tidy":
            return await asyncio.to_thread(spoken, memory, viewer, order.argument, person)
        scopes = await asyncio.to_thread(memory.scopes, viewer)
        scope = next((one for one in scopes if label.strip() in ("", one.label)), None)
        if scope is None:
            labels = ", ".join(one.label for one in scopes) or "nothing"
            return f"Here is {labels}: say `/memory tidy` or `/memory tidy {labels.split(',')[0]}`."
        if order.address.channel == "house":  # nothing can be told there later
            return await self._tidied(scope, person, order.thread)
        if scope.folder in self._running:
            return "These notes are being looked through already."
        name = f"memory.tidy.{scope.folder}"
        task = asyncio.create_task(self._tell(scope, person, order), name=name)
        self._running[scope.folder] = task
        task.add_done_callback(lambda _: self._running.pop(scope.folder))
        return "I look through the notes. What I propose is told here; nothing changes before that."

    async def _tell(self, scope: Scope, person: str, order: Order) -> None:
        text = await self._tidied(scope, person, order.thread)
        row = notice(self._new_id, order.address, text)
        if error := await failure_of(self._store.post([row])):
            log.error("memory_tidied_untold", thread=order.thread, error=str(error))

    async def _tidied(self, scope: Scope, person: str, thread: str) -> str:
        info = await self._reports.thread(thread)
        session = f"{thread}.{info.session_seq}" if info is not None else ""
        payer = Payer(thread=thread, person=person, session=session)
        try:
            proposal = await self._tidying(scope, person, payer)
        except (NotRemembered, OSError) as error:
            return literal(f"{error}.")
        if proposal is None:
            return "There is nothing to tidy in these notes."
        return await asyncio.to_thread(change, self._tidying.memory, proposal)
