"""Whether a call is what one rule speaks of, for whoever guards by it (``if`` of a hook): as the
rules that forbid read it, and rather too often than not at all."""

from __future__ import annotations

import os
import re
from fnmatch import fnmatchcase
from pathlib import Path
from urllib.parse import urlsplit

from ohmo.contracts.messages import ToolCall
from ohmo.permissions.rules import (
    PATH_TOOLS,
    READERS,
    PathRules,
    Rule,
    covers,
    host_matches,
    parse_rule,
    path_matches,
    spellings,
)
from ohmo.shell.parsing import Shell
from ohmo.shell.patterns import known, real
from ohmo.shell.risks import hidden_code

_WILD = re.compile(r"[*?]")
_LONG = 20_000  # characters of a command that is not taken apart
_SEARCHES = ("Glob", "Grep")


class Conditions:
    """Implements ``ohmo.contracts.hooks.About``. ``shell``: as commands are judged with."""

    def __init__(self, shell: Shell) -> None:
        self._shell = shell

    def __call__(self, condition: str, call: ToolCall, cwd: Path) -> bool:
        tool, _, pattern = condition.strip().removesuffix(")").partition("(")
        if tool == "WebFetch" and pattern and not pattern.startswith("domain:"):
            return call.name == tool and fnmatchcase(str(call.arguments.get("url", "")), pattern)
        try:
            rule = self._rule(condition, cwd)
        except ValueError:
            return call.name == tool
        if call.name == "Bash":
            return rule.names("Bash") and self._command(
                rule, str(call.arguments.get("command")), cwd
            )
        if call.name in PATH_TOOLS:
            # ``/x`` is absolute in ohmo's rules, and of the project in Claude Code's settings.
            anchored = pattern.startswith("/") and not pattern.startswith("//")
            there = self._rule(f"{tool}(.{pattern})", cwd) if anchored else rule
            return any(self._file(each, call, cwd) for each in (rule, there))
        if not rule.names(call.name) or rule.pattern is None:
            return rule.names(call.name)
        if tool == "WebFetch":
            host = _host(str(call.arguments.get("url", "")))
            return not host or host_matches(rule, tool, host)
        return fnmatchcase(" ".join(map(str, call.arguments.values())), rule.pattern)

    def _rule(self, text: str, cwd: Path) -> Rule:
        return parse_rule(text, {"WORKSPACE": str(cwd), "HOME": self._shell.home})

    def _command(self, rule: Rule, line: str, cwd: Path) -> bool:
        """What nobody can say the programs of may be any."""
        if rule.pattern is None or len(line) > _LONG or covers(rule, (line.strip(),)):
            return True
        script = self._shell.parse(line, cwd)
        if script.unclear:
            return True
        first = rule.pattern.removesuffix(":*").split()[0].rpartition("/")[2]
        for simple in script.commands:
            # What a wildcard becomes may be made by the line itself.
            unknown = [not known(word) or _WILD.search(word) for word in simple.words]
            if simple.opaque or hidden_code(simple) or any(unknown[:1]):
                return True
            if covers(rule, spellings(simple)) or (any(unknown) and simple.name == first):
                return True
        return False

    def _file(self, rule: Rule, call: ToolCall, cwd: Path) -> bool:
        key = "notebook_path" if call.name == "NotebookEdit" else "file_path"
        named = str(call.arguments.get("path" if call.name in _SEARCHES else key) or ".")
        named = self._shell.home + named[1:] if named.startswith("~/") else named
        kind = "read" if call.name in READERS else "write"
        for path in (real(cwd / named), os.path.normpath(cwd / named)):
            if path_matches(rule, kind, call.name, path):
                return True
            if call.name in _SEARCHES and PathRules((rule,)).hit(path) != (None, None):
                return True
        return False


def _host(url: str) -> str:
    """Empty: nobody can say."""
    try:
        return urlsplit(url).hostname or ""
    except ValueError:
        return ""
