"""Nobody below a process passes for somebody who is not, whatever happens meanwhile."""

from __future__ import annotations

import os
import random
import subprocess
import sys

import pytest

from ohmo.processes.peer_process import Ancestry
from tests.programs import run_process

_LINUX = pytest.mark.needs("linux")
ROOT, INIT = 10, 1
NUMBERS = 40  # so few that they are given again at once


class Machine:
    """A process table in which, between any two looks, somebody forks and somebody ends. Orphans
    fall to the nearest adopting parent (prctl(2), PR_SET_CHILD_SUBREAPER): ``ROOT`` for everybody
    below it."""

    def __init__(self, chance: random.Random) -> None:
        self.chance = chance
        self.parents = {INIT: 0, ROOT: INIT, 20: INIT}
        self.below = {ROOT}
        self.adopting = {ROOT, INIT}
        self.kept = {INIT, ROOT, 20}
        for _ in range(25):
            self.fork()

    def fork(self) -> int | None:
        free = [number for number in range(2, NUMBERS) if number not in self.parents]
        if not free:
            return None
        child, parent = self.chance.choice(free), self.chance.choice(sorted(self.parents))
        self.parents[child] = parent
        if parent in self.below:
            self.below.add(child)
            if self.chance.random() < 0.2:
                self.adopting.add(child)
        return child

    def end(self) -> None:
        mortal = sorted(set(self.parents) - self.kept)
        if not mortal:
            return
        gone = self.chance.choice(mortal)
        heir = self.parents[gone]
        while heir not in self.adopting:
            heir = self.parents[heir]
        del self.parents[gone]
        self.parents = {pid: heir if up == gone else up for pid, up in self.parents.items()}
        self.below.discard(gone)
        self.adopting.discard(gone)

    def parent(self, pid: int) -> int | None:
        for _ in range(self.chance.randrange(6)):
            self.chance.choice((self.fork, self.end))()
        return self.parents.get(pid)


def test_whoever_ends_and_begins_meanwhile_nobody_is_taken_for_somebody_else() -> None:
    told: dict[tuple[bool, str], int] = {}
    for seed in range(20_000):
        machine = Machine(random.Random(seed))
        asked = machine.chance.choice(sorted(set(machine.parents) - {ROOT}))
        machine.kept.add(asked)  # who asks is still there: the socket's pidfd says so
        inside = asked in machine.below
        place = Ancestry(ROOT, machine.parent).place(asked)
        told[inside, place] = told.get((inside, place), 0) + 1
    assert (True, "outside") not in told
    assert (False, "inside") not in told
    assert told[True, "inside"] > 1_000
    assert told[False, "outside"] > 1_000


@pytest.mark.parametrize(
    ("parents", "pid", "place"),
    [
        ({5: 4, 4: 10, 10: 1, 1: 0}, 5, "inside"),
        ({5: 4, 4: 1, 10: 1, 1: 0}, 5, "outside"),
        ({10: 1, 1: 0}, 10, "outside"),  # the house of one command, which asks itself
        ({10: 1, 1: 0}, 5, "unclear"),  # gone
        ({5: 4, 10: 1, 1: 0}, 5, "unclear"),  # its parent is gone
        ({10: 1, 1: 0}, 0, "outside"),  # of a pid namespace around ours
        ({number: number - 1 for number in range(1, 1_000)}, 999, "unclear"),  # a line without end
    ],
)
def test_the_line_upwards_decides(parents: dict[int, int], pid: int, place: str) -> None:
    assert Ancestry(ROOT if len(parents) < 1_000 else 5_000, parents.get).place(pid) == place


def test_as_the_first_process_of_a_container_everybody_is_below_but_who_was_brought_in() -> None:
    parents = {1: 0, 7: 1, 8: 7, 9: 0}  # 9: docker exec
    places = [Ancestry(1, parents.get).place(pid) for pid in (7, 8, 9, 1)]
    assert places == ["inside", "inside", "outside", "outside"]


@_LINUX
def test_a_real_child_is_inside_a_real_parent_outside_and_who_has_ended_nowhere() -> None:
    child = subprocess.Popen(["sleep", "60"])
    try:
        assert Ancestry(os.getpid()).place(child.pid) == "inside"
        assert Ancestry(child.pid).place(os.getpid()) == "outside"
        assert Ancestry(os.getpid()).place(os.getppid()) == "outside"
    finally:
        child.kill()
        child.wait()
    assert Ancestry(os.getpid()).place(child.pid) == "unclear"


STORY = '''
import asyncio, os, subprocess, sys, time
from ohmo.processes.peer_process import Ancestry
from ohmo.processes.process_tree import adopt_orphans, descendants
from ohmo.processes.peer_process import reap
adopt_orphans()
away = """
import os, time
if os.fork(): os._exit(0)
os.setsid()
if os.fork(): os._exit(0)
print(os.getpid(), flush=True)
time.sleep(0.3)
"""
orphan = int(subprocess.check_output(["env", "-i", sys.executable, "-c", away]))
print(Ancestry(os.getpid()).place(orphan), orphan in descendants(os.getpid()))
looks = 0
async def at_once(_):
    global looks
    looks += 1
    if looks > 2:
        raise EOFError
    await asyncio.sleep(0.5)
own = subprocess.Popen(["true"])
own.wait()
try:
    asyncio.run(reap(at_once))
except EOFError:
    pass
print(descendants(os.getpid()))
'''


@_LINUX
def test_who_forks_away_stays_below_and_is_buried_after_its_end() -> None:
    words = [sys.executable, "-c", STORY]
    done = run_process(*words)
    assert done.stdout.splitlines() == ["inside True", "[]"], done.stderr
