"""Puts the room together; imported only where a file of hooks exists."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path

from ohmo.contracts.hooks import About, HookRoom, Inquire
from ohmo.contracts.provider import AskOnce
from ohmo.contracts.sandbox import Programs
from ohmo.contracts.trust import Trusts
from ohmo.hooks.acting import Acting, Asking
from ohmo.hooks.desk import HookDesk, Present
from ohmo.hooks.files import Brought, HookFiles, Tell, no_plugins
from ohmo.hooks.packages import packaged


def build(
    home: Path,
    environ: Mapping[str, str],
    asking: tuple[AskOnce, tuple[str, ...], Inquire],
    present: Callable[[str], Awaitable[tuple[str, Path] | None]],
    redact: Callable[[str], str],
    files: tuple[Trusts, Tell, bool] | tuple[Trusts, Tell, bool, Brought],
    programs: Programs,
    about: About,
) -> HookRoom:
    """``asking``: the chain, its models, the smallest first, and an agent. ``present``: session and
    folder of a thread. ``files``: what is trusted, whom to tell, whether it is made with the house,
    and what plugins bring. ``programs``: around those of hooks. ``about``: reads their ``if``."""

    async def find(thread: str) -> Present | None:
        found = await present(thread)
        return Present(*found) if found is not None else None

    trusts, tell, begins, *brought = files
    acting = Acting(home / "spill" / "hooks", environ, Asking(*asking), programs)
    lent = next(iter(brought), no_plugins)
    packages = packaged()
    standing = HookFiles(home, trusts, tell, begins=begins, brought=lent, packaged=packages)
    return HookDesk(standing, acting, find, redact, home / "state" / "hooks", about)
