"""What is known about variables and folders at one place of a shell script, how builtins and loops
change it, and what a substitution prints there."""

from __future__ import annotations

import itertools
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from tree_sitter import Node

from ohmo.shell.patterns import ANY, known, word_set
from ohmo.shell.script import Simple

ASSIGNING = frozenset({"read", "mapfile", "readarray", "printf", "getopts", "let", "unset"})
_DECLARING = word_set("declare typeset export readonly local")
_OTHERWISE = re.compile(r"[-+]\w*[nluic]\w*")  # by these a value is another one than is written
_VALUED = re.compile(r"-\w*[pdtnNuiC]")  # of ``read`` and its like
_NAME = re.compile(r"[A-Za-z_]\w*")
_ASSIGNS = re.compile(r"([A-Za-z_]\w*)(?:\[[^\]]*\])?\+?=")
# Bash sets these by itself.
_OF_BASH = re.compile(
    r"_|BASH\w*|REPLY|MAPFILE|OPTARG|OPTIND|COPROC|DIRSTACK|FUNCNAME|PIPESTATUS|PWD|OLDPWD|HOME"
    r"|TMPDIR|HOSTNAME|HISTCMD"
)
_HARMLESS_OUTPUT = word_set("date nproc id whoami hostname uname wc mktemp arch tty")
_DATES = re.compile(r"\+(?:%[YmdHMSsFTjNyuwVUIGeDRkl][-_.:T]?)+")
PRINTED = "0000000"  # a number or a name that nobody's program has
PRINTED_BY_GIT = "00000001"  # the name of a branch may be anything
MOST = 64  # alternatives of one word; more are "anything"
_NUMBERS = word_set(
    "? # $ ! RANDOM SECONDS UID EUID PPID LINENO BASHPID EPOCHSECONDS SHLVL COLUMNS LINES"
)


@dataclass(slots=True)
class Names:
    """What is known of the variables of a whole script, wherever in it."""

    #: These may have any value: they are assigned in what runs again or later, or by a builtin.
    loose: set[str] = field(default_factory=set[str])
    every: bool = False  # all may
    again: int = 0  # how deep in loops
    later: int = 0  # how deep in functions, and in code of ``eval`` in loops


@dataclass(slots=True)
class Scope:
    """What is known at one place."""

    home: str  # what ``~`` and ``$HOME`` mean
    cwds: tuple[str, ...]  # folders it may stand in, the likeliest last
    #: Possible values; absent: nobody knows.
    variables: dict[str, tuple[str, ...]] = field(default_factory=dict[str, tuple[str, ...]])
    names: Names = field(default_factory=Names)

    def copy(self) -> Scope:
        return Scope(self.home, self.cwds, dict(self.variables), self.names)

    def unknown(self) -> Scope:
        """For what runs later: whatever was known here may have changed by then."""
        return Scope(self.home, (ANY,), dict.fromkeys(self.variables, (ANY,)), self.names)

    def assign(self, name: str, values: tuple[str, ...]) -> None:
        """A value may or may not have been replaced (branches, failed commands), so the old ones
        stay possible."""
        self.names.every |= name == "IFS"
        if self.names.again or self.names.later or name in _NUMBERS or _OF_BASH.fullmatch(name):
            self.names.loose.add(name)
        both = tuple(dict.fromkeys((*self.variables.get(name, ()), *values)))
        self.variables[name] = both if len(both) <= MOST else (ANY,)

    def forget(self, name: str) -> None:
        """It may have any value."""
        self.variables[name] = (ANY,)

    def loosen(self, name: str) -> None:
        """It may have any value wherever it is used."""
        self.names.loose.add(name)
        self.names.every |= name == "IFS"

    def value(self, name: str) -> tuple[str, ...]:
        if self.names.every or name in self.names.loose:
            return (ANY,)
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
    while words[:1] in (["command"], ["builtin"], ["time"]):
        words = words[1:]
        if words and words[0].startswith("-"):
            words = words[1:]
    _assign(words, scope)
    name = words[0] if words else ""
    if name in ("cd", "pushd", "chdir"):
        goals = [word for word in words[1:] if not re.fullmatch(r"-[LPen@]+|--", word)]
        goal = goals[0] if goals else scope.value("HOME")[0]
        searched = scope.names.every or "CDPATH" in {*scope.variables, *scope.names.loose}
        searched = searched and not goal.startswith(("/", "."))
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


def _assign(words: list[str], scope: Scope) -> None:
    """Variables that a builtin sets, and ``time a=b``."""
    name = words[0] if words else ""
    if (assigns := _ASSIGNS.match(name)) is not None:
        scope.loosen(assigns[1])
    elif name in _DECLARING:
        declared(words, scope)
    elif name in ASSIGNING:
        for own in ("REPLY", "MAPFILE", "OPTARG", "OPTIND"):
            scope.loosen(own)
        rest = words[1:3] if name == "printf" else words[1:]
        if name == "printf" and rest and known(rest[0]) and not rest[0].startswith("-v"):
            return
        for before, word in itertools.pairwise(("", *rest)):
            if not _VALUED.fullmatch(before):
                scope.names.every |= not known(word)
                starts = range(len(word)) if word.startswith("-") else (0,)
                for match in filter(None, (_NAME.match(word, at) for at in starts)):
                    scope.loosen(match[0])


def declared(words: Sequence[str], scope: Scope) -> None:
    """What ``declare`` and its like set beside what the grammar takes for assignments."""
    otherwise = any(map(_OTHERWISE.fullmatch, words))
    scope.names.every |= any(re.fullmatch(r"[-+]\w*n\w*", word) for word in words)
    for word in words[1:]:
        scope.names.every |= not known(word)
        match = _NAME.match(word) if otherwise else _ASSIGNS.match(word)
        if match is not None:
            scope.loosen(match[1] if match.re is _ASSIGNS else match[0])


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
    for each in _below(node, frozenset({"variable_assignment", "command", "for_statement"})):
        text = (each.text or b"").decode("utf-8", "replace")
        if each.type == "for_statement":
            names.update(re.findall(r"^\w+\s+(\w+)", text))
        elif each.type == "variable_assignment":
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
    if scope.names.every:
        return (ANY,)
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
    if asks_git:
        return (PRINTED_BY_GIT,)
    if words and words[0] in _HARMLESS_OUTPUT:
        own = words[0] not in ("date", "wc") or (
            all(word.startswith("-") for word in words[1:])
            if words[0] == "wc"
            else all(map(_DATES.fullmatch, (word for word in words if word.startswith("+"))))
        )
        return (PRINTED,) if own else (ANY,)
    if words[:1] == ("seq",) and all(re.fullmatch(r"-?\d+", word) for word in words[1:]):
        return ("0",)
    prints = words[:1] in (("echo",), ("printf",)) and len(words) == 2
    if prints and known(words[1]) and not re.search(r"[\\%]", words[1]):
        return (words[1],)
    return (ANY,)


def assigned_name(node: Node) -> str:
    """The variable that an assignment sets."""
    name = node.child_by_field_name("name")
    match = re.match(rb"\w*", (name.text or b"") if name is not None else b"")
    return match[0].decode("utf-8", "replace") if match is not None else ""
