"""The borders of what runs unasked: the workspace, within which tools read freely, and the places
where a person looks at each change, because programs run, and agents obey, what lies there."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from ohmo.contracts.tool import CallContext
from ohmo.permissions.looks import Looks
from ohmo.permissions.sensitive_paths import FsCache, SensitivePaths, Touch
from ohmo.shell.git_repository import located
from ohmo.shell.patterns import component_expression, folded, known, real, word_set
from ohmo.shell.reading import BUILTINS
from ohmo.shell.script import Reading, Simple


class Reach:
    """``home`` of the person. ``everywhere``: ``permissions.read_outside`` is ``allow``."""

    def __init__(
        self, workspace: Path, sensitive: SensitivePaths, home: Path, *, everywhere: bool
    ) -> None:
        self._workspace = os.path.realpath(workspace)
        self._hidden = f"{os.path.realpath(home)}/."
        self._sensitive = sensitive
        self._everywhere = everywhere

    def outside(self, path: str, context: CallContext, *, deep: bool = False) -> bool:
        """``path`` absolute and resolved: whether somebody is asked before it is read, when no
        rule and no grant covers it; ``deep``: with all below it. A mode names no place, so it does
        not open the home's names with a dot: there every program keeps its keys, also those that
        no list knows."""
        trusted = context.mode == "full_auto" and context.role in ("owner", "admin")
        hidden = path.startswith(self._hidden)
        hidden = hidden or (deep and self._hidden.startswith(f"{path.rstrip('/')}/"))
        if self._everywhere or (trusted and not hidden) or path in _PUBLIC:
            return False
        page = self._sensitive.seen_by(context).touch(path, "/") is Touch.PAGE
        return not page and not self.holds(path, context)

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

    def named(self, path: str, cache: FsCache | None = None) -> str | None:
        """``path`` absolute and resolved: the place of this kind that it is or lies below, in any
        case of letters; None: an ordinary file. ``cache``: shared by the calls of one judgement."""
        plain = folded(path)
        root = next((root for root in self._roots if plain.startswith(root)), None)
        match = _PLACE.search(plain, 0 if root is None else len(root) - 1)
        if root is None and match is None:
            match = _OF_THE_SYSTEM.match(plain)
        if match is not None:
            return match[0].lstrip("/")
        # git runs what the ``hooks`` and ``config`` of a repository name, whatever it is called
        cache = cache or FsCache()
        while path and not cache.is_repository(path := path.rpartition("/")[0]):
            continue
        return path or None

    def reached(self, path: Path) -> str | None:
        """The same for any absolute path: a link may stand in such a place, or lead into one."""
        return self.named(os.path.normpath(path)) or self.named(real(path))


# Also macOS.
_MACHINE_CODE = (b"\x7fELF", b"\xcf\xfa\xed\xfe", b"\xca\xfe\xba\xbe", b"\xfe\xed\xfa\xcf")
# Debian's: a script that looks for names on PATH by itself and runs nothing.
_SCRIPTS = ("/usr/bin/which.debianutils", "/bin/which.debianutils")
# What every program may know of the machine.
_PUBLIC = word_set(
    """/etc/os-release /usr/lib/os-release /etc/debian_version /proc/cpuinfo /proc/meminfo
        /proc/version /proc/loadavg /proc/uptime"""
)
_HARMLESS_TARGETS = frozenset({"/dev/null", "/dev/stdout", "/dev/stderr"})


class ReadPolicy:
    """``path``: where commands find programs."""

    def __init__(self, path: str, reach: Reach) -> None:
        self._path = path
        self._reach = reach

    def hides_sensitive(self, simple: Simple, opened: Reading, looks: Looks) -> str:
        """What a command that only reads would read of sensitive files that its words do not name;
        no rule covers that."""
        deep = opened.kind == "trees"
        linked = opened.repository is not None
        paths = [path for cwd in simple.cwds for path in _paths(simple, opened, cwd)]
        for path in dict.fromkeys(paths):
            if looks.aliases.at(path) is Touch.INSIDE:
                return f"{path} is a sensitive file under another name"
            if opened.handed is not None:
                hidden = looks.handed(path, opened.handed)[0]
            else:
                hidden = looks.below(path, linked=linked) if deep else ""
            if hidden:
                return f"{hidden} is below {path}"
        if deep and opened.repository is not None:  # whatever git knows there
            for cwd in simple.cwds:
                repository = located(resolved(opened.repository, cwd))
                top = repository.folders[0] if repository is not None else ""
                twin = looks.twin(top) if top else ""
                if twin:
                    return f"{twin} is a sensitive file under another name"
        return ""

    def more_than_reading(
        self, simple: Simple, opened: Reading | None, context: CallContext
    ) -> str:
        """Why the command is more than reading; "" when it is not."""
        if opened is None:
            return f"{simple.shown[:200]!r} may change something"
        if written_files(simple):
            return f"{simple.shown[:200]!r} writes a file"
        # who runs a command in the place of bash knows no builtins
        if simple.words[0] not in BUILTINS or simple.handed is not None:
            program = _machine_code_of(simple.words[0], self._path)
            if program is None or self._reach.holds(program, context):
                return f"{simple.words[0]} is not the system's program of that name"
        return ""

    def shut(
        self,
        simple: Simple,
        opened: Reading,
        context: CallContext,
        outside: list[str],
        looks: Looks,
    ) -> str:
        """Why the command may not read what it would; "" when it may. ``outside`` gains the paths
        it would read outside the workspace."""
        followed = tuple(self.followed(simple, opened, looks))
        for cwd in simple.cwds:
            for path in (*_paths(simple, opened, cwd), *followed):
                if path.startswith("/dev/"):
                    return f"{path} is a device"
                # Not by Path, which raises for what cannot be looked at.
                if opened.kind == "files" and os.path.isdir(path):  # noqa: PTH112
                    return f"{path} is a folder"
                if self._reach.outside(path, context):
                    outside.append(path)
            listed = (resolved(word, cwd) for word in simple.listed)
            outside += [path for path in listed if self._reach.outside(path, context)]
            if opened.repository is None:
                continue
            folder = f"{cwd}/{opened.repository}"
            is_folder = os.path.isdir(folder)  # noqa: PTH112 - as above
            repository = looks.repository(real(folder)) if is_folder else None
            if repository is None:
                return "there is no repository here"
            if repository.unknown:
                where = f"the repository in {repository.folders[0]}"
                return f"{where} sets {repository.unknown}, which may run something"
            folders = map(real, repository.folders)
            outside += [each for each in folders if self._reach.outside(each, context)]
        return ""

    @staticmethod
    def followed(simple: Simple, opened: Reading, looks: Looks) -> Iterator[str]:
        """Where links below the paths lead out of them, when the command follows them."""
        if opened.handed is not None:
            for cwd in simple.cwds:
                for path in _paths(simple, opened, cwd):
                    yield from looks.handed(path, opened.handed)[1]


def written_files(simple: Simple) -> list[str]:
    """What redirections write, but for where nothing is kept."""
    return [
        each.target
        for each in simple.redirects
        if each.kind == "write" and each.target not in _HARMLESS_TARGETS
    ]


def resolved(word: str, cwd: str) -> str:
    return real(word if word.startswith("/") else f"{cwd}/{word}")


def _paths(simple: Simple, opened: Reading, cwd: str) -> list[str]:
    """Resolved: operands, what is redirected from, and what wildcards became."""
    redirected = (each.target for each in simple.redirects if each.kind == "read")
    globbed = (simple.words[at] for at in simple.found if known(simple.words[at]))
    words = dict.fromkeys((*opened.paths, *redirected, *globbed))
    return [resolved(word, cwd) for word in words if word != "/dev/null"]


def _machine_code_of(name: str, path: str) -> str | None:
    """The file that bash runs for ``name``, with ``path`` as its PATH; None when a folder of it
    counts from the working directory, there is none, or it is a script: under a program's name that
    does whatever it says, and reads what it wants."""
    if "/" in name:
        return None
    for folder in path.split(":"):
        if not folder.startswith("/"):
            return None
        file = f"{folder}/{name}"
        if os.path.isfile(file) and os.access(file, os.X_OK):  # noqa: PTH113 - text
            program = real(file)
            try:
                with open(program, "rb") as opened:  # noqa: PTH123 - text
                    whole = opened.read(4) in _MACHINE_CODE
                    return program if whole or program in _SCRIPTS else None
            except OSError:
                return None
    return None
