"""Killed with SIGKILL while a checkpoint is made or files come back: what is there is whole, and it
is done again."""

from __future__ import annotations

import json
import signal
import sys
from pathlib import Path

import pytest

from ohmo.contracts.turns import Checkpoint
from tests.programs import run_process
from tests.unit.checkpoints.rig import Rig, files_of, repository, state_of, write

ROOT = Path(__file__).parents[3]
CHILD = """
import asyncio, json, sys
from dataclasses import asdict
from pathlib import Path
from ohmo.ambient import from_environment
from ohmo.contracts.turns import Checkpoint
from tests.unit.checkpoints.rig import Rig, write
home, folder, rows, what = sys.argv[1:]
from datetime import datetime
import os
async def main():
    rig = Rig(Path(home), failpoint=from_environment(os.environ))
    for row in json.loads(Path(rows).read_text()):
        row["at"] = datetime.fromisoformat(row["at"])
        await rig.store.keep_checkpoint(Checkpoint(**row))
    keep = rig.store.keep_checkpoint
    async def kept(row):
        await keep(row)
        all = [asdict(one) | {"at": one.at.isoformat()} for one in await rig.store.checkpoints()]
        Path(rows).write_text(json.dumps(all))
    rig.store.keep_checkpoint = kept
    if what == "begin":
        await rig.begins("t2", Path(folder))
    else:
        await rig.undo(order=7)
asyncio.run(main())
"""


def child(tmp_path: Path, folder: Path, what: str, failpoint: str) -> int:
    arguments = (str(tmp_path / "home"), str(folder), str(tmp_path / "rows"), what)
    environ = {"PYTHONPATH": str(ROOT), "OHMO_FAILPOINTS": failpoint, "PATH": "/usr/bin:/bin"}
    return run_process(sys.executable, "-c", CHILD, *arguments, env=environ).returncode


def rows_of(rows: list[Checkpoint]) -> str:
    from dataclasses import asdict

    return json.dumps([asdict(row) | {"at": row.at.isoformat()} for row in rows])


@pytest.mark.parametrize(
    ("what", "point"),
    [
        ("begin", "checkpoint.kept=kill@1"),
        ("undo", "checkpoint.kept=kill@1"),
        ("undo", "checkpoint.restoring=kill@1"),
        *(("undo", f"checkpoint.file=kill@{number}") for number in (1, 3, 6)),
    ],
)
async def test_a_kill_leaves_everything_whole_and_it_is_done_again(
    tmp_path: Path, what: str, point: str
) -> None:
    rig = Rig(tmp_path / "home")
    folder = repository(tmp_path / "r", {f"f{n}": f"{n}" for n in range(5)})
    before, state = files_of(folder), state_of(folder)
    await rig.begins("t", folder)
    for number in range(5):
        write(folder / f"f{number}", "changed")
    write(folder / "new", "x")
    write(folder / "deep/er/new", "x")
    after = files_of(folder)
    await rig.turns.after("t")
    (tmp_path / "rows").write_text(rows_of(await rig.store.checkpoints()))
    assert child(tmp_path, folder, what, point) == -signal.SIGKILL
    now = files_of(folder)
    if what == "begin" or "file" not in point:
        assert now == after
    else:
        assert now not in (before, after)
        mixed = {name: value for name, value in now.items() if not name.endswith(".lock")}
        assert all(value in (before.get(name), after.get(name)) for name, value in mixed.items())
    if what == "begin":  # a lock that was left is no obstacle
        (rig.snapshots(folder).folder / "index.lock").touch()
        await rig.undo()
    else:
        assert child(tmp_path, folder, what, "") == 0
    assert files_of(folder) == before
    assert state_of(folder) == state
