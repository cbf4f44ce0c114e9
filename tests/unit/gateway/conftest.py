"""A stage whose channel folds repeats; tests take another by setting its capabilities."""

from __future__ import annotations

from collections.abc import AsyncGenerator

import pytest
from gateway_words import SAFE, Clock, Odd, Stage

from ohmo_testing.channels import FakePlatform
from tests.store_model.store import MemoryStore


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
async def stage(clock: Clock) -> AsyncGenerator[Stage]:
    platform = FakePlatform(clock=clock)
    channel = Odd(platform, SAFE)
    async with channel.connect():
        yield Stage(clock, MemoryStore(clock=clock), platform, channel)
