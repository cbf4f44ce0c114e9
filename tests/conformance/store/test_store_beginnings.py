"""How a conversation begins and what people are called: stored when they speak, let go with what
was said, looked up once in what an older ohmo stored."""

from __future__ import annotations

import asyncio
import sqlite3
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

from store_words import CHAT, OTHER, Clock, FullStore, Scene, reacted, said, wake

from channels.contract import Attachment, Inbound, Person, PersonId
from ohmo.ambient import inert
from ohmo.contracts.reports import Beginning, Spender, ThreadInfo
from ohmo.contracts.turns import Seat
from ohmo.database.migrations import MIGRATIONS
from ohmo.database.sql_store import SqlStore
from ohmo.store.known_people import look_through
from ohmo.storefile.open_store import open_sqlite
from ohmo.storefile.recovery import create
from ohmo.storefile.transfer import transfer
from tests.unit.storefile.homes import say

ADA, EVE = Spender("slack", "T1", "ada"), Spender("slack", "T1", "eve")
ENDED = Seat("", "message", ending="noted")


def called(arrival: Inbound, name: str) -> Inbound:
    return replace(arrival, person=Person(PersonId(arrival.person.id), name))


async def thread_at(store: FullStore) -> ThreadInfo:
    (info,) = [one for one in await store.threads() if one.address == CHAT]
    return info


async def test_the_first_words_stay_and_the_name_follows_the_platform(scene: Scene) -> None:
    await scene.hear(reacted("gone", key="r"))
    assert (await thread_at(scene.store)).beginning == Beginning()
    await scene.hear(said("one \n line"), said("two", person="eve"))
    assert (await thread_at(scene.store)).beginning == Beginning("one line", "ada", "Ada")
    await scene.hear(called(said("three"), "Ada King"))
    assert (await thread_at(scene.store)).beginning == Beginning("one line", "ada", "Ada King")
    assert await scene.store.names([ADA, EVE, replace(ADA, account="T2")]) == {
        ADA: "Ada King",
        EVE: "Eve",
    }


async def test_a_long_beginning_is_cut_and_files_are_named(scene: Scene) -> None:
    await scene.hear(said("x" * 81))
    assert (await thread_at(scene.store)).beginning.words == "x" * 79 + "…"
    files = (Attachment("r1", "a.txt", "text/plain", 1), Attachment("r2", "b.txt", "text/plain", 1))
    await scene.hear(replace(said("sent", at=OTHER), text=" ", attachments=files))
    other = (
        await scene.store.threads_of([one.thread for one in await scene.store.threads()])
    ).values()
    assert {one.beginning.words for one in other if one.address == OTHER} == {"a.txt, b.txt"}


async def test_a_wake_begins_a_conversation_of_nobody(scene: Scene) -> None:
    await scene.hear(wake("w"), said("later"), seat=ENDED)
    begins = (await thread_at(scene.store)).beginning
    assert begins.words
    assert (begins.words == "later", begins.person, begins.name) == (False, "", "")


async def test_what_is_forgotten_has_no_title_and_begins_anew(scene: Scene) -> None:
    await scene.hear(said("one"), said("two", person="eve"), seat=ENDED)
    await scene.hear(said("elsewhere", at=OTHER), seat=ENDED)
    thread = (await thread_at(scene.store)).thread
    assert await scene.store.forget(thread)
    assert (await thread_at(scene.store)).beginning == Beginning()
    # Ada began another conversation
    assert await scene.store.names([ADA, EVE]) == {ADA: "Ada"}
    await scene.hear(said("again", person="eve"))
    assert (await thread_at(scene.store)).beginning == Beginning("again", "eve", "Eve")


async def test_what_is_let_go_is_no_beginning_and_a_name_goes_when_its_time_is_over(
    scene: Scene,
) -> None:
    await scene.hear(said("one"), seat=ENDED)
    await scene.hear(said("two", at=OTHER), seat=ENDED)
    await scene.hear(said("waits", at=OTHER, person="eve"))
    scene.clock.tick(3 * 86_400)
    await scene.hear(said("new", at=OTHER, person="eve"))
    assert {one.beginning.words for one in await scene.store.threads()} == {"one", "two"}
    await scene.store.prune(scene.clock.now - timedelta(days=1))
    assert {one.beginning.words for one in await scene.store.threads()} == {"", "waits"}
    assert await scene.store.names([ADA, EVE]) == {EVE: "Eve"}
    await scene.hear(said("again"))
    assert (await thread_at(scene.store)).beginning == Beginning("again", "ada", "Ada")


async def test_threads_of_an_older_ohmo_are_looked_through(scene: Scene) -> None:
    store = scene.store
    if not isinstance(store, SqlStore):
        return  # the model has no older form
    await scene.hear(reacted("gone", key="r"), said("one"), called(said("two"), "Ada King"))
    for number in range(12):
        await scene.hear(said(f"m{number}", at=replace(OTHER, account=f"B{number}")))
    known = await store.threads()
    await store.driver.write(lambda _: aged())
    assert {one.beginning.words for one in await store.threads()} == {""}
    await scene.hear(called(said("since"), "Ada now"))  # not what it begins with
    await look_through(store.driver)
    assert (await thread_at(store)).beginning == Beginning("one", "ada", "Ada now")
    others = [one.beginning for one in await store.threads() if one.address != CHAT]
    assert others == [one.beginning for one in known if one.address != CHAT]


def aged():
    yield "UPDATE threads SET begins = NULL", ()
    yield "DELETE FROM speakers", ()


async def test_an_older_file_is_looked_through_after_it_was_opened(tmp_path: Path) -> None:
    path, clock = tmp_path / "ohmo.db", Clock()
    async with open_sqlite(path, clock=clock, writer="w", failpoint=inert) as store:
        await store.accept([(said("one"), ENDED), (said("two", at=OTHER), ENDED)])
    with closing(sqlite3.connect(path)) as connection, connection:
        for statement, values in aged():
            connection.execute(statement, values)
        connection.execute("UPDATE inbox SET body = 'ruined' WHERE message = 'm-two'")
    async with open_sqlite(path, clock=clock, writer="w", failpoint=inert) as store:
        async with asyncio.timeout(10):
            while not (await thread_at(store)).beginning.words:
                await asyncio.sleep(0.01)
        assert {one.beginning.words for one in await store.threads()} == {
            "one",
            "(what was said here cannot be read any more)",
        }


def test_a_file_of_an_older_form_moves(tmp_path: Path) -> None:
    old, new = tmp_path / "old.db", tmp_path / "new.db"
    create(old, inert, {number: MIGRATIONS[number] for number in range(1, 6)})
    with closing(sqlite3.connect(old)) as connection, connection:
        say(connection, 1, waiting=False)
    assert transfer(f"sqlite:///{old}", f"sqlite:///{new}")["threads"] == 1
    with closing(sqlite3.connect(new)) as connection:
        assert connection.execute("SELECT begins FROM threads").fetchall() == [(None,)]
