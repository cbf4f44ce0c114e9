"""What people allowed by its content, on every store; an older file gets the table."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

from store_words import Scene

from ohmo.ambient import inert
from ohmo.contracts.trust import Trust
from ohmo.database.migrations import MIGRATIONS
from ohmo.storefile.recovery import create

ONE, OTHER = "1" * 64, "2" * 64
NAME = "/home/\udce9 \x00"


async def test_exactly_this_content_is_trusted_until_it_is_revoked(scene: Scene) -> None:
    store = scene.store
    assert not await store.trusted("skill", NAME, ONE)
    await store.allow("skill", NAME, ONE, "slack:ada")
    began = scene.clock()
    assert await store.trusted("skill", NAME, ONE)
    for kind, name, digest in (("skill", NAME, OTHER), ("skill", "x", ONE), ("plugin", NAME, ONE)):
        assert not await store.trusted(kind, name, digest)  # type: ignore[arg-type] - of the tuple
    scene.clock.tick(5)
    await store.allow("skill", NAME, ONE, "slack:eve")  # allowed already: it stays ada's
    assert await store.trusts() == [Trust("skill", NAME, ONE, "slack:ada", began)]


async def test_revoking_is_of_all_contents_of_a_name_and_can_be_taken_back(scene: Scene) -> None:
    store = scene.store
    began = scene.clock()
    await store.allow("plugin", "p", ONE, "a")
    await store.allow("plugin", "p", OTHER, "a")
    await store.allow("skill", "p", ONE, "a")
    scene.clock.tick(5)
    gone = scene.clock()
    assert await store.revoke("plugin", "p") == 2
    assert await store.revoke("plugin", "p") == 0
    assert not await store.trusted("plugin", "p", ONE)
    assert await store.trusted("skill", "p", ONE)
    scene.clock.tick(5)
    await store.allow("plugin", "p", OTHER, "b")
    assert await store.trusted("plugin", "p", OTHER)
    assert await store.trusts() == [
        Trust("plugin", "p", OTHER, "b", scene.clock()),
        Trust("plugin", "p", ONE, "a", began, gone),
        Trust("skill", "p", ONE, "a", began),
    ]


async def test_what_was_left_off_is_known_and_not_trusted(scene: Scene) -> None:
    store = scene.store
    await store.leave_off("hook", NAME, ONE, "a")
    first = scene.clock()
    assert await store.trusts() == [Trust("hook", NAME, ONE, "a", first, first)]
    assert not await store.trusted("hook", NAME, ONE)
    scene.clock.tick(5)
    await store.allow("hook", NAME, ONE, "b")
    allowed = scene.clock()
    scene.clock.tick(5)
    await store.leave_off("hook", NAME, ONE, "c")  # a press that comes late takes nothing back
    assert await store.trusts() == [Trust("hook", NAME, ONE, "b", allowed)]
    assert await store.revoke("hook", NAME) == 1
    scene.clock.tick(5)
    await store.leave_off("hook", NAME, ONE, "c")
    again = scene.clock()
    assert await store.trusts() == [Trust("hook", NAME, ONE, "c", again, again)]


def test_a_file_of_the_form_before_gets_the_table(tmp_path: Path) -> None:
    path = tmp_path / "old.db"
    create(path, inert, {number: MIGRATIONS[number] for number in range(1, 8)})
    create(path, inert, MIGRATIONS)
    with closing(sqlite3.connect(path)) as store:
        assert store.execute("SELECT COUNT(*) FROM trusts").fetchone() == (0,)
        assert store.execute("SELECT value FROM meta WHERE name = 'schema'").fetchone() == ("8",)
