"""Speaks to the daemon: HTTP over the unix socket of the home, or over TCP with a token."""

from __future__ import annotations

import http.client
import json
import os
import socket
import time
import urllib.parse
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from channels.record import record
from ohmo.config.home import find_home
from ohmo.contracts.errors import OhmoError

Json = dict[str, Any]
BETWEEN_LIVES = 10.0  # seconds a daemon may take to begin again with a changed configuration
_KNOCK = 0.1  # seconds between two tries
NOT_TEXT = "what was said is not UTF-8 text; put it into a file of the workspace, and say its name"


class NotRunning(OhmoError):
    """ohmo is not running."""


class Refused(OhmoError):
    """The daemon refused. ``status``: the HTTP code."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@record
class Happening:
    """One server-sent event. ``seq``: its number when it is durable; ``mark``: its id as it stands
    there, from which a reader goes on."""

    kind: str
    data: Json
    seq: int | None = None
    mark: str = ""


class _Unix(http.client.HTTPConnection):
    def __init__(self, path: Path, timeout: float) -> None:
        super().__init__("localhost", timeout=timeout)
        self._path = path

    def connect(self) -> None:
        link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        link.settimeout(self.timeout)
        try:
            link.connect(str(self._path))
        except BaseException:
            link.close()
            raise
        self.sock = link


class Client:
    """Each call is one connection. Raises NotRunning, Refused with the daemon's own line, OhmoError
    for anything else.

    ``patience``: seconds for which a daemon that answered before is waited for when its door is
    shut, as between two of its lives."""

    def __init__(
        self,
        *,
        path: Path | None = None,
        remote: str | None = None,
        token: str | None = None,
        timeout: float = 30.0,
        patience: float = 0.0,
    ) -> None:
        self._path = path
        self._remote = remote
        self._token = token
        self._timeout = timeout
        self._patience = patience
        self._met = False

    def get(self, path: str, **query: str | int | None) -> Json:
        wanted = {name: str(value) for name, value in query.items() if value is not None}
        return self._ask("GET", f"{path}?{urllib.parse.urlencode(wanted)}" if wanted else path)

    def post(self, path: str, body: Mapping[str, object]) -> Json:
        return self._ask(
            "POST", path, {name: value for name, value in body.items() if value is not None}
        )

    def delete(self, path: str) -> Json:
        return self._ask("DELETE", path)

    def probe(self, path: str) -> bool:
        """Whether ``path`` answers with 200; False also when nobody is there."""
        try:
            self.get(path)
        except (NotRunning, Refused):
            return False
        return True

    @contextmanager
    def events(self, *, thread: str, since: int) -> Generator[Iterator[Happening | None]]:
        """What happens in a thread after ``since``; None is a heartbeat (every 10 s)."""
        with self._stream("/api/v1/events", thread=thread, since=str(since)) as found:
            yield found

    @contextmanager
    def house_events(self, since: str) -> Generator[Iterator[Happening | None]]:
        """What happens in every thread behind the mark ``since`` ("": from now on); ``ready`` comes
        first, None is a heartbeat."""
        with self._stream("/api/v1/events", since=since) as found:
            yield found

    @contextmanager
    def log(self, *, level: str, words: str, since: str) -> Generator[Iterator[Happening | None]]:
        """The log as it grows behind ``since`` (a place that ``/api/v1/logs`` told): ``log`` for
        each line; None is a heartbeat."""
        with self._stream("/api/v1/logs/events", level=level, q=words, since=since) as found:
            yield found

    @contextmanager
    def _stream(self, path: str, **query: str) -> Generator[Iterator[Happening | None]]:
        with self._connection() as link:
            yield _happenings(
                self._send(link, "GET", f"{path}?{urllib.parse.urlencode(query)}", None)
            )

    def _ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Json:
        with self._connection() as link:
            response = self._send(link, method, path, body)
            try:
                found: object = json.loads(response.read())
            except (ValueError, http.client.HTTPException) as error:
                raise OhmoError(
                    f"{self._where()}: the answer is not JSON; is this ohmo?"
                ) from error
        return found if isinstance(found, dict) else {"value": found}  # pyright: ignore[reportUnknownVariableType]

    def _send(
        self,
        link: http.client.HTTPConnection,
        method: str,
        path: str,
        body: Mapping[str, object] | None,
    ) -> http.client.HTTPResponse:
        headers = {"Accept": "application/json, text/event-stream"}
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        data = None
        if body is not None:
            data, headers["Content-Type"] = _encoded(body), "application/json"
        try:
            response = self._knocked(link, method, path, data, headers)
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise NotRunning(
                f"not running (nobody answers at {self._where()}); start it with: ohmo run"
            ) from error
        except TimeoutError as error:
            raise OhmoError(
                f"{self._where()}: no answer within {self._timeout:.0f} s; see ohmo logs"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            raise NotRunning(
                f"cannot reach {self._where()}"
                f" ({getattr(error, 'strerror', None) or type(error).__name__})"
            ) from error
        self._met = True
        if response.status >= 400:
            raise Refused(_reason(response), response.status)
        return response

    def _knocked(
        self,
        link: http.client.HTTPConnection,
        method: str,
        path: str,
        data: bytes | None,
        headers: Mapping[str, str],
    ) -> http.client.HTTPResponse:
        """Again only what was certainly not heard, or only asks. Raises OSError, HTTPException."""
        until = time.monotonic() + (self._patience if self._met else 0.0)
        while True:
            try:
                link.request(method, path, data, headers)
                return link.getresponse()
            except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError) as error:
                heard = isinstance(error, ConnectionResetError) and method != "GET"
                if heard or time.monotonic() >= until:
                    raise
                link.close()
                time.sleep(_KNOCK)

    @contextmanager
    def _connection(self) -> Generator[http.client.HTTPConnection]:
        link: http.client.HTTPConnection
        if self._remote is None:
            assert self._path is not None
            link = _Unix(self._path, self._timeout)
        else:
            parts = urllib.parse.urlsplit(self._remote)
            kind = (
                http.client.HTTPSConnection
                if parts.scheme == "https"
                else http.client.HTTPConnection
            )
            link = kind(parts.hostname or "", parts.port, timeout=self._timeout)
        try:
            yield link
        finally:
            link.close()

    def _where(self) -> str:
        return self._remote or str(self._path)


def connect(
    remote: str | None,
    environ: Mapping[str, str] = os.environ,
    *,
    patience: float = 0.0,
    timeout: float = 30.0,
) -> Client:
    """The daemon of this home, or the one at ``remote`` (http or https) with the token in
    ``OHMO_TOKEN``. Raises OhmoError."""
    if remote is None:
        return Client(path=find_home(environ).socket(), patience=patience, timeout=timeout)
    parts = urllib.parse.urlsplit(remote)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise OhmoError(f"--remote {remote}: expected an address such as http://127.0.0.1:7717")
    token = environ.get("OHMO_TOKEN", "").strip()
    if not token:
        raise OhmoError(
            "--remote needs the daemon's token: put the content of its run/token into OHMO_TOKEN"
        )
    return Client(remote=remote, token=token, patience=patience, timeout=timeout)


def _encoded(body: Mapping[str, object]) -> bytes:
    try:
        return json.dumps(body, ensure_ascii=False).encode()
    except UnicodeEncodeError as error:  # bytes of a pipe or of the command line that no text has
        raise OhmoError(NOT_TEXT) from error


def _reason(response: http.client.HTTPResponse) -> str:
    body = response.read(100_000)
    try:
        found: object = json.loads(body)
    except ValueError:
        found = None
    if isinstance(found, dict) and isinstance(line := found.get("error"), str):  # pyright: ignore[reportUnknownMemberType, reportUnknownVariableType]
        return line
    return f"the daemon answered {response.status} {response.reason}"


def _happenings(response: http.client.HTTPResponse) -> Iterator[Happening | None]:
    kind, data, mark = "message", "", ""
    while raw := response.readline():
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if line.startswith(":"):
            yield None
        elif not line:
            if data:
                yield Happening(kind, json.loads(data), int(mark) if mark.isdigit() else None, mark)
            kind, data, mark = "message", "", ""
        else:
            name, _, value = line.partition(":")
            value = value.removeprefix(" ")
            if name == "event":
                kind = value
            elif name == "data":
                data += value
            elif name == "id" and value.isascii():
                mark = value
