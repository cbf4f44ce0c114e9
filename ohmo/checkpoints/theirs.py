"""What a repository and its user say about files: read as data. No git of ours ever opens their
repository; it borrows the objects."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from functools import cached_property
from pathlib import Path

from ohmo.checkpoints.git import CannotKeep, Git, names, run
from ohmo.regular_file import open_regular

_MOST_SETTINGS = 1 << 20  # bytes of a file of settings or of patterns
MOST_INDEX = 256 << 20
_CONVERTS = re.compile(r"core\.(autocrlf|eol|attributesfile)")
_IGNORES = "core.excludesfile"


class Theirs:
    """The repository of a folder. ``user``: the environment in which the user's own settings are
    found."""

    def __init__(self, root: Path, user: Mapping[str, str]) -> None:
        """Raises CannotKeep: ``.git`` leads to no repository."""
        self._root = root
        self._user = user
        self.folder = _git_folder(root)
        line = os.fsdecode(content_of(self.folder / "commondir", 4096)).rstrip("\r\n")
        # what all folders of a repository share (git-worktree(1))
        self._shared = Path(os.path.realpath(self.folder / line)) if line else self.folder
        self.objects = self._shared / "objects"
        if not self.objects.is_dir():
            raise CannotKeep(f"{root}/.git leads to no repository")
        self._settings: tuple[bytes, Mapping[str, str]] = (b"", {})

    def index(self) -> bytes:
        """Empty when there is none, or when it is too large."""
        return content_of(self.folder / "index", MOST_INDEX)

    def settings(self, git: Git) -> Mapping[str, str]:
        """Those of the repository, none of which holds for us."""
        content = content_of(self._shared / "config", _MOST_SETTINGS)
        known, settings = self._settings
        if content != known:
            told = git("config", "--file", "-", "--null", "--list", told=content)
            settings = pairs(told)
            self._settings = (content, settings)
        return settings

    @cached_property
    def _everywhere(self) -> Mapping[str, str]:
        """What the user has set for all of their repositories."""
        if not self._user.get("HOME"):
            return {}
        environ = {**self._user, "GIT_DIR": "/dev/null", "LC_ALL": "C"}
        answer = run(["git", "config", "--includes", "--null", "--list"], Path("/"), environ)
        found = pairs(answer.stdout) if answer.returncode == 0 else {}
        home = self._user.get("XDG_CONFIG_HOME") or f"{self._user['HOME']}/.config"
        found.setdefault(_IGNORES, f"{home}/git/ignore")
        return found

    def ignored(self, git: Git) -> list[bytes]:
        """Patterns beside those of ``.gitignore``, the weakest first (gitignore(5))."""
        patterns: list[bytes] = []
        for settings in (self._everywhere, self.settings(git)):
            if file := settings.get(_IGNORES):
                home = self._user.get("HOME", "")
                path = home + file[1:] if file.startswith("~/") else file
                patterns.append(content_of(self._root / path, _MOST_SETTINGS))
        return [*patterns, content_of(self._shared / "info" / "exclude", _MOST_SETTINGS)]

    def converts(self, git: Git, tracked: bytes) -> bool:
        """Whether git may change files on their way (gitattributes(5)): then its index says nothing
        about the bytes in the folder. ``tracked``: all paths, NUL behind each."""
        settings = {**self._everywhere, **self.settings(git)}
        return (
            any(_CONVERTS.fullmatch(name) for name in settings)
            or (self._shared / "info" / "attributes").exists()
            or (self._root / ".gitattributes").exists()
            or b".gitattributes\0" in tracked
        )


def _git_folder(root: Path) -> Path:
    """Where git keeps what belongs to this folder alone (gitrepository-layout(5))."""
    own = root / ".git"
    if own.is_dir():
        return own
    line = os.fsdecode(content_of(own, 4096)).rstrip("\r\n")
    if not line.startswith("gitdir: "):
        raise CannotKeep(f"{own} leads to no repository")
    return Path(os.path.realpath(root / line[8:]))


def content_of(path: Path, most: int) -> bytes:
    """Of a file; empty for whatever is none, or longer."""
    try:
        with open_regular(path, follow=True) as file:
            content = file.read(most + 1)
            return content if len(content) <= most else b""
    except (OSError, ValueError):
        return b""


def pairs(answer: bytes) -> dict[str, str]:
    """The last value of each setting of ``git config --null --list``."""
    entries = (entry.partition("\n") for entry in names(answer))
    return {name: value for name, _, value in entries}
