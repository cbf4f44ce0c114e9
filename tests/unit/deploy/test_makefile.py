"""``make torture``: every campaign is run to its end, the failed ones are named at last, and
arguments go to one campaign."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest

from tests.programs import run_process

ROOT = Path(__file__).parents[3]
pytestmark = pytest.mark.needs("make")
PYTHON = """#!/bin/sh
echo "ran $*"
case "$*" in *faults.mutations*|*cron.soak*) exit 1;; esac
"""


def make(venv: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """With a Python that only says what it was asked to run, and fails for two campaigns."""
    (venv / "bin").mkdir(parents=True)
    (venv / "bin" / "python").write_text(PYTHON)
    (venv / "bin" / "python").chmod(0o755)
    for name in (".created", ".installed", ".installed-dev"):
        (venv / name).touch()
    kept = {
        name: value
        for name, value in os.environ.items()
        if name not in ("MAKEFLAGS", "MAKELEVEL", "ARGS")
    }
    return run_process("make", *words, f"VENV={venv}", cwd=ROOT, env=kept)


def test_a_campaign_that_fails_holds_up_none_of_the_others_and_is_named_at_last(
    tmp_path: Path,
) -> None:
    done = make(tmp_path / "venv", "torture")
    ran = [
        line.split()[2].removeprefix("tests.")
        for line in done.stdout.splitlines()
        if line.startswith("ran -m")
    ]
    assert (
        ran
        == """
        faults.torture faults.mutations faults.limits faults.configurations faults.storm faults.soak
        unit.cron.soak unit.cron.zone_walk differential
    """.split()
    )
    assert done.returncode != 0
    assert "failed: torture-mutations torture-cron\n" in done.stderr


def test_arguments_go_to_the_campaign_that_is_named_and_without_one_nothing_runs(
    tmp_path: Path,
) -> None:
    one = make(tmp_path / "one", "torture-soak", "ARGS=--minutes 3")
    assert "ran -m tests.faults.soak --minutes 3\n" in one.stdout
    assert one.returncode == 0
    none = make(tmp_path / "none", "torture", "ARGS=--minutes 3")
    assert none.returncode != 0
    assert "ran" not in none.stdout
    assert "ARGS go to one campaign" in none.stderr
