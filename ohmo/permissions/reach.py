"""How far tools read unasked: the workspace, and what the agent's home shows of itself."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from pathlib import Path

from ohmo.contracts.tool import CallContext
from ohmo.permissions.paths import SensitivePaths, Touch


class Reach:
    """``everywhere``: ``permissions.read_outside`` is ``allow``."""

    def __init__(self, workspace: Path, sensitive: SensitivePaths, *, everywhere: bool) -> None:
        self._workspace = os.path.realpath(workspace)
        self._sensitive = sensitive
        self._everywhere = everywhere

    def outside(self, path: str, context: CallContext) -> bool:
        """``path`` absolute and resolved: whether somebody is asked before it is read, when no
        rule and no grant covers it."""
        trusted = context.mode == "full_auto" and context.role in ("owner", "admin")
        if self._everywhere or trusted:
            return False
        return not self.holds(path, context) and self._sensitive.touch(path, "/") is not Touch.PAGE

    def holds(self, path: str, context: CallContext) -> bool:
        """``path`` absolute and resolved: whether it lies in the workspace."""
        roots = (self._workspace, os.path.realpath(context.cwd))
        return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def folder_rule(path: str) -> str:
    """What an answer for longer stores: the folder with all below it, of a file the one it lies
    in. ``path`` absolute and resolved."""
    folder = Path(path) if os.path.isdir(path) else Path(path).parent  # noqa: PTH112 - Path raises for what cannot be looked at
    return f"Read({glob.escape(str(folder).rstrip('/'))}/**)"


def all_edits(writes: Sequence[str], cwd: Path) -> str:
    """The rule for whatever is written below the folder a turn works in; "" when nothing of
    ``writes`` (absolute and resolved) is, or not all."""
    root = os.path.realpath(cwd)
    below = bool(writes) and root != "/" and all(path.startswith(f"{root}/") for path in writes)
    return f"Edit({glob.escape(root)}/**)" if below else ""
