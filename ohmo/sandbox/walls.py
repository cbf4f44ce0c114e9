"""The cages of this house: which backend holds here, found once, and what a command may reach."""

from __future__ import annotations

import asyncio
import math
import os
import shutil
import time
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Literal, cast

from channels.record import record
from ohmo.contracts.sandbox import Backend, Cage, Launch, Names, Sandbox
from ohmo.contracts.tool import Opened
from ohmo.discovery import load
from ohmo.sandbox.places import Hiding
from ohmo.sandbox.proxy import Named, Proxy

if TYPE_CHECKING:
    from collections.abc import Awaitable

#: What of the system can be read, as far as it is there.
SYSTEM = ("/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/opt", "/nix")
SYSTEM_STATE = ("/var/lib/dpkg", "/var/lib/ca-certificates", "/sys/devices/system/cpu")
_HOME = (".gitconfig", ".config/git/config", ".config/git/ignore")
#: Of the home: where people keep programs, and nothing but programs.
_TOOLS = (
    *(".asdf", ".bun/bin", ".cargo/bin", ".cargo/env", ".deno/bin", ".local/bin", ".local/lib"),
    *(".local/pipx", ".local/share/mise", ".local/share/pipx", ".local/share/uv/python"),
    *(".local/share/uv/tools", ".nvm", ".pyenv", ".rbenv", ".rustup", ".sdkman", ".volta"),
    # what they fetched: beside it lie credentials, so never the whole folder
    *(".cargo/git", ".cargo/registry", ".gradle/caches", ".gradle/wrapper", ".m2/repository"),
    *(".m2/wrapper", "go/bin", "go/pkg/mod"),
)
_NOTHING = Opened()
_AGAIN, _TIMES = 60.0, 5  # seconds after a trial that took too long; how often, each twice as late
#: Of a workspace: what programs run or agents obey.
PROTECTED = (".git/hooks", ".git/config", ".git/config.worktree", ".ohmo", ".claude")
#: Of it, what git has to be able to change: read-only while words of others may lead a command.
INSTRUCTIONS = ("AGENTS.md", "CLAUDE.md")


@record
class CageSettings:
    """``backend`` and the limits: as in the configuration's ``sandbox``. ``home``: of the person
    who runs the daemon, ``root``: $OHMO_HOME. ``absolute``, ``anywhere``: patterns of sensitive
    places, the latter below whatever folder. ``path``: where programs are. ``installed``: where
    ohmo itself and its interpreter are; ``image``: of containers, None: ours; ``engine``:
    $DOCKER_HOST; ``socket``: at which the daemon listens; ``began``: when this daemon did, in
    seconds of the epoch."""

    backend: Literal["auto", "bubblewrap", "landlock", "docker", "none"]
    network: Literal["ask", "on", "off"]
    memory: int
    cpus: float
    pids: int
    home: Path
    root: Path
    workspace: Path
    absolute: tuple[str, ...]
    anywhere: tuple[str, ...]
    path: str
    installed: tuple[Path, ...] = ()
    image: str | None = None
    engine: str = ""
    socket: Callable[[], Path] = Path
    began: float = 0.0


@record
class Standing:
    """Which backend holds. ``why``: one line for each that does not. ``fell``: one was wanted and
    none holds. ``tried``: ways out of it that were tried and led nowhere. ``late``: a trial took
    too long, so it is no last word. ``nameless``: why names of the network cannot be told apart in
    it; "": they can."""

    backend: Backend
    why: tuple[str, ...] = ()
    fell: bool = False
    tried: int = 0
    late: bool = False
    nameless: str = ""

    @property
    def note(self) -> str:
        """What people have to know of the network in it."""
        if not self.nameless:
            return ""
        return (
            f"; it cannot tell names of the network apart ({self.nameless}): your yes to one is a"
            " yes to all of it"
        )

    def lacking(self, *, wanted: bool) -> str:
        """What people have to be told; "": nothing. ``wanted``: the preset ``full`` rests on it."""
        if self.backend == "none" and wanted:
            why = "; ".join(self.why) or "as sandbox.backend says"
            return (
                f"no sandbox holds here ({why}), so permissions.preset: full is not in force: what"
                " may change something is asked, as with balanced"
            )
        return self.words if self.fell else ""

    @property
    def words(self) -> str:
        """One line for people."""
        if self.backend != "none":
            rest = "".join(f"; not {each}" for each in self.why)
            how = f"{self.tried} ways out of it lead nowhere{self.note}"
            return f"sandbox: {self.backend}, {how}{rest}"
        if not self.fell:
            why = "; ".join(self.why) or "as sandbox.backend says"
            return f"sandbox: none, {why}: commands, hooks and MCP servers run without walls"
        return (
            f"no sandbox holds here ({'; '.join(self.why)}): what may change something is asked,"
            " whatever rules and mode say, and hooks and MCP servers run without walls;"
            " sandbox.backend: none accepts that there is none"
        )


class Walls:
    """Carries out ``Sandbox`` with the backend that holds. Nothing is tried, or imported, before
    somebody asks."""

    name: Backend = "none"

    def __init__(self, settings: CageSettings, proxy: Proxy | None = None) -> None:
        """``proxy``: None: where names would be told apart, there is no network."""
        self._settings = settings
        self._proxy = proxy
        self._scratch = settings.root / "scratch"
        self._hiding = Hiding(settings.absolute, settings.anywhere)
        self._system = tuple(map(Path, filter(os.path.lexists, (*SYSTEM, *SYSTEM_STATE))))
        self._finding: asyncio.Task[Standing] | None = None
        self._sandbox: Named | None = None
        self._standing: Standing | None = None
        self._trials = 0
        self._due = 0.0  # of the next trial

    @property
    def workspace(self) -> str:
        """Without links."""
        return os.path.realpath(self._settings.workspace)

    @property
    def network(self) -> Literal["ask", "on", "off"]:
        return self._settings.network

    @property
    def asks_network(self) -> bool:
        """Whether a command has it only when it is allowed to this very call."""
        return self._settings.network == "ask" and self._settings.backend != "none"

    @property
    def tells_names(self) -> bool:
        """Whether what is allowed the network may be given a part of it; not where that is not
        known."""
        return self.holds and self._standing is not None and not self._standing.nameless

    @property
    def known(self) -> Standing | None:
        """None: not found yet."""
        return self._standing

    @property
    def holds(self) -> bool:
        """Whether it is known that one does."""
        return self._standing is not None and self._standing.backend != "none"

    def told(self, *, wanted: bool) -> tuple[str, str, str]:
        """The backend, "" while it is not known; ``Standing.note``; ``Standing.lacking``."""
        if (standing := self._standing) is None:
            return "", "", ""
        return standing.backend, standing.note, standing.lacking(wanted=wanted)

    async def begin(self) -> None:
        """With the daemon, whose last life may have left temporary files."""
        await asyncio.to_thread(self._clean)
        await self.standing()

    async def settled(self) -> None:
        """When somebody knows."""
        if self._standing is None:
            await self.standing()

    async def standing(self) -> Standing:
        """Finds it when nobody has, and again where a trial took too long."""
        if self._finding is None or self._overdue():
            self._due = math.inf  # one at a time
            self._finding = asyncio.create_task(self._find(), name="sandbox-probe")
        return await asyncio.shield(self._finding)

    async def cage(
        self,
        cwd: Path,
        read: tuple[Path, ...] = (),
        write: tuple[Path, ...] = (),
        *,
        opened: Opened = _NOTHING,
    ) -> Cage | None:
        """For a command that works in ``cwd``; None: there is none (``standing`` says whether
        anybody knows). ``read``, ``write``: what else it may; ``opened``: what was allowed to it
        beyond."""
        standing = await self.standing()
        if standing.backend == "none":
            return None
        return await asyncio.to_thread(self.planned, cwd, read, write, opened=opened)

    def planned(
        self,
        cwd: Path,
        read: tuple[Path, ...] = (),
        write: tuple[Path, ...] = (),
        *,
        opened: Opened = _NOTHING,
    ) -> Cage:
        """Looks at the disk."""
        settings = self._settings
        home, root = _real(settings.home), _real(settings.root)
        workspace, here = _real(settings.workspace), _real(cwd)
        above = {here, *here.parents}
        places = [workspace]
        # A folder that holds the home, ohmo or the system is no place of work.
        much = {home, *home.parents, root, *root.parents, *map(Path, SYSTEM)}
        if (
            workspace not in above
            and here not in much
            and not _below_any(here, (root, *self._system))
        ):
            places.append(here)
        if here in workspace.parents and here in places:
            places = [here]
        allowed = opened.network and settings.network == "ask"
        # Names are never all of it: where they cannot be told apart any more, it is nothing.
        part = allowed and bool(opened.names) and self.tells_names
        whole = settings.network == "on" or (allowed and not opened.names)
        whole = whole and not opened.offline
        network = "on" if whole else "names" if part and not opened.offline else "off"
        reads = [*self._system, *_existing(home, _HOME), *map(_real, read), *opened.reads]
        reads += [*self._programs(home, root)]
        closed = (*PROTECTED, *INSTRUCTIONS) if opened.foreign else PROTECTED
        within = [each for each in (here, *here.parents) if workspace in each.parents]
        for folder in (workspace, *within, *places):
            reads += [folder / name for name in closed]
        if whole:
            reads.append(_real(Path("/etc/resolv.conf")))
        if opened.house:
            socket = settings.socket()
            reads += [root / "run" / "ohmo.sock.path", _real(socket)]
        return Cage(
            read=tuple(dict.fromkeys(reads)),
            write=tuple(dict.fromkeys((*places, *map(_real, write), *opened.writes))),
            hide=tuple(dict.fromkeys((root, *self._hiding(places)))),
            named=(*opened.reads, *opened.writes),
            network=network,
            names=Names(opened.names, opened.barred) if part else Names(),
            doors=opened.house,
            memory=settings.memory,
            cpus=settings.cpus,
            pids=settings.pids,
        )

    def hidden(self, folders: Iterable[Path]) -> Iterator[Path]:
        """At the top of them, as of a workspace."""
        return self._hiding(folders)

    @asynccontextmanager
    async def launch(self, argv: tuple[str, ...], cwd: Path, cage: Cage) -> AsyncGenerator[Launch]:
        """Raises OSError."""
        await self.standing()
        if self._sandbox is None:
            raise OSError("there is no sandbox")
        async with AsyncExitStack() as held:
            launch = await held.enter_async_context(self._sandbox.launch(argv, cwd, cage))
            yield replace(launch, env={**launch.env, "PATH": self._path(cage)})

    def _path(self, cage: Cage) -> str:
        """Without folders that are not there: a shell stops at a program it may not open."""
        there = (*cage.read, *cage.write)
        folders = dict.fromkeys(filter(None, self._settings.path.split(":")))
        return ":".join(each for each in folders if _below_any(_real(Path(each)), there))

    def _programs(self, home: Path, root: Path) -> Iterator[Path]:
        """Folders of programs that are no part of the system, and ohmo itself."""
        yield from (_real(home / name) for name in _TOOLS if os.path.lexists(f"{home}/{name}"))
        found = list(map(_real, self._settings.installed))
        above = {home, *home.parents, root, *root.parents}
        for folder in sorted(set(filter(os.path.isdir, self._settings.path.split(":")))):
            real = _real(Path(folder))
            if real.name in ("bin", "sbin", "shims") and not _below_any(real, self._system):
                # a shim runs what lies beside its folder, a program often what lies in lib there
                found.append(real.parent if real.name == "shims" else real)
                if real.name == "bin" and real.parent not in above:
                    found.append(real.parent / "lib")
        yield from (each for each in found if each not in above)

    def _overdue(self) -> bool:
        standing = self._standing
        late = standing is not None and standing.late and self._trials < _TIMES
        return late and time.monotonic() >= self._due

    def _clean(self) -> None:
        """What lies there from before this daemon: its own commands may have begun."""
        for name in os.listdir(self._scratch) if self._scratch.is_dir() else ():  # noqa: PTH208
            folder = self._scratch / name
            if folder.lstat().st_mtime < self._settings.began:
                shutil.rmtree(folder, ignore_errors=True)

    async def _find(self) -> Standing:
        self._standing = standing = await self._found()
        self._due = time.monotonic() + _AGAIN * 2**self._trials
        self._trials += 1
        return standing

    async def _found(self) -> Standing:
        settings = self._settings
        if settings.backend == "none":
            return Standing("none")
        backends = cast(
            "Callable[[CageSettings, str, Path], tuple[list[Sandbox], list[str]]]",
            load("ohmo.sandbox.probing:backends"),
        )
        holds = cast(
            "Callable[[Sandbox, Cage], Awaitable[tuple[str, int]]]",
            load("ohmo.sandbox.probing:holds"),
        )
        nameless = cast(
            "Callable[[Sandbox, Cage], Awaitable[str]]", load("ohmo.sandbox.probing:nameless")
        )
        cage = await asyncio.to_thread(self.planned, settings.workspace)
        # A workspace that nobody made yet says nothing of the walls.
        cage = replace(cage, write=tuple(filter(os.path.exists, cage.write)))
        # Not what commands may write to: a bwrap from there would be theirs.
        folders = filter(os.path.isabs, settings.path.split(":"))
        path = ":".join(one for one in folders if not _below_any(_real(Path(one)), cage.write))
        able, why = await asyncio.to_thread(backends, settings, path, self._scratch)
        late = False
        for sandbox in able:
            try:
                problem, tried = await holds(sandbox, cage)
            except OSError as error:
                late = late or isinstance(error, TimeoutError)
                problem, tried = f"it cannot be tried: {error}", 0
            if not problem:
                self._sandbox = named = Named(sandbox, self._proxy)
                why_not = await nameless(named, cage)
                return Standing(sandbox.name, tuple(why), tried=tried, nameless=why_not)
            why.append(f"{sandbox.name}: {problem}")
        return Standing("none", tuple(why), fell=True, late=late)


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _existing(home: Path, names: tuple[str, ...]) -> Iterator[Path]:
    yield from (home / name for name in names if (home / name).is_file())


def _below_any(path: Path, roots: tuple[Path, ...]) -> bool:
    return any(root == path or root in path.parents for root in roots)
