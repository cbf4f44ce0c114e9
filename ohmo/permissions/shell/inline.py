"""Code of other languages inside a command line: whether it could hide what it touches."""

from __future__ import annotations

import re

from ohmo.permissions.shell.git import git_runs
from ohmo.permissions.shell.script import Simple

_INTERPRETERS: dict[str, re.Pattern[str]] = {
    "python": re.compile(r"-\w*c.*"),
    "perl": re.compile(r"-\w*[eE].*"),
    "ruby": re.compile(r"-\w*e.*"),
    "node": re.compile(r"-e|-p|-pe|--eval.*|--print.*"),
    "nodejs": re.compile(r"-e|-p|-pe|--eval.*|--print.*"),
    "deno": re.compile(r"eval"),
    "bun": re.compile(r"-e|--eval.*"),
    "php": re.compile(r"-r.*"),
    "lua": re.compile(r"-e.*"),
    "tclsh": re.compile(r".*"),
    "osascript": re.compile(r"-e"),
    "awk": re.compile(r".*"),
    "gawk": re.compile(r".*"),
    "mawk": re.compile(r".*"),
    "sed": re.compile(r".*"),
    "gdb": re.compile(r"-ex|--eval-command.*"),
    "vim": re.compile(r"-c|\+.*"),
    "ex": re.compile(r".*"),
    "ed": re.compile(r".*"),
}
_RISKY = re.compile(
    r"chr\(|fromCharCode|base64|b64decode|atob|fromhex|unhex|\bpack\b|codecs|rot13|\bexec\b|\beval\b|compile\(|__import__|importlib|getattr"
    r"|os\.(system|popen|exec|spawn|walk|environ|scandir|listdir)|subprocess|child_process|pty\.|\bsystem\b|popen|qx|`|\\x[0-9a-fA-F]|\\[0-7]{2,3}|\\u[0-9a-fA-F]"
    r"|expanduser|\bhome\(|homedir|environ|ENV\b|\bglob|rglob|walk|socket|ctypes|\[::-1\]|reverse|replace\(|join\(|\.format|%s|f['\"]|\+\s*['\"]|['\"]\s*\+"
    r"|getline|\|\s*['\"]|['\"]\s*\|"
    r"|ARG[CV]|SYMTAB|[\w./~-]['\"]\s*\.{0,2}\s*['\"][\w./~-]"
)
_LISTS = {  # programs that are told their files by another file
    "tar": re.compile(r"--files-f.*|-\w*T.*"),
    "bsdtar": re.compile(r"--files-f.*|-\w*T.*"),
    "cpio": re.compile(r".*"),
    "zip": re.compile(r"-\w*@"),
    "rsync": re.compile(r"--files-from.*"),
}
_SED_RUNS = re.compile(  # blanks without line breaks: each line is looked at once
    r"(?:^|[;\n}])[ \t]*(?:\d+|\$|/[^/]*/)?[ \t]*[erRwW](?:\s|$)|/[gpiI0-9]*[ew][gpiI0-9]*(?:\s|$)"
)


def _listed(simple: Simple) -> str:
    form = _LISTS.get(simple.name)
    words = simple.words[1:]
    if form is None or not (
        any(form.fullmatch(word) for word in words)
        or (simple.name == "tar" and re.match(r"[a-zA-Z]*T", words[0] if words else ""))
    ):
        return ""
    return f"{simple.name} takes its files from a list that is only known when it runs"


def hidden_code(simple: Simple) -> str:
    """Why a person has to look; "" when nothing in it looks hidden."""
    if simple.name == "git" and (setting := git_runs(simple.words[1:])):
        return f"git would run what {setting} says"
    if (reason := _listed(simple)) != "":
        return reason
    stem = simple.name.casefold()
    if not stem[-1:].isalpha():
        stem = re.sub(r"[\d.]+$", "", stem)
    form = _INTERPRETERS.get(stem)
    if form is None:
        return ""
    if (
        simple.stdin
        and not any(not word.startswith("-") for word in simple.words[1:])
        and stem not in ("sed", "awk", "gawk", "mawk")
    ):
        return f"{simple.name} runs code from its input"
    if not any(form.fullmatch(word) for word in simple.words[1:]):
        return ""
    if stem == "sed":
        return (
            "sed runs or writes something"
            if any(_SED_RUNS.search(word) for word in simple.words[1:] if not word.startswith("/"))
            else ""
        )
    if any(_RISKY.search(word) for word in simple.words[1:]):
        return f"code inside the command line ({simple.name}) could touch anything"
    return ""
