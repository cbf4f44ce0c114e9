"""``--allow RULE``: whether a rule covers what a turn of ``-p`` asks for, by the matching of the
gate itself."""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Sequence
from pathlib import Path

from ohmo.cli.question import Wanted
from ohmo.permissions.boundaries import ProtectedPlaces
from ohmo.permissions.rules import (
    PATH_TOOLS,
    READERS,
    WRITERS,
    host_matches,
    parse_rule,
    path_matches,
)
from ohmo.permissions.wildcard_rules import covers
from ohmo.shell.parsing import Shell
from ohmo.shell.script import Simple


class Allowed:
    """Raises ValueError with one line for a rule that cannot be read."""

    def __init__(self, rules: Sequence[str], home: Path) -> None:
        self._rules = [
            parse_rule(text, {"HOME": str(home), "WORKSPACE": os.getcwd()})  # noqa: PTH109
            for text in rules
        ]
        self._shell = Shell(home)

    def covers(self, wanted: Wanted, cwd: Path) -> bool:
        """A command is covered when each of its parts is, and none writes to a file or hides what
        it runs; a change in a protected place, or in one that the card does not show whole, never
        is."""
        if wanted.tool in WRITERS:
            place = ProtectedPlaces(cwd).reached(cwd / wanted.value)
            if place is not None or not wanted.value:
                return False
        if any(rule.pattern is None and rule.names(wanted.tool) for rule in self._rules):
            return True
        if wanted.tool == "Bash" and wanted.argument == "command":
            return self._covers_command(wanted.value, cwd)
        if wanted.tool in PATH_TOOLS and wanted.argument in ("file_path", "path"):
            path = os.path.realpath(cwd / wanted.value)
            kind = "read" if wanted.tool in READERS else "write"
            return any(path_matches(rule, kind, wanted.tool, path) for rule in self._rules)
        if wanted.tool == "WebFetch" and wanted.argument == "url":
            host = urllib.parse.urlsplit(wanted.value).hostname or ""
            return any(host_matches(rule, host) for rule in self._rules)
        return False

    def _covers_command(self, command: str, cwd: Path) -> bool:
        """The whole line as a rule says it; else each of its plain commands, when none writes to a
        file."""
        if any(rule.tool == "Bash" and rule.pattern == command for rule in self._rules):
            return True
        plain = self._shell.parse(command, cwd).plain
        return plain != () and not any(
            each.redirects or not self._named(each, cwd) for each in plain
        )

    def _named(self, command: Simple, cwd: Path) -> bool:
        def inside(word: str) -> bool:
            return Path(os.path.realpath(cwd / word)).is_relative_to(os.path.realpath(cwd))

        return any(
            rule.tool == "Bash" and covers(rule.pattern, command, inside) for rule in self._rules
        )
