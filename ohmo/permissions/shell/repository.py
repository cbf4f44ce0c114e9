"""What the repository that git would find lets git run: nothing, when its settings are all known.

Sources: git-config(1), gitrepository-layout(5), gitmodules(5). The person's own settings are left out
when git reads unasked (``QUIET``), those of the repository may come from anybody."""

from __future__ import annotations

import os
import re
from pathlib import Path

from channels.record import record

_MOST = 256 * 1024  # bytes of settings
_SECTION = re.compile(r'\[\s*([A-Za-z0-9-]+)(?:\s+"((?:[^"\\\n]|\\["\\])*)")?\s*\]')
_SETTING = re.compile(r"([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*([^\\\n]*))?")
_HARMLESS = re.compile(  # settings that name no program, no other file, and no other place to look
    r"core\.(repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode"
    r"|symlinks|autocrlf|eol|safecrlf|quotepath|abbrev|compression|sharedrepository|untrackedcache"
    r"|preloadindex|longpaths|checkstat|trustctime|bigfilethreshold|multipackindex|commitgraph)"
    r"|extensions\.(objectformat|refstorage)|init\.defaultbranch"
    r"|remote\..*\.(url|pushurl|fetch|push|tagopt|prune|gh-resolved)"
    r"|branch\..*|user\.(name|email)|submodule\.active|submodule\..*\.(url|active|branch|path)"
    r"|pull\.(rebase|ff)|push\.(default|autosetupremote|followtags)|fetch\.(prune|parallel)"
    r"|merge\.(conflictstyle|ff|renamelimit)|rebase\.(autostash|autosquash)|rerere\.enabled"
    r"|diff\.(algorithm|renames|renamelimit|colormoved|mnemonicprefix|context|noprefix)"
    r"|log\.(date|decorate|abbrevcommit|follow)"
    r"|status\.(branch|short|relativepaths|showstash|showuntrackedfiles|aheadbehind)|color\.\w+|column\.\w+|advice\.\w+"
    r"|gc\.\w+|maintenance\.\w+|pack\.\w+|index\.\w+|feature\.\w+|lfs\.repositoryformatversion"
)
QUIET = {  # the environment of git that reads unasked (git(1), git-config(1))
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_ATTR_NOSYSTEM": "1",
    "GIT_OPTIONAL_LOCKS": "0",
    "GIT_NO_LAZY_FETCH": "1",
    "GIT_ALLOW_PROTOCOL": "none",
    "GIT_PAGER": "cat",
    # As `git -c` would say it; unlike GIT_CONFIG_COUNT it reaches git in submodules, too.
    "GIT_CONFIG_PARAMETERS": " ".join(
        f"'{setting}'"
        for setting in (
            "core.fsmonitor=false",
            "core.hooksPath=/dev/null",
            "diff.ignoreSubmodules=all",
            "log.showSignature=false",
            "safe.bareRepository=explicit",
            "safe.directory=*",
        )
    ),
}


@record
class Repository:
    """``top``: the folder that holds it, absolute. ``unknown``: a setting (or what else) that is not
    known to run nothing; "" when there is none."""

    top: str
    unknown: str


def repository_at(folder: str) -> Repository | None:
    """The repository that git finds from ``folder`` (absolute, resolved); None when there is none."""
    for top in (folder, *map(str, Path(folder).parents)):
        if os.path.lexists(f"{top}/.git"):
            return Repository(top, _unknown(top))
        if all(os.path.lexists(f"{top}/{name}") for name in ("HEAD", "objects", "refs")):
            return Repository(top, "a repository without a .git folder")
    return None


def _unknown(top: str) -> str:
    own = _git_folder(f"{top}/.git")
    if own is None:
        return ".git"
    shared = _line(f"{own}/commondir")
    common = os.path.normpath(os.path.join(own, shared)) if shared is not None else own  # noqa: PTH118
    for name, known in ((f"{common}/config", _HARMLESS), (f"{top}/.gitmodules", _MODULES)):
        found = _first_unknown(name, known)
        if found:
            return found
    return "objects/info/alternates" if os.path.lexists(f"{common}/objects/info/alternates") else ""


_MODULES = re.compile(r"submodule\..*\.(path|url|branch|shallow|fetchrecursesubmodules)")


def _git_folder(path: str) -> str | None:
    """``.git`` itself, or where the file of that name leads (worktrees, submodules)."""
    if os.path.isdir(path):  # noqa: PTH112 - text
        return path
    line = _line(path)
    if line is None or not line.startswith("gitdir: "):
        return None
    return os.path.normpath(os.path.join(os.path.dirname(path), line[8:]))  # noqa: PTH118, PTH120


def _line(path: str) -> str | None:
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - text
            return file.read(4096).rstrip("\n")
    except OSError:
        return None


def _first_unknown(path: str, known: re.Pattern[str]) -> str:
    """The first setting of a file that ``known`` does not name; "" when all are."""
    try:
        with open(path, encoding="utf-8", errors="replace") as file:  # noqa: PTH123 - text
            text = file.read(_MOST + 1)
    except FileNotFoundError:
        return ""
    except OSError as error:
        return error.strerror or str(error)
    if len(text) > _MOST:
        return f"{path}: more than {_MOST} bytes"
    section = ""
    for line in text.split("\n"):
        rest = line.strip(" \t\r\ufeff")
        if (head := _SECTION.match(rest)) is not None:
            section = head[1] if head[2] is None else f"{head[1]}.{head[2]}"
            rest = rest[head.end() :].strip()
        if not rest or rest[0] in "#;":
            continue
        setting = _SETTING.fullmatch(rest)
        name = f"{section}.{setting[1]}".lower() if setting is not None else rest
        if setting is None or not known.fullmatch(name):
            return name
    return ""
