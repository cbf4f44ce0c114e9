"""Builds what keeps files before a turn changes them, and what takes changes back."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import tzinfo
from functools import partial
from pathlib import Path

from channels.text import wall
from ohmo.ambient import Ambient
from ohmo.assembly.walls import redactor
from ohmo.checkpoints.folders import Folders, Limits
from ohmo.checkpoints.taking_back import Showing, TakingBack
from ohmo.checkpoints.turns import TurnCheckpoints
from ohmo.config.load import Config
from ohmo.context.rules import repository_of
from ohmo.contracts.turns import CheckpointRows


def build_folders(
    config: Config, environ: Mapping[str, str], rows: CheckpointRows, ambient: Ambient
) -> Folders:
    chosen = config.checkpoints
    limits = Limits(chosen.per_thread, chosen.size, chosen.timeout.total_seconds())
    return Folders(config.home.root, environ, rows, limits, ambient)


def around_turns(config: Config, folders: Folders, home: Path) -> TurnCheckpoints | None:
    """None: they are switched off; what was kept before can still be taken back."""
    if not config.checkpoints.enabled:
        return None
    return TurnCheckpoints(folders, partial(repository_of, home=home))


def build_taking_back(
    folders: Folders, config: Config, hides: Callable[[str], bool], zone: tzinfo
) -> TakingBack:
    """``hides``: what no model is shown."""
    redact = redactor(config)
    return TakingBack(folders, Showing(config.home.spill, hides, redact, partial(wall, zone=zone)))
