"""A real Synapse on a free loopback port: SQLite in a temp folder, no federation, no rate limits;
one for the whole test session."""

from __future__ import annotations

import atexit
import functools
import hashlib
import hmac
import importlib.util
import json
import os
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
import urllib.request
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.children import die_with_parent
from tests.platforms.door import held_port

SERVER_NAME = "ohmo.test"
NO_LIMIT = {"per_second": 1_000_000, "burst_count": 1_000_000}


def installed() -> bool:
    return importlib.util.find_spec("synapse") is not None


@dataclass(frozen=True, slots=True)
class Account:
    user: str
    token: str
    device: str
    password: str


class Synapse:
    """The homeserver process. ``url`` speaks the client-server API."""

    def __init__(
        self, folder: Path, holding: socket.socket, process: subprocess.Popen[bytes], secret: str
    ) -> None:
        """``holding``: its port, as long as it lives."""
        self.folder = folder
        self.url = f"http://127.0.0.1:{holding.getsockname()[1]}"
        self._holding = holding
        self.process = process
        self._secret = secret

    @classmethod
    def start(cls, within: float = 240.0) -> Synapse:
        """Start one and wait until it says READY (sd_notify); TimeoutError after ``within``
        seconds."""
        folder = Path(tempfile.mkdtemp(prefix="synapse-"))
        holding = held_port()
        port = int(holding.getsockname()[1])
        secret = secrets.token_hex(16)
        (folder / "homeserver.yaml").write_text(json.dumps(_configuration(folder, port, secret)))
        (folder / "log.yaml").write_text(json.dumps(_logging(folder)))
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as notify:
            notify.bind(str(folder / "notify"))
            notify.settimeout(within)
            process = subprocess.Popen(
                [
                    sys.executable,
                    "-m",
                    "synapse.app.homeserver",
                    "-c",
                    str(folder / "homeserver.yaml"),
                ],
                cwd=folder,
                env={**os.environ, "NOTIFY_SOCKET": str(folder / "notify")},
                stdin=subprocess.DEVNULL,
                stdout=(folder / "stdout").open("wb"),
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent,  # noqa: PLW1509 - no threads run yet where it matters: between fork and exec
            )
            server = cls(folder, holding, process, secret)
            try:
                while b"READY=1" not in notify.recv(4096):
                    pass
            except TimeoutError:
                said = (folder / "stdout").read_text(errors="replace")[-2000:]
                server.stop()
                raise TimeoutError(f"Synapse was not ready after {within} s:\n{said}") from None
        return server

    def stop(self) -> None:
        """At once: all it has is thrown away, and who ends waits for nobody long."""
        self.process.kill()
        self.process.wait(10)
        self._holding.close()
        shutil.rmtree(self.folder, ignore_errors=True)

    def register(self, name: str) -> Account:
        """A fresh user; its device lives as long as the account."""
        nonce = self._admin()["nonce"]
        password = secrets.token_hex(8)
        mac = hmac.new(
            self._secret.encode(),
            b"\0".join(x.encode() for x in (nonce, name, password, "notadmin")),
            hashlib.sha1,
        )
        made = self._admin(
            {
                "nonce": nonce,
                "username": name,
                "displayname": name.title(),
                "password": password,
                "admin": False,
                "mac": mac.hexdigest(),
            }
        )
        return Account(made["user_id"], made["access_token"], made["device_id"], password)

    def _admin(self, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """The shared-secret registration of Synapse's admin API: GET gives a nonce, POST
        registers."""
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            f"{self.url}/_synapse/admin/v1/register", data, {"Content-Type": "application/json"}
        )
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
            request, timeout=30
        ) as response:
            return json.load(response)


@functools.cache
def shared() -> Synapse:
    """The one Synapse of this test session; ends with the process."""
    server = Synapse.start()
    atexit.register(server.stop)
    return server


def _configuration(folder: Path, port: int, secret: str) -> dict[str, Any]:
    limits = """
        message registration admin_redaction third_party_invite media_create presence
        delayed_event_mgmt
    """.split()
    return {
        "server_name": SERVER_NAME,
        "listeners": [
            {
                "port": port,
                "bind_addresses": ["127.0.0.1"],
                "type": "http",
                "tls": False,
                "resources": [{"names": ["client", "media"]}],
            }
        ],
        "database": {"name": "sqlite3", "args": {"database": str(folder / "homeserver.db")}},
        "media_store_path": str(folder / "media"),
        "signing_key_path": str(folder / "signing.key"),
        "pid_file": str(folder / "pid"),
        "log_config": str(folder / "log.yaml"),
        "registration_shared_secret": secret,
        "macaroon_secret_key": secrets.token_hex(16),
        "form_secret": secrets.token_hex(16),
        "report_stats": False,
        "trusted_key_servers": [],
        "suppress_key_server_warning": True,
        "federation_domain_whitelist": [],
        "bcrypt_rounds": 4,
        "presence": {"enabled": False},
        "enable_metrics": False,
        "url_preview_enabled": False,
        "encryption_enabled_by_default_for_room_type": "off",
        "max_upload_size": "20M",
        **{f"rc_{name}": NO_LIMIT for name in limits},
        "rc_login": {"address": NO_LIMIT, "account": NO_LIMIT, "failed_attempts": NO_LIMIT},
        "rc_joins": {"local": NO_LIMIT, "remote": NO_LIMIT},
        "rc_invites": {"per_room": NO_LIMIT, "per_user": NO_LIMIT, "per_issuer": NO_LIMIT},
        "rc_room_creation": NO_LIMIT,
    }


def _logging(folder: Path) -> dict[str, Any]:
    return {
        "version": 1,
        "disable_existing_loggers": False,
        "handlers": {
            "file": {"class": "logging.FileHandler", "filename": str(folder / "homeserver.log")}
        },
        "root": {"level": "WARNING", "handlers": ["file"]},
    }
