"""Who writes notes and is killed leaves whole files; what it did not finish is finished by the next
one."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from channels.durable import is_unfinished
from ohmo.memory.notes import note_of
from tests.unit.memory.memories import ANN, memory, viewer, written

ROOT = Path(__file__).parents[3]
WRITER = """
import sys, itertools
from pathlib import Path
from ohmo.memory.desk import Said
from ohmo.memory.notes import Note
from tests.unit.memory.memories import memory, viewer
folder = Path(sys.argv[1])
one = memory(folder)
mine = one.scopes(viewer(folder))[0]
foreign = Said("slack:U1", "slack:C1", frozenset({"web:x"}))
ours = Said("slack:U1", "slack:C1")
print("ready", flush=True)
for number in itertools.count():
    text = f"begin {'x' * 4_000} end"
    what = sys.argv[2]
    if what == "write":
        one.write(mine, Note(mine.folder, "", f"Note {number % 7}", text), ours)
    elif what == "forget":
        one.write(mine, Note(mine.folder, "", "Note", text), ours)
        one.forget([mine], "note", ours)
    else:  # accept, undo
        proposal = one.write(mine, Note(mine.folder, "", f"Note {number % 7}", text), foreign)
        one.accept([mine], proposal.number, "slack:U1")
        if what == "undo" and number % 7:
            one.undo([mine], proposal.number)
    one.search([mine], "begin")
"""


@pytest.mark.parametrize("what", ["write", "forget", "accept", "undo"])
def test_a_writer_that_is_killed_leaves_whole_files(tmp_path: Path, what: str) -> None:
    dice = random.Random(what)
    for _ in range(8):
        process = subprocess.Popen(
            [sys.executable, "-c", WRITER, str(tmp_path), what],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert process.stdout is not None
        assert process.stdout.readline() == "ready\n"
        time.sleep(dice.uniform(0.0, 0.15))
        process.send_signal(signal.SIGKILL)
        process.wait(30)
        process.stdout.close()
        files = [path for path in (tmp_path / "memory").rglob("*.md") if path.name != "MEMORY.md"]
        for path in files:
            if is_unfinished(path.name):
                continue
            note, problem = note_of("", path.stem, path.read_bytes())
            assert problem == ""
            assert note.text.startswith("begin")
            assert note.text.endswith("end")
        one = memory(tmp_path)
        mine = one.scopes(viewer(tmp_path))[0]
        assert one.problems([mine]) == []
        for proposal in one.proposals([mine]):
            one.accept([mine], proposal.number, "slack:U1")
        written(one, mine, "After", "begin all end")
        titles = {found.note.title for found in one.search([mine], "begin", 20)}
        assert titles == {found.note.title for found in one.newest([mine])}
        assert len(one.index(mine)) == len(titles)
        one.forget([mine], "after", ANN)
        one.close()
