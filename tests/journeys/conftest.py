"""Every journey begins with a platform, a model and a clock; the house is entered by the story
itself."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ohmo_testing.channels import FakePlatform
from ohmo_testing.house import ManualClock, ScriptedProvider, World

MakeWorld = Callable[..., World]


@pytest.fixture
def world(tmp_path: Path) -> MakeWorld:
    """A world with whatever the story changes about it."""

    def make(*script: Any, **changes: Any) -> World:
        clock = ManualClock()
        return World(
            tmp_path / "home", FakePlatform(clock=clock), ScriptedProvider(script), clock, **changes
        )

    return make
