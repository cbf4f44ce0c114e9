"""Which hooks there are: the owner's own file, and what a project brings, which counts only while
somebody trusts exactly this content."""

from __future__ import annotations

import asyncio
import hashlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path

import structlog

from channels.record import record
from ohmo.contracts.hooks import OWN_FILE, PROJECT_FILES
from ohmo.contracts.trust import Trusts
from ohmo.hooks.hook import Hook, HookFile, Program
from ohmo.hooks.shapes import read

log = structlog.get_logger("ohmo.hooks")
_FOLDERS = (".ohmo/hooks", ".claude/hooks")  # whatever lies there counts as part of the hooks
_LARGEST = 1 << 20  # bytes of one file of hooks
_MOST = 16 << 20  # bytes of all that is hashed
_WORD = re.compile(r"[^\s\"'();|&<>=]+")
_ROOT = re.compile(r"^\$\{?CLAUDE_PROJECT_DIR\}?\"?/")


@record
class Project:
    """``digest``: SHA-256 over its files of hooks, all in their folders, and the programs of the
    project that their commands name, each with its path."""

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


def read_file(path: Path, name: str) -> HookFile | None:
    """None: there is no such file."""
    try:
        # A pipe without a writer would be waited for.
        with open(path, "rb", opener=_at_once) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                return HookFile(broken=f"{name}: not a file")
            data = file.read(_LARGEST + 1)
    except FileNotFoundError:
        return None
    except OSError as error:
        return HookFile(broken=f"{name}: cannot be read ({error.strerror})")
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
    """What stands in a project; None: no hooks. Reads every byte of it anew."""
    found = [(name, file) for name in PROJECT_FILES if (file := read_file(root / name, name))]
    if not any(file.hooks or file.findings or file.broken for _, file in found):
        return None
    hooks = tuple(hook for _, file in found for hook in file.hooks)
    notes = [line for _, file in found for line in (*file.findings, file.broken) if line]
    digest = hashlib.sha256()
    left = _MOST
    for path in sorted({*(root / name for name, _ in found), *_programs(root, hooks)}):
        try:
            with path.open("rb") as opened:
                data = opened.read(left + 1)
        except OSError as error:
            data = f"cannot be read: {error.errno}".encode()
        left -= len(data)
        if left < 0:
            note = f"{root}: the programs of its hooks are larger than {_MOST >> 20} MiB"
            return Project(root, HookFile(findings=(*notes, f"{note}; none runs")), "")
        digest.update(f"{path.relative_to(root)}\0{len(data)}\0".encode("utf-8", "replace"))
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
        for word in _WORD.findall(" ".join(hook.action.argv).replace('"', "")):
            path = root / _ROOT.sub("", word)
            if path.is_relative_to(root) and ".." not in path.parts and path.is_file():
                yield path


class HookFiles:
    """``trusts``: None: nobody can trust anything yet, so no hook of a project runs."""

    def __init__(self, home: Path, trusts: Trusts | None) -> None:
        self.path = home / OWN_FILE
        self._trusts = trusts
        self._told = ""
        self._projects_told: set[str] = set()
        self.own = self._read()

    def _read(self) -> HookFile:
        found = read_file(self.path, OWN_FILE) or HookFile()
        for line in found.findings:
            log.warning("hook_finding", finding=line)
        return found

    def reload(self) -> None:
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
        own = self.own
        if own.broken:
            return Standing(broken=own.broken)
        if self._trusts is None:
            return Standing(own.hooks)
        found = await asyncio.to_thread(project, cwd)
        if found is None:
            return Standing(own.hooks)
        if await self._trusts.trusted("hook", str(cwd), found.digest):
            return Standing((*own.hooks, *found.file.hooks))
        if found.digest not in self._projects_told:
            self._projects_told.add(found.digest)
            log.warning("hooks_not_trusted", project=str(cwd), digest=found.digest)
        return Standing(own.hooks)
