"""Which folder of the memory belongs to a project: the one that names its path, or the one of the
same first commit whose path is gone, because the project was moved."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from ohmo.memory.scopes import DIGEST, Scope, digest_of, folder_name

_SECONDS = 5.0  # git may take
_COMMIT = re.compile("[0-9a-f]{40}|[0-9a-f]{64}")
Heads = Callable[[], Mapping[str, Mapping[str, str]]]


class Projects:
    """``root_of``: the folder of the repository around one, None: there is none. ``heads``: of
    each project's folder in the memory what its index says of it. Blocks: asks git once a
    folder."""

    def __init__(
        self,
        heads: Heads,
        root_of: Callable[[Path], Path | None],
        environ: Mapping[str, str],
        *,
        opaque: bool,
    ) -> None:
        self._heads = heads
        self._root_of = root_of
        self._environ = environ
        self._opaque = opaque
        self._known: dict[tuple[Path, int], Scope] = {}

    def scope(self, cwd: Path) -> Scope:
        found = self._root_of(cwd)
        with suppress(OSError):
            key = (cwd, (found or cwd).stat().st_ino)  # another project may come to stand there
            if key not in self._known:
                scope = self._scope(self._root(found, cwd))
                self._known = {**dict(list(self._known.items())[-99:]), key: scope}
            return self._known[key]
        return self._scope(cwd)

    def _root(self, root: Path | None, cwd: Path) -> Path:
        """Of a worktree the repository it belongs to."""
        if root is None:
            return Path(os.path.realpath(cwd))
        if (root / ".git").is_file():
            shared = self._git(root, "rev-parse", "--path-format=absolute", "--git-common-dir")
            if shared.endswith("/.git"):
                root = Path(shared).parent
        return Path(os.path.realpath(root))

    def _scope(self, root: Path) -> Scope:
        path = str(root)
        digest = digest_of(path)
        commit = ""
        if (root / ".git").exists():
            commit = self._git(root, "rev-list", "--max-parents=0", "--first-parent", "HEAD")
        about = (("path", path), *((("commit", commit),) if commit else ()))
        heads = self._heads()
        for folder, head in heads.items():
            unnamed = not head.get("path") and folder.endswith(digest[:DIGEST])
            if (head.get("path") == path or unnamed) and self._holds(root, head.get("commit", "")):
                return Scope("workspace", folder, about)
        for folder, head in heads.items():
            theirs = head.get("commit", "")
            gone = not (Path(head.get("path", "/")) / ".git").exists()
            if commit and theirs and gone and self._holds(root, theirs):
                return Scope("workspace", folder, about)
        length = DIGEST  # a longer one where another project has this
        while (name := folder_name(root.name, digest[:length], opaque=self._opaque)) in heads:
            length += 4
        return Scope("workspace", name, about)

    def _holds(self, root: Path, commit: str) -> bool:
        """Whether the repository has it, or there is none to have: at the path of a project that
        was moved another may have begun."""
        if not commit:
            return True
        if not (root / ".git").exists() or not _COMMIT.fullmatch(commit):
            return False
        return self._git(root, "cat-file", "-t", commit) == "commit"

    def _git(self, root: Path, *arguments: str) -> str:
        """The first line it says; empty when it fails."""
        command = ["git", "-C", str(root), "-c", "core.fsmonitor=false", *arguments]
        try:
            answer = subprocess.run(  # noqa: S603 - our own arguments; they run no program of the repository
                command,
                capture_output=True,
                timeout=_SECONDS,
                env={**self._environ, "GIT_NO_LAZY_FETCH": "1", "GIT_OPTIONAL_LOCKS": "0"},
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired):
            return ""
        first = answer.stdout.decode("utf-8", "replace").partition("\n")[0].strip()
        return first if answer.returncode == 0 else ""
