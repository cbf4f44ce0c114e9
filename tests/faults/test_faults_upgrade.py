"""Rows 12 and 67 and a backup under load: builds take turns on one home, a migration is killed at
every statement, fifty turns run; nothing is lost, and no store is touched that cannot be read."""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import signal
import sqlite3
import sys
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

import ohmo
from ohmo.ambient import inert
from ohmo.database.migrations import MIGRATIONS, NewerSchema, newest
from ohmo.storefile.recovery import bring_forward, create
from tests.faults.builds import COMMAND, Build, built
from tests.faults.conftest import Stage
from tests.faults.daemon import ROOT
from tests.faults.ledger import problems
from tests.faults.scene import Scene
from tests.programs import OHMO, run_process

STATEMENT = "ALTER TABLE threads ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'"
CHATS = ("dm:ada", "dm:bob", "dm:7001", "dm:7002")
# answers on their way when it is killed: Telegram cannot be asked what became of them, so they may
# be repeated, marked
AT_ONCE = len(CHATS)


async def talks(scene: Scene, rounds: int = 4) -> None:
    """Everybody, whether anybody listens or not."""
    for _ in range(rounds):
        for chat in CHATS:
            await scene.says("#chunks{4}", chat=chat)
            await asyncio.sleep(0.01)


async def lives(scene: Scene, build: Build, *, gracefully: bool = True) -> None:
    """A life of ``build``, begun and ended while people talk."""
    scene.daemon.environ.update(build.environ)
    talking = asyncio.create_task(talks(scene))
    await scene.daemon.start()
    _, status = await scene.daemon.call("GET", "/api/v1/status")
    assert status["version"] == build.version
    await talking
    talking = asyncio.create_task(talks(scene, 2))
    await asyncio.sleep(0.05)
    if gracefully:
        assert await scene.daemon.stop() == 0
    else:
        await scene.daemon.kill()
    await talking


def looks(home: Path) -> dict[str, str]:
    """Every file of the store, by its content."""
    return {
        file.name: hashlib.sha256(file.read_bytes()).hexdigest()
        for file in sorted(home.glob("ohmo.db*"))
        if not file.name.endswith("-shm")
    }


async def test_up_and_down_by_a_minor_version_under_load_loses_nothing(
    stage: Stage, tmp_path: Path
) -> None:
    old, new = built(tmp_path / "old", ohmo.__version__), built(tmp_path / "new", "0.2.0")
    async with stage("telegram", command=COMMAND) as scene:
        for build, gracefully in ((old, True), (new, False), (old, False), (new, True)):
            await lives(scene, build, gracefully=gracefully)
        scene.daemon.environ.update(old.environ)
        await scene.daemon.start()
        await scene.check(repeats=2 * AT_ONCE)


async def test_a_store_of_the_next_form_is_refused_by_the_old_version_and_not_touched(
    stage: Stage, tmp_path: Path
) -> None:
    old, new = (
        built(tmp_path / "old", ohmo.__version__),
        built(tmp_path / "new", "0.2.0", statement=STATEMENT),
    )
    async with stage("telegram", command=COMMAND) as scene:
        await lives(scene, old, gracefully=False)
        # what was open is carried over into the next form
        await lives(scene, new, gracefully=False)
        before = looks(scene.daemon.home)
        for _ in range(2):
            scene.daemon.environ.update(old.environ)
            await scene.daemon.start(ready=False)
            assert await scene.daemon.ended() == 1
            assert "start the newer ohmo" in scene.daemon.said
            assert looks(scene.daemon.home) == before
        await talks(scene, 1)
        scene.daemon.environ.update(new.environ)
        await scene.daemon.start()
        await scene.check(repeats=2 * AT_ONCE)
        assert scene.daemon.rows("SELECT DISTINCT colour FROM threads") == [("red",)]


FREELY: dict[str, Any] = {
    "permissions": {"mode": "full_auto"},
    "access": {"default_role": "admin"},
    "sandbox": {"backend": "none"},
}


def types(home: Path, *words: str, code: int | None = 0) -> str:
    """As typed beside the daemon; what it printed."""
    environ = {"PATH": os.environ["PATH"], "HOME": str(home.parent), "OHMO_HOME": str(home)}
    done = run_process(*OHMO, *words, code=code, env=environ)
    return done.stdout + done.stderr


async def test_a_backup_made_while_fifty_turns_run_is_taken_back_and_nobody_is_answered_twice(
    stage: Stage, work: Path
) -> None:
    counter = work / "counter"
    async with stage("telegram", "slack", **FREELY) as scene:
        home = scene.daemon.home
        await scene.daemon.start()
        for on, count in (("telegram", 46), ("slack", 4)):
            await scene.bursts(count, f"#run{{echo x >> {counter}}} #wait{{1}} #hold{{0}}", on=on)
        await scene.models_asked(60)  # some are at their tool, some behind it
        made = json.loads(await asyncio.to_thread(types, home, "backup", "--json"))
        scene.model.go.set()
        await scene.answered()  # nobody was lost or kept waiting by it
        open_then = 50 - archived(
            Path(made["path"]), work, "SELECT COUNT(*) FROM inbox WHERE state = 'ended'"
        )
        assert open_then > 0
        for on in scene.rigs:  # what the backup does not know
            await scene.says(on=on)
        await scene.answered()
        await scene.quiet()
        assert await scene.daemon.stop() == 0

        said = types(home, "restore", made["path"])
        # the store that was replaced told that all of them have one,
        assert "had no answer yet" not in said
        assert "is not known" not in said  # and what was said since
        assert "nothing is wrong" in types(home, "store", "check")

        await scene.daemon.start()
        for on in scene.rigs:  # catches up before it hears this
            await scene.says(on=on)
        for word in scene.words[:3]:  # these conversations go on, whatever was open in them
            await scene.says(chat=word.place[1])
        await scene.answered()
        await scene.quiet()
        _, dead = await scene.daemon.call("GET", "/api/v1/inbox?state=dead&limit=100")
        assert dead["inbox"] == []
        assert counter.read_text() == "x\n" * 50  # no command ran again
        assert (problems(scene.words, await scene.seen()), scene.model.refused) == ([], [])  # pyright: ignore[reportAttributeAccessIssue]
        _, audit = await scene.daemon.call("GET", "/api/v1/inbox/audit")
        assert audit["problems"] == []
        assert await scene.daemon.stop() == 0
        assert scene.daemon.integrity() == []


def archived(path: Path, work: Path, query: str) -> int:
    """One number out of the store of a backup."""
    with tarfile.open(path) as tar:
        tar.extract("ohmo.db", work, filter="data")
    with closing(sqlite3.connect(work / "ohmo.db")) as store:
        return int(store.execute(query).fetchone()[0])


NEXT = newest(MIGRATIONS) + 1
STATEMENTS = (
    "ALTER TABLE threads ADD COLUMN colour TEXT NOT NULL DEFAULT 'red'",
    "CREATE TABLE moods (thread TEXT PRIMARY KEY, mood TEXT NOT NULL)",
    "INSERT INTO moods (thread, mood) SELECT thread, 'calm' FROM threads",
)
LATER = {**MIGRATIONS, NEXT: STATEMENTS}
DYING = """
import sys
from pathlib import Path
from ohmo.ambient import from_environment
from ohmo.storefile.recovery import bring_forward
from tests.faults.test_faults_upgrade import LATER
bring_forward(Path(sys.argv[1]), from_environment({"OHMO_FAILPOINTS": f"migrate.step=kill@{sys.argv[2]}"}), LATER)
"""


def old_store(path: Path) -> None:
    create(path, inert, MIGRATIONS)
    with closing(sqlite3.connect(path)) as connection:
        for number in range(100):
            connection.execute(
                "INSERT INTO threads (thread, channel, account, chat, topic, person) VALUES (?,"
                " 'c', 'a', ?, '', '')",
                (f"t{number}", number),
            )
        connection.commit()


def rows(path: Path, table: str) -> int:
    with closing(sqlite3.connect(path)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        return connection.execute(f"SELECT COUNT(*) FROM {table}").fetchone()[0]


@pytest.mark.parametrize("step", range(1, len(STATEMENTS) + 2))
def test_a_kill_in_a_migration_leaves_the_old_store_and_the_next_start_finishes_it(
    tmp_path: Path, step: int
) -> None:
    path = tmp_path / "ohmo.db"
    old_store(path)
    died = run_process(sys.executable, "-c", DYING, str(path), str(step), cwd=ROOT)
    assert died.returncode == -signal.SIGKILL, died.stderr
    bring_forward(path, inert, MIGRATIONS)  # the old version: as if nothing had been tried
    assert rows(path, "threads") == 100
    bring_forward(path, inert, LATER)
    assert rows(path, "threads") == 100
    assert rows(path, "moods") == 100
    with pytest.raises(NewerSchema):
        bring_forward(path, inert, MIGRATIONS)
