"""The repository that git finds from a folder, and whether its settings let git run anything:
nothing, when they are all known.

Sources: git-config(1), gitrepository-layout(5), gitmodules(5). The person's own settings are left
out when git reads unasked (``QUIET``), those of the repository may come from anybody."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from channels.record import record
from ohmo.shell.patterns import real

_MOST = 256 * 1024  # bytes of settings
_MOST_NAMES = 10_000  # of files of git's own beside the objects
_LONGEST = 4096  # characters of a file that names a folder
_HEAD = re.compile(r"ref: refs/[^\s]+|[0-9a-f]{40}|[0-9a-f]{64}")
_SECTION = re.compile(r'\[\s*([A-Za-z0-9-]+)(?:\s+"((?:[^"\\\n]|\\["\\])*)")?\s*\]')
_SETTING = re.compile(r"([A-Za-z][A-Za-z0-9-]*)\s*(?:=\s*([^\\\n]*))?")
_HARMLESS = re.compile(
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
    r"|status\.(branch|short|relativepaths|showstash|showuntrackedfiles|aheadbehind)|color\.\w+"
    r"|column\.\w+|advice\.\w+"
    r"|gc\.\w+|maintenance\.\w+|pack\.\w+|index\.\w+|feature\.\w+|lfs\.repositoryformatversion"
)


def runs_nothing(setting: str) -> bool:
    """Whether a setting (``section.key`` or ``section.name.key``) is known to name no program, no
    other file and no other place to look."""
    return _HARMLESS.fullmatch(setting.lower()) is not None


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
            "diff.autoRefreshIndex=false",  # else `git diff` writes the index
            "diff.ignoreSubmodules=all",
            "log.showSignature=false",
            "safe.bareRepository=explicit",
            "safe.directory=*",
        )
    ),
}


@record
class Repository:
    """A repository that git would find."""

    #: What git reads, absolute: the one that holds the repository, and where it is kept.
    folders: tuple[str, ...]
    #: A setting that is not known to run nothing; "" when there is none.
    setting: str = ""
    #: What git might take for a part of it and is none, or is somebody else's; "": nothing.
    strange: str = ""

    @property
    def unknown(self) -> str:
        """Why git may run or read anything here; "" when it may not."""
        return self.setting or self.strange


def repository_at(folder: str) -> Repository | None:
    """The repository that git finds from ``folder`` (absolute, resolved), looked through; None when
    there is none. Reads all of its refs: not for the event loop."""
    found = located(folder)
    if found is None or found.strange:
        return found
    top, own, *_, common = (*found.folders, found.folders[-1])
    return replace(found, setting=_unknown_setting(top, common), strange=_strange(own, common))


def located(folder: str) -> Repository | None:
    """The same, but for what it might let git run or read."""
    for top in (folder, *map(str, Path(folder).parents)):
        if os.path.lexists(f"{top}/.git"):
            own = f"{top}/.git"
            if not os.path.isdir(own):  # noqa: PTH112 - text
                line = _line(own)  # of a worktree or a submodule
                if line is None or not line.startswith("gitdir: "):
                    return Repository((top,), strange=".git")
                own = real(os.path.join(os.path.dirname(own), line[8:]))  # noqa: PTH118, PTH120
            if not os.path.lexists(f"{own}/commondir"):
                return Repository((top, own))
            shared = _line(f"{own}/commondir")
            if shared is None:
                return Repository((top, own), strange="commondir")
            common = real(os.path.join(own, shared))  # noqa: PTH118 - text
            return Repository((top, own, common))
        if all(os.path.lexists(f"{top}/{name}") for name in ("HEAD", "objects", "refs")):
            return Repository((top,), strange="a repository without a .git folder")
    return None


def _unknown_setting(top: str, common: str) -> str:
    ours = next(unknown_settings(f"{common}/config", _HARMLESS), "")
    return ours or next(unknown_settings(f"{top}/.gitmodules", _MODULES), "")


def _strange(own: str, common: str) -> str:
    head = _line(f"{own}/HEAD")
    folders = (f"{common}/objects", f"{common}/refs")
    entered = all(os.access(f"{each}/.", os.X_OK) for each in folders)
    if not entered or head is None or not _HEAD.fullmatch(head):
        return ".git"  # git passes over it, and takes one further above
    if os.path.lexists(f"{common}/objects/info/alternates"):
        return "objects/info/alternates"
    return _elsewhere(own) or (_elsewhere(common) if common != own else "")


def _elsewhere(own: str) -> str:
    """The first file of git's own that may be somebody else's, by a link: git tells what it finds
    in one. Objects are checked by their names, so theirs may have a second one (a clone on the same
    disk); hooks are not run."""
    left = _MOST_NAMES
    objects = f"{own}/objects"
    queue = [own]
    while queue:
        folder = queue.pop()
        try:
            with os.scandir(folder) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        return f"more than {_MOST_NAMES} files"
                    if folder == own and entry.name in ("hooks", "lfs", "modules"):
                        continue
                    status = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(status.st_mode):
                        if folder != objects or entry.name in ("info", "pack"):
                            queue.append(entry.path)
                        continue
                    second = status.st_nlink > 1 and not folder.startswith(objects)
                    if second or not stat.S_ISREG(status.st_mode):
                        return entry.path
        except OSError as error:
            return error.strerror or str(error)
    return ""


_MODULES = re.compile(r"submodule\..*\.(path|url|branch|shallow|fetchrecursesubmodules)")


def _line(path: str) -> str | None:
    """What a file of git's own says, as git takes it; None where git might take something else: a
    part of it, other bytes, or what stands before a null."""
    try:
        with open(path, encoding="utf-8", newline="") as file:  # noqa: PTH123 - text
            text = file.read(_LONGEST + 1)
    except (OSError, UnicodeDecodeError):
        return None
    return text.rstrip("\r\n") if len(text) <= _LONGEST and "\0" not in text else None


def unknown_settings(path: str, known: re.Pattern[str] = _HARMLESS) -> Iterator[str]:
    """The settings of a file that ``known`` does not name, or why they cannot be told."""
    try:
        with open(path, encoding="utf-8", errors="replace", newline="") as file:  # noqa: PTH123
            text = file.read(_MOST + 1)
    except FileNotFoundError:
        return
    except OSError as error:
        yield error.strerror or str(error)
        return
    if len(text) > _MOST:
        yield f"{path}: more than {_MOST} bytes"
        return
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
            yield name
