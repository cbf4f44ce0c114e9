"""A conversation outlives the moment between two lives of the daemon; a command that meets nobody
says so at once."""

from __future__ import annotations

import threading
from collections.abc import Generator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from socketserver import UnixStreamServer

import pytest

from ohmo.cli.client import Client, NotRunning


class Handler(BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        self.send_response(200)
        self.end_headers()
        self.wfile.write(b'{"ok": true}')

    def address_string(self) -> str:
        return "unix"

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a test reads its own output."""


@contextmanager
def life(path: Path) -> Generator[None]:
    with UnixStreamServer(str(path), Handler) as server:
        serving = threading.Thread(target=server.serve_forever, args=(0.01,))
        serving.start()
        try:
            yield
        finally:
            server.shutdown()
            serving.join()
            path.unlink()


def test_between_two_lives_of_the_daemon_a_conversation_waits(tmp_path: Path) -> None:
    path, client = tmp_path / "s", Client(path=tmp_path / "s", patience=20.0)
    with life(path):
        assert client.get("/")["ok"]
    found: list[object] = []
    asking = threading.Thread(target=lambda: found.append(client.get("/")))
    asking.start()
    with life(path):
        asking.join(20)
    assert found == [{"ok": True}]


def test_who_never_met_the_daemon_or_has_no_patience_hears_at_once_that_nobody_is_there(
    tmp_path: Path,
) -> None:
    path = tmp_path / "s"
    with pytest.raises(NotRunning, match="start it with"):
        Client(path=path, patience=1e9).get("/")
    client = Client(path=path)
    with life(path):
        client.get("/")
    with pytest.raises(NotRunning, match="start it with"):
        client.get("/")
