"""A client of the daemon's API: HTTP over the unix socket of the home, or over TCP with a token."""

from __future__ import annotations

import http.client
import json
import socket
import time
import urllib.parse
from collections.abc import Generator, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from channels.record import record
from ohmo.cli.show import clean
from ohmo.contracts.errors import OhmoError

Json = dict[str, Any]
_RETRY = 0.1  # seconds between two tries
NOT_TEXT = "what was said is not UTF-8 text; put it into a file of the workspace, and say its name"


class NotRunning(OhmoError):
    """ohmo is not running."""


class Refused(OhmoError):
    """The daemon refused. ``status``: the HTTP code."""

    def __init__(self, message: str, status: int) -> None:
        super().__init__(message)
        self.status = status


@record
class ServerEvent:
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
        words = {name: str(value) for name, value in query.items() if value is not None}
        if words:
            path = f"{path}?{urllib.parse.urlencode(words)}"
        return self._ask("GET", path)

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

    def history(self, thread: str, since: int | None) -> Iterator[Json]:
        """What stands in a thread after ``since``, page by page."""
        while since is not None:
            page = self.get(f"/api/v1/sessions/{thread}", since=since, limit=1000)
            yield page
            since = page["next"]

    @contextmanager
    def events(self, *, thread: str, since: int) -> Generator[Iterator[ServerEvent | None]]:
        """What happens in a thread after ``since``; None is a heartbeat (every 10 s)."""
        with self._stream("/api/v1/events", thread=thread, since=str(since)) as events:
            yield events

    @contextmanager
    def all_events(self, since: str) -> Generator[Iterator[ServerEvent | None]]:
        """What happens in every thread behind the mark ``since`` ("": from now on); ``ready`` comes
        first, None is a heartbeat."""
        with self._stream("/api/v1/events", since=since) as events:
            yield events

    @contextmanager
    def log(self, *, level: str, words: str, since: str) -> Generator[Iterator[ServerEvent | None]]:
        """The log as it grows behind ``since`` (a place that ``/api/v1/logs`` told): ``log`` for
        each line; None is a heartbeat."""
        with self._stream("/api/v1/logs/events", level=level, q=words, since=since) as events:
            yield events

    @contextmanager
    def _stream(self, path: str, **query: str) -> Generator[Iterator[ServerEvent | None]]:
        with self._connection() as link:
            response = self._send(link, "GET", f"{path}?{urllib.parse.urlencode(query)}", None)
            yield _server_events(response)

    def _ask(self, method: str, path: str, body: Mapping[str, object] | None = None) -> Json:
        with self._connection() as link:
            response = self._send(link, method, path, body)
            try:
                answer: object = json.loads(response.read())
            except (ValueError, http.client.HTTPException) as error:
                raise OhmoError(
                    f"{self._where()}: the answer is not JSON; is this ohmo?"
                ) from error
        return answer if isinstance(answer, dict) else {"value": answer}  # pyright: ignore[reportUnknownVariableType]

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
            headers["Content-Type"] = "application/json"
            try:
                data = json.dumps(body, ensure_ascii=False).encode()
            except UnicodeEncodeError as error:  # bytes of a pipe or of the command line
                raise OhmoError(NOT_TEXT) from error
        until = time.monotonic() + (self._patience if self._met else 0.0)
        try:
            while True:  # again only what was certainly not heard, or only asks
                try:
                    link.request(method, path, data, headers)
                    response = link.getresponse()
                    break
                except (FileNotFoundError, ConnectionRefusedError, ConnectionResetError) as error:
                    heard = isinstance(error, ConnectionResetError) and method != "GET"
                    if heard or time.monotonic() >= until:
                        raise
                    link.close()
                    time.sleep(_RETRY)
        except (FileNotFoundError, ConnectionRefusedError) as error:
            raise NotRunning(
                f"not running (nobody answers at {self._where()}); start it with: ohmo run"
            ) from error
        except TimeoutError as error:
            raise OhmoError(
                f"{self._where()}: no answer within {self._timeout:.0f} s; see ohmo logs"
            ) from error
        except (OSError, http.client.HTTPException) as error:
            reason = getattr(error, "strerror", None) or type(error).__name__
            raise NotRunning(f"cannot reach {self._where()} ({reason})") from error
        self._met = True
        if response.status >= 400:
            line = f"the daemon answered {response.status} {response.reason}"
            with suppress(ValueError):
                answer: object = json.loads(response.read(100_000))
                if isinstance(answer, dict) and isinstance(answer.get("error"), str):  # pyright: ignore[reportUnknownMemberType]
                    line = str(answer["error"])  # pyright: ignore[reportUnknownArgumentType]
            raise Refused(line, response.status)
        return response

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


def _server_events(response: http.client.HTTPResponse) -> Iterator[ServerEvent | None]:
    kind, data, mark = "message", "", ""
    while raw := response.readline():
        line = raw.decode("utf-8", "replace").rstrip("\r\n")
        if line.startswith(":"):
            yield None
        elif not line:
            if data:
                seq = int(mark) if mark.isdigit() else None
                yield ServerEvent(kind, json.loads(data), seq, mark)
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


def text_of(step: Json) -> str:
    """What the model said in a step."""
    return "".join(block["text"] for block in step["blocks"] if block["type"] == "text")


@record
class PermissionRequest:
    """What a permission is asked for. ``argument`` and ``value``: what the call is about, when the
    card shows it whole and on one line; else empty, and only a rule for the whole tool can cover
    it. ``rule``: that would allow exactly this, but for ``hosts``, which a command's words do not
    name. ``layer``: of the gate, which asks; "" of an older daemon."""

    tool: str
    argument: str
    value: str
    rule: str
    hosts: tuple[str, ...] = ()
    layer: str = ""

    @property
    def hint(self) -> str:
        """The rule that ``--allow`` may name for it; "": none covers it."""
        if not self.tool or self.layer == "protected":
            return ""
        if self.tool == "WebFetch" and self.argument == "url":
            host = urllib.parse.urlsplit(self.value).hostname
            return f"WebFetch(domain:{host})" if host else ""
        return "" if self.layer == "taint" and self.tool != "Bash" else self.rule


def permission_request(question: Mapping[str, Any]) -> PermissionRequest:
    """Of a question as the API sends it; an older daemon tells no tool."""
    tool, about = str(question.get("tool", "")), str(question.get("about", ""))
    layer = str(question.get("layer", ""))
    if question["kind"] != "permission" or not tool:
        return PermissionRequest("", "", "", clean(question["title"])[:200])
    if not about:
        return PermissionRequest(tool, "", "", tool, layer=layer)
    value = str(question["arguments"][about])
    hosts = tuple(map(str, question["arguments"].get("hosts") or ())) if tool == "Bash" else ()
    return PermissionRequest(tool, about, value, f"{tool}({clean(value)})", hosts, layer)
