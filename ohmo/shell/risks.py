"""What a simple command may do beside what its words say: every path it may touch, secrets it gives
away without naming a path, and code of other languages that could hide what it touches."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ohmo.shell.git_sed_awk_jq import git_runs
from ohmo.shell.patterns import word_set
from ohmo.shell.script import Simple

_PLAIN = re.compile(r"[A-Za-z0-9_.\ue000\ue001][A-Za-z0-9_./\ue000\ue001-]*")
_PIECES = re.compile(r"[\s'\"`(){}\[\];|&<>=,:@\\!?%+]+")
_HOME = re.compile(r"^(?:~(?=/|$)|\$HOME\b|\$\{HOME\})")

_ELSEWHERE = re.compile(
    r"(?:-\w*C|--(?:dir|cd|chd|work-t|work-dir|root|pref)[\w-]*=?|-D)(.*)", re.DOTALL
)

# Commands that look at a folder itself and not at what the files below it say.
_SHALLOW = word_set(
    """ls dir cd pushd popd pwd du df stat test [ tree realpath readlink basename dirname echo
        printf mkdir touch find fd
        fdfind file export declare local readonly typeset function set unset exit return true
        false which type id date
        findmnt lsblk ps kill rmdir git make cmake npm pnpm yarn bun node cargo go pip uv pytest
        python python3 seq sleep
        tput stty read wait jobs"""
)
# Commands that go through everything below a folder.
_DEEP = word_set(
    """tar bsdtar zip 7z 7za 7zr rar rsync cpio pax scp sftp mv rg ag ack cp rclone restic borg
        duplicity ar dar unison"""
)
_DEEP_WITH = {
    name: re.compile(flags)
    for name, flags in {
        "grep": r"-\w*[rR]\w*$|--recursive|--dereference-recursive|--directories=recurse|-d",
        "egrep": r"-\w*[rR]\w*$|--recursive|--directories=recurse",
        "fgrep": r"-\w*[rR]\w*$|--recursive|--directories=recurse",
        "zgrep": r"-\w*[rR]\w*$|--recursive",
        "rm": r"-\w*[rR]\w*$|--recursive",
        "chmod": r"-\w*R\w*$|--recursive",
        "chown": r"-\w*R\w*$|--recursive",
        "chgrp": r"-\w*R\w*$|--recursive",
        "diff": r"-\w*r\w*$|--recursive",
        "find": r"-(exec|execdir|ok|okdir|delete)$",
        "fd": r"-[xX]$|--exec",
        "fdfind": r"-[xX]$|--exec",
        "git": r"add$|archive$|stash$|--no-index$|grep$",
        "python": r"http\.server$|zipfile$|tarfile$",
        "python3": r"http\.server$|zipfile$|tarfile$",
    }.items()
}


def looks_only(command: Simple) -> bool:
    """Whether it looks at a folder it names and not at what the files below it say."""
    tells = command.name == "git" and not {"grep", "archive"}.isdisjoint(command.words)
    return command.name in _SHALLOW and not tells


# Below a folder these leave links alone, but with an option for it.
_NOT_THROUGH = word_set(
    """rm mv chmod chown chgrp ln git cp tar bsdtar rsync find fd fdfind grep egrep fgrep zgrep
        rg ag ack docker podman ohmo"""
)
_THROUGH = re.compile(r"-\w*[LRHh].*|--(?:deref|fol|copy-|keep-d|link).*")


def follows_links(command: Simple) -> bool:
    """Whether it may read what links below a folder lead to: not so what is known to look at a
    folder itself, or to leave links alone."""
    if command.name in _NOT_THROUGH:
        bundled = command.name.endswith("tar") and "h" in "".join(command.words[1:2])
        return bundled or any(map(_THROUGH.fullmatch, command.words[1:]))
    return goes_deep(command) or not looks_only(command)


def places(command: Simple) -> tuple[str, ...]:
    """Folders its relative names may count from: where it runs, and what ``-C`` or its like
    names."""
    folders = list(command.cwds)
    for at, word in enumerate(command.words[1:], 1):
        option = _ELSEWHERE.fullmatch(word)
        goal = option[1] if option is not None else ""
        if option is not None and not goal and at + 1 < len(command.words):
            goal = command.words[at + 1]
        if goal:
            folders += [goal if goal.startswith("/") else f"{cwd}/{goal}" for cwd in folders[:8]]
    return tuple(folders[:32])


def goes_deep(command: Simple) -> bool:
    """Whether it reads, packs or changes all files below the folders it names."""
    name = command.name
    if name in _DEEP:
        return True
    flags = _DEEP_WITH.get(name)
    return flags is not None and any(flags.match(word) for word in command.words[1:])


def wanted_paths(command: Simple, home: str) -> tuple[list[str], list[str]]:
    """Words that are paths as they stand, and paths that may hide inside words (options,
    ``rev:path``, code in quotes)."""
    whole: list[str] = [redirect.target for redirect in command.redirects]
    pieces: list[str] = []
    for at, word in enumerate(command.words):
        if at == 0 and "/" not in word and "~" not in word:
            continue
        if _PLAIN.fullmatch(word):
            whole.append(word)
            continue
        if not word.startswith("-"):
            whole.append(_HOME.sub(home, word))
        elif len(word) > 2 and word[1] != "-":
            pieces.append(word[2:])
        inner = [piece for piece in _PIECES.split(word) if piece and piece != word]
        pieces += [_HOME.sub(home, piece) for piece in inner]
        parts = re.split(r"[=,]|(?<!:):(?!//)", word)
        if len(parts) > 1:
            whole += [_HOME.sub(home, part) for part in parts if part.startswith(("/", "~"))]
    named = any("/" in word or word in (".", "..") for word in command.words[1:])
    if not named and goes_deep(command):
        whole.append(".")
    return list(dict.fromkeys(whole)), list(dict.fromkeys(pieces))


def named_within(command: Simple) -> Iterator[str]:
    """What may be a path in a word that is one option or setting: ``of=PATH``, ``--output=PATH``,
    ``-oPATH``; and in quotes in code: ``open("PATH")``."""
    _, coded = _language(command)
    for word in command.words[1:]:
        if coded:
            yield from (name for _, name in _QUOTED.findall(word))
        if not re.search(r"\s", word):
            _, equals, value = word.partition("=")
            if equals and value:
                yield value
            elif re.match(r"-[^-]..", word):
                yield word[2:]


_QUOTED = re.compile(r"""(['"])[<>+|]*+[ ]?+([^'"\s]++)\1""")  # in linear time
_TELLS: dict[str, str] = {  # program: what its arguments, joined by spaces, look like when it does
    "getent": r".*\bg?shadow\b.*",
    "unshadow": r".*",
    "gpg": r".*--(export-secret|export-ssh|decrypt).*|.*-d( .*)?",
    "gpg2": r".*--(export-secret|export-ssh|decrypt).*",
    "secret-tool": r"(lookup|search).*",
    "keyring": r"get.*",
    "kwallet-query": r".*",
    "security": r"(find-|dump-keychain|export).*",
    "pass": r"(show.*|(?!ls|list|git|insert|init|version|help)\S.*)",
    "gopass": r"(show|cat|env).*",
    "op": r"(read|item get|run|inject).*",
    "bw": r"(get|list|export).*",
    "vault": r"(read|kv get|print token).*",
    "gh": r"auth (token|status .*(-t|--show-token)).*",
    "glab": r"auth status .*(-t|--show-token).*",
    "gcloud": r"(auth|config config-helper).*(print-|config-helper|credential).*",
    "az": r"account get-access-token.*",
    "aws": r"(configure (get|export-credentials)|sts get-session-token|ecr get-login-password).*",
    "kubectl": r".*(config view.*--raw|(get|describe)\b.*\bsecrets?\b|create token).*",
    "docker": r".*\bsecret inspect.*",
    "ssh-keygen": r".*-y\b.*",
    "gcore": r".*",
    "gdb": r".*(-p|--pid|attach).*",
    "strace": r".*(-p|--attach).*",
    "ltrace": r".*-p.*",
    "ps": r"(?!-)\w*e\w*( .*)?|.*\benviron\b.*|.* (?!-)[a-z]*e[a-z]*w*|-E.*",
    "pargs": r".*-e.*",
    "ohmo": (
        r".*\b(approvals (approve|deny)|pairing (approve|revoke)|config"
        r" (show|edit)|backup|restore|store|service (stop|un)|init)\b.*"
    ),
    "systemctl": r".*show-environment.*",
    "debugfs": r".*",
    "xfs_db": r".*",
}
_PATTERNS = {name: re.compile(form, re.DOTALL) for name, form in _TELLS.items()}


def gives_secrets(simple: Simple) -> bool:
    """Whether the command is made to show secrets."""
    name = simple.name.casefold()
    if name.startswith(("docker-credential-", "git-credential-")):
        return True
    words = simple.words[1:]
    if name.startswith("python") and words[:2] == ("-m", "ohmo"):
        name, words = "ohmo", words[2:]
    if name == "git":
        return "credential" in words or any(word.startswith("credential-") for word in words)
    form = _PATTERNS.get(name)
    return form is not None and form.fullmatch(" ".join(words)) is not None


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
    r"chr\(|fromCharCode|base64|b64decode|atob|fromhex|unhex|\bpack\b|codecs|rot13|\bexec\b"
    r"|\beval\b|compile\(|__import__|importlib|getattr"
    r"|os\.(system|popen|exec|spawn|walk|environ|scandir|listdir)|subprocess|child_process|pty\."
    r"|\bsystem\b|popen|qx|`|\\x[0-9a-fA-F]|\\[0-7]{2,3}|\\u[0-9a-fA-F]"
    r"|expanduser|\bhome\(|homedir|environ|ENV\b|\bglob|rglob|walk|socket|ctypes|\[::-1\]|reverse"
    r"|replace\(|join\(|\.format|%s|f['\"]|\+\s*['\"]|['\"]\s*\+"
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


def _language(simple: Simple) -> tuple[str, bool]:
    """The interpreter without its version, "" for another program, and whether a word of its own
    is code."""
    stem = simple.name.casefold()
    if not stem[-1:].isalpha():
        stem = re.sub(r"[\d.]+$", "", stem)
    form = _INTERPRETERS.get(stem)
    return stem if form else "", form is not None and any(map(form.fullmatch, simple.words[1:]))


def hidden_code(simple: Simple) -> str:
    """Why a person has to look; "" when nothing in it looks hidden."""
    words = simple.words[1:]
    if simple.name == "git" and (setting := git_runs(words)):
        return f"git would run what {setting} says"
    lists = _LISTS.get(simple.name)
    listed = lists is not None and any(map(lists.fullmatch, words))
    if simple.name == "tar" and words and re.match(r"[a-zA-Z]*T", words[0]):
        listed = True
    if listed:
        return f"{simple.name} takes its files from a list that is only known when it runs"
    stem, coded = _language(simple)
    if not stem:
        return ""
    only_options = all(word.startswith("-") for word in words)
    if simple.stdin and only_options and stem not in ("sed", "awk", "gawk", "mawk"):
        return f"{simple.name} runs code from its input"
    if not coded:
        return ""
    if stem == "sed":
        runs = any(_SED_RUNS.search(word) for word in words if not word.startswith("/"))
        return "sed runs or writes something" if runs else ""
    if any(map(_RISKY.search, words)):
        return f"code inside the command line ({simple.name}) could touch anything"
    return ""
