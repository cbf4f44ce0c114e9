"""Commands that run other commands: what they run, as far as their arguments say it."""

from __future__ import annotations

import re
from collections.abc import Callable

from channels.record import record
from ohmo.permissions.patterns import ANY, known, word_set

SHELLS = word_set("sh bash dash zsh ksh ash mksh rbash fish csh tcsh")
_MULTI = frozenset({"busybox", "toybox"})
# options that take a value, by wrapper; everything else that starts with "-" is a flag
_VALUED: dict[str, str] = {
    "sudo": "-u -g -h -p -C -T -R -D -U -r -t --user --group --host --prompt --chdir --chroot",
    "doas": "-u -C",
    "env": "-u -C -S --unset --chdir --split-string",
    "timeout": "-k -s --kill-after --signal",
    "nice": "-n --adjustment",
    "ionice": "-c -n -p -P -u",
    "stdbuf": "-i -o -e",
    "xargs": "-a -d -E -I -L -n -P -s --arg-file --delimiter --replace --max-args --max-procs --max-lines --max-chars",
    "parallel": "-j -a --jobs --colsep -I --arg-file",
    "strace": "-o -e -p -s -u",
    "ltrace": "-o -e -p -s -u",
    "flock": "-w -E --timeout",
    "chrt": "-T -P -D",
    "taskset": "",
    "unshare": "",
    "nsenter": "-t --target",
    "chroot": "",
    "script": "-c --command",
    "watch": "-n --interval",
    "time": "-o -f",
    "setpriv": "",
    "systemd-run": "-p -u --unit --property",
    "bwrap": "",
    "runuser": "-u -g",
}
_SIMPLE = ("nohup", "setsid", "exec", "command", "builtin", "then", "!", "unbuffer", "catchsegv", "eatmydata", "fakeroot", "torsocks")
_SKIP_FIRST = frozenset({"timeout", "taskset", "chroot", "flock", "chrt"})  # one operand of their own before the command
TRANSPARENT = frozenset(
    {"nohup", "time", "timeout", "nice", "ionice", "stdbuf", "command", "builtin", "setsid"}
)  # add no power of their own
WRAPPERS = frozenset(_VALUED) | frozenset(_SIMPLE) | _MULTI


@record
class Inner:
    """``words``: a command as arguments. ``code``: shell source. ``opaque``: something runs that nobody can name."""

    words: tuple[str, ...] = ()
    code: str | None = None
    opaque: str = ""
    assigned: tuple[str, ...] = ()


def inner_commands(words: tuple[str, ...], stdin: str) -> list[Inner]:
    """What the command runs beside itself; [] for an ordinary command."""
    name = words[0].rpartition("/")[2].casefold() if words else ""
    if name in SHELLS:
        return [_shell(words, stdin)]
    if name in ("eval", "trap"):
        rest = words[1:2] if name == "trap" else words[1:]
        return (
            [Inner(code=" ".join(rest)) if known(" ".join(rest)) else Inner(opaque=f"{name} runs text that is only known later")]
            if rest
            else []
        )
    if name in ("source", "."):
        return [Inner(opaque="source runs a file inside this shell")]
    if name in ("alias", "enable", "hash", "shopt", "coproc", "complete", "bind", "mapfile", "readarray") and len(words) > 1:
        return [Inner(opaque=f"{name} changes what later words mean")]
    if name in ("find", "fd", "fdfind"):
        return _find(words)
    if name in ("su", "ssh", "script") and "-c" in words[:-1]:
        return [Inner(code=words[words.index("-c") + 1])]
    if name in ("at", "batch", "crontab", "ssh", "gdb", "docker", "podman", "kubectl"):
        return []
    if name in WRAPPERS:
        return [_wrapped(name, words)]
    return []


def _shell(words: tuple[str, ...], stdin: str) -> Inner:
    for at, word in enumerate(words[1:], 1):
        if not known(word):
            return Inner(opaque="a shell runs something that is only known later")
        if re.fullmatch(r"[-+][A-Za-z]*c[A-Za-z]*", word):
            rest = [each for each in words[at + 1 :] if not re.fullmatch(r"[-+][A-Za-z]+", each)]
            return Inner(code=rest[0]) if rest and known(rest[0]) else Inner(opaque="sh -c runs text that is only known later")
        if not word.startswith(("-", "+")):
            return Inner() if word not in ("-", "/dev/stdin", "/dev/null") else Inner(opaque="a shell reads commands from its input")
    if words[1:] and set(words[1:]) <= {"--version", "--help"}:
        return Inner()
    if stdin == "text":
        return Inner()
    return Inner(opaque="a shell reads commands from a pipe" if stdin == "pipe" else "a shell without a command")


def _find(words: tuple[str, ...]) -> list[Inner]:
    found: list[Inner] = []
    for at, word in enumerate(words):
        if word in ("-exec", "-execdir", "-ok", "-okdir", "-x", "-X", "--exec", "--exec-batch"):
            rest: list[str] = []
            for each in words[at + 1 :]:
                if each in (";", "+"):
                    break
                rest.append(each.replace("{}", ANY))
            found.append(Inner(tuple(rest)) if rest else Inner(opaque="find -exec without a command"))
    return found


def _wrapped(name: str, words: tuple[str, ...]) -> Inner:
    if name in _MULTI:
        return Inner(words[1:])
    valued = set(_VALUED.get(name, "").split())
    skip = 1 if name in _SKIP_FIRST else 0
    assigned: list[str] = []
    at = 1
    while at < len(words):
        word = words[at]
        if name == "env" and (word in ("-S", "--split-string") or word.startswith(("-S", "--split-string="))):
            return Inner(code=" ".join((word.removeprefix("--split-string=").removeprefix("-S"), *words[at + 1 :])))
        if name == "command" and word in ("-v", "-V"):
            return Inner()
        if word in valued:
            at += 2
        elif word.startswith("-") and word != "-":
            at += 1
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
    if name in ("xargs", "parallel"):
        rest = (*(each.replace("{}", ANY) for each in rest), ANY)
    return Inner(rest, assigned=tuple(assigned))


Unwrap = Callable[[tuple[str, ...], str], list[Inner]]
