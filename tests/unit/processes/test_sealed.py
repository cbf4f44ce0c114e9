"""What another program of the same user can read of a sealed process: nothing. Shown by one that is
nobody's, because root may read everything."""

from __future__ import annotations

import json
import os

import pytest

from tests.programs import python

STORY = """
import ctypes, json, os, sys
from ohmo.processes.process_tree import seal
if os.geteuid() == 0:  # from here on nobody in particular; that alone seals a process, until its next program
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
sealed = seal(json.loads(sys.argv[1]))
def can(path):
    try:
        with open(path, "rb") as file:
            return b"" != file.read(1)
    except OSError:
        return False
house = os.getpid()
other = os.fork()
if other == 0:
    seen = {what: can(f"/proc/{house}/{what}") for what in ("environ", "maps", "status")}
    print(json.dumps({"sealed": sealed, "other": seen}), flush=True)
    os._exit(0)
os.waitpid(other, 0)
print(json.dumps({"descriptors": len(os.listdir("/proc/self/fd")) > 0}))
"""

pytestmark = pytest.mark.needs("linux")


def told(wishes: dict[str, str]) -> list[dict[str, object]]:
    printed = python(STORY, json.dumps(wishes), env={"KEY": "x", "PATH": os.defpath})
    return [json.loads(line) for line in printed.splitlines()]


def test_a_program_of_the_same_user_reads_neither_environment_nor_memory_and_the_process_still_sees_its_own_files() -> (
    None
):
    assert told({}) == [
        {"sealed": True, "other": {"environ": False, "maps": False, "status": True}},
        {"descriptors": True},
    ]


def test_who_wants_to_debug_it_can_ask_for_it() -> None:
    assert told({"OHMO_DUMPABLE": "1"})[0] == {
        "sealed": False,
        "other": {"environ": True, "maps": True, "status": True},
    }
