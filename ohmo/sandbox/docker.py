"""Containers of an engine that speaks Docker's API: an image for the system, the places of the cage
mounted into it.

A container is made for one cage and is one command's alone while that runs, so its limits are
the command's, and whatever the command left is ended by ending everything inside. It is kept for
the next command of the same cage: an exec takes a fifth of the time of a start. Its first process
reads from a connection that we hold, so however the daemon dies, the engine ends the container and
all in it."""

from __future__ import annotations

import asyncio
import hashlib
import importlib.util
import json
import os
import re
import secrets
import shutil
import socket
import sys
import tempfile
from collections.abc import AsyncGenerator
from contextlib import ExitStack, asynccontextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, cast

from channels.record import record
from ohmo.contracts.sandbox import Cage, Launch
from ohmo.processes.keeper import COLUMNS, ROWS
from ohmo.sandbox.docker_exec import ask, code_of, pieces, prepared, started
from ohmo.sandbox.docker_settings import profile, settings
from ohmo.sandbox.limits import temporary
from ohmo.sandbox.places import Way, kept, mounts
from ohmo.sandbox.walls import SYSTEM, SYSTEM_STATE

if TYPE_CHECKING:
    import docker

#: Built from deploy/sandbox; nothing here ever pulls one.
IMAGE = "ohmo-sandbox"
_IDLE = 300.0  # seconds that a container waits for the next command of its cage
_SPARE = 8  # of them at most
_ROOT = str(Path(__file__).parents[2])
_BOOT = (
    "import sys; sys.path.append(sys.argv[1]); from ohmo.sandbox.docker_exec import main; main()"
)
# Three words for each place: its device and number ("": whatever was put over it), and its name,
# as it is and as mountinfo has it. A mount goes when somebody outside puts another file there.
_CHECK = """
was=$PATH; PATH=/usr/bin:/bin
at=$'\\n'$(cut -d' ' -f5 /proc/self/mountinfo)$'\\n'
until [ "$1" = -- ]; do
  [[ $at == *$'\\n'"$3"$'\\n'* && ( -z $1 || $1 == "$(stat -c %d:%i -- "$2")" ) ]] || {
    echo "no cage: $2 was exchanged" >&2; exit 126; }
  shift 3
done
shift; PATH=$was
"""
# A shell that traps a signal ignores it until its command has ended; its own words are nobody's.
# How many the kernel has killed for their memory is told by control groups of both versions.
_AROUND = f"""{_CHECK}
killed() {{
  while read -r name number; do [ "$name" != oom_kill ] || echo "$number"; done \\
    < /sys/fs/cgroup/memory.events || while read -r name number; do
      [ "$name" != oom_kill ] || echo "$number"; done < /sys/fs/cgroup/memory/memory.oom_control
}}
trap : TERM INT HUP
too_much=$1; shift
exec {{err}}>&2 2>/dev/null
[ ! -t 1 ] || PATH=/usr/bin:/bin stty rows {ROWS} cols {COLUMNS} <&1
before=$(killed)
"$@" 2>&"$err" {{err}}>&-
code=$?
kill -KILL -1
[ "$(killed)" = "$before" ] || echo "$too_much" >&"$err"
exit "$code"
"""
_SWEEP = f"""
kill -KILL -1
find /tmp /dev/shm -xdev -mindepth 1 -type d -exec chmod u+rwx {{}} + 2>/dev/null
find /tmp /dev/shm -xdev -mindepth 1 -delete 2>/dev/null
for each in /tmp /dev/shm; do
  # what lies there on another device is a place of the cage
  find "$each" -xdev -mindepth 1 ! -type d -printf '%D\n' |
    grep -qxF "$(stat -c %d "$each")" && exit 1
done
[ -z "$(find /dev -xdev -type f -print -quit; ls -A /dev/mqueue)" ] || exit 1
for each in msg sem shm; do [ "$(wc -l < /proc/sysvipc/$each)" = 1 ] || exit 1; done
{_CHECK}"""


def why_not(engine: str) -> str:
    """In words why there can be none, as far as that is known without trying; "": nothing known.
    ``engine``: $DOCKER_HOST."""
    if importlib.util.find_spec("docker") is None:
        return "its library is not installed (pip install 'ohmo[docker]')"
    path = _socket(engine)
    if not path:
        return f"DOCKER_HOST is {engine}; folders can be mounted only by an engine on this machine"
    return "" if os.path.exists(path) else f"there is no engine at {path}"  # noqa: PTH110


def _socket(engine: str) -> str:
    """Its path; "": it is none of this machine."""
    scheme, _, path = (engine or "unix:///var/run/docker.sock").partition("://")
    return path if scheme == "unix" else ""


@record
class _Plan:
    """``key``: the same for cages in which everything is the same, also what lies there now.
    ``checked``: words for ``_CHECK``."""

    key: str
    mounts: tuple[tuple[Way, Path], ...]
    checked: tuple[str, ...]
    user: str
    cage: Cage


class _Box:
    """A container. ``life``: the connection without which it ends. ``door``: of ``Launch``."""

    def __init__(self, key: str, name: str, life: socket.socket, door: Path | None) -> None:
        self.key = key
        self.name = name
        self.door = door
        self._life = life
        self.swept: asyncio.Future[bool] | None = None

    @property
    def there(self) -> bool:
        try:
            return bool(self._life.recv(1, socket.MSG_PEEK | socket.MSG_DONTWAIT))
        except BlockingIOError:
            return True
        except OSError:
            return False

    def close(self) -> None:
        with suppress(OSError):
            self._life.shutdown(socket.SHUT_RDWR)
        self._life.close()
        if self.door is not None:
            shutil.rmtree(self.door, ignore_errors=True)


class Docker:
    """``image``: its name, or one with its digest. ``house``: $OHMO_HOME, which tells our
    containers from those of another ohmo. ``engine``: $DOCKER_HOST, "" for the usual place."""

    name: Literal["docker"] = "docker"

    def __init__(self, image: str, house: str, engine: str) -> None:
        self._image = image
        self._root = Path(house)
        self._doors = self._root / "run" / "doors"
        self._house = hashlib.sha256(house.encode()).hexdigest()[:16]
        self._engine = _socket(engine)
        self._client: docker.DockerClient | None = None
        self._filter = ""
        self._podman = False
        self._connecting = asyncio.Lock()
        self._spare: list[_Box] = []

    @asynccontextmanager
    async def launch(self, argv: tuple[str, ...], cwd: Path, cage: Cage) -> AsyncGenerator[Launch]:
        """Raises OSError."""
        plan = await asyncio.to_thread(_planned, cage)
        box = await self._box(plan)
        try:
            env_fd = os.memfd_create("environment")
            boot = (sys.executable, "-I", "-S", "-c", _BOOT, _ROOT)
            client = (*boot, str(env_fd), self._engine, box.name)
            too_much = f"it took more than the {cage.memory >> 20} MiB of sandbox.memory"
            inside = ("/bin/bash", "--norc", "--noprofile", "-p", "-c", _AROUND, "sandbox")
            words = (*client, plan.user, str(cwd), *inside, *plan.checked, "--", too_much, *argv)
            env = temporary("/tmp")  # noqa: S108 - the container's own
            try:
                yield Launch(words, (env_fd,), env=env, within=env_fd, door=box.door)
            finally:
                os.close(env_fd)
        finally:
            self._give_back(box, plan)

    async def _box(self, plan: _Plan) -> _Box:
        while box := next((box for box in self._spare if box.key == plan.key), None):
            self._spare.remove(box)
            if (box.swept is None or await box.swept) and box.there:
                return box
            box.close()
        async with self._connecting:
            if self._client is None:
                self._client = await asyncio.to_thread(self._connected)
        box = await asyncio.to_thread(self._made, self._client, plan)
        # Before anything of a command is there, whose environment may name what is loaded first.
        if not await asyncio.to_thread(self._sweep, box, plan):
            box.close()
            raise OSError("no cage: a place of it was exchanged; run it again")
        return box

    def _give_back(self, box: _Box, plan: _Plan) -> None:
        box.swept = asyncio.ensure_future(asyncio.to_thread(self._sweep, box, plan))
        self._spare.append(box)
        for old in self._spare[:-_SPARE]:
            self._thrown(old)
        asyncio.get_running_loop().call_later(_IDLE, self._idle, box, box.swept)

    def _idle(self, box: _Box, since: asyncio.Future[bool]) -> None:
        if box.swept is since:
            self._thrown(box)

    def _thrown(self, box: _Box) -> None:
        if box in self._spare:
            self._spare.remove(box)
            box.close()

    def _sweep(self, box: _Box, plan: _Plan) -> bool:
        """Whether the next may have it. What the command left is ended in any case."""
        try:
            words = ["/bin/bash", "--norc", "--noprofile", "-p", "-c", _SWEEP, "sandbox"]
            words += [*plan.checked, "--"]
            swept = prepared(self._engine, box.name, words, User=plan.user)
            rest, connection = started(self._engine, swept)
            with connection:
                for _ in pieces(rest, connection):
                    pass
            return code_of(self._engine, swept) == 0
        except (OSError, ValueError, LookupError):
            box.close()
            return False

    def _connected(self) -> docker.DockerClient:
        """And what a dead daemon left is taken away. Raises OSError."""
        import docker
        from docker.errors import DockerException

        try:
            client = docker.DockerClient(f"unix://{self._engine}", version="auto", timeout=20)
            ours: dict[str, str | list[str] | bool] = {"label": f"ohmo.house={self._house}"}
            for left in client.containers.list(all=True, filters=ours, ignore_removed=True):
                labels = cast("dict[str, str]", left.labels)
                if not Path("/proc", labels.get("ohmo.pid", "none")).exists():
                    with suppress(DockerException):
                        left.remove(force=True)
            for door in self._doors.iterdir() if self._doors.is_dir() else ():
                if not Path("/proc", door.name.partition("-")[0]).exists():
                    shutil.rmtree(door, ignore_errors=True)
            self._filter = self._filter_for(client)
        except (DockerException, OSError) as error:
            raise OSError(f"the engine at {self._engine} does not answer: {error}") from None
        return client

    def _filter_for(self, client: Any) -> str:
        """As the engine takes it: Docker the text, Podman the name of a file. Raises OSError."""
        components = cast("list[dict[str, str]]", client.version().get("Components") or [])
        self._podman = any(each.get("Name") == "Podman Engine" for each in components)
        if not self._podman:
            return profile()
        file = self._root / "run" / "sandbox-seccomp.json"
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        file.write_text(profile(), encoding="ascii")
        return str(file)

    def _made(self, client: docker.DockerClient, plan: _Plan) -> _Box:
        """Raises OSError."""
        from docker.errors import DockerException, ImageNotFound

        name = f"ohmo-sandbox-{plan.key[:12]}-{secrets.token_hex(3)}"
        labels = {"ohmo.house": self._house, "ohmo.pid": str(os.getpid())}

        def remove() -> None:
            with suppress(DockerException):  # what did not start is gone by itself
                made.remove(force=True)

        try:
            with ExitStack() as held:
                door = self._door(held) if plan.cage.network == "names" else None
                more = (plan.cage, plan.mounts, door, self._filter)
                made: Any = client.containers.create(
                    self._image, name=name, labels=labels, **settings(*more, podman=self._podman)
                )
                held.callback(remove)
                target = f"/containers/{made.id}/attach?stream=1&stdin=1"
                status, rest, life = ask(self._engine, "POST", target)
                if status not in (101, 200):
                    raise OSError(rest.decode("utf-8", "replace"))
                box = _Box(plan.key, name, life, door)
                held.callback(box.close)
                made.start()
                held.pop_all()
        except ImageNotFound:
            how = "docker build -t ohmo-sandbox deploy/sandbox in ohmo's repository"
            how = how if self._image == IMAGE else f"docker pull {self._image}"
            raise OSError(f"there is no image {self._image} ({how})") from None
        except DockerException as error:
            told = getattr(error, "explanation", None) or error
            raise OSError(f"no container: {str(told).strip()[:500]}") from None
        return box

    def _door(self, held: ExitStack) -> Path:
        """A folder for one container: in a common one, a command could be before another at its
        door. Whose process is dead tells its name."""
        self._doors.mkdir(mode=0o700, parents=True, exist_ok=True)
        door = Path(tempfile.mkdtemp(prefix=f"{os.getpid()}-", dir=self._doors))
        held.callback(shutil.rmtree, door, ignore_errors=True)
        door.chmod(0o711)  # whoever the container runs as
        return door


def _planned(cage: Cage) -> _Plan:
    """Looks at the disk."""
    # The system is the image's, its names too. A socket could be the house's, which cannot see who
    # asks: what runs in a container does not descend from it.
    system = {Path("/etc/resolv.conf").resolve()}
    reads = [
        path
        for path in cage.read
        if path in cage.named or not (path in system or _of_system(path) or path.is_socket())
    ]
    cage = replace(cage, read=tuple(reads))
    with ExitStack() as held:
        found = list(mounts(cage, kept(cage, held)))
    hidden = (path for path in cage.hide if _of_system(path) and path.exists())
    found.extend(("hide", path) for path in hidden)
    there: dict[tuple[Way, Path], str] = {}
    for way, path in found:
        with suppress(OSError):
            look = path.lstat()
            there[way, path] = f"{look.st_dev}:{look.st_ino}"
    checked: list[str] = []
    for (way, path), number in there.items():
        if way == "hide" or path in cage.named or any(each in path.parents for each in cage.write):
            checked += ["" if way == "hide" else number, str(path), _escaped(path)]
    user = _user(cage)
    seen = [(way, str(path), number) for (way, path), number in there.items()]
    same = [seen, checked, cage.network, cage.memory, cage.cpus, cage.pids, user]
    key = hashlib.sha256(json.dumps(same).encode()).hexdigest()
    return _Plan(key, tuple(there), tuple(checked), user, cage)


def _of_system(path: Path) -> bool:
    return any(path == each or each in path.parents for each in map(Path, (*SYSTEM, *SYSTEM_STATE)))


def _escaped(path: Path) -> str:
    """As in /proc/self/mountinfo, proc_pid_mountinfo(5)."""
    return re.sub(r"[ \t\n\\]", lambda found: f"\\{ord(found[0]):03o}", str(path))


def _user(cage: Cage) -> str:
    """Ours; of root, whoever the workspace belongs to: the files made there are to be theirs. Where
    that is root as well, it is a root who may nothing that its files do not allow."""
    if os.geteuid() != 0:
        return f"{os.geteuid()}:{os.getegid()}"
    look = cage.write[0].stat()
    return f"{look.st_uid}:{look.st_gid}"
