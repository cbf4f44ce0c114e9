from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.dockerd import running


@pytest.fixture(scope="session")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a dockerd of our own."""
    with running(tmp_path_factory.mktemp("dockerd")) as host:
        yield host
