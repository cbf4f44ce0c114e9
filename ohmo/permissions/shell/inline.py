"""Code of other languages inside a command line: whether it could hide what it touches."""

from __future__ import annotations

import re

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
)
_SED_RUNS = re.compile(r"(?:^|[;\n}])\s*(?:\d+|\$|/[^/]*/)?\s*[erRwW](?:\s|$)|/[gpiI0-9]*[ew][gpiI0-9]*(?:\s|$)")


def hidden_code(simple: Simple) -> str:
    """Why a person has to look; "" when nothing in it looks hidden."""
    stem = re.sub(r"[\d.]+$", "", simple.name.casefold())
    form = _INTERPRETERS.get(stem)
    if form is None:
        return ""
    if simple.stdin and not any(not word.startswith("-") for word in simple.words[1:]) and stem not in ("sed", "awk", "gawk", "mawk"):
        return f"{simple.name} runs code from its input"
    if not any(form.fullmatch(word) for word in simple.words[1:]):
        return ""
    if stem == "sed":
        return (
            "sed runs or writes something" if any(_SED_RUNS.search(word) for word in simple.words[1:] if not word.startswith("/")) else ""
        )
    if any(_RISKY.search(word) for word in simple.words[1:]):
        return f"code inside the command line ({simple.name}) could touch anything"
    return ""
