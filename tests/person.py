"""What a person can do where, and which test on the real daemon shows it:
``@pytest.mark.person("stop", on="telegram")``.

Without ``on`` the place is the test's parameter; ``on="chats"`` stands for all five platforms.
``python -m tests.person`` writes the page from the collected tests; a cell that no test claims is
shown as a gap.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from tests.parts import CANNOT
from tests.programs import run_process

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "docs" / "evidence" / "what-a-person-can-do.md"
CHATS = ("telegram", "slack", "discord", "feishu", "matrix")
SURFACES = ("page", "terminal", *CHATS)
ROOMS = (  # real processes
    "tests/faults/",
    "tests/journeys_platforms/",
    "tests/browser/real/",
    "tests/journeys/test_journey_terminal.py",
    "tests/unit/cli/test_cli_talk.py",
)
ACTS = {
    "say": "says something and is answered",
    "watch": "sees the answer grow",
    "more": "says more while an answer is on its way, and all is answered",
    "edit": "changes words that still wait",
    "stop": "stops what runs",
    "new": "begins anew while something runs",
    "allow": "allows one call",
    "whole": "sees the whole of what is asked before it can be allowed",
    "deny": "refuses a call",
    "always": "allows for the conversation, or always",
    "late": "has a call run whose question was over",
    "choose": "answers a question of the agent by a choice",
    "words": "answers a question of the agent in own words",
    "attach": "sends a picture or a file",
    "receive": "is sent files that were made",
    "group": "is answered in a group or a thread",
    "pair": "is let in by the owner",
    "restart": "goes on after the daemon was killed",
    "retry": "has a message tried again that failed",
    "model": "sees or changes the model of a conversation",
    "go on": "goes on with a conversation of before",
}
NOT_THERE = {  # cells that cannot be met, with the reason
    ("group", "page"): CANNOT["groups"]["web"],
    ("group", "terminal"): CANNOT["groups"]["console"],
    ("edit", "terminal"): CANNOT["edits"]["console"],
    ("edit", "feishu"): "Feishu tells nobody of an edit",
    ("attach", "terminal"): "whoever is at the machine names the file by its path",
    ("receive", "terminal"): "what was made lies on the same machine, where its path leads",
    ("pair", "page"): "whoever has the link is in",
    ("pair", "terminal"): "whoever is at the machine is in",
    **{("go on", on): "a chat is one conversation" for on in CHATS},
}
Claims = Mapping[str, Sequence[Sequence[str]]]
CLAIMED = pytest.StashKey[dict[str, list[list[str]]]]()
_NAMES = {"web": "page", "console": "terminal"}


def claims(item: pytest.Item) -> list[list[str]]:
    """(act, surface) of a test. Raises UsageError for a marker that says too little, or stands
    where nothing is real."""
    parameters: Mapping[str, Any] = (
        item.callspec.params
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
        else {}
    )
    found: list[list[str]] = []
    for mark in item.iter_markers("person"):
        on = mark.kwargs.get("on", ())
        named = [
            _NAMES.get(value, value) for value in parameters.values() if isinstance(value, str)
        ]
        given = CHATS if on == "chats" else (on,) if isinstance(on, str) else tuple(on)
        surfaces = given or [name for name in named if name in SURFACES]
        for act in mark.args:
            if act not in ACTS or not surfaces or not set(surfaces) <= set(SURFACES):
                raise pytest.UsageError(
                    f"{item.nodeid}: person({act!r}, on={surfaces}) is no cell of tests/person.py"
                )
            found += [[act, surface] for surface in surfaces]
    if found and not item.nodeid.startswith(ROOMS):
        raise pytest.UsageError(
            f"{item.nodeid}: person() is for tests of the real daemon: {', '.join(ROOMS)}"
        )
    return found


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--person-claims",
        metavar="FILE",
        help="what the collected tests claim with @pytest.mark.person",
    )


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Before anything is deselected."""
    config.stash[CLAIMED] = {item.nodeid: found for item in items if (found := claims(item))}
    if (path := config.getoption("--person-claims")) is not None:
        Path(path).write_text(json.dumps(config.stash[CLAIMED]))


def marked() -> list[str]:
    """Test files with a marker in them."""
    found = [
        path
        for path in (ROOT / "tests").rglob("test_*.py")
        if "pytest.mark.person(" in path.read_text()
    ]
    return sorted(name for path in found if (name := str(path.relative_to(ROOT))).startswith(ROOMS))


def collected() -> Claims:
    """Of all tests, by a collection of its own."""
    with tempfile.TemporaryDirectory(prefix="ohmo-person-") as folder:
        path = Path(folder) / "claims.json"
        words = ["--collect-only", "-m", "person", "--person-claims", str(path), *marked()]
        done = run_process(sys.executable, "-m", "pytest", *words, cwd=ROOT)
        if done.returncode:
            raise RuntimeError(done.stdout[-3000:])
        return json.loads(path.read_text())


HEAD = """# What a person can do, and where it is shown

This page is written by `python -m tests.person` from the tests that carry `@pytest.mark.person`; nothing in it is typed, and a test holds it to what they claim.
A number is how many tests show it on the real daemon, through what a person touches: a real Chromium, a real terminal, the platform's real SDK against a server
that keeps the platform's rules (a real Synapse for Matrix). **gap**: nothing shows it there yet; it may well work, and tests of single rooms may hold it.

"""


def page(found: Claims) -> str:
    cells: dict[tuple[str, str], int] = {}
    tests: dict[str, dict[str, set[str]]] = {}
    for name, rows in found.items():
        for act, surface in rows:
            cells[act, surface] = cells.get((act, surface), 0) + 1
            tests.setdefault(act, {}).setdefault(name.partition("[")[0], set()).add(surface)
    reasons = dict.fromkeys(
        NOT_THERE[act, on]
        for act in ACTS
        for on in SURFACES
        if (act, on) in NOT_THERE and (act, on) not in cells
    )
    notes = {why: number for number, why in enumerate(reasons, 1)}

    def cell(act: str, on: str) -> str:
        if (act, on) in cells:
            return str(cells[act, on])
        return f"— ({notes[NOT_THERE[act, on]]})" if (act, on) in NOT_THERE else "**gap**"

    lines = [f"| a person | {' | '.join(SURFACES)} |", f"|---|{'---|' * len(SURFACES)}"]
    lines += [
        f"| {words} | {' | '.join(cell(act, on) for on in SURFACES)} |"
        for act, words in ACTS.items()
    ]
    lines += ["", *(f"{number}. {why}" for why, number in notes.items()), "", "## The tests", ""]
    for act, words in ACTS.items():
        for name, surfaces in sorted(tests.get(act, {}).items()):
            lines.append(
                f"- {words}: `{name}` ({', '.join(on for on in SURFACES if on in surfaces)})"
            )
    return HEAD + "\n".join(lines) + "\n"


def main() -> int:
    PAGE.parent.mkdir(parents=True, exist_ok=True)
    PAGE.write_text(page(collected()))
    return 0


if __name__ == "__main__":
    sys.exit(main())
