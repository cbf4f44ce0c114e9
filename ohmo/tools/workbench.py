"""What assembly hands to every tool: limits, folders, doors to the outside, and the commands that
run in the background."""

from __future__ import annotations

import asyncio
import os
import re
import socket
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from ipaddress import IPv4Address, IPv6Address
from pathlib import Path
from typing import Protocol

from channels.contract import Address, Outbound
from channels.durable import replacing
from channels.record import record
from ohmo.contracts.cron import By, JobTools
from ohmo.contracts.errors import ConfigError
from ohmo.contracts.messages import Step
from ohmo.contracts.tool import CallContext
from ohmo.memory.desk import Memory, Said
from ohmo.memory.proposals import Proposal
from ohmo.memory.scopes import Scope, Viewer
from ohmo.permissions.sensitive_paths import SensitivePaths
from ohmo.processes.answering import AnsweringProcess
from ohmo.processes.job import Job, JobEnded, ProcessRunner, kept_end
from ohmo.sandbox.walls import Walls
from ohmo.skills.shelf import Skills
from ohmo.tools.files import FileStamps, Opening
from ohmo.tools.results import ToolError, in_thread
from ohmo.tools.systems import Systems
from ohmo.tools.web_addresses import is_elsewhere

Resolver = Callable[[str, int], Awaitable[Sequence[str]]]
"""Host and port to IP addresses as text. Raises OSError."""


async def system_resolver(host: str, port: int) -> Sequence[str]:
    """What the operating system answers."""
    addresses = await asyncio.get_running_loop().getaddrinfo(host, port, type=socket.SOCK_STREAM)
    return [str(item[4][0]) for item in addresses]


class ReadSteps(Protocol):
    """Steps of a thread with their numbers, at most ``limit`` from ``since`` on."""

    async def __call__(
        self, thread: str, since: int, *, limit: int | None = None
    ) -> list[tuple[int, Step]]: ...


@record
class Limits:
    """Sizes in bytes, times in seconds; the configuration's ``limits`` fill the first three."""

    bash_output: int = 12 * 1024
    web_output: int = 50 * 1024
    read_lines: int = 200
    line_chars: int = 2000
    read_output: int = 64 * 1024
    search_lines: int = 250
    small_tree: int = 200
    bash_timeout: float = 120.0
    bash_timeout_most: float = 600.0
    web_timeout: float = 30.0
    page_timeout: float = 15.0  # to turn a page into Markdown
    web_bytes: int = 5 * 1024 * 1024
    image_bytes: int = 5 * 1024 * 1024
    # What is longer keeps its two ends: a command that never stops talking must not fill the
    # disk.
    spill: int = 16 * 1024 * 1024


@record
class Workbench:
    """What assembly hands to every tool."""

    spill: Path  # folder for full outputs; see ``folder``
    sensitive: SensitivePaths  # what search tools leave out
    processes: ProcessRunner = field(default_factory=ProcessRunner)
    limits: Limits = field(default_factory=Limits)
    #: What the child environment is picked from.
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ))
    resolver: Resolver = system_resolver
    reachable: Callable[[IPv4Address | IPv6Address], bool] = is_elsewhere
    walls: Walls | None = None  # around commands; None: there are none
    ripgrep: Path | None = None  # the program; None: search in process
    stamps: FileStamps = field(default_factory=FileStamps)
    background: BackgroundJobs = field(default_factory=lambda: BackgroundJobs(8))
    systems: Systems = field(default_factory=Systems)
    #: Reads code, beside this process.
    code: AnsweringProcess = field(
        default_factory=lambda: AnsweringProcess("ohmo.tools.code.worker")
    )
    cron: JobTools | None = None  # None: there are no tools for jobs
    memory: Memory | None = None  # None: nothing is remembered
    skills: Skills | None = None  # None: there are none
    steps: ReadSteps | None = None  # the log; None: there is none
    #: Where the people of a thread are; None: nobody can be shown anything.
    place: Callable[[str], Awaitable[Address | None]] | None = None
    #: Bytes of one file that can be shown in a place; None: nobody knows now.
    largest: Callable[[Address], int | None] = lambda _: None

    def __post_init__(self) -> None:
        self.background.keep_in(self.spill)

    async def close(self) -> None:
        """Ends what answers tools. What runs in the background goes on as long as the daemon."""
        await self.code.close()

    def folder(self, context: CallContext) -> Path:
        """Where full outputs of a conversation lie, which its turns may read and no others: made,
        0700, when missing. Raises OSError."""
        own = self.spill / context.thread
        own.mkdir(mode=0o700, parents=True, exist_ok=True)
        return own

    def keep(self, folder: str, call: str, name: str, data: bytes) -> Path:
        """A copy of what a call saw or made, as it is now. Raises OSError."""
        copy = self.spill / folder / call.replace("/", "_") / name
        copy.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with replacing(copy) as file:
            file.write(data)
        return copy

    def opening(self, context: CallContext) -> Opening:
        """How one call opens its files."""
        sensitive, forbidden = self.sensitive.seen_by(context), context.judged.forbidden
        return Opening(lambda path: sensitive.hides(path) or forbidden(path), sensitive.aliases())


@record
class Background:
    """A command in the background. ``job``: None: it ended with an earlier daemon, or before."""

    thread: str
    output: Path  # see ``Command.kept``
    job: Job | None

    @property
    def runs(self) -> bool:
        return self.job is not None and not self.job.ended.done()

    async def end(self, keep: int) -> JobEnded:
        """How it ended, once it has. ``keep``: bytes of head and tail of its output."""
        if self.job is not None:
            return await asyncio.shield(self.job.ended)
        return await in_thread(lambda: kept_end(self.output, keep))


_NAME = re.compile(r"bash_(\d{1,9})")
_MOST_ENDED = 32  # commands that stay readable, and bytes of their output
_MOST_OUTPUT = 256 << 20


class BackgroundJobs:
    """By id; each thread sees its own. Ended ones stay readable until room is needed, also after a
    restart, which ends all of them: of each there are ``NAME.thread`` with its thread, and what its
    keeper leaves. ``most``: that run at once in a thread."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._folder = Path()
        self._found = False
        self._count = 0
        self._jobs: dict[str, Background] = {}
        self._beginning: dict[str, str] = {}  # id to thread

    def keep_in(self, folder: Path) -> None:
        """Finds what is there when somebody first asks."""
        self._folder = folder

    async def begin(self, thread: str, start: Callable[[Path], Awaitable[Job]]) -> str:
        """The id of a new one. ``start``: told where its output goes. Raises ToolError when the
        thread has too many running; OSError."""
        jobs = self._known()
        own = [name for name, each in jobs.items() if each.thread == thread and each.runs]
        own += [name for name, whose in self._beginning.items() if whose == thread]
        if len(own) >= self._most:
            raise ToolError(
                f"{self._most} commands run in the background already ({', '.join(own)}); stop one"
                " with KillShell"
            )
        self._count += 1
        name = f"bash_{self._count}"
        self._beginning[name] = thread
        output = self._folder / thread / f"{name}.txt"

        def note() -> None:
            output.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with replacing(output.with_suffix(".thread")) as file:
                file.write(thread.encode())

        try:
            await in_thread(note)
            jobs[name] = Background(thread, output, await start(output))
        except BaseException:
            await in_thread(lambda: _each_file([output], Path.unlink))
            raise
        finally:
            del self._beginning[name]
        old = [jobs.pop(each).output for each in self._old()]
        await in_thread(lambda: _each_file(old, Path.unlink))
        return name

    async def renew(self) -> None:
        """The files of commands that run stay, however long ago these wrote to them."""
        running = [each.output for each in self._jobs.values() if each.runs]
        await in_thread(lambda: _each_file(running, os.utime))

    def get(self, name: str, thread: str) -> Background:
        """Raises ToolError when there is no such job in this thread."""
        background = self._known().get(name)
        if background is None or background.thread != thread:
            own = [each for each, job in self._jobs.items() if job.thread == thread]
            raise ToolError(
                f"no background command {name!r}; there is {', '.join(own) if own else 'none'}"
            )
        return background

    async def close(self) -> None:
        """Ends all of them; call it when the daemon stops."""
        jobs = [each.job for each in self._jobs.values() if each.job is not None]
        for job in jobs:
            job.stop("leave")
        for job in jobs:
            await job.close()

    def _known(self) -> dict[str, Background]:
        """The oldest first."""
        if not self._found:
            self._found = True
            paths = self._folder.glob("*/bash_*.thread")
            notes = {int(match[1]): path for path in paths if (match := _NAME.fullmatch(path.stem))}
            for number, note in sorted(notes.items()):
                self._count = number
                with suppress(OSError, UnicodeDecodeError):
                    thread = note.read_text(encoding="utf-8")
                    self._jobs[note.stem] = Background(thread, note.with_suffix(".txt"), None)
        return self._jobs

    def _old(self) -> list[str]:
        """Ended ones beyond the bounds."""
        old: list[str] = []
        ended = [(name, each) for name, each in self._jobs.items() if not each.runs]
        size = 0
        for number, (name, each) in enumerate(reversed(ended)):
            with suppress(OSError):
                size += each.output.stat().st_size
            if number >= _MOST_ENDED or size > _MOST_OUTPUT:
                old.append(name)
        return old


def _each_file(outputs: Sequence[Path], work: Callable[[Path], None]) -> None:
    """Whatever there is of a command."""
    for output in outputs:
        for end in (".thread", ".txt", ".txt.part", ".txt.end"):
            with suppress(OSError):
                work(output.with_suffix(end))


def has_scheduler(workbench: Workbench) -> bool:
    """Whether there is a clock to make jobs for."""
    return workbench.cron is not None


def scheduler_of(workbench: Workbench) -> JobTools:
    """Raises ConfigError: ``has_scheduler`` was not asked."""
    if workbench.cron is None:
        raise ConfigError("tools: there is no clock to make jobs for")
    return workbench.cron


async def caller(door: JobTools, context: CallContext) -> tuple[By, Address | None]:
    """On whose behalf the turn acts, and where it is."""
    place = await door.place(context.thread)
    account = place.account if place is not None else ""
    person = "owner" if context.role == "owner" else context.person
    return By(person, account, everything=context.role in ("owner", "admin")), place


def has_memory(workbench: Workbench) -> bool:
    """Whether there is one to write to."""
    return workbench.memory is not None


def memory_of(workbench: Workbench) -> Memory:
    """Raises ConfigError: ``has_memory`` was not asked."""
    if workbench.memory is None:
        raise ConfigError("tools: there is no memory")
    return workbench.memory


class MemoryDoor:
    """How the model's tools come to the memory, for whom and with whose words."""

    def __init__(self, memory: Memory, bench: Workbench) -> None:
        self.memory = memory
        self._place = bench.place

    def closed(self, context: CallContext) -> str:
        """Why nothing may be changed; empty: it may."""
        if context.role == "guest":
            return "guests have no memory here"
        return "plan mode: nothing is remembered or forgotten" if context.mode == "plan" else ""

    async def scopes(self, context: CallContext) -> tuple[Scope, ...]:
        place = await self._there(context)
        viewer = Viewer(context.person, context.role, context.private, place, context.cwd)
        return await asyncio.to_thread(self.memory.scopes, viewer)

    async def said(self, context: CallContext) -> Said:
        """Whose words a note is. What a webhook brings was said by nobody here."""
        place = await self._there(context)
        where = f"{place.channel}:{place.chat}" if place is not None else ""
        outside = {context.person} if context.person.startswith("hook:") else set[str]()
        return Said(context.person, where, context.taint | outside)

    async def proposed(
        self, proposal: Proposal, context: CallContext
    ) -> tuple[str, tuple[Outbound, ...]]:
        """What the model is told of it, and the people."""
        number = proposal.number
        origin = proposal.origin
        line = (
            f"Proposal {number} ({origin.title}) waits for a word of yours, because words of"
            f" {origin.why} are in this conversation: `/memory show {number}`, then `/memory accept"
            f" {number}` or `/memory reject {number}`."
        )
        place = await self._there(context)
        posts = (Outbound(place, line),) if place is not None and place.channel != "house" else ()
        return f"Not done yet, only proposed. {line}", posts

    async def _there(self, context: CallContext) -> Address | None:
        return await self._place(context.thread) if self._place is not None else None
