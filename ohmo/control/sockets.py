"""Where control listens: a socket file only the owner can open, and one TCP address."""

from __future__ import annotations

import errno
import os
import shutil
import socket
import tempfile
from collections.abc import Generator
from contextlib import contextmanager, suppress
from pathlib import Path

from channels.record import record
from ohmo.contracts.errors import ConfigError

_LONGEST = 107  # bytes of a path in sockaddr_un, unix(7)


@record
class Listen:
    """``host``: an address or name to bind. ``port`` 0: a free one (tests)."""

    host: str
    port: int


def parse_listen(text: str) -> Listen:
    """``127.0.0.1:7717`` or ``[::1]:7717``. Raises ConfigError."""
    host, _, port = text.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    if not host or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise ConfigError(
            f"control.listen: {text!r} is not HOST:PORT, for example 127.0.0.1:7717; null listens"
            " on the unix socket only"
        )
    return Listen(host, int(port))


def bind_tcp(listen: Listen) -> socket.socket:
    """Raises ConfigError when the address is taken or not ours."""
    where = f"control.listen: {listen.host}:{listen.port}"
    try:
        family, kind, protocol, _, address = socket.getaddrinfo(
            listen.host, listen.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
        bound = socket.socket(family, kind, protocol)
        try:
            bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            bound.bind(address)
            bound.listen(128)
        except OSError:
            bound.close()
            raise
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            free = f"{listen.host}:{listen.port + 1 if listen.port < 65_535 else 7718}"
            raise ConfigError(
                f"{where} is taken by another program; stop it, or write another into config.yaml"
                f" or OHMO__CONTROL__LISTEN, such as {free}"
            ) from error
        raise ConfigError(
            f"{where} cannot be used ({error.strerror or error}); 127.0.0.1:7717 always can"
        ) from error
    bound.setblocking(False)
    return bound


@contextmanager
def unix_socket(run: Path, fallback: Path | None = None) -> Generator[socket.socket]:
    """``run/ohmo.sock``; when that path is too long for a socket, one under ``fallback``
    ($XDG_RUNTIME_DIR) or the folder for temporary files, its path in ``run/ohmo.sock.path``. What
    an earlier life left is removed: the caller holds the lock of the home."""
    note = run / "ohmo.sock.path"
    _forget(note)
    path = run / "ohmo.sock"
    if len(os.fsencode(path)) > _LONGEST:
        path = Path(tempfile.mkdtemp(prefix="ohmo-", dir=fallback)) / "ohmo.sock"
        note.write_text(f"{path}\n", encoding="utf-8")
    path.unlink(missing_ok=True)
    bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    before = os.umask(0o177)  # the file is never, not for a moment, open to others
    try:
        bound.bind(str(path))
    except OSError as error:
        bound.close()
        raise ConfigError(f"{path}: cannot listen there ({error.strerror})") from error
    finally:
        os.umask(before)
    bound.listen(128)
    bound.setblocking(False)
    try:
        yield bound
    finally:
        bound.close()
        path.unlink(missing_ok=True)
        _forget(note)


def find_socket(run: Path) -> Path:
    """Where the daemon of this home listens, or would."""
    try:
        return Path((run / "ohmo.sock.path").read_text(encoding="utf-8").strip())
    except FileNotFoundError:
        return run / "ohmo.sock"


def _forget(note: Path) -> None:
    """Removes the folder that a note points to, if it is one of ours."""
    if note.exists():
        folder = find_socket(note.parent).parent
        with suppress(OSError):  # a restart of the machine empties the folder for temporary files
            if folder.name.startswith("ohmo-") and folder.stat().st_uid == os.getuid():
                shutil.rmtree(folder, ignore_errors=True)
        note.unlink()
