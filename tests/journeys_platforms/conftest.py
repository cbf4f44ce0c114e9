"""The real daemon between Telegram, Slack, a real Synapse and the browser chat, all at once."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from tests.faults.scene import RIGS, Scene, scene
from tests.warm import Start

Stage = Callable[..., AbstractAsyncContextManager[Scene]]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Several processes share few cores here; a quiet machine needs some seconds. Matrix is a
    homeserver that may not be installed."""
    for item in items:
        if item.nodeid.startswith("tests/journeys_platforms/"):
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
def stage(home: Path, work: Path, start: Start) -> Stage:
    """``stage(*platforms, **keys)``; all four without names. ``keys`` of a platform:
    ``telegram={"streaming": "off"}``."""
    assert work.is_dir()

    @asynccontextmanager
    async def build(*platforms: str, **keys: Mapping[str, Any]) -> AsyncGenerator[Scene]:
        names = platforms or (*RIGS, "web")
        async with scene(
            home,
            {name: RIGS[name] for name in names if name != "web"},
            web="web" in names,
            start=start,
        ) as made:
            path = home / "config.yaml"
            config = json.loads(path.read_text())
            for name, more in keys.items():
                config["channels"].get(name, {}).update(more)
            path.write_text(json.dumps(config))
            yield made

    return build
