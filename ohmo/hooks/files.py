"""Which hooks there are: the owner's own file, and what a project brings, which counts only while
somebody trusts exactly this content."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import stat
from collections.abc import Awaitable, Callable, Iterator
from itertools import islice
from pathlib import Path

import structlog

from channels.record import record
from ohmo.contracts.hooks import OWN_FILE, PROJECT_FILES
from ohmo.contracts.trust import Candidate, Trusts
from ohmo.hooks.hook import SHELL, Hook, HookFile, Program
from ohmo.hooks.shapes import read

log = structlog.get_logger("ohmo.hooks")
SETTLED = 0.2  # seconds in which a written file must not change any more
_LOOKS = 25
_FOLDERS = (".ohmo/hooks", ".claude/hooks")  # whatever lies there counts as part of the hooks
_LARGEST = 1 << 20  # bytes of one file of hooks
_MOST = 16 << 20  # bytes of all that is hashed
_MOST_FILES = 2_000
_SCRIPTS = {".sh", ".bash", ".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua"}
_INTERPRETER = re.compile(
    r"[a-z]*sh|\.|source|env|(python|pypy|node|deno|bun|ruby|perl|php|lua)[\d.]*"
)
_WORD = re.compile(r"[^\s\"'();|&<>=]+")
_ROOT = re.compile(r"^\$\{?CLAUDE_PROJECT_DIR\}?\"?/")
Tell = Callable[[str, str], Awaitable[object]]
"""What it is about, so that it is told once, and the words for the owner."""


@record
class Project:
    """``digest``: SHA-256 over its files of hooks, all in their folders, and the programs of the
    project that their commands name, each with its path; empty: it can be trusted by nobody."""

    root: Path
    file: HookFile
    digest: str


@record
class Standing:
    """The hooks that count now, in their order. ``broken``: why no tool may run."""

    hooks: tuple[Hook, ...] = ()
    broken: str = ""


def _at_once(path: str, flags: int) -> int:
    return os.open(path, flags | os.O_NONBLOCK)


def _bytes_of(path: Path, most: int) -> bytes | None:
    """At most one more than ``most``; None: not a file. Raises OSError."""
    # A pipe without a writer would be waited for.
    with open(path, "rb", opener=_at_once) as file:
        if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
            return None
        return file.read(most + 1)


def read_file(path: Path, name: str) -> HookFile | None:
    """None: there is no such file."""
    try:
        data = _bytes_of(path, _LARGEST)
    except FileNotFoundError:
        return None
    except OSError as error:
        return HookFile(broken=f"{name}: cannot be read ({error.strerror})")
    if data is None:
        return HookFile(broken=f"{name}: not a file")
    if len(data) > _LARGEST:
        return HookFile(broken=f"{name}: larger than {_LARGEST >> 20} MiB")
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return HookFile(broken=f"{name}: not UTF-8 text at byte {error.start}; save it as UTF-8")
    if not text.strip():
        return HookFile(broken=f"{name}: empty; write `hooks: []` for none, or delete it")
    return read(text, name)


def project(root: Path) -> Project | None:
    """What stands in a project; None: no hooks. Reads every byte of it anew, and never raises,
    whatever it holds."""
    try:
        return _project(root)
    except Exception as error:  # noqa: BLE001 - anybody may have written it; nothing of it runs
        line = f"the hooks of {root} cannot be read ({type(error).__name__}); none runs"
        return Project(root, HookFile(findings=(line,)), "")


def _project(root: Path) -> Project | None:
    found = [(name, file) for name in PROJECT_FILES if (file := read_file(root / name, name))]
    if not any(file.hooks or file.findings or file.broken for _, file in found):
        return None
    hooks = tuple(hook for _, file in found for hook in file.hooks)
    notes = [line for _, file in found for line in (*file.findings, file.broken) if line]
    paths = {*(root / name for name, _ in found), *islice(_programs(root, hooks), _MOST_FILES)}
    digest = hashlib.sha256()
    left = _MOST
    for path in sorted(paths):
        try:
            data = _bytes_of(path, left) or b""
        except OSError as error:
            data = f"cannot be read: {error.errno}".encode()
        left -= len(data)
        if left < 0 or len(paths) >= _MOST_FILES:
            most = f"{_MOST >> 20} MiB or {_MOST_FILES} files"
            note = f"the programs of the hooks of {root} are more than {most}; none runs"
            return Project(root, HookFile(findings=(*notes, note)), "")
        name = os.fsencode(path.relative_to(root))
        digest.update(b"%d %d\n" % (len(name), len(data)))
        digest.update(name)
        digest.update(data)
    return Project(root, HookFile(hooks, tuple(notes)), digest.hexdigest())


def _programs(root: Path, hooks: tuple[Hook, ...]) -> Iterator[Path]:
    for folder in _FOLDERS:
        for path in (root / folder).rglob("*"):
            if path.is_file():
                yield path
    for hook in hooks:
        if not isinstance(hook.action, Program):
            continue
        argv = hook.action.argv
        line = argv[len(SHELL) :] if argv[: len(SHELL)] == SHELL else argv
        words = _WORD.findall(" ".join(line).replace('"', ""))
        handed = any(_INTERPRETER.fullmatch(word.rpartition("/")[2]) for word in words)
        for word in words:
            path = root / _ROOT.sub("", word)
            if not path.is_relative_to(root) or ".." in path.parts or not path.is_file():
                continue
            # Not what the programs work on, which changes all the time.
            if handed or path.suffix in _SCRIPTS or os.access(path, os.X_OK):
                yield path


class HookFiles:
    """``tell``: what the owner should know."""

    def __init__(self, home: Path, trusts: Trusts, tell: Tell) -> None:
        self.path = home / OWN_FILE
        self._trusts = trusts
        self._tell = tell
        self._told = ""
        self._left_out: set[tuple[Path, str]] = set()
        self._looking = asyncio.Lock()
        self._stamp: tuple[int, int, int] | None = self._look()
        self.own = self._read()
        if self.own.broken:  # it may be half-written: looked at again once it is still
            self._stamp = (0, 0, 0)

    def _look(self) -> tuple[int, int, int] | None:
        try:
            found = self.path.stat()
        except OSError:
            return None
        return found.st_ino, found.st_size, found.st_mtime_ns

    def _read(self) -> HookFile:
        found = read_file(self.path, OWN_FILE) or HookFile()
        for line in found.findings:
            log.warning("hook_finding", finding=line)
        return found

    async def _refresh(self) -> None:
        """Takes the file as it is now, once it is still; until then what counted before does."""
        async with self._looking:
            now = self._look()
            for _ in range(_LOOKS):
                if now == self._stamp:
                    return
                await asyncio.sleep(SETTLED)
                before, now = now, self._look()
                if now == before:
                    self._stamp = now
                    self._reload()
                    return

    def _reload(self) -> None:
        """What cannot be read leaves what counted before, and is said once."""
        found = self._read()
        if found.broken and not self.own.broken:
            if found.broken != self._told:
                log.warning("hooks_kept", problem=found.broken, hooks=len(self.own.hooks))
            self._told = found.broken
            return
        self._told = ""
        if found != self.own:
            log.info("hooks_loaded", hooks=len(found.hooks), problem=found.broken)
        self.own = found

    async def of(self, cwd: Path) -> Standing:
        """In this folder. Raises StoreError."""
        await self._refresh()
        own = self.own
        if own.broken:
            return Standing(broken=own.broken)
        found = await asyncio.to_thread(project, cwd)
        if found is None:
            return Standing(own.hooks)
        if await self._allowed(found):
            return Standing((*own.hooks, *found.file.hooks))
        await self._leave_out(found)
        return Standing(own.hooks)

    async def candidates(self, folder: Path) -> list[Candidate]:
        """What its hooks would do, while nobody allowed exactly them. Raises StoreError."""
        found = await asyncio.to_thread(project, folder)
        if found is None or not found.digest or await self._allowed(found):
            return []
        does = "; ".join(f"{'/'.join(hook.events)}: {hook.does}" for hook in found.file.hooks)
        return [Candidate("hook", str(folder), found.digest, str(folder), f"runs {does}"[:500])]

    async def _allowed(self, found: Project) -> bool:
        kept = found.digest
        return bool(kept) and await self._trusts.trusted("hook", str(found.root), kept)

    async def _leave_out(self, found: Project) -> None:
        if (found.root, found.digest) in self._left_out:
            return
        self._left_out.add((found.root, found.digest))
        notes = found.file.findings
        log.warning("hooks_not_trusted", project=str(found.root), findings=notes)
        line = (
            f"`{found.root}` brings hooks, which do not run: nobody allowed exactly what is there"
            " now. `ohmo trust list` shows them."
        )
        await self._tell(f"hooks of {found.root}", line if found.digest else notes[-1])
