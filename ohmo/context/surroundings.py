"""How things stand as a turn begins: the date, the branch, what a project says it is about. It
changes while people talk, so it is a step of the conversation, recorded when it is another than the
last time."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime
from pathlib import Path

from ohmo.config.agent import ChangingSection
from ohmo.context.prompt import shortened
from ohmo.context.rules import repository_of
from ohmo.regular_file import open_regular

BEGINS = "[How things stand now; nobody said this.]"
READ = 24_000  # bytes of a file
_FILES = {"issue": ".ohmo/issue.md", "pull_request": ".ohmo/pull-request.md"}


def surroundings(
    names: Sequence[ChangingSection],
    budget: int,
    cwd: Path,
    home: Path,
    now: datetime,
    skills: str = "",
) -> str:
    """Blocks: reads a few files. ``budget``: tokens of an issue or a pull request; ``home``: of the
    user; ``now``: with the zone people are told times in; ``skills``: those that came later. Empty:
    nothing to say."""
    lines: list[str] = []
    root = repository_of(cwd, home)
    for name in names:
        if name == "date":
            lines.append(f"Date: {now:%A, %Y-%m-%d}, time zone {now:%Z} (UTC{now:%z})")
        elif name == "skills" and skills:
            lines.append(shortened(skills, budget, "ohmo skills list"))
        elif root is not None and name == "branch":
            branch = branch_of(root)
            if branch:
                lines.append(f"Repository: {root}, branch {branch}")
        elif root is not None and name in _FILES:
            path = root / _FILES[name]
            text = _head(path).strip()
            if text:
                what = name.replace("_", " ")
                lines.append(f"<{what}>\n{shortened(text, budget, str(path))}\n</{what}>")
    return "\n".join([BEGINS, *lines]) if lines else ""


def branch_of(root: Path) -> str:
    """The branch that is checked out, or the first letters of a commit; empty: nobody knows
    (gitrepository-layout(5))."""
    folder = root / ".git"
    if folder.is_file():  # a worktree or submodule names its own
        link = _head(folder).strip().removeprefix("gitdir:").strip()
        folder = root / link
    head = _head(folder / "HEAD").strip()
    reference = head.removeprefix("ref: refs/heads/")
    if reference != head:
        return reference if reference.isprintable() and len(reference) <= 255 else ""
    return f"(detached at {head[:12]})" if head[:12].isalnum() else ""


def _head(path: Path) -> str:
    """Of a file, without following a link; empty when it cannot be read."""
    try:
        with open_regular(path) as file:
            return file.read(READ).decode("utf-8", "replace")
    except (OSError, ValueError):
        return ""
