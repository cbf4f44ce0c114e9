"""A rule that another one leaves nothing to decide is found, and no other."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from ohmo.doctor.examination import examine

sys.path.insert(0, str(Path(__file__).parent))
from patient import Patient

SHADOWED = [
    ("Bash(git:*)", "Bash(git status:*)"),
    ("Bash(git status:*)", "Bash(git status -s)"),
    ("Bash", "Bash(ls:*)"),
    ("Read(/srv/**)", "Read(/srv/a/*.txt)"),
    ("Read(/srv/**)", "Read(/srv/a/**)"),
    ("mcp__notes__*", "mcp__notes__write"),
]
FREE = [
    ("Bash(git status:*)", "Bash(git:*)"),
    ("Bash(git:*)", "Bash(gitk:*)"),
    ("Bash(git push)", "Bash(git push origin)"),
    ("Read(/srv/**)", "Read(/srv/../etc/**)"),
    ("Read(/srv/**)", "Read(/srv2/a)"),
    ("Read(/srv/*/x/**)", "Read(/srv/a/b)"),
    ("Read(/srv/**)", "Write(/srv/a)"),
    ("mcp__notes__*", "mcp__mail__write"),
]


def found(folder: Path, kind: str, higher: str, lower: str) -> str:
    patient = Patient(folder)
    patient.config('allow: ["Bash(git status:*)"]', f'{kind}: ["{higher}"], allow: ["{lower}"]')
    (one,) = examine(patient.facts(), only=("configuration.conflicts",))
    return one.finding.text if one.finding.state == "warning" else ""


@pytest.mark.parametrize("kind", ["deny", "ask"])
@pytest.mark.parametrize(("higher", "lower"), SHADOWED)
def test_a_rule_that_decides_nothing_is_named_with_what_beats_it(
    tmp_path: Path, kind: str, higher: str, lower: str
) -> None:
    text = f"permissions.allow: {lower} has no effect, permissions.{kind}: {higher} beats it"
    assert found(tmp_path, kind, higher, lower) == text


@pytest.mark.parametrize(("higher", "lower"), FREE)
def test_a_rule_that_still_decides_something_is_left_alone(
    tmp_path: Path, higher: str, lower: str
) -> None:
    assert found(tmp_path, "deny", higher, lower) == ""
