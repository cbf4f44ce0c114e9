"""A stage for every platform: ``async with stage("slack") as scene``."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any

import pytest

from tests.faults.scene import RIGS, Scene, scene
from tests.warm import Start

Stage = Callable[..., AbstractAsyncContextManager[Scene]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Lives of several processes take their time where many share few cores; a quiet machine needs
    some seconds."""
    for item in items:
        if item.nodeid.startswith("tests/faults/") and item.get_closest_marker("timeout") is None:
            item.add_marker(pytest.mark.timeout(300))


@pytest.fixture
def work(home: Path) -> Path:
    """The workspace: where commands may leave their traces."""
    path = home.parent / "workspace"
    path.mkdir()
    return path


@pytest.fixture
def stage(home: Path, start: Start) -> Stage:
    """``stage(*platforms, **config)``; "web" is a platform too."""

    def build(*platforms: str, **config: Any) -> AbstractAsyncContextManager[Scene]:
        return scene(
            home,
            {name: RIGS[name] for name in platforms if name != "web"},
            web="web" in platforms,
            start=start,
            **config,
        )

    return build
