"""Which simple commands change nothing: a table of programs, and of the options that make them write or run something."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable

from ohmo.permissions.patterns import known, word_set
from ohmo.permissions.shell.git import git_reads_only
from ohmo.permissions.shell.script import Simple
from ohmo.permissions.shell.sums import plain_variable

Check = Callable[[tuple[str, ...]], bool]

HARMLESS_VARIABLES = word_set("LANG LC_ALL LC_CTYPE LC_COLLATE LC_MESSAGES LC_NUMERIC TZ NO_COLOR COLUMNS CI")
HARMLESS_TARGETS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})

# programs that only read, whatever their options
_FREE = word_set(
    """ls dir vdir cat tac head wc cut tr paste fold fmt expand unexpand nl od join look rev echo printf pwd true false test [
        : id groups whoami uname arch nproc uptime free ps pgrep pidof lscpu lsblk lsusb stat du df cmp basename dirname
        realpath readlink md5sum sha1sum sha224sum sha256sum sha384sum sha512sum b2sum cksum sum strings hexdump seq sleep which
        type whereis column numfmt tsort comm grep egrep fgrep zcat zgrep bzcat xzcat dpkg-query getconf locale tty logname
        users who w last getent jq cal factor pathchk cd pushd popd dirs exit return break continue shift wait tail read"""
)
_BAD_OPTIONS: dict[str, tuple[str, tuple[str, ...]]] = {  # short letters, long names
    "sort": ("oST", ("output", "compress-program", "files0-from", "temporary-directory")),
    "tree": ("oR", ("output",)),
    "file": ("CmzZ", ("compile", "magic-file", "uncompress")),
    "rg": ("z", ("pre", "hostname-bin", "search-zip")),
    "shuf": ("o", ("output",)),
    "jq": ("L", ("from-file", "library-path")),
    "printf": ("v", ()),
}
_VERSIONED = word_set(
    """python python3 node npm pnpm yarn bun deno cargo rustc go gcc g++ clang make cmake java ruby perl php pip pip3 uv docker
        git bash"""
)
_SED_PLACE = r"(?:\d+|\$|/(?:[^/\\\n]|\\[^\n])*/)"
_SED_PART = (
    rf"{_SED_PLACE}?(?:,(?:{_SED_PLACE}|\+\d+))?\s*!?[pdq=]|s([/|#,])(?:(?!\1)[^\\\n]|\\[^\n])*\1(?:(?!\1)[^\\\n]|\\[^\n])*\1[gpiI0-9]*"
)
_SED_SCRIPT = re.compile(rf"(?:{_SED_PART})(?:;\s*{_SED_PLACE}?(?:,{_SED_PLACE})?\s*[pdq=])*;?")
_AWK_BAD = re.compile(r"system|getline|[|>@]|close|fflush|\b(ENVIRON|ARG[CV]|SYMTAB)\b|-f")
_IP_SHOWS = re.compile(  # ip takes a verb by its first letters: "s" is "set" of a link, and "show" of all others
    r"(-(\d|s|d|j|p|o|br|brief|c|color|json|pretty|details|stats|statistics|oneline|human|h)\s)*"
    r"((l|link|maddr|netns|tunnel)(\s(sh|show|ls|list|lst)(\s.*)?)?"
    r"|(a|addr|address|r|ro|route|n|neigh|neighbour|ru|rule)(\s(s|sh|show|ls|list|lst|get)(\s.*)?)?)"
    r"|-V"
)
_FIND_BAD = re.compile(r"-(exec|execdir|ok|okdir|delete|fprint0?|fprintf|fls|files0-from)$")


def reads_only(command: Simple) -> bool:
    """Whether the simple command changes nothing and runs nothing else."""
    harmless = HARMLESS_VARIABLES if command.words[:1] != ("read",) else HARMLESS_VARIABLES | {"IFS"}
    if command.opaque or any(name not in harmless for name in command.assigned if command.words):
        return False
    if any(redirect.kind == "write" and redirect.target not in HARMLESS_TARGETS for redirect in command.redirects):
        return False
    if any(redirect.target.startswith(("/dev/tcp/", "/dev/udp/")) for redirect in command.redirects):
        return False
    if not command.words:
        return all(plain_variable(name) for name in command.assigned)
    words = command.words
    name = words[0].removeprefix("/usr/bin/").removeprefix("/bin/")
    if "/" in name or not known(name):
        return False
    if len(words) == 2 and words[1] in ("--version", "-V", "version") and name in _VERSIONED:
        return words[1] != "version" or name in ("go", "docker", "git")
    check = _CHECKS.get(name)
    if check is not None:
        return check(words[1:])
    return name in _FREE and not _has_bad_option(name, words[1:])


def _has_bad_option(name: str, arguments: tuple[str, ...]) -> bool:
    if name not in _BAD_OPTIONS:
        return False
    letters, longs = _BAD_OPTIONS[name]
    for word in arguments:
        if word == "--":
            return False
        if word.startswith("--"):
            given = word[2:].partition("=")[0]
            if given and any(long.startswith(given) for long in longs):
                return True
        elif word.startswith("-") and any(letter in word[1:] for letter in letters):
            return True
        elif not known(word) and not word[0].isalnum() and word[0] != "/":
            return True  # an unknown word may be an option
    return False


def _operands(arguments: tuple[str, ...]) -> list[str]:
    """``-`` is one (standard input), and so is everything after ``--``."""
    end = arguments.index("--") if "--" in arguments else len(arguments)
    return [word for word in arguments[:end] if not word.startswith("-") or word == "-"] + list(arguments[end + 1 :])


def _sure(*checks: Check) -> Check:
    """All words must be known: an option could hide in an unknown one."""
    return lambda arguments: all(known(word) for word in arguments) and all(check(arguments) for check in checks)


def _options(name: str) -> Check:
    return lambda arguments: not _has_bad_option(name, arguments)


def _find(arguments: tuple[str, ...]) -> bool:
    return not any(_FIND_BAD.match(word) for word in arguments)


def _sed(arguments: tuple[str, ...]) -> bool:
    options = [word for word in arguments if word.startswith("-")]
    rest = _operands(arguments)
    scripts = rest[:1]
    if not set(options) <= {"-n", "-E", "-r", "-nE", "-En", "-nr", "-e", "-ne", "--quiet", "--silent"}:
        return False
    if "-e" in options or "-ne" in options:
        scripts = [after for word, after in itertools.pairwise(arguments) if word in ("-e", "-ne")]
    return bool(scripts) and all(_SED_SCRIPT.fullmatch(script) for script in scripts)


def _awk(arguments: tuple[str, ...]) -> bool:
    return (
        bool(arguments)
        and not any(word.startswith("-") and not re.match(r"-(F|v$|v\w+=)", word) for word in arguments)
        and not any(_AWK_BAD.search(word) for word in arguments if not word.startswith("-F"))
    )


def _date(arguments: tuple[str, ...]) -> bool:
    """``date 10101010`` sets the clock."""
    skip = False
    for word in arguments:
        if skip or word.startswith("+"):
            skip = False
        elif word in ("-d", "--date", "-r"):
            skip = True
        elif not re.fullmatch(r"-u|-I\w*|-R|--utc|--iso-8601\S*|--rfc-\S+|--date=.*|-d.+", word):
            return False
    return True


def _first(*words: str) -> Check:
    return lambda arguments: arguments[:1] != () and arguments[0] in words


def _only_options(*names: str) -> Check:
    return lambda arguments: all(word.partition("=")[0] in names for word in arguments if word.startswith("-"))


def _no_operands(arguments: tuple[str, ...]) -> bool:
    return not _operands(arguments)


def _reads_into_plain_names(arguments: tuple[str, ...]) -> bool:
    """``read PATH`` changes what runs next, and a subscript of a name may run a command."""
    at = 0
    while at < len(arguments) and arguments[at].startswith("-"):
        if re.fullmatch(r"-[ers]*[dnNtpu]", arguments[at]):
            at += 1
        elif not re.fullmatch(r"-[ersa]+|--|-[ers]*[dnNtu].+", arguments[at]):
            return False
        at += 1
    return all(plain_variable(word) for word in arguments[at:])


def _sure_test(arguments: tuple[str, ...]) -> bool:
    """``-v`` evaluates the subscript of a name."""
    return not any(word == "-v" and not plain_variable(name) for word, name in itertools.pairwise(arguments))


_CHECKS: dict[str, Check] = {
    "find": _sure(_find),
    "sed": _sure(_sed),
    "awk": _sure(_awk),
    "gawk": _sure(_awk),
    "mawk": _sure(_awk),
    "date": _sure(_date),
    "git": _sure(git_reads_only),
    "sort": _sure(_options("sort")),
    "rg": _sure(_options("rg")),
    "tree": _sure(_options("tree")),
    "file": _sure(_options("file")),
    "uniq": _sure(lambda arguments: len(_operands(arguments)) <= 1),  # the second names the output
    "xxd": _sure(lambda arguments: len(_operands(arguments)) <= 1 and not any(re.match(r"-r|--?rev", word) for word in arguments)),
    "diff": _sure(lambda arguments: not any(word.startswith("--output") for word in arguments)),
    "hostname": _sure(
        lambda arguments: all(
            re.fullmatch(r"-[aAdfiIsy]+|--(fqdn|long|short|domain|ip-address|all-ip-addresses|all-fqdns)", word) for word in arguments
        )
    ),
    "ip": _sure(lambda arguments: _IP_SHOWS.fullmatch(" ".join(arguments)) is not None),
    "ps": _sure(
        lambda arguments: not any(re.fullmatch(r"[a-zA-Z]*e[a-zA-Z]*", word) for word in arguments[:1])
    ),  # BSD "e" shows environments
    "pip": _sure(
        _first("list", "show", "freeze", "check"),
        _only_options("--format", "--outdated", "--user", "--local", "-v", "--not-required", "-f"),
    ),
    "pip3": _sure(_first("list", "show", "freeze", "check"), _only_options("--format", "--outdated", "--user", "--local", "-v", "-f")),
    "npm": _sure(
        _first("ls", "list", "outdated", "view"), _only_options("--all", "-a", "--depth", "--json", "-g", "--global", "--long", "--prod")
    ),
    "docker": _sure(_first("ps", "images", "version")),
    "systemctl": _sure(
        _first("status", "is-active", "is-enabled", "list-units", "list-timers", "list-unit-files"),
        lambda arguments: not any(re.match(r"-\w*[HM]|--(h|ma|r|i)", word) for word in arguments),
    ),
    "journalctl": _sure(
        lambda arguments: (
            not any(re.match(r"--(v(?!ersion)|ro|fi(?!eld)|fl|sy|se|up|rel|sm|cursor-f|cursor-?$|ma|na|im)", word) for word in arguments)
        )
    ),
    "dmesg": _sure(_no_operands, lambda arguments: not any(re.match(r"-\w*[cCDEn]|--(cl|read|con)", word) for word in arguments)),
    "command": lambda arguments: arguments[:1] in (("-v",), ("-V",)),
    "set": _sure(lambda arguments: all(re.fullmatch(r"[-+][euxo]+|pipefail|errexit|nounset", word) for word in arguments)),
    "export": lambda arguments: not arguments,
    "printenv": _sure(),
    "env": _sure(lambda arguments: not arguments),
    "history": lambda arguments: not arguments,
    "sleep": _sure(),
    "read": _sure(_reads_into_plain_names),
    "wait": _sure(lambda arguments: all(re.fullmatch(r"%?\d+|-n", word) for word in arguments)),
    "test": _sure_test,
    "[": _sure_test,
}
