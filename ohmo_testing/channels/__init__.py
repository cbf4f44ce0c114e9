"""Shipped fakes: a house for a channel under test (FakeContext), and a whole channel with its
platform for a house under test."""

from __future__ import annotations

from ohmo_testing.channels.channel import EVERYTHING, MARK, FakeChannel
from ohmo_testing.channels.context import Batch, FakeContext
from ohmo_testing.channels.platform import Call, FakePlatform, Shown

__all__ = [
    "EVERYTHING",
    "MARK",
    "Batch",
    "Call",
    "FakeChannel",
    "FakeContext",
    "FakePlatform",
    "Shown",
]
