"""Puts the room together; imported only where a file of hooks exists."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from ohmo.contracts.hooks import HookRoom
from ohmo.contracts.provider import AskOnce
from ohmo.contracts.trust import Trusts
from ohmo.hooks.acting import Acting, Asking
from ohmo.hooks.desk import HookDesk, Present
from ohmo.hooks.files import HookFiles, Tell


def build(
    home: Path,
    environ: Mapping[str, str],
    asking: tuple[AskOnce, str],
    present: Callable[[str], Awaitable[tuple[str, Path] | None]],
    redact: Callable[[str], str],
    trusts: Trusts,
    tell: Tell,
) -> HookRoom:
    """``asking``: the chain and the smallest model of it. ``present``: session and folder of a
    thread."""

    async def find(thread: str) -> Present | None:
        found = await present(thread)
        return Present(*found) if found is not None else None

    acting = Acting(home / "spill" / "hooks", environ, Asking(*asking))
    return HookDesk(HookFiles(home, trusts, tell), acting, find, redact)
