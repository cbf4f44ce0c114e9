"""What the doctor asks the machine, as values: a test brings a machine that lacks exactly one
thing."""

from __future__ import annotations

import importlib.util
import os
import resource
import shutil
import socket
import sys
import time
from collections.abc import Callable
from dataclasses import field
from pathlib import Path

from channels.record import record
from ohmo.upkeep.watches import memory_share


def _program(name: str) -> bool:
    return shutil.which(name) is not None or Path(sys.executable).with_name(name).exists()


def _module(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except (ImportError, ValueError):
        return False


def _room(path: Path) -> tuple[int, int]:
    """Bytes and file entries (inodes; -1 where there is no such count) left for us."""
    found = os.statvfs(path)
    return found.f_bavail * found.f_frsize, found.f_favail if found.f_files else -1


def _files() -> int:
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return sys.maxsize if limit == resource.RLIM_INFINITY else limit


def _text(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="surrogateescape")
    except OSError:
        return ""


def _mounts() -> str:
    return _text("/proc/self/mountinfo")


def _memory() -> str:
    return _text("/proc/meminfo")


def _may_write(path: Path) -> bool:
    return os.access(path, os.W_OK)


def _may_read(path: Path) -> bool:
    return os.access(path, os.R_OK | os.X_OK)


def _port_is_free(host: str, port: int) -> bool:
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM
        )[0]
        with socket.socket(family, kind, protocol) as wire:
            wire.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            wire.bind(address)
    except OSError:
        return False
    return True


@record
class Machine:
    """``room``: bytes and file entries left at a path. ``memory``: the text of /proc/meminfo, empty
    elsewhere than on Linux; ``memory_share``: how much of the limit of a container or a unit is
    used, None without one. ``clock``: seconds of the epoch."""

    python: tuple[int, int] = sys.version_info[:2]
    encoding: str = field(default_factory=sys.getfilesystemencoding)
    has_program: Callable[[str], bool] = _program
    has_module: Callable[[str], bool] = _module
    room: Callable[[Path], tuple[int, int]] = _room
    open_files: Callable[[], int] = _files
    mounts: Callable[[], str] = _mounts
    memory: Callable[[], str] = _memory
    port_is_free: Callable[[str, int], bool] = _port_is_free
    may_write: Callable[[Path], bool] = _may_write
    may_read: Callable[[Path], bool] = _may_read
    memory_share: Callable[[], float | None] = memory_share
    clock: Callable[[], float] = time.time
    user: int = field(default_factory=os.geteuid)
