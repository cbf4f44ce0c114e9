"""``--allow RULE``: whether a rule covers what a turn of ``-p`` asks for, by the matching of the
gate itself."""

from __future__ import annotations

import os
import urllib.parse
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

from ohmo.cli.client import PermissionRequest
from ohmo.config.rules import named_tool
from ohmo.permissions.boundaries import ProtectedPlaces
from ohmo.permissions.cages import strange
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


class AllowRules:
    """Raises ValueError with one line for a rule that cannot be read."""

    def __init__(self, rules: Sequence[str], home: Path) -> None:
        self._rules = [
            parse_rule(text, {"HOME": str(home), "WORKSPACE": os.getcwd()})  # noqa: PTH109
            for text in rules
        ]
        for rule in self._rules:
            named_tool(rule.tool)
        self._about = [rule for rule in self._rules if rule.pattern is not None]
        self._shell = Shell(home)

    def covers(self, request: PermissionRequest, cwd: Path) -> Literal["once", "rule"] | None:
        """How: ``once``: a rule is about this very call, ``rule``: only about all calls of its
        tool; None: not at all. A command is covered when each of its parts is, and none writes to a
        file or hides what it runs; a change in a protected place, or in one that the card does not
        show whole, never is; nor, by a rule about all calls, what is asked because of words of
        others."""
        tool, value = request.tool, request.value
        if request.layer == "protected":
            return None
        if tool in WRITERS and not value:
            return None
        if tool in WRITERS and ProtectedPlaces(cwd).reached(cwd / value) is not None:
            return None
        if self._named(request, cwd):
            return "once"
        every = request.layer != "taint" and any(
            rule.pattern is None and rule.names(tool) for rule in self._rules
        )
        return "rule" if every else None

    def _named(self, request: PermissionRequest, cwd: Path) -> bool:
        tool, value = request.tool, request.value
        if strange(request.hosts, self._about):  # each needs a rule about its domain
            return False
        if tool == "Bash" and request.argument == "command":
            if any(rule.tool == "Bash" and rule.pattern == value for rule in self._about):
                return True
            parts = self._shell.parse(value, cwd).plain
            return parts != () and all(
                not part.redirects and self._covers_part(part, cwd) for part in parts
            )
        if tool in PATH_TOOLS and request.argument in ("file_path", "path"):
            path = os.path.realpath(cwd / value)
            kind = "read" if tool in READERS else "write"
            return any(path_matches(rule, kind, tool, path) for rule in self._about)
        if tool == "WebFetch" and request.argument == "url":
            host = urllib.parse.urlsplit(value).hostname or ""
            named = [rule for rule in self._about if rule.pattern != "domain:*"]
            rules = named if request.layer == "taint" else self._about
            return any(host_matches(rule, tool, host) for rule in rules)
        return False

    def _covers_part(self, command: Simple, cwd: Path) -> bool:
        def inside(word: str) -> bool:
            return Path(os.path.realpath(cwd / word)).is_relative_to(os.path.realpath(cwd))

        return any(
            rule.tool == "Bash" and covers(rule.pattern, command, inside) for rule in self._about
        )
