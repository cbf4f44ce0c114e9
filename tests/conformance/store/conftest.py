"""One scene per engine: the same tests run over a file, a real PostgreSQL and the model in memory."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from store_words import Clock, Scene

from ohmo.failpoints import inert
from ohmo.ids import IdSource
from ohmo.store.sqlite import open_sqlite


@pytest.fixture(params=["sqlite"])
async def scene(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Scene]:
    clock = Clock()
    async with open_sqlite(tmp_path / "ohmo.db", clock=clock, new_id=IdSource(), writer="w", failpoint=inert) as store:
        scene = Scene(store, clock)
        yield scene
        if not scene.problems_allowed:
            assert (await store.audit_report()).problems == ()
