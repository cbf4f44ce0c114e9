"""From the files of hooks that there are to the room that asks them; without any nothing of it is
imported."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

from ohmo.assembly.agent import redactor
from ohmo.assembly.deps import Deps
from ohmo.contracts.hooks import OWN_FILE, PROJECT_FILES, HookRoom
from ohmo.contracts.provider import AskOnce
from ohmo.contracts.trust import Trusts
from ohmo.discovery import load
from ohmo.providers.build import Model


def build_hook_room(
    deps: Deps, model: Model, ask: AskOnce, trusts: Trusts | None = None
) -> HookRoom | None:
    """None: nobody wrote a hook, or the house starts without. ``trusts``: None: no hook of a
    project runs."""
    config = deps.config
    workspace, root = config.workspace, config.home.root
    files = (root / OWN_FILE, *(workspace / name for name in PROJECT_FILES))
    if config.safe or not any(file.exists() for file in files):
        return None

    async def present(thread: str) -> tuple[str, Path] | None:
        found = await deps.store.thread(thread)
        if found is None:
            return None
        folder = Path(found.settings.workspace or workspace)
        return f"{thread}.{found.session_seq}", folder

    make = cast("Callable[..., HookRoom]", load("ohmo.hooks.building:build"))
    environ = deps.environment.commands
    return make(root, environ, (ask, model.models[0]), present, redactor(config), trusts)
