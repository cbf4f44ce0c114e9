"""A box in which commands really run: the machine read-only and without network, rights or other
processes; one folder is writable. What the commands did is told by strace."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import select
import subprocess
import sys
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any

CHANGES = """creat truncate rename renameat renameat2 unlink unlinkat rmdir mkdir mkdirat link linkat symlink symlinkat
    mknod mknodat chmod fchmod fchmodat fchmodat2 chown lchown fchown fchownat utime utimes utimensat futimesat setxattr
    lsetxattr fsetxattr removexattr lremovexattr fremovexattr mount umount2 move_mount pivot_root chroot sethostname
    setdomainname settimeofday clock_settime swapon swapoff reboot init_module finit_module kexec_load ptrace connect bind
    process_vm_readv process_vm_writev pidfd_getfd unshare setns bpf perf_event_open keyctl add_key acct quotactl"""
OPENS = "open openat openat2"
STARTS = "execve execveat"
PATIENCE = 60.0  # seconds: many processes may share few cores
_CALLS = ",".join(f"?{name}" for name in f"{CHANGES} {OPENS} {STARTS}".split())
TRACER = [
    "strace",
    "-f",
    "-y",
    "-v",
    "-qq",
    "-s",
    "4096",
    "--seccomp-bpf",
    "-e",
    f"trace={_CALLS}",
    "-e",
    "signal=none",
]


@dataclass(frozen=True)
class Job:
    command: str
    cwd: Path
    env: Mapping[str, str]


@dataclass(frozen=True)
class Ran:
    """``code`` -1: it did not end in time and was ended; -2: nobody could start it. ``argv``: what
    stubs noted of their words."""

    job: Job
    code: int
    out: str
    trace: str
    argv: str


class Box:
    """``root``: the folder that is writable; ``sealed``: not even that one. ``workers``: how many
    commands run at a time; more than one only where they are not expected to change anything."""

    def __init__(
        self, root: Path, workers: int = 1, *, sealed: bool = False, patience: float = PATIENCE
    ) -> None:
        """``patience``: seconds beyond what a command may take."""
        self._root = root
        self._workers = workers
        self._bind = "--ro-bind" if sealed else "--bind"
        self._patience = patience

    def __enter__(self) -> Box:
        here = [self._bind, str(self._root), str(self._root)]
        driver = [
            sys.executable,
            "-S",
            str(Path(__file__).with_name("driver.py")),
            str(self._workers),
        ]
        walls = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *here]
        alone = ["--unshare-all", "--cap-drop", "ALL", "--die-with-parent", "--new-session"]
        held, self._lifeline = os.pipe()
        keeper = [sys.executable, "-S", str(Path(__file__).with_name("keeper.py")), str(held)]
        self._process = subprocess.Popen(
            [*keeper, "bwrap", *walls, *alone, *driver],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            bufsize=0,
            pass_fds=(held,),
            env={"TMPDIR": "/dev/shm"} | _path(),
        )
        os.close(held)
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._to, self._from = self._process.stdin.fileno(), self._process.stdout.fileno()
        os.set_blocking(self._to, False)
        self._said = b""
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()  # the driver ends by itself
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(0 if error is not None else 10)
        os.close(self._lifeline)
        try:
            self._process.wait(10)
        finally:
            self._process.kill()
            self._process.stdout.close()

    def run(
        self, jobs: Iterable[Job], *, traced: bool = True, log: bool = False, seconds: float = 3.0
    ) -> list[Ran]:
        """In the order of ``jobs``. ``log``: with ``OHMO_ARGV``, a file that is read afterwards.
        Raises AssertionError when there is no answer in time."""
        listed = list(jobs)
        told: dict[int, dict[str, Any]] = {}
        most = 4 * self._workers  # under way at a time: the last of them waits for three others
        within = 4 * seconds + self._patience
        for at, job in enumerate(listed):
            self._give(self._order(at, job, traced, log, seconds).encode(), within)
            if at + 1 - len(told) >= most:
                self._take(told, listed, within)
        while len(told) < len(listed):
            self._take(told, listed, within)
        return [
            Ran(job, one["code"], one["out"], one["trace"], one["argv"])
            for job, one in zip(listed, _sorted(told), strict=True)
        ]

    def _give(self, order: bytes, within: float) -> None:
        while order:
            assert select.select([], [self._to], [], within)[1], (
                f"the box takes nothing for {within:g} s"
            )
            try:
                order = order[os.write(self._to, order) :]
            except BrokenPipeError:
                return  # whoever reads next is told of its death

    def _take(self, told: dict[int, dict[str, Any]], listed: Sequence[Job], within: float) -> None:
        until = time.monotonic() + within
        while b"\n" not in self._said:
            ready = select.select([self._from], [], [], max(until - time.monotonic(), 0))[0]
            assert ready, (
                f"no answer for {within:g} s to one of"
                f" {[job.command for at, job in enumerate(listed) if at not in told][:8]}"
            )
            piece = os.read(self._from, 1 << 20)
            assert piece, f"the box has died with {self._process.wait(10)}"
            self._said += piece
        line, _, self._said = self._said.partition(b"\n")
        one = json.loads(line)
        told[one["id"]] = one

    def _order(self, at: int, job: Job, traced: bool, log: bool, seconds: float) -> str:
        env = dict(job.env)
        order: dict[str, Any] = {
            "id": at,
            "command": job.command,
            "cwd": str(job.cwd),
            "env": env,
            "seconds": seconds,
        }
        order["tracer"] = TRACER if traced else []
        if log:
            order["log"] = True
        return json.dumps(order) + "\n"


def _sorted(told: dict[int, dict[str, Any]]) -> list[dict[str, Any]]:
    return [told[at] for at in sorted(told)]


def _path() -> dict[str, str]:
    return {"PATH": os.environ.get("PATH", "/usr/bin:/bin")}


def fingerprint(root: Path) -> dict[str, str]:
    """Every path below ``root`` with its kind, rights and content."""
    found: dict[str, str] = {}
    for folder, folders, files in os.walk(root):
        for name in (*folders, *files):
            path = Path(folder, name)
            stat = path.lstat()
            content = ""
            if path.is_symlink():
                content = str(path.readlink())
            elif path.is_file():
                content = hashlib.sha256(path.read_bytes()).hexdigest()
            found[str(path.relative_to(root))] = f"{stat.st_mode:o} {content}"
    return found
