"""The borders of what runs unasked: the workspace, within which tools read freely, and the places
where a person looks at each change, because programs run, and agents obey, what lies there."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Sequence
from pathlib import Path

from ohmo.contracts.tool import CallContext
from ohmo.permissions.sensitive_paths import SensitivePaths, Touch
from ohmo.shell.patterns import component_expression, folded, real, word_set


class Reach:
    """``everywhere``: ``permissions.read_outside`` is ``allow``."""

    def __init__(self, workspace: Path, sensitive: SensitivePaths, *, everywhere: bool) -> None:
        self._workspace = os.path.realpath(workspace)
        self._sensitive = sensitive
        self._everywhere = everywhere

    def outside(self, path: str, context: CallContext) -> bool:
        """``path`` absolute and resolved: whether somebody is asked before it is read, when no
        rule and no grant covers it."""
        trusted = context.mode == "full_auto" and context.role in ("owner", "admin")
        if self._everywhere or trusted:
            return False
        return not self.holds(path, context) and self._sensitive.touch(path, "/") is not Touch.PAGE

    def holds(self, path: str, context: CallContext) -> bool:
        """``path`` absolute and resolved: whether it lies in the workspace."""
        roots = (self._workspace, os.path.realpath(context.cwd))
        return any(path == root or path.startswith(root.rstrip("/") + "/") for root in roots)


def folder_rule(path: str) -> str:
    """What an answer for longer stores: the folder with all below it, of a file the one it lies
    in. ``path`` absolute and resolved."""
    is_folder = os.path.isdir(path)  # noqa: PTH112 - Path raises for what cannot be looked at
    folder = Path(path) if is_folder else Path(path).parent
    return f"Read({glob.escape(str(folder).rstrip('/'))}/**)"


def all_edits(writes: Sequence[str], cwd: Path) -> str:
    """The rule for whatever is written below the folder a turn works in; "" when nothing of
    ``writes`` (absolute and resolved) is, or not all."""
    root = os.path.realpath(cwd)
    below = bool(writes) and root != "/" and all(path.startswith(f"{root}/") for path in writes)
    return f"Edit({glob.escape(root)}/**)" if below else ""


# A name that begins with a dot sets up a program, but for these: data, or run elsewhere.
_DATA = word_set(
    """.*ignore .gitattributes .gitkeep .keep .mailmap .editorconfig .env .env.* .github .gitlab
        .gitlab-ci.yml .circleci .travis.yml .well-known .nojekyll .htaccess .python-version
        .node-version .nvmrc .ruby-version .tool-versions .flake8 .coveragerc .prettierrc
        .prettierrc.json .prettierrc.y*ml .clang-format .clang-tidy .markdownlint.* .yamllint*
        .changeset"""
)
_NAMED = word_set(
    """agents.md agents.*.md agent.md claude.md claude.*.md gemini.md qwen.md soul.md user.md
        opencode.json opencode.jsonc .github/copilot-instructions.md .github/instructions
        .github/prompts .github/agents .github/chatmodes head mise.toml mise.*.toml
        lefthook*.y*ml bunfig.toml pip.conf *.code-workspace sitecustomize.py usercustomize.py
        *.pth library/launchagents library/launchdaemons"""
)
_SYSTEM = word_set(
    """etc private/etc usr bin sbin lib* boot var/spool private/var/spool proc sys run system
        library"""
)


def _any_of(places: frozenset[str]) -> str:
    forms = ("/".join(map(component_expression, place.split("/"))) for place in sorted(places))
    return f"(?:{'|'.join(forms)})(?=/|$)"


_PLACE = re.compile(rf"/(?:{_any_of(_NAMED)}|(?!\.\.\.(?:/|$)|{_any_of(_DATA)})\.[^/]*)")
_OF_THE_SYSTEM = re.compile(rf"/{_any_of(_SYSTEM)}")


class ProtectedPlaces:
    """``workspace``: how the folders above it are called protects nothing in it."""

    def __init__(self, workspace: Path) -> None:
        roots = (str(workspace), real(workspace))
        self._roots = tuple(folded(root).rstrip("/") + "/" for root in roots)

    def named(self, path: str) -> str | None:
        """``path`` absolute and resolved: the place of this kind that it is or lies below, in any
        case of letters; None: an ordinary file."""
        plain = folded(path)
        root = next((root for root in self._roots if plain.startswith(root)), None)
        found = _PLACE.search(plain, 0 if root is None else len(root) - 1)
        if root is None and found is None:
            found = _OF_THE_SYSTEM.match(plain)
        return found[0].lstrip("/") if found is not None else _repository(path)

    def reached(self, path: Path) -> str | None:
        """The same for any absolute path: a link may stand in such a place, or lead into one."""
        return self.named(os.path.normpath(path)) or self.named(real(path))


def _repository(path: str) -> str | None:
    """A folder with these three names is one, whatever it is called (gitrepository-layout(5)): git
    runs what its ``hooks`` and ``config`` name."""
    for folder in Path(path).parents:
        if all(os.path.lexists(folder / name) for name in ("HEAD", "objects", "refs")):
            return str(folder)
    return None
