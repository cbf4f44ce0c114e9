"""Who may come in over TCP: a token for programs, a one-time link and a signed cookie for a
browser."""

from __future__ import annotations

import hashlib
import hmac
import re
import secrets
import threading
import time
from collections.abc import Callable
from pathlib import Path

from channels.durable import write_whole
from ohmo.contracts.errors import ConfigError

LINK_LIFE = 600.0  # seconds
COOKIE_LIFE = 30 * 86_400  # seconds
_LINKS = 32  # open links at a time; the oldest is forgotten
_TOKEN = re.compile(r"[0-9a-zA-Z_-]{32,128}")


class Keys:
    """The token lives in one file (0600) and stays over restarts, so that a page that was open
    stays logged in; deleting the file logs everybody out.

    ``now``: wall clock in seconds, ``monotonic``: for the links. ``ended``: the file of cookies
    that were logged out; None: remembered in memory."""

    def __init__(
        self,
        token: str,
        *,
        now: Callable[[], float] = time.time,
        monotonic: Callable[[], float] = time.monotonic,
        ended: Path | None = None,
    ) -> None:
        self.token = token
        self._ended_file = ended
        self._ended = _read_ended(ended, now()) if ended is not None else {}
        self._ending = threading.Lock()
        self._now = now
        self._monotonic = monotonic
        self._links: dict[str, float] = {}

    def new_link(self) -> str:
        """A code that opens once, within ten minutes."""
        code = secrets.token_urlsafe(32)
        self._links[_digest(code)] = self._monotonic() + LINK_LIFE
        while len(self._links) > _LINKS:
            del self._links[next(iter(self._links))]
        return code

    def link(self, origin: str) -> str:
        """``http://127.0.0.1:7717/login?code=…``"""
        return f"{origin}/login?code={self.new_link()}"

    def redeem(self, code: str) -> str | None:
        """A cookie for a code that was not used yet; None otherwise."""
        until = self._links.pop(_digest(code), None)
        if until is None or self._monotonic() > until:
            return None
        body = f"{int(self._now()) + COOKIE_LIFE}.{secrets.token_hex(8)}"
        return f"{body}.{self._sign(body)}"

    def is_cookie(self, cookie: str) -> bool:
        body, _, signature = cookie.rpartition(".")
        until = body.partition(".")[0]
        return (
            hmac.compare_digest(_bytes(signature), self._sign(body).encode())
            and until.isascii()
            and until.isdigit()
            and int(until) > self._now()
            and _digest(body) not in self._ended
        )

    def end(self, cookie: str) -> None:
        """Nobody comes in with this cookie any more, also not with a copy of it. From any thread.
        Raises OSError: that could not be written down, so it is still good, and can be ended
        again."""
        body = cookie.rpartition(".")[0]
        with self._ending:
            if not self.is_cookie(cookie):
                return
            ended = {digest: until for digest, until in self._ended.items() if until > self._now()}
            ended[_digest(body)] = int(body.partition(".")[0])
            if self._ended_file is not None:
                write_whole(
                    self._ended_file,
                    "".join(f"{until} {digest}\n" for digest, until in ended.items()),
                )
            self._ended = ended

    def is_token(self, token: str) -> bool:
        return hmac.compare_digest(_bytes(token), self.token.encode())

    def _sign(self, body: str) -> str:
        return hmac.new(self.token.encode(), b"cookie " + _bytes(body), hashlib.sha256).hexdigest()


def load_token(path: Path) -> str:
    """The token in ``path``, made when there is none. Raises ConfigError when the file can be read
    by others and cannot be mended."""
    try:
        path.chmod(0o600)
        token = path.read_text(encoding="ascii", errors="replace").strip()
        if _TOKEN.fullmatch(token):
            return token
    except FileNotFoundError:
        pass
    except OSError as error:
        raise ConfigError(
            f"{path}: {error.strerror}; remove the file, the next start makes a new one"
        ) from error
    token = f"ohmo_{secrets.token_urlsafe(32)}"  # a shape by which it is known where it leaks
    write_whole(path, token + "\n")
    return token


def _read_ended(path: Path, now: float) -> dict[str, int]:
    """Digest of each cookie that was logged out, and until when it would have been good. A file
    that cannot be read is an empty one."""
    try:
        lines = path.read_text(encoding="ascii", errors="replace").splitlines()
    except OSError:
        return {}
    found = (line.partition(" ") for line in lines)
    return {
        digest: int(until)
        for until, _, digest in found
        if until.isascii() and until.isdigit() and len(until) < 19 and int(until) > now
    }


def _digest(code: str) -> str:
    return hashlib.sha256(_bytes(code)).hexdigest()


def _bytes(text: str) -> bytes:
    """Headers may hold any bytes; what is no UTF-8 comes as lone surrogates."""
    return text.encode("utf-8", "surrogatepass")
