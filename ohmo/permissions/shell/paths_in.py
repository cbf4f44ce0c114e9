"""Every path a simple command may touch, as far as its words say."""

from __future__ import annotations

import re

from ohmo.permissions.patterns import word_set
from ohmo.permissions.shell.script import Simple

_PLAIN = re.compile(r"[A-Za-z0-9_.\ue000\ue001][A-Za-z0-9_./\ue000\ue001-]*")
_PIECES = re.compile(r"[\s'\"`(){}\[\];|&<>=,:@\\!?%+]+")
_HOME = re.compile(r"^(?:~(?=/|$)|\$HOME\b|\$\{HOME\})")

_ELSEWHERE = re.compile(
    r"(?:-\w*C|--(?:dir|cd|chd|work-t|work-dir|root|pref)[\w-]*=?|-D)(.*)", re.DOTALL
)

# Commands that look at a folder itself and not at what the files below it say.
_SHALLOW = word_set(
    """ls dir cd pushd popd pwd du df stat test [ tree realpath readlink basename dirname echo printf mkdir touch find fd
        fdfind file export declare local readonly typeset function set unset exit return true false which type id date
        findmnt lsblk ps kill rmdir git make cmake npm pnpm yarn bun node cargo go pip uv pytest python python3 seq sleep
        tput stty read wait jobs"""
)
# Commands that go through everything below a folder.
_DEEP = word_set(
    """tar bsdtar zip 7z 7za 7zr rar rsync cpio pax scp sftp mv rg ag ack cp rclone restic borg duplicity ar dar unison"""
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


def places(command: Simple) -> tuple[str, ...]:
    """Folders its relative names may count from: where it runs, and what ``-C`` or its like
    names."""
    found = list(command.cwds)
    for at, word in enumerate(command.words[1:], 1):
        option = _ELSEWHERE.fullmatch(word)
        goal = (
            (option[1] or (command.words[at + 1] if at + 1 < len(command.words) else ""))
            if option is not None
            else ""
        )
        if goal:
            found += [goal if goal.startswith("/") else f"{cwd}/{goal}" for cwd in found[:8]]
    return tuple(found[:32])


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
        pieces += [
            _HOME.sub(home, piece) for piece in _PIECES.split(word) if piece and piece != word
        ]
        parts = re.split(r"[=,]|(?<!:):(?!//)", word)
        rest = parts if len(parts) > 1 else []
        whole += [_HOME.sub(home, piece) for piece in rest if piece.startswith(("/", "~"))]
    if goes_deep(command) and not any(
        "/" in word or word in (".", "..") for word in command.words[1:]
    ):
        whole.append(".")
    return list(dict.fromkeys(whole)), list(dict.fromkeys(pieces))
