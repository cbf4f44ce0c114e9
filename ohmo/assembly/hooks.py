"""From the files of hooks that there are to the room that asks them; without any nothing of it is
imported."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import cast

from channels.entry_points import offered
from ohmo.assembly.deps import Deps
from ohmo.assembly.plugins import Brought
from ohmo.assembly.walls import host_of, redactor
from ohmo.config.load import Config
from ohmo.contracts.agent import Event
from ohmo.contracts.hooks import (
    GROUP,
    OWN_FILE,
    PROJECT_FILES,
    About,
    Hooked,
    HookRoom,
    HookWord,
    Inquire,
    Spoken,
)
from ohmo.contracts.provider import AskOnce
from ohmo.contracts.trust import Candidate
from ohmo.discovery import load
from ohmo.lifecycle import follow, within
from ohmo.permissions.conditions import Conditions
from ohmo.providers.build import Model
from ohmo.shell.parsing import Shell

_EVERY = 1.0  # seconds between two looks for the first hook


class HooksOnDemand:
    """A room that is made as soon as there is a hook where somebody works, or one was allowed.
    ``make``: whether with the house; a file that comes later may be half-written."""

    def __init__(
        self, deps: Deps, make: Callable[[bool], HookRoom], brought: Brought | None
    ) -> None:
        self._deps = deps
        self._brought = brought
        self._make = make
        self._packages = bool(offered(GROUP))
        self._made = asyncio.Event()
        self._room: HookRoom | None = None
        if not self.none_in(deps.config.workspace):
            self._now(begins=True)

    def _now(self, *, begins: bool = False) -> HookRoom:
        if self._room is None:
            self._room = self._make(begins)
            self._made.set()
        return self._room

    def none_in(self, cwd: Path) -> bool:
        own = self._deps.config.home.root / OWN_FILE
        files = (own, *(cwd / name for name in PROJECT_FILES))
        if self._room is not None or self._packages:
            return False
        if self._brought is not None and self._brought.plugins.any():
            return False
        # Raises nothing, wherever a project's links lead.
        return not any(map(os.path.lexists, files))

    @property
    def dropped(self) -> int:
        return 0 if self._room is None else self._room.dropped

    @property
    def skipped(self) -> Sequence[str]:
        return () if self._room is None else self._room.skipped

    async def before(self, what: Hooked) -> HookWord:
        return await self._now().before(what)

    async def after(self, what: Hooked) -> Sequence[Spoken]:
        return await self._now().after(what)

    async def beginning(self, what: Hooked, summed_up: int) -> Sequence[Spoken]:
        return await self._now().beginning(what, summed_up)

    async def ending(self, what: Hooked) -> Sequence[Spoken]:
        return await self._now().ending(what)

    def hear(self, thread: str, event: Event) -> None:
        self._now().hear(thread, event)

    def left(self, thread: str) -> None:
        if self._room is not None:
            self._room.left(thread)

    async def candidates(self, folder: Path) -> list[Candidate]:
        return [] if self.none_in(folder) else await self._now().candidates(folder)

    async def run(self) -> None:
        if any(
            one.kind == "hook" and one.revoked_at is None for one in await self._deps.store.trusts()
        ):
            self._now()
        while self.none_in(self._deps.config.workspace):
            with suppress(TimeoutError):
                await within(_EVERY, self._made.wait())
        room = self._now()
        listen = partial(self._deps.bus.outbound.listen, "hooks")
        async with asyncio.TaskGroup() as group:
            group.create_task(room.run(), name="hooks.run")
            group.create_task(follow("hooks", listen, self.hear), name="hooks.events")


def about(config: Config, environ: Mapping[str, str]) -> About:
    """Reads the ``if`` of hooks as rules are read."""
    host = host_of(config, environ)
    return Conditions(Shell(host.home, host.path))


def build_hook_room(
    deps: Deps, model: Model, ask: AskOnce, brought: Brought | None, inquire: Inquire
) -> HookRoom | None:
    """``inquire``: asks an agent. None: the house starts without."""
    config, store = deps.config, deps.store
    if config.safe:
        return None

    async def present(thread: str) -> tuple[str, Path] | None:
        found = await store.thread(thread)
        if found is None:
            return None
        folder = Path(found.settings.workspace or config.workspace)
        return f"{thread}.{found.session_seq}", folder

    def make(begins: bool) -> HookRoom:
        build = cast("Callable[..., HookRoom]", load("ohmo.hooks.building:build"))
        asking = (ask, model.models, inquire)
        environ = deps.environment.commands
        more = () if brought is None else (brought.hooks,)
        files = (store, deps.notices.tell, begins, *more)
        walled = (redactor(config), files, deps.walled.programs())
        return build(config.home.root, environ, asking, present, *walled, about(config, environ))

    return HooksOnDemand(deps, make, brought)
