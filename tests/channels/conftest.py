"""What tests of one channel stand on, unless they bring their own."""

from __future__ import annotations

from pathlib import Path

import pytest

from ohmo_testing.channels import FakeContext


@pytest.fixture
def context(tmp_path: Path) -> FakeContext:
    return FakeContext(tmp_path)
