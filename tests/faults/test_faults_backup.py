"""A backup made while fifty turns run, taken back: a sound store, nobody answered twice, and what
was open is told."""

from __future__ import annotations

import asyncio
import json
import os
import sqlite3
import tarfile
from contextlib import closing
from pathlib import Path
from typing import Any

from tests.faults.conftest import Stage
from tests.faults.ledger import problems
from tests.programs import OHMO, run_process

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
