"""The real daemon between Telegram, Slack, a real Synapse and the browser chat, all at once."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.faults.scene import Scene, scene
from tests.platforms.matrix.rig import rig as matrix
from tests.platforms.slack.rig import rig as slack
from tests.platforms.telegram.rig import rig as telegram

RIGS = {"telegram": telegram, "slack": slack, "matrix": matrix}
Stage = Callable[..., AbstractAsyncContextManager[Scene]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Several processes share few cores here; a quiet machine needs some seconds. Matrix is a homeserver that may not be installed."""
    for item in items:
        if Path(__file__).parent in item.path.parents:
            item.add_marker(pytest.mark.timeout(240))
            on = getattr(item, "callspec", None)
            if on is None or "matrix" in on.params.values():
                item.add_marker(pytest.mark.needs("synapse"))


@pytest.fixture
def work(home: Path) -> Path:
    """The workspace: where commands may leave their traces."""
    path = home.parent / "workspace"
    path.mkdir()
    return path


@pytest.fixture
def stage(home: Path, work: Path) -> Stage:
    """``stage(*platforms, **config)``; all four without names. More keys of a platform: ``telegram={"streaming": "off"}``."""
    assert work.is_dir()

    def build(*platforms: str, **config: Any) -> AbstractAsyncContextManager[Scene]:
        names = platforms or (*RIGS, "web")
        return scene(home, {name: RIGS[name] for name in names if name != "web"}, web="web" in names, **config)

    return build
