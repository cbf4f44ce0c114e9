"""From the files of hooks that there are to the room that asks them; without any nothing of it is
imported."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import cast

from ohmo.assembly.agent import redactor
from ohmo.assembly.deps import Deps
from ohmo.contracts.agent import Event
from ohmo.contracts.hooks import OWN_FILE, PROJECT_FILES, Hooked, HookRoom, HookWord
from ohmo.contracts.provider import AskOnce
from ohmo.contracts.trust import Candidate
from ohmo.discovery import load
from ohmo.lifecycle import follow
from ohmo.providers.build import Model


class HooksOnDemand:
    """A room that is made as soon as there is a hook where somebody works, or one was allowed."""

    def __init__(self, deps: Deps, make: Callable[[], HookRoom]) -> None:
        self._deps = deps
        self._make = make
        self._room: HookRoom | None = None
        self._made = asyncio.Event()

    def _now(self) -> HookRoom:
        if self._room is None:
            self._room = self._make()
            self._made.set()
        return self._room

    def none_in(self, cwd: Path) -> bool:
        own = self._deps.config.home.root / OWN_FILE
        files = (own, *(cwd / name for name in PROJECT_FILES))
        return self._room is None and not any(file.exists() for file in files)

    @property
    def dropped(self) -> int:
        return 0 if self._room is None else self._room.dropped

    async def before(self, what: Hooked) -> HookWord:
        return await self._now().before(what)

    def observe(self, what: Hooked) -> None:
        if not self.none_in(what.cwd):
            self._now().observe(what)

    def hear(self, thread: str, event: Event) -> None:
        self._now().hear(thread, event)

    async def candidates(self, folder: Path) -> list[Candidate]:
        return [] if self.none_in(folder) else await self._now().candidates(folder)

    async def run(self) -> None:
        allowed = any(
            one.kind == "hook" and one.revoked_at is None for one in await self._deps.store.trusts()
        )
        if allowed or not self.none_in(self._deps.config.workspace):
            self._now()
        await self._made.wait()
        listen = partial(self._deps.bus.outbound.listen, "hooks")
        async with asyncio.TaskGroup() as group:
            group.create_task(self._now().run(), name="hooks.run")
            group.create_task(follow("hooks", listen, self.hear), name="hooks.events")


def build_hook_room(deps: Deps, model: Model, ask: AskOnce) -> HookRoom | None:
    """None: the house starts without."""
    config, store = deps.config, deps.store
    if config.safe:
        return None

    async def present(thread: str) -> tuple[str, Path] | None:
        found = await store.thread(thread)
        if found is None:
            return None
        folder = Path(found.settings.workspace or config.workspace)
        return f"{thread}.{found.session_seq}", folder

    def make() -> HookRoom:
        build = cast("Callable[..., HookRoom]", load("ohmo.hooks.building:build"))
        asking = (ask, model.models[0])
        environ = deps.environment.commands
        tell = deps.notices.tell
        return build(config.home.root, environ, asking, present, redactor(config), store, tell)

    return HooksOnDemand(deps, make)
