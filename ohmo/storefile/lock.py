"""One instance per home, and whatever else only one process may be: kept by the kernel, a lock dies
with its process, whatever kills it."""

from __future__ import annotations

import contextlib
import errno
import fcntl
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from ohmo.contracts.errors import ConfigError, HomeTaken

_NETWORK = {
    "nfs",
    "nfs4",
    "cifs",
    "smb3",
    "smbfs",
    "afs",
    "ceph",
    "lustre",
    "beegfs",
    "gpfs",
    "glusterfs",
    "ncpfs",
    "fuse.sshfs",
    "fuse.glusterfs",
    "fuse.ceph",
    "fuse.s3fs",
    "fuse.rclone",
    "fuse.davfs2",
}
# space, tab, line feed and backslash; every other letter stands as it is
# no link is followed, and nobody waits for the other end of a pipe
_LOOKING = os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
_HOLDING = os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NONBLOCK | os.O_NOFOLLOW
_ESCAPED = re.compile(r"\\([0-7]{3})")
# another start may help
_PASSING = (errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT)


def network_file_system(path: Path, mountinfo: str) -> str | None:
    """The type of the network file system that ``path`` (absolute) lies on; None: a local one.

    ``mountinfo``: the text of /proc/self/mountinfo (proc_pid_mountinfo(5)); of nested mounts the
    deepest counts, of equal ones the last."""
    best, kind = -1, ""
    for line in mountinfo.splitlines():
        fields, _, rest = line.partition(" - ")
        parts = fields.split(" ")
        if len(parts) < 5 or not rest:
            continue
        name = _ESCAPED.sub(lambda match: chr(int(match[1], 8)), parts[4])
        point = Path(name)
        depth = len(point.parts)
        if depth >= best and (path == point or point in path.parents):
            best = depth
            kind = rest.split(" ")[0]
    return kind if kind in _NETWORK else None


def refuse_network_file_system(home: Path) -> None:
    """Raises ConfigError: there neither flock nor SQLite's shared memory can be trusted."""
    try:
        mountinfo = Path("/proc/self/mountinfo").read_text(
            encoding="utf-8", errors="surrogateescape"
        )
    except OSError:
        return  # not Linux: flock and SQLite decide
    if kind := network_file_system(home.resolve(), mountinfo):
        raise ConfigError(
            f"{home}: is on a network file system ({kind}); set OHMO_HOME to a folder on a local"
            " disk, or use store.url postgresql://"
        )


def take(descriptor: int, sleep: Callable[[float], object] = time.sleep) -> bool:
    """The lock of an open file, until that is closed. False: another process owns it, and goes on
    to after 70 ms. Those that only look (``is_held``) share it for a moment, which on a loaded
    machine may be long: they are waited for, up to two seconds."""
    graces = iter((0.02, 0.05))
    for _ in range(100):
        if _locked(descriptor, fcntl.LOCK_EX):
            return True
        if _locked(descriptor, fcntl.LOCK_SH):  # nobody owns it
            fcntl.flock(descriptor, fcntl.LOCK_UN)
            sleep(0.02)
            continue
        grace = next(graces, None)
        if grace is None:
            return False
        sleep(grace)
    return False


def _locked(descriptor: int, kind: int) -> bool:
    try:
        fcntl.flock(descriptor, kind | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


@contextlib.contextmanager
def hold_home(home: Path, sleep: Callable[[float], object] = time.sleep) -> Generator[None]:
    """Own ``home`` while inside. Raises HomeTaken with the pid of the first; ConfigError on a
    network file system."""
    home.mkdir(parents=True, exist_ok=True, mode=0o700)
    refuse_network_file_system(home)
    lock = home / "lock"
    try:
        descriptor = os.open(lock, _HOLDING, 0o600)  # whoever holds it writes into it
    except OSError as error:
        if error.errno in _PASSING:
            raise
        raise ConfigError(
            f"{lock}: cannot be used as a lock ({error.strerror}); move it away, ohmo makes a"
            " new one"
        ) from error
    try:
        if not take(descriptor, sleep):
            pid = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            raise HomeTaken(
                f"{home}: another ohmo (pid {pid}) owns this home; stop it, or choose another"
                " OHMO_HOME"
            )
        os.ftruncate(descriptor, 0)
        os.pwrite(descriptor, f"{os.getpid()}\n".encode(), 0)
        yield
    finally:
        # the file stays: removing it would let two processes lock two files of one name
        os.close(descriptor)


def is_held(lock: Path, *, unclear: bool) -> bool:
    """Whether somebody owns this lock file at this moment. Looking shares it: two who look do not
    take each other for its owner. ``unclear``: the answer for one that is there and cannot be
    looked at."""
    try:
        descriptor = os.open(lock, _LOOKING)
    except FileNotFoundError:
        return False
    except OSError:
        return unclear
    try:
        fcntl.flock(descriptor, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return unclear
    else:
        return False
    finally:
        os.close(descriptor)


def holder(lock: Path) -> int | None:
    """The process that owns this lock file and wrote its number into it; None: nobody does, it did
    not write one, or it cannot be read."""
    if not is_held(lock, unclear=False):
        return None
    try:
        pid = int(lock.read_text(encoding="ascii"))
    except (OSError, ValueError):
        return None
    return pid if pid > 0 else None  # 1: of a container


_PREFIX, _BUSY = ".backup-", "busy"
_AGE = 3_600.0  # seconds after which one without a ``busy`` is no longer one that begins


@contextmanager
def staging_dir(folder: Path) -> Generator[Path]:
    """An empty folder below ``folder``, only for its owner. Raises OSError."""
    with tempfile.TemporaryDirectory(prefix=_PREFIX, dir=folder) as name:
        made = Path(name)
        inside = made / "work"
        busy = os.open(made / _BUSY, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(busy, fcntl.LOCK_EX)  # dies with its process, whatever kills it
            inside.mkdir()
            yield inside
        finally:
            # ``busy`` goes last: what a kill leaves here is still found
            shutil.rmtree(inside, ignore_errors=True)
            os.close(busy)


def sweep(folder: Path) -> int:
    """Removes the workrooms of processes that are gone; returns how many. They may hold copies of
    secrets. Blocking; raises nothing."""
    gone = 0
    with suppress(OSError):  # a folder that cannot be looked at holds nobody up
        for path in folder.glob(f"{_PREFIX}*"):
            with suppress(OSError):
                _remove(path)
                gone += 1
    return gone


def _remove(path: Path) -> None:
    """Raises OSError: somebody works in it, or it cannot be removed."""
    try:
        busy = os.open(path / _BUSY, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        if time.time() - path.stat().st_mtime < _AGE:
            raise
        shutil.rmtree(path)
        return
    try:
        fcntl.flock(busy, fcntl.LOCK_EX | fcntl.LOCK_NB)
        with suppress(FileNotFoundError):
            shutil.rmtree(path / "work")
        shutil.rmtree(path)
    finally:
        os.close(busy)
