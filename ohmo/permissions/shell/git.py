"""What git would do: read only, or run another program on the side."""

from __future__ import annotations

import re
from collections.abc import Iterable

from ohmo.permissions.patterns import word_set

_FREE = word_set(
    """status log show diff shortlog blame annotate describe rev-parse rev-list ls-files ls-tree cat-file name-rev merge-base
        cherry whatchanged count-objects show-ref for-each-ref var version help check-ignore check-attr diff-tree diff-index
        diff-files grep"""
)
_BAD_LONG = word_set(
    "output ext-diff textconv open-files-in-pager upload-pack exec filters no-index help web man info delete move copy edit-description"
)
_NO_ABBREVIATION = word_set("text")  # options of their own
_SAFE_GLOBALS = word_set("--no-pager --no-optional-locks --literal-pathspecs -P")
# Settings whose value git runs, or that let somebody else say what runs.
_PROGRAMS = re.compile(
    r"alias\..*|core\.(pager|sshcommand|editor|fsmonitor|hookspath|gitproxy|askpass|alternaterefscommand|attributesfile|worktree)"
    r"|pager\..*|sequence\.editor|gpg\..*program|diff\.external|diff\..*\.(command|textconv)|(diff|merge)tool\..*|merge\..*\.driver"
    r"|filter\..*|credential\..*helper|interactive\.difffilter|init\.templatedir|protocol\..*allow|remote\..*\.(vcs|uploadpack|receivepack)"
    r"|include(if\..*)?\.path|uploadpack\..*|sendemail\..*|browser\..*|man\..*|trailer\..*\.(command|cmd)|submodule\..*\.update|url\..*",
    re.IGNORECASE,
)
_RUNS = ("upload-pack", "receive-pack", "exec", "ext-diff", "open-files-in-pager", "extcmd", "tool", "output", "template", "config")
# Letters that name a program or a setting; in one word with others, and with their value, too. Before the verb -c and its like always do.
_RUNS_SHORT = {"": r"-\w*[Ocux]", "clone": r"-\w*[cu]", "ls-remote": r"-\w*u", "rebase": r"-\w*x", "difftool": r"-\w*x", "grep": r"-\w*O"}


def git_reads_only(arguments: tuple[str, ...]) -> bool:
    """Whether git changes nothing and runs nothing: git takes a long option by its first letters, and short ones in one word."""
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        if arguments[at] == "-C":
            at += 2
        elif arguments[at] in _SAFE_GLOBALS:
            at += 1
        else:
            return arguments[at:] == ("--version",)
    if at >= len(arguments):
        return False
    verb, rest = arguments[at], arguments[at + 1 :]
    if any(_writes(verb, word) for word in _before_paths(rest)) and not (verb == "ls-files" and "-o" in rest):
        return False
    if verb in _FREE:
        return not (verb == "var" and rest != ("-l",)) and verb != "help"
    return _verb(verb, rest)


def _before_paths(words: tuple[str, ...]) -> Iterable[str]:
    return words[: words.index("--")] if "--" in words else words


def _writes(verb: str, word: str) -> bool:
    if word.startswith("--"):
        given = word[2:].partition("=")[0]
        if given in _NO_ABBREVIATION and verb != "cat-file":
            return False
        return len(given) > 1 and any(bad.startswith(given) for bad in _BAD_LONG) and given not in ("he", "in")
    if verb == "grep":
        return re.match(r"-\w*O", word) is not None
    return re.match(r"-[oO]", word) is not None


def _verb(verb: str, rest: tuple[str, ...]) -> bool:
    match verb:
        case "branch":
            return _branch(rest)
        case "tag":
            return not rest or (
                rest[0] in ("-l", "--list", "-n")
                and not any(re.match(r"-[a-zA-Z]*[adfsmFu]|--(d|f|si|e|a|m|fi|lo|cl)", word) for word in rest)
            )
        case "remote":
            return rest in ((), ("-v",), ("--verbose",)) or rest[:1] == ("get-url",)
        case "config":
            forms = ("--get", "--get-all", "--list", "-l", "get", "list")
            return rest[:1] != () and rest[0] in forms and not any(re.match(r"--(e|ad|rep|un|rem|ren)|-e", word) for word in rest)
        case "stash":
            return rest[:1] in (("list",), ("show",))
        case "reflog":
            return not rest or rest[0] == "show" or rest[0].startswith("-")
        case "worktree" | "notes":
            return rest[:1] in (("list",), ("status",))
        case "submodule":
            return rest[:1] == ("status",)
        case _:
            return False


def _branch(rest: tuple[str, ...]) -> bool:
    if not rest:
        return True
    first = re.fullmatch(
        r"-[avrl]+|--(list|all|remotes|show-current|merged|no-merged|contains|sort=.*|format=.*|points-at)", rest[0], re.DOTALL
    )
    if first is None or any(re.match(r"-\w*[dDmMcCuft]|--(d|m(?!erged)|cop|set|uns|e|fo(?!rmat)|cr|tr)", word) for word in rest):
        return False
    named = any(not word.startswith("-") for word in rest)
    return not named or rest[0] in ("--list", "-l", "--merged", "--no-merged", "--contains", "--points-at")


def git_runs(words: tuple[str, ...]) -> str:
    """The setting by which git runs a program of the caller's choice; "" for none. ``words`` without ``git`` itself."""
    for at, word in enumerate(words):
        value = words[at + 1] if at + 1 < len(words) else ""
        if word in ("-c", "--config-env", "--config") and _PROGRAMS.fullmatch(value.partition("=")[0]):
            return value.partition("=")[0]
        if (setting := re.match(r"(?:--config-env=|--config=|-c)([\w.-]+)", word)) is not None and _PROGRAMS.fullmatch(setting[1]):
            return setting[1]
        if word.startswith("ext::") or "=ext::" in word:
            return "ext::"
    if "config" in words:
        after = [word for word in words[words.index("config") + 1 :] if not word.startswith("-") and word not in ("set", "get", "unset")]
        if len(after) > 1 and _PROGRAMS.fullmatch(after[0]):
            return after[0]
    return ""


def git_goes_further(words: tuple[str, ...]) -> bool:
    """Whether options lead further than the verb says: a rule for ``git fetch:*`` does not mean ``git fetch --upload-pack=rm``."""
    letters = _RUNS_SHORT.get(words[0] if words and not words[0].startswith("-") else "")
    for word in words:
        given = word[2:].partition("=")[0] if word.startswith("--") else ""
        if len(given) > 1 and any(each.startswith(given) for each in _RUNS):
            return True
        if "ext::" in word or (letters is not None and re.match(letters, word)):
            return True
    return False
