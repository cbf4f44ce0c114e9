"""Jobs of the recipe ``ci-triage``: the one command such a run begins with, what it printed as the
report, and the file that goes with it."""

from __future__ import annotations

import re
import stat
from collections.abc import Sequence
from pathlib import Path

from ohmo.contracts.messages import ToolCall, ToolResult

MOST = 2 * 2**20  # bytes of the file
_TRIAGE = "Bash(ohmo triage "
_LINE = re.compile(
    r"\s*^\s*`?\[file:"
    r" (?P<folder>ci-triage)/(?P<name>[a-z0-9][a-z0-9._-]{0,79}-[0-9a-f]{16}\.md)\]`?\s*\Z",
    re.MULTILINE,
)


def attached(text: str, workspace: Path) -> tuple[str, tuple[Path, ...]]:
    """The text without its last line when that names such a file, and the file. A model could be
    talked into naming others: those stay words."""
    found = _LINE.search(text)
    if found is None:
        return text, ()
    folder = workspace / found["folder"]
    path = folder / found["name"]
    try:
        if (
            not stat.S_ISDIR(folder.lstat().st_mode)
            or not stat.S_ISREG((status := path.lstat()).st_mode)
            or status.st_size > MOST
        ):
            return text, ()
    except OSError:
        return text, ()
    return text[: found.start()], (path,)


def triage_report(rules: Sequence[str], calls: Sequence[tuple[ToolCall, ToolResult]]) -> str | None:
    """What ``ohmo triage`` printed in this run, word for word, where a rule of the job names that
    very command; also at the end of a pipe. None: it is no such job, or the command brought
    nothing."""
    wanted = {rule[len("Bash(") : -1] for rule in rules if rule.startswith(_TRIAGE)}
    found: str | None = None
    for call, result in calls:
        command = str(call.arguments.get("command", "")) if call.name == "Bash" else ""
        if command.rpartition(" | ")[2].strip() in wanted and not result.error:
            found = result.text
    return found


def own_command(rules: Sequence[str]) -> str | None:
    """The very command that ``triage_report`` looks for: what reads its source itself, or what is
    read by a pipe of the one other command that a rule names. None: the rules leave a choice, which
    is the model's."""
    exact = [
        rule[len("Bash(") : -1] for rule in rules if rule.startswith("Bash(") and "*" not in rule
    ]
    reading = [command for command in exact if f"Bash({command}".startswith(_TRIAGE)]
    others = [command for command in exact if command not in reading]
    if len(reading) != 1 or len(others) > 1:
        return None
    return f"{others[0]} 2>&1 | {reading[0]}" if others else reading[0]
