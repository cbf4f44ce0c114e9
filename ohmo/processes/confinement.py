"""What the keeper's child gives up between fork and exec: resources, files (Landlock) and system
calls (seccomp). The keeper runs without packages, so the few calls are made by number."""

from __future__ import annotations

import ctypes
import errno
import os
import resource
import struct
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

_PR_SET_SECCOMP, _FILTER, _PR_SET_SECUREBITS, _PR_SET_NO_NEW_PRIVS = 22, 2, 28, 38  # prctl(2)
_NO_ROOT = 0b11  # SECBIT_NOROOT, and locked: root is nobody at an exec, capabilities(7)
_CREATE, _ADD, _RESTRICT, _OPENAT2 = 444, 445, 446, 437  # the same on every architecture
_BENEATH = 1  # LANDLOCK_RULE_PATH_BENEATH
_NO_LINKS = 0x04 | 0x02  # RESOLVE_NO_SYMLINKS, RESOLVE_NO_MAGICLINKS: openat2(2)
_O_PATH = 0o10000000
# linux/landlock.h: execute, write_file, read_file, read_dir, ..., and by ABI refer (2), truncate
# (3), ioctl_dev (5)
ALL_FILES = (1 << 16) - 1
READ = 0b1101
OF_FILES = 1 << 0 | 1 << 1 | 1 << 2 | 1 << 14 | 1 << 15  # what a rule about no folder may give
_SCOPES = 0b11  # abstract unix sockets and signals: ABI 6
NEEDED = 6
_LIBC = ctypes.CDLL(None, use_errno=True)


def landlock_abi() -> int:
    """Version of Landlock in this kernel, landlock(7); 0: there is none, or it is off."""
    return max(0, _LIBC.syscall(_CREATE, None, 0, 1))


def confine(rules: Mapping[str, Any]) -> None:
    """Never to be undone, also by what is executed then. Raises OSError: it could not be done, and
    nothing may be run."""
    libc = _LIBC
    if "cpus" in rules:
        have = sorted(os.sched_getaffinity(0))
        first = os.getpid() % len(have)
        with suppress(
            PermissionError
        ):  # a unit of systemd may forbid it (@resources), and has its own
            os.sched_setaffinity(0, [*have, *have][first : first + min(rules["cpus"], len(have))])
    for name, value in rules.get("rlimits", {}).items():
        _, hard = resource.getrlimit(kind := getattr(resource, f"RLIMIT_{name}"))
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        resource.setrlimit(kind, (most, most))
    if not {"landlock", "seccomp"} & set(rules):
        return
    _must(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "no new privileges")
    if "landlock" in rules:
        _landlock(libc, rules["landlock"])
        _no_capabilities(libc)
    if "seccomp" in rules:
        code = bytes.fromhex(rules["seccomp"])
        kept = ctypes.create_string_buffer(code, len(code))
        filters = struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(kept))
        _must(libc.prctl(_PR_SET_SECCOMP, _FILTER, filters, 0, 0), "seccomp")


class Guard:
    """What all processes of a command may take together, looked at from outside: the limits of the
    kernel, setrlimit(2), count for one process or for the whole user."""

    PAUSE = 0.1  # seconds between two looks

    def __init__(self, rules: Mapping[str, Any]) -> None:
        self._pids = rules.get("pids")
        self._memory = rules.get("memory")
        self._page = resource.getpagesize()
        self._next = time.monotonic() + self.PAUSE

    def too_much(self, pids: Callable[[], Sequence[int]]) -> str:
        """In words what is exceeded; "" when nothing is, or a look was taken a moment ago."""
        now = time.monotonic()
        if now < self._next:
            return ""
        self._next = now + self.PAUSE
        return self._exceeded(pids())

    def _exceeded(self, pids: Sequence[int]) -> str:
        if self._pids is not None and len(pids) > self._pids:
            return f"it had more than the {self._pids} processes of sandbox.pids"
        if self._memory is not None and sum(map(self._resident, pids)) > self._memory:
            return f"it took more than the {self._memory >> 20} MiB of sandbox.memory"
        return ""

    def _resident(self, pid: int) -> int:
        """Bytes, proc_pid_statm(5); shared ones not counted."""
        try:
            with open(f"/proc/{pid}/statm", "rb") as file:  # noqa: PTH123
                words = file.read().split()
            return (int(words[1]) - int(words[2])) * self._page
        except (OSError, IndexError):
            return 0


def _no_capabilities(libc: ctypes.CDLL) -> None:
    """Also for root, who would get them back at the exec, capabilities(7)."""
    if os.geteuid() == 0:
        _must(libc.prctl(_PR_SET_SECUREBITS, _NO_ROOT, 0, 0, 0), "capabilities")
    header = struct.pack("II", 0x20080522, 0)  # _LINUX_CAPABILITY_VERSION_3, this process
    held = ctypes.create_string_buffer(24)
    _must(libc.capget(header, held), "capabilities")
    if held.raw == bytes(24):
        return  # and a unit may forbid to set them
    _must(libc.capset(header, bytes(24)), "capabilities")


def _landlock(libc: ctypes.CDLL, allowed: Sequence[tuple[str, int]]) -> None:
    """``allowed``: paths without links, and the rights below them."""
    attributes = struct.pack("QQQ", ALL_FILES, 0, _SCOPES)
    ruleset = _must(libc.syscall(_CREATE, attributes, len(attributes), 0), "landlock")
    how = struct.pack("QQQ", _O_PATH | os.O_CLOEXEC, 0, _NO_LINKS)
    size = len(how)
    for path, rights in allowed:
        fd = libc.syscall(_OPENAT2, -100, os.fsencode(path), how, size)
        if fd < 0 and ctypes.get_errno() == errno.ENOSYS:
            fd = _stepped(path)
        if fd < 0:
            if ctypes.get_errno() in (errno.ENOENT, errno.ELOOP, errno.ENOTDIR, errno.EACCES):
                continue  # not there, or exchanged since: then it is not allowed either
            _must(fd, path)
        folder = os.fstat(fd).st_mode & 0o170000 == 0o040000
        given = rights if folder else rights & OF_FILES
        rule = struct.pack("=Qi", given, fd)
        _must(libc.syscall(_ADD, ruleset, _BENEATH, rule, 0), path)
        os.close(fd)
    _must(libc.syscall(_RESTRICT, ruleset, 0), "landlock")
    os.close(ruleset)


def _stepped(path: str) -> int:
    """As openat2(2) with ``_NO_LINKS``, which a unit with RestrictSUIDSGID= does not have."""
    fd = os.open("/", _O_PATH | os.O_CLOEXEC)
    for name in filter(None, path.split("/")):
        above = fd
        try:
            fd = os.open(name, _O_PATH | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
        except OSError as error:
            ctypes.set_errno(error.errno or errno.EIO)
            return -1
        finally:
            os.close(above)
    if os.fstat(fd).st_mode & 0o170000 == 0o120000:  # the link itself
        os.close(fd)
        ctypes.set_errno(errno.ELOOP)
        return -1
    return fd


def _must(answer: int, what: str) -> int:
    if answer < 0:
        number = ctypes.get_errno()
        raise OSError(number, f"no cage: {what}: {os.strerror(number)}")
    return answer
