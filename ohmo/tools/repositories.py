"""Git that looks at somebody's repository and obeys nothing of it: its settings are ours, but for
those that say how the repository is kept. No program that a setting, an attribute, a hook or a
submodule names is run, nothing is fetched, nothing of theirs is written."""

from __future__ import annotations

import os
import re
import shutil
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from channels.record import record
from ohmo.checkpoints.git import ALONE, CannotKeep, names, run
from ohmo.checkpoints.theirs import MOST_INDEX, content_of, pairs
from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.processes.job import Command, JobEnded
from ohmo.shell.git_repository import located, repository_at
from ohmo.shell.parsing import DEFAULT_PATH
from ohmo.tools.bash import job_report
from ohmo.tools.files import Opening, exchanged
from ohmo.tools.inputs import PathText, PydanticTool
from ohmo.tools.results import (
    ToolError,
    absolute_path,
    clean,
    description,
    error_result,
    in_thread,
    os_message,
    temporary_folder,
    text_result,
)
from ohmo.tools.workbench import Workbench

_SECONDS = 30.0
_MOST_NAMES = 1 << 20  # bytes of a list of paths
_MOST_HIDDEN = 500
_MOST_SETTINGS = 1 << 18  # bytes
#: What branches, tags and objects are kept in, for all worktrees (gitrepository-layout(5)).
_KEPT = ("objects", "refs", "packed-refs", "logs", "reftable", "shallow", "info/exclude")
_HEAD = re.compile(rb"ref:\s*refs/|[0-9a-f]{40}")  # gitrepository-layout(5)
_CARRIED = re.compile(
    r"core\.(?:repositoryformatversion|filemode|ignorecase|precomposeunicode|symlinks|autocrlf|eol"
    r"|trustctime|checkstat|bigfilethreshold)|extensions\.(?:objectformat|refstorage)"
    r"|remote\.[^\n]*\.fetch|branch\.[^\n]*\.(?:remote|merge)"
)
_REVISION = re.compile(
    r"(?P<from>[\w@][\w./@{}~^+-]*?)(?:(?P<dots>\.{2,3})(?P<to>[\w@][\w./@{}~^+-]*))?"
)


def has_git(workbench: Workbench) -> bool:
    """Whether there is a program of that name."""
    return shutil.which("git", path=workbench.environ.get("PATH", DEFAULT_PATH)) is not None


def revisions(text: str | None) -> list[str]:
    """Words for git that can only mean commits: never a file's content, never an option. Raises
    ToolError."""
    if text is None:
        return []
    match = _REVISION.fullmatch(text)
    if match is None:
        raise ToolError(f"{text!r} names no commits; give one, or A..B, or A...B")
    words = f"{match['from']}^{{commit}}"
    if match["dots"]:
        words += f"{match['dots']}{match['to']}^{{commit}}"
    return ["--end-of-options", words]


@record
class Repository:
    """One that was judged. ``top``: absolute, resolved. ``own``: where git keeps what belongs to
    this worktree alone."""

    top: Path
    own: Path
    context: CallContext
    bench: Workbench
    environ: Mapping[str, str]

    async def git(self, *words: str, keep: int) -> JobEnded:
        """``keep``: bytes of head and tail of what it answers. Raises ToolError with what it
        complains about; OSError."""
        left = self.context.deadline - time.monotonic() - 3.0
        seconds = max(0.1, min(_SECONDS, left))
        order = Command(
            argv=("git", *words),
            cwd=self.top,
            env=self.environ,
            spill=self.bench.folder(self.context) / f"{self.context.call}.txt",
            timeout=seconds,
            keep=keep,
            spill_half=self.bench.limits.spill // 2,
        )
        ended = await self.bench.processes.run(order, self.context.progress)
        if ended.code != 0 or ended.reason:
            complaint = clean(ended.output.err.head).strip() if not ended.reason else ""
            why = complaint or job_report(ended, 2_000, f"{seconds:.3g} s")
            raise ToolError(f"git {words[0]}: {why}")
        return ended

    async def told(self, *words: str, nothing: str, note: str = "") -> ToolOutput:
        """What git answers, as the model is shown it, and ``note``. ``nothing``: in place of no
        words. Raises as ``git``."""
        room = self.bench.limits.bash_output
        ended = await self.git(*words, keep=room)
        text = job_report(ended, room) if ended.output.out.total else nothing
        where = f"[repository {self.top}]" if self.top != self.context.cwd else ""
        lines = (line for line in (where, text, note) if line)
        return text_result(self.context, "\n".join(lines), spill=ended.spill)

    async def names(self, *words: str) -> list[str]:
        """Paths that git answers with, separated by NUL. Raises as ``git``."""
        ended = await self.git(*words, keep=_MOST_NAMES)
        out = ended.output.out
        if out.total > len(out.head) + len(out.tail):
            raise ToolError("too many files have changed; name narrower `paths`")
        return list(dict.fromkeys(names(out.head + out.tail)))

    def within(self, paths: Sequence[str]) -> list[str]:
        """Words that limit git to these paths. Raises ToolError: one lies elsewhere."""
        words: list[str] = []
        for each in paths:
            path = absolute_path(each, self.context.cwd)
            real = Path(os.path.realpath(path.parent)) / path.name
            if not real.is_relative_to(self.top):
                raise ToolError(f"{path} does not lie in the repository {self.top}")
            words.append(f":(top,literal){real.relative_to(self.top)}")
        return words

    async def without(self, changed: Sequence[str]) -> list[str]:
        """Words that keep git from showing what of these paths no tool may read. Raises
        ToolError."""
        opening = self.bench.opening(self.context)
        hidden = await in_thread(lambda: [name for name in changed if self._hides(opening, name)])
        if len(hidden) > _MOST_HIDDEN:
            raise ToolError(f"{len(hidden)} of the files may not be shown; name narrower `paths`")
        return [f":(top,exclude,literal){name}" for name in hidden]

    def _hides(self, opening: Opening, name: str) -> bool:
        path = self.top / name
        if opening.hides(str(path)):
            return True
        try:
            if not path.is_symlink():  # else git shows where it leads, not what is there
                opening.file(path).close()  # it may be sensitive under another name
        except ToolError:
            return True
        except OSError:
            return False  # deleted: its name is all there is
        return False


class Look(BaseModel):
    """What every call that looks at a repository takes."""

    model_config = ConfigDict(extra="forbid", defer_build=True)
    repository: PathText | None = Field(default=None, description="folder in it")
    paths: list[PathText] = Field(default=[], max_length=100)


class GitReader(PydanticTool, ABC):
    """A tool that looks at a repository."""

    name: str
    ready = staticmethod(has_git)

    def __init__(self, workbench: Workbench) -> None:
        self._bench = workbench
        self.description = description(self.name)

    def footprint(self, arguments: Look, cwd: Path) -> Footprint:
        """The folder, and whatever git keeps of it elsewhere."""
        folder = absolute_path(arguments.repository or ".", cwd)
        found = located(os.path.realpath(folder))
        kept = found.folders if found is not None else ()
        return Footprint(reads=(folder, *map(Path, kept)), effect="none")

    async def run(self, arguments: Any, context: CallContext) -> ToolOutput:
        try:
            async with opened(self._bench, context) as repository:
                return await self.look(arguments, repository)
        except ToolError as error:
            return error_result(context, str(error))
        except OSError as error:
            return error_result(context, os_message(error, context.judged.reads[0]))

    @abstractmethod
    async def look(self, arguments: Any, repository: Repository) -> ToolOutput:
        """Raises ToolError, OSError."""


@asynccontextmanager
async def opened(bench: Workbench, context: CallContext) -> AsyncGenerator[Repository]:
    """The repository of a call that ``GitReader`` declared. Raises ToolError, OSError."""
    top, own, *shared = await in_thread(lambda: _still(context.judged.reads))
    path = bench.environ.get("PATH", DEFAULT_PATH)
    bench.spill.mkdir(mode=0o700, parents=True, exist_ok=True)
    async with temporary_folder("git-", bench.spill) as ours:
        await in_thread(lambda: _set_up(ours, own, shared[0] if shared else own, path, bench))
        environ = {
            **ALONE,
            "PATH": path,
            "HOME": str(ours),
            "XDG_CONFIG_HOME": str(ours),
            "GIT_DIR": str(own),
            "GIT_COMMON_DIR": str(ours),  # and with it ``config`` (git(1))
            "GIT_WORK_TREE": str(top),
            "GIT_INDEX_FILE": f"{ours}/index",
        }
        yield Repository(top, own, context, bench, environ)


def _still(judged: Sequence[Path]) -> Sequence[Path]:
    """The folders of the repository, as they were judged. Raises ToolError."""
    folder, *folders = judged
    found = repository_at(str(folder))
    if found is None:
        raise ToolError(f"{folder} is in no repository")
    if [Path(os.path.realpath(each)) for each in found.folders] != folders:
        raise exchanged(folder)
    git = folders[0] / ".git"
    head = git / "HEAD"
    ours = git.is_dir() and not git.is_symlink() and not head.is_symlink()
    if ours and _HEAD.match(content_of(head, _MOST_SETTINGS)) is None:
        raise ToolError(
            f"{head} is broken: it names neither a branch nor a commit, so git sees no repository"
            " here. Have the person write into it what was checked out, such as ref:"
            " refs/heads/main"
        )
    if found.strange:
        raise ToolError(f"{folders[0]}: {found.strange} is not followed; look with git in Bash")
    return folders


def _set_up(ours: Path, own: Path, common: Path, path: str, bench: Workbench) -> None:
    """What git takes for the part of a repository that all of its worktrees share, and a copy of
    the index, which it refreshes. Raises ToolError, OSError."""
    (ours / "info").mkdir()
    for name in _KEPT:
        if (common / name).exists():
            (ours / name).symlink_to(common / name)
    index = own / "index"
    if index.exists():
        # What is not older than its index is looked into (racy-git of git's documentation).
        written = index.stat().st_mtime_ns
        (ours / "index").write_bytes(content_of(index, MOST_INDEX))
        os.utime(ours / "index", ns=(written, written))
    told = content_of(common / "config", _MOST_SETTINGS)
    words = ["git", "config", "--file", "-", "--null", "--list"]
    environ = {**ALONE, "PATH": path, "HOME": str(ours), "GIT_DIR": os.devnull}
    try:
        listed = run(words, Path("/"), environ, told=told)
    except CannotKeep as error:
        raise ToolError(str(error)) from error
    if listed.returncode != 0:
        raise ToolError(f"{common}/config: {listed.stderr.decode('utf-8', 'replace').strip()}")
    ignored = Path(bench.environ.get("HOME", "/")) / ".config" / "git" / "ignore"
    settings = {
        **{name: value for name, value in pairs(listed.stdout).items() if _CARRIED.fullmatch(name)},
        "core.bare": "false",
        "core.fsmonitor": "false",
        "core.hooksPath": os.devnull,
        "core.excludesFile": str(ignored),
        "core.quotePath": "false",
        "gc.auto": "0",
    }
    (ours / "config").write_text("".join(map(_setting, settings.items())), encoding="utf-8")


def _setting(item: tuple[str, str]) -> str:
    """As git-config(1) reads it."""
    name, value = item
    section, _, rest = name.partition(".")
    below, _, key = rest.rpartition(".")
    head = f"{section} {_quoted(below)}" if below else section
    return f"[{head}]\n\t{key} = {_quoted(value)}\n"


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
