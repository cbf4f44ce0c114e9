"""What is known about variables and folders at one place of a shell script, how builtins and loops
change it, and what a substitution prints there."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tree_sitter import Node

from ohmo.shell.patterns import ANY, known, word_set
from ohmo.shell.script import Simple

ASSIGNING = frozenset({"read", "mapfile", "readarray", "printf", "getopts", "let", "unset"})
_HARMLESS_OUTPUT = word_set("date nproc id whoami hostname uname wc mktemp arch tty")
MOST = 64  # alternatives of one word; more are "anything"
_NUMBERS = word_set(
    "? # $ ! RANDOM SECONDS UID EUID PPID LINENO BASHPID EPOCHSECONDS SHLVL COLUMNS LINES"
)


@dataclass(slots=True)
class Scope:
    """What is known at one place."""

    home: str  # what ``~`` and ``$HOME`` mean
    cwds: tuple[str, ...]  # folders it may stand in, the likeliest last
    #: Possible values; absent: nobody knows.
    variables: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])

    def copy(self) -> Scope:
        return Scope(self.home, self.cwds, dict(self.variables))

    def unknown(self) -> Scope:
        """For what runs later: whatever was known here may have changed by then."""
        return Scope(self.home, (ANY,), dict.fromkeys(self.variables, (ANY,)))

    def assign(self, name: str, values: tuple[str, ...]) -> None:
        """A value may or may not have been replaced (branches, failed commands), so the old ones
        stay possible."""
        both = tuple(dict.fromkeys((*self.variables.get(name, ()), *values)))
        self.variables[name] = both if len(both) <= MOST else (ANY,)

    def forget(self, name: str) -> None:
        """It may have any value."""
        self.variables[name] = (ANY,)

    def value(self, name: str) -> tuple[str, ...]:
        if name in self.variables:
            return self.variables[name]
        if name in _NUMBERS:
            return ("0",)
        own = {
            "HOME": (self.home,),
            "PWD": self.cwds,
            "IFS": (" ",),
            "TMPDIR": ("/tmp",),  # noqa: S108
        }
        return own.get(name, (ANY,))


def run_builtin(words: list[str], scope: Scope) -> None:
    """Changes ``scope`` as the command does it for those after it."""
    while words[:1] in (["command"], ["builtin"]):
        words = words[1:]
        if words and words[0].startswith("-"):
            words = words[1:]
    name = words[0] if words else ""
    if name in ("cd", "pushd", "chdir"):
        goals = [word for word in words[1:] if not re.fullmatch(r"-[LPen@]+|--", word)]
        goal = goals[0] if goals else scope.value("HOME")[0]
        searched = "CDPATH" in scope.variables and not goal.startswith(("/", "."))
        folders: tuple[str, ...] = (ANY,)
        if goal not in ("-", "") and not searched and known(goal):
            if goal.startswith("/"):
                folders = (goal,)
            else:
                folders = tuple(f"{cwd}/{goal}" for cwd in scope.cwds)
        if len(scope.cwds) < 6:
            scope.cwds = tuple(dict.fromkeys((*scope.cwds, *folders)))[:8]
        else:
            scope.cwds = (ANY,)
    elif name in ("popd", "dirs"):
        scope.cwds = (ANY,)
    elif name in ASSIGNING:
        for word in words[1:]:
            if match := re.match(r"[A-Za-z_]\w*", word):
                scope.forget(match[0])


def _below(node: Node, kinds: frozenset[str]) -> list[Node]:
    nodes: list[Node] = []
    queue = [node]
    while queue:
        each = queue.pop()
        if each.type in kinds:
            nodes.append(each)
        queue += each.children
    return nodes


def assigned_below(node: Node) -> set[str]:
    """Names a loop may assign, also through builtins that take names."""
    names: set[str] = set()
    for each in _below(node, frozenset({"variable_assignment", "command"})):
        text = (each.text or b"").decode("utf-8", "replace")
        if each.type == "variable_assignment":
            names.update(re.findall(r"^\w+", text))
        elif (text.split(maxsplit=1) or [""])[0] in (*ASSIGNING, "command", "builtin"):
            names.update(re.findall(r"[A-Za-z_]\w*", text))
    return names


def changes_folder(node: Node) -> bool:
    return any(
        re.match(rb"(cd|pushd|popd|chdir)\b", each.text or b"")
        for each in _below(node, frozenset({"command"}))
    )


def output_of(commands: Sequence[Simple], scope: Scope, *, one_pipeline: bool) -> tuple[str, ...]:
    """What a substitution of these commands may print; the output of a few harmless ones is known
    well enough. ``one_pipeline``: they are that and nothing more."""
    last = commands[-1] if commands else None
    if len(commands) > 1 and last is not None:
        counts = last.stdin == "pipe" and last.words[:1] == ("wc",) and one_pipeline
        if counts and all(word.startswith("-") for word in last.words[1:]):
            return ("0",)
        return (ANY,)
    if last is None or last.opaque:
        return (ANY,)
    words = last.words
    if words == ("pwd",):
        return scope.cwds
    if words[:2] == ("git", "rev-parse") and "--show-toplevel" in words:
        return (ANY,)
    asks_git = words[:2] in (("git", "rev-parse"), ("git", "describe"), ("git", "branch"))
    if asks_git or (words and words[0] in _HARMLESS_OUTPUT):
        return ("0",)
    if words[:1] == ("seq",) and all(re.fullmatch(r"-?\d+", word) for word in words[1:]):
        return ("0",)
    prints = words[:1] in (("echo",), ("printf",)) and len(words) == 2
    if prints and known(words[1]) and not re.search(r"[\\%]", words[1]):
        return (words[1],)
    return (ANY,)
