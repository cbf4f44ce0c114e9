"""Commands that would wait for a keyboard nobody sits at, and the flag that makes each of them go
on."""

from __future__ import annotations

import re
from collections.abc import Callable

from ohmo.shell.patterns import word_set
from ohmo.shell.script import Script, Simple

_EDITORS = word_set(
    "vi vim nvim view nano pico emacs joe jed micro mcedit ne kak hx helix gedit kate ed ex"
)
_PAGERS = frozenset({"less", "more", "most"})
_SCREENS = word_set(
    """htop btop tmux screen mc ranger nmtui dialog whiptail fzf ncdu tig lazygit k9s alsamixer
        menuconfig cfdisk visudo vipw"""
)
_REPLS: dict[str, str] = {
    "python": "-c CODE or a file",
    "node": "-e CODE or a file",
    "irb": "-e CODE",
    "ghci": "-e CODE",
    "ipython": "-c CODE",
    "bc": "input by pipe",
    "mysql": "-e SQL",
    "psql": "-c SQL",
    "redis-cli": "a command",
    "mongosh": "--eval CODE",
    "telnet": "nc with input by pipe",
    "ftp": "curl",
    "sftp": "-b FILE",
}
_TELLS = {  # short flags by which they say what they are, and end
    name: word_set(flags)
    for name, flags in (
        *(("python", "-V -VV -h"), ("node", "-v -h"), ("irb", "-v -h"), ("ghci", "-V")),
        *(("ipython", "-V -h"), ("bc", "-v -h"), ("mysql", "-V -?"), ("psql", "-V -?")),
        *(("redis-cli", "-v"), ("npx", "-v"), ("sqlite", "-version -help"), ("sudo", "-V -h")),
    )
}
_INSTALLERS: dict[
    str, tuple[frozenset[str], tuple[str, ...], str]
] = {  # verbs, flags that answer, the flag to name
    "apt": (
        frozenset(
            [
                "install",
                "remove",
                "purge",
                "upgrade",
                "full-upgrade",
                "dist-upgrade",
                "autoremove",
                "build-dep",
            ]
        ),
        ("-y", "--yes", "--assume-yes", "-qq"),
        "-y",
    ),
    "apt-get": (
        frozenset(
            ["install", "remove", "purge", "upgrade", "dist-upgrade", "autoremove", "build-dep"]
        ),
        ("-y", "--yes", "--assume-yes", "-qq"),
        "-y",
    ),
    "aptitude": (
        frozenset(["install", "remove", "purge", "upgrade"]),
        ("-y", "--assume-yes"),
        "-y",
    ),
    "dnf": (
        frozenset(["install", "remove", "upgrade", "update", "autoremove"]),
        ("-y", "--assumeyes"),
        "-y",
    ),
    "yum": (
        frozenset(["install", "remove", "upgrade", "update", "erase"]),
        ("-y", "--assumeyes"),
        "-y",
    ),
    "zypper": (
        frozenset(["install", "remove", "update", "in", "rm", "up"]),
        ("-n", "--non-interactive", "-y"),
        "--non-interactive",
    ),
    "conda": (frozenset(["install", "create", "remove", "update"]), ("-y", "--yes"), "--yes"),
    "mamba": (frozenset(["install", "create", "remove", "update"]), ("-y", "--yes"), "--yes"),
    "pip": (frozenset({"uninstall"}), ("-y", "--yes"), "--yes"),
    "npm": (frozenset(["create", "init", "exec", "x"]), ("-y", "--yes", "--no"), "--yes"),
    "pnpm": (frozenset({"create"}), ("-y", "--yes"), "--yes"),
    "yarn": (frozenset(["create", "init"]), ("-y", "--yes"), "--yes"),
    "bun": (frozenset(["create", "init"]), ("-y", "--yes"), "--yes"),
    "poetry": (frozenset({"init"}), ("-n", "--no-interaction"), "--no-interaction"),
    "composer": (
        frozenset(["init", "create-project"]),
        ("-n", "--no-interaction"),
        "--no-interaction",
    ),
}
_TERMINAL = re.compile(r"-[a-zA-Z]*(?:it|ti)[a-zA-Z]*|--tty|--interactive|-i|-t")


def waits_for_keyboard(script: Script, *, terminal: bool = False) -> str | None:
    """One line with what to give instead; None when nothing in it is known to wait. ``terminal``:
    it has one, at which nobody types."""
    for simple in script.commands:
        if simple.words:
            reason = _reason(simple, terminal=terminal)
            if reason:
                return f"`{simple.shown[:80]}` would wait for a keyboard; {reason}"
    return None


def _reason(simple: Simple, *, terminal: bool) -> str:
    name, arguments = simple.name, simple.words[1:]
    if re.fullmatch(r"python[\d.]*", name) and arguments[:2] == ("-m", "pip"):
        name, arguments = "pip", arguments[2:]
    fed = bool(simple.stdin) or any(redirect.kind == "read" for redirect in simple.redirects)
    plain = re.sub(r"[\d.]+$", "", name)
    tells = _TELLS.get(plain, frozenset())
    if {"--help", "--version"} & set(arguments) or tells.issuperset(arguments[:1] or [""]):
        return ""
    if name in _EDITORS and not (
        name in ("vim", "nvim", "ex", "vi", "emacs", "ed")
        and (fed or {"-es", "-Es", "--batch", "-batch", "-s"} & set(arguments))
    ):
        return "use the Edit or Write tool"
    if name in _PAGERS and not fed:
        return "use the Read tool, or head and tail"
    if name in _SCREENS or (
        name in ("top", "atop") and not any(re.fullmatch(r"-\w*b\w*", word) for word in arguments)
    ):
        return "use -b -n 1" if name == "top" else "it needs a screen"
    if name == "watch":
        return "run the command once"
    installer = _INSTALLERS.get(plain)
    if installer is not None:
        return "" if fed else _installer(arguments, *installer)
    if name == "git" and any(
        each.startswith(("GIT_SEQUENCE_EDITOR", "GIT_EDITOR")) for each in simple.assigned
    ):
        return ""
    special = _SPECIAL.get(name)
    if special is _container and terminal:
        arguments = tuple(word for word in arguments if not _TERMINAL.fullmatch(word))
    if special is not None:
        return special(arguments, fed)
    if reason := _by_name(name, arguments, fed):
        return reason
    repl = _REPLS.get(plain)
    if repl is not None and not fed and not _has_orders(name, arguments):
        return f"give {repl}"
    return ""


def _has_orders(name: str, arguments: tuple[str, ...]) -> bool:
    """Whether the program was told what to do."""
    if name in ("mysql", "psql", "mongosh"):
        return any(
            re.match(r"-[a-zA-Z]*[ecfl]|--(execute|command|file|list|eval)", word)
            for word in arguments
        )
    if name == "sftp":
        return "-b" in arguments
    if name in ("telnet", "ftp"):
        return False
    return "-i" not in arguments[:1] and any(
        not word.startswith("-") or re.match(r"-\w*[cemp]|--(eval|print|check|test)", word)
        for word in arguments
    )


def _installer(
    arguments: tuple[str, ...], verbs: frozenset[str], answers: tuple[str, ...], flag: str
) -> str:
    verb = next((word for word in arguments if not word.startswith("-")), "")
    if verb in verbs and not any(
        word in answers or re.fullmatch(r"-[a-zA-Z]*y[a-zA-Z]*", word) for word in arguments
    ):
        dry = {"--dry-run", "-s", "--simulate", "--just-print"} & set(arguments)
        return "" if dry else f"add {flag}"
    return ""


def _npx(arguments: tuple[str, ...], fed: bool) -> str:
    if fed:
        return ""
    before: list[str] = []
    for word in arguments:
        if not word.startswith("-"):
            break
        before.append(word)
    return "" if {"-y", "--yes", "--no-install", "--no"} & set(before) else "add --yes"


def _git(arguments: tuple[str, ...], _fed: bool) -> str:
    rest = list(arguments)
    while rest and rest[0].startswith("-"):
        rest = rest[2:] if rest[0] in ("-C", "-c", "--git-dir", "--work-tree") else rest[1:]
    verb, options = (rest[0], rest[1:]) if rest else ("", [])
    flags = {word.partition("=")[0] for word in options}
    if verb == "rebase" and {"-i", "--interactive", "--edit-todo"} & flags:
        return (
            "leave out -i: use git rebase --onto, git reset --soft or git commit --fixup with"
            " --autosquash and GIT_SEQUENCE_EDITOR=:"
        )
    if verb in ("add", "checkout", "restore", "reset", "stash", "commit", "clean") and (
        {"--patch", "--interactive"} & flags
        or ("-p" in flags and not (verb == "stash" and options[:1] == ["show"]))
        or (verb in ("add", "clean") and "-i" in flags)
    ):
        return "name the files instead of -p or -i"
    if verb == "commit" and not _says_message(options, flags):
        return "give the message with -m"
    if (
        verb == "tag"
        and {"-a", "-s", "--annotate", "--sign"} & flags
        and not _says_message(options, flags)
    ):
        return "give the message with -m"
    if verb == "config" and {"-e", "--edit"} & flags:
        return "give name and value"
    return ""


def _says_message(options: list[str], flags: set[str]) -> bool:
    message_options = {
        "-m",
        "--message",
        "-F",
        "--file",
        "-C",
        "--reuse-message",
        "--no-edit",
        "--fixup",
        "--dry-run",
    }
    return bool(message_options & flags) or any(
        re.match(r"-[a-zA-Z]*m|-F.|-C.", word) for word in options
    )


def _ssh(arguments: tuple[str, ...], fed: bool) -> str:
    valued = [
        "-b",
        "-c",
        "-D",
        "-E",
        "-e",
        "-F",
        "-I",
        "-i",
        "-J",
        "-L",
        "-l",
        "-m",
        "-O",
        "-o",
        "-p",
        "-Q",
        "-R",
        "-S",
        "-W",
        "-w",
    ]
    operands: list[str] = []
    skip = False
    for word in arguments:
        if skip:
            skip = False
        elif word in valued:
            skip = True
        elif not word.startswith("-") or operands:
            operands.append(word)
    if len(operands) == 1 and not fed and not {"-N", "-G", "-V", "-f"} & set(arguments):
        return "give the command to run there (and -o BatchMode=yes)"
    return ""


def _container(arguments: tuple[str, ...], _fed: bool) -> str:
    verb = next((word for word in arguments if not word.startswith("-")), "")
    at = arguments.index(verb) + 1 if verb else 0
    if verb == "login" and not {"--password-stdin", "-p", "--password"} & {
        word.partition("=")[0] for word in arguments
    }:
        return "give --password-stdin"
    if verb in ("run", "exec", "attach", "edit"):
        for word in arguments[at:]:
            if not word.startswith("-"):
                break
            if _TERMINAL.fullmatch(word) and "t" in word:
                return "leave out -it, or give terminal: true when it needs one"
        return "it opens an editor" if verb == "edit" else ""
    return ""


def _gh(arguments: tuple[str, ...], fed: bool) -> str:
    if arguments[:2] == ("auth", "login") and not fed:
        return "give --with-token by pipe; better, the person does it"
    if arguments[:2] in (("pr", "create"), ("issue", "create")) and not any(
        re.match(r"-[tfbF]|--(title|fill|body|web|template)", word) for word in arguments
    ):
        return "give --title and --body"
    return ""


def _by_name(name: str, arguments: tuple[str, ...], fed: bool) -> str:
    """Programs about which there is one thing to know."""
    waits, instead = False, ""
    match name:
        case "sudo":
            unasked = re.compile(r"-[a-zA-Z]*[nS][a-zA-Z]*|--non-interactive|--stdin")
            waits, instead = not any(map(unasked.fullmatch, arguments)), "add -n"
        case "sqlite3":
            operands = [word for word in arguments if not word.startswith("-")]
            waits, instead = not fed and len(operands) < 2, "give the SQL after the file name"
        case "crontab":
            waits = "-e" in arguments or (not arguments and not fed)
            instead = "write a file and give its name"
        case "systemctl":
            waits = arguments[:1] == ("edit",) and "--stdin" not in arguments
            instead = "write the file yourself"
        case "su":
            waits, instead = True, "nobody can type the password"
        case "passwd":
            waits, instead = True, "nobody can type the password; chpasswd reads a pipe"
        case "read":
            waits, instead = not fed, "give the value in the command"
        case "select":
            waits, instead = True, "choose in the command"
        case "adduser":
            waits = not {"--gecos", "--system"} & set(arguments)
            instead = "add --disabled-password --gecos ''"
        case _:
            pass
    return instead if waits else ""


_SPECIAL: dict[str, Callable[[tuple[str, ...], bool], str]] = {
    "npx": _npx,
    "git": _git,
    "ssh": _ssh,
    "docker": _container,
    "podman": _container,
    "kubectl": _container,
    "gh": _gh,
}
