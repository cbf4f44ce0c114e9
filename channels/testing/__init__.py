"""Shipped fakes: a house for a channel under test (FakeContext), and a whole channel with its platform for a house under test."""

from __future__ import annotations

from channels.testing.channel import EVERYTHING, MARK, FakeChannel
from channels.testing.context import Batch, FakeContext
from channels.testing.platform import Call, FakePlatform, Shown

__all__ = ["EVERYTHING", "MARK", "Batch", "Call", "FakeChannel", "FakeContext", "FakePlatform", "Shown"]
