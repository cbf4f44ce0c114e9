"""A box in which commands really run: the machine read-only and without network, rights or other processes; one folder
is writable. What the commands did is told by strace."""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Iterable, Mapping
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
_CALLS = ",".join(f"?{name}" for name in f"{CHANGES} {OPENS} {STARTS}".split())
TRACER = ["strace", "-f", "-y", "-v", "-qq", "-s", "4096", "--seccomp-bpf", "-e", f"trace={_CALLS}", "-e", "signal=none"]


@dataclass(frozen=True)
class Job:
    command: str
    cwd: Path
    env: Mapping[str, str]


@dataclass(frozen=True)
class Ran:
    """``code`` -1: it did not end in time and was ended; -2: nobody could start it. ``argv``: what stubs noted of their words."""

    job: Job
    code: int
    out: str
    trace: str
    argv: str


class Box:
    """``root``: the folder that is writable; ``sealed``: not even that one. ``workers``: how many commands run at a time; more than one only where they
    are not expected to change anything."""

    def __init__(self, root: Path, workers: int = 1, *, sealed: bool = False) -> None:
        self._root, self._workers, self._bind = root, workers, "--ro-bind" if sealed else "--bind"

    def __enter__(self) -> Box:
        here = [self._bind, str(self._root), str(self._root)]
        driver = [sys.executable, "-S", str(Path(__file__).with_name("driver.py")), str(self._workers)]
        walls = ["--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc", *here]
        alone = ["--unshare-all", "--cap-drop", "ALL", "--die-with-parent", "--new-session"]
        self._process = subprocess.Popen(
            ["bwrap", *walls, *alone, *driver],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={"TMPDIR": "/dev/shm"} | _path(),
        )
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, where: TracebackType | None) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()  # the driver ends by itself; killed too early, bwrap leaves it behind
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._process.stdout.close()

    def run(self, jobs: Iterable[Job], *, traced: bool = True, log: bool = False, seconds: float = 3.0) -> list[Ran]:
        """In the order of ``jobs``. ``log``: with ``OHMO_ARGV``, a file that is read afterwards."""
        listed = list(jobs)
        told: dict[int, dict[str, Any]] = {}
        orders = (self._order(at, job, traced, log, seconds) for at, job in enumerate(listed))
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        sent = 0
        for order in orders:
            self._process.stdin.write(order)
            self._process.stdin.flush()
            sent += 1
            if sent - len(told) >= 4 * self._workers:
                self._take(told)
        while len(told) < sent:
            self._take(told)
        return [Ran(job, one["code"], one["out"], one["trace"], one["argv"]) for job, one in zip(listed, _sorted(told), strict=True)]

    def _take(self, told: dict[int, dict[str, Any]]) -> None:
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        assert line, f"the box has died with {self._process.wait()}"
        one = json.loads(line)
        told[one["id"]] = one

    def _order(self, at: int, job: Job, traced: bool, log: bool, seconds: float) -> str:
        env = dict(job.env)
        order: dict[str, Any] = {"id": at, "command": job.command, "cwd": str(job.cwd), "env": env, "seconds": seconds}
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
