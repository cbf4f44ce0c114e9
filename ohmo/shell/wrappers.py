"""Commands that run other commands: what they run, as far as their arguments say it."""

from __future__ import annotations

import itertools
import re
from typing import Literal

from channels.record import record
from ohmo.shell.patterns import ANY, known, word_set

SHELLS = word_set("sh bash dash zsh ksh ash mksh rbash fish csh tcsh")
_MULTI = frozenset({"busybox", "toybox"})
# Options that take a value, by wrapper: letters, then long names. Everything else that starts with
# "-" is a flag.
_VALUED: dict[str, str] = {
    "sudo": (
        "ugphCTRDUrt user group host prompt chdir chroot role type close-from command-timeout"
        " other-user"
    ),
    "doas": "uC",
    "env": "uCa unset chdir argv0",
    "timeout": "ks kill-after signal",
    "nice": "n adjustment",
    "ionice": "cnpPu class classdata pid",
    "stdbuf": "ioe input output error",
    "xargs": "adEILnPs arg-file delimiter max-args max-procs max-lines max-chars replace",
    "parallel": "jaIN jobs arg-file colsep",
    "strace": "oepsu output",
    "ltrace": "oepsu output",
    "flock": "wE timeout conflict-exit-code",
    "chrt": "TPD",
    "taskset": "",
    "unshare": "RwSG map-user map-group map-users map-groups root wd setuid setgid",
    "nsenter": "tSG target setuid setgid",
    "chroot": "- userspec groups",
    "watch": "n interval",
    "time": "of output format",
    "setpriv": (
        "- reuid regid ruid euid rgid egid groups inh-caps ambient-caps bounding-set securebits"
    ),
    "systemd-run": (
        "puHME unit property slice setenv description uid gid nice working-directory host machine"
        " on-active"
    ),
    "bwrap": "",
    "exec": "a",
    "runuser": "ugG user group",
    "cpulimit": "lpe limit",
    "prlimit": "",
    "numactl": "NmCiplw",
    "setarch": "",
    "choom": "np adjust pid",
    "pkexec": "u user",
    "start-stop-daemon": "",
    "run-parts": "a arg",
    "valgrind": "",
    "perf": "",
}
_SIMPLE = word_set(
    """nohup setsid command builtin then ! unbuffer catchsegv eatmydata fakeroot torsocks
        dbus-run-session xvfb-run firejail proot
        ssh-agent caffeinate entr linux32 linux64 i386 i686 x86_64 chronic ifne tini dumb-init
        systemd-inhibit systemd-cat rlwrap"""
)
# Before the command.
_OPERANDS = {
    "timeout": 1,
    "taskset": 1,
    "chroot": 1,
    "flock": 1,
    "chrt": 1,
    "gosu": 1,
    "su-exec": 1,
    "faketime": 1,
}
# How many nobody knows.
_UNSURE = dict.fromkeys(
    word_set(
        """bwrap firejail proot prlimit unshare nsenter systemd-run cpulimit numactl setarch choom
        pkexec start-stop-daemon run-parts valgrind perf tini dumb-init systemd-inhibit systemd-cat
        rlwrap"""
    ),
    40,
)
_CODE = {  # options whose value is shell source: letter, long name
    "env": ("S", "split-string"),
    "su": ("c", "command"),
    "runuser": ("c", "command"),
    "script": ("c", "command"),
    "flock": ("c", "command"),
}
_CHANGES_WORDS = word_set("alias enable hash shopt coproc complete bind mapfile readarray")
_FIND_RUNS = word_set("-exec -execdir -ok -okdir -x -X --exec --exec-batch")
WRAPPERS = frozenset(_VALUED) | _SIMPLE | _MULTI | frozenset(_OPERANDS) | frozenset(_CODE)
_LOADER = re.compile(r"ld-(linux|musl)[\w.-]*")
_LATER = "$ohmo_later"  # an argument nobody knows yet, inside shell source


@record
class Inner:
    """A command that another one runs."""

    words: tuple[str, ...] = ()  # as arguments
    code: str | None = None  # as shell source
    opaque: str = ""  # something runs that nobody can name
    assigned: tuple[str, ...] = ()  # variables set for it
    #: The code runs in a shell of its own, in this one now (``eval``), or in this one after
    #: anything else (``trap``).
    when: Literal["apart", "here", "later"] = "apart"


def inner_commands(words: tuple[str, ...], stdin: str) -> list[Inner]:
    """What the command runs beside itself; [] for an ordinary command."""
    name = words[0].rpartition("/")[2].casefold() if words else ""
    if name in SHELLS:
        return [_shell(words, stdin)]
    if name in ("eval", "trap"):
        rest = words[2:] if words[1:2] == ("--",) else words[1:]
        code = " ".join(rest[:1] if name == "trap" else rest)
        if not rest:
            return []
        if not known(code):
            return [Inner(opaque=f"{name} runs text that is only known later")]
        return [Inner(code=code, when="later" if name == "trap" else "here")]
    if name in ("source", "."):
        return [Inner(opaque="source runs a file inside this shell")]
    if name in _CHANGES_WORDS and len(words) > 1:
        return [Inner(opaque=f"{name} changes what later words mean")]
    if name in ("find", "fd", "fdfind"):
        return _find(words)
    if name == "git":
        return _git(words)
    if name in ("at", "batch", "crontab", "ssh", "gdb", "docker", "podman", "kubectl"):
        return []
    if _LOADER.fullmatch(name):
        return [Inner(tuple(itertools.dropwhile(lambda word: word.startswith("-"), words[1:])))]
    if name in WRAPPERS:
        return [_wrapped(name, words)]
    return []


def tails(words: tuple[str, ...]) -> list[tuple[str, ...]]:
    """Every command a wrapper may run, however its options are read: for what forbids, not for what
    allows. ``sudo apt install curl`` runs no curl."""
    name = words[0].rpartition("/")[2].casefold() if words else ""
    if name not in WRAPPERS:
        return []
    commands: list[tuple[str, ...]] = []
    more = _UNSURE.get(name, _OPERANDS.get(name, 0))
    for before, at in itertools.pairwise(range(min(len(words), 40))):
        word, inner = words[at], words[at].rpartition("/")[2]
        commands.append((inner, *words[at + 1 : at + 200]))
        if inner.casefold() in WRAPPERS:
            more += _UNSURE.get(inner.casefold(), _OPERANDS.get(inner.casefold(), 0))
        elif not (
            word.startswith("-") or "=" in word or words[before].startswith("-")
        ):  # else an option's value, perhaps
            more -= 1
        if more < 0:
            break
    return commands


def _shell(words: tuple[str, ...], stdin: str) -> Inner:
    code = skip = False
    for word in words[1:]:
        if not known(word):
            return Inner(opaque="a shell runs something that is only known later")
        if skip:
            skip = False
        elif word.startswith("--command="):
            return Inner(code=word.partition("=")[2])
        elif word in ("--rcfile", "--init-file", "--command"):
            code = code or word == "--command"
            skip = word != "--command"
        elif re.fullmatch(r"[-+][A-Za-z]+", word):
            code = code or (word[0] == "-" and "c" in word)
            skip = word[-1] in "oO"
        elif code and word != "--":
            return Inner(code=word)
        elif word in ("/dev/stdin", "/dev/null"):
            return Inner(opaque="a shell reads commands from its input")
        elif not word.startswith(("-", "+")):
            return Inner()
    if code:
        return Inner(opaque="sh -c runs text that is only known later")
    if words[1:] and set(words[1:]) <= {"--version", "--help"}:
        return Inner()
    if stdin == "text":
        return Inner()
    if stdin == "pipe":
        return Inner(opaque="a shell reads commands from a pipe")
    return Inner(opaque="a shell without a command")


def _find(words: tuple[str, ...]) -> list[Inner]:
    inner: list[Inner] = []
    is_find = words[0].rpartition("/")[2] == "find"
    for at, word in enumerate(words):
        rest: list[str] = []
        attached = None if is_find else re.match(r"--exec(?:-batch)?=|-[xX](?=.)", word)
        if attached is not None:
            rest.append(word[attached.end() :])
        elif word not in _FIND_RUNS:
            continue
        for each in words[at + 1 :]:
            if each in (";", "+"):
                break
            rest.append(each.replace("{}", ANY))
        inner.append(Inner(tuple(rest)) if rest else Inner(opaque="find -exec without a command"))
    return inner


def _git(words: tuple[str, ...]) -> list[Inner]:
    """``git bisect run``, ``git submodule foreach``, ``git rebase --exec`` and their like."""
    inner: list[Inner] = []
    for at, (word, after) in enumerate(itertools.pairwise((*words, "")), 1):
        if word in ("run", "foreach") and not {"bisect", "submodule"}.isdisjoint(words[:at]):
            rest = [each for each in words[at:] if each not in ("--quiet", "--recursive")]
            inner.append(Inner(tuple(rest)) if word == "run" else _source(" ".join(rest), ()))
        code = re.fullmatch(r"(?:-x|--exec|--[a-z]+-filter)(?:=(.*))?|-x(.+)", word, re.DOTALL)
        if code is not None and not {"rebase", "filter-branch"}.isdisjoint(words[:at]):
            inner.append(_source(code[1] or code[2] or after, ()))
    return inner


def _wrapped(name: str, words: tuple[str, ...]) -> Inner:
    if name in _MULTI:
        return Inner(words[1:])
    if name == "command" and words[1:2] in (("-v",), ("-V",)):
        return Inner()
    skip = _OPERANDS.get(name, 0) if name not in ("su", "script") else len(words)
    assigned: list[str] = []
    at = 1
    while at < len(words):
        word = words[at]
        if word.startswith("-") and (word != "-" or name in ("env", "su")):
            taken, code = _option(name, word)
            if code is not None:
                return _source(code, words[at + 1 :], more=name == "env")
            at += taken
        elif name in ("env", "sudo", "doas", "nohup") and re.fullmatch(r"\w+=.*", word, re.DOTALL):
            assigned.append(word.partition("=")[0])
            at += 1
        elif skip:
            skip -= 1
            at += 1
        else:
            break
    rest = words[at:]
    if not rest:
        return Inner(assigned=tuple(assigned))
    if name == "watch" and not any(re.fullmatch(r"-\w*x\w*|--exec", word) for word in words):
        return _source(" ".join(rest), ())
    if name == "parallel":
        if rest[0].startswith(":::"):
            return Inner(opaque="parallel runs its arguments as commands")
        line = " ".join(itertools.takewhile(lambda word: not word.startswith(":::"), rest))
        code = line.replace("{}", _LATER) if "{}" in line else f"{line} {_LATER}"
        return _source(code, ())
    if name == "xargs":
        rest = (*(each.replace("{}", ANY) for each in rest), ANY)
    return Inner(rest, assigned=tuple(assigned))


def _option(name: str, word: str) -> tuple[int, str | None]:
    """How many words the option takes, and the shell source it holds: "" when that is the next
    word."""
    letters, _, longs = _VALUED.get(name, "").partition(" ")
    letter, long = _CODE.get(name, ("", " "))
    if word.startswith("--"):
        given, equals, value = word[2:].partition("=")
        if given and long.startswith(given):
            return 1, value
        valued = given != "" and any(each.startswith(given) for each in longs.split())
        return (2 if valued and not equals else 1), None
    for at, each in enumerate(word[1:], 1):
        if each == letter:
            return 1, word[at + 1 :]
        if each in letters:
            return (1 if word[at + 1 :] else 2), None
    return 1, None


def _source(code: str, after: tuple[str, ...], *, more: bool = False) -> Inner:
    """``more``: the words after the source belong to it."""
    whole = [code, *after] if code else list(after)
    text = " ".join(whole if more else whole[:1])
    if not known(text):
        return Inner(opaque="it runs text that is only known later")
    return Inner(code=text)
