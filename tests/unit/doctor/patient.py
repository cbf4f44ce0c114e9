"""A healthy ohmo, and what each test takes away from it."""

from __future__ import annotations

import functools
import os
import tempfile
from collections.abc import Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from ohmo.ambient import inert
from ohmo.config.channels import RawChannel
from ohmo.config.home import Home
from ohmo.database.migrations import MIGRATIONS
from ohmo.doctor.check import Facts, Kept, Machine
from ohmo.doctor.examination import survey
from ohmo.sandbox.walls import Standing as Walls
from ohmo.service.protocol import Standing
from ohmo.setup.answers import AGENTS, SOUL, USER
from ohmo.storefile.archive import make_backup
from ohmo.storefile.recovery import create

TOKEN = f"123456:{'A' * 35}"
CONFIG = """\
profile: default
profiles:
  default: {provider: openai, base_url: "http://127.0.0.1:1", models: [fake-1], fallback: [second]}
  second: {provider: anthropic, base_url: "http://127.0.0.1:2", api_key: env:SECOND_KEY, models: [fake-2]}
workspace: @WORK
permissions: {allow: ["Bash(git status:*)"]}
owner: ["telegram:1"]
cron: {timezone: Europe/Berlin}
web_search: {provider: searxng, url: "http://127.0.0.1:3"}
images: {model: picture-1, base_url: "http://127.0.0.1:4"}
channels:
  telegram: {enabled: true, groups: open}
"""
CHANNEL = {"state": "connected", "last_event": None, "last_delivery": None, "detail": ""}


@functools.cache
def empty_store() -> bytes:
    """A new store's file."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ohmo.db"
        create(path, inert, MIGRATIONS)
        return path.read_bytes()


class Patient:
    """Everything is right until a test changes it. ``status`` None: no daemon runs; else what the
    daemon says."""

    def __init__(self, folder: Path) -> None:
        self.home = Home(folder / "home")
        self.work = folder / "work"
        self.home.prepare()
        self.work.mkdir()
        self.environ: dict[str, str] = {
            "HOME": str(folder),
            "OHMO_HOME": str(self.home.root),
            "TELEGRAM_TOKEN": TOKEN,
            "OPENAI_API_KEY": "key-1",
            "SECOND_KEY": "key-2",
        }
        self.now = datetime.now(UTC)
        self.machine: dict[str, Any] = {
            "python": (3, 12),
            "encoding": "utf-8",
            "has_program": lambda name: True,
            "has_module": lambda name: True,
            "room": lambda path: (10 * 2**30, 10**6),
            "open_files": lambda: 1024,
            "mounts": lambda: "",
            "memory": lambda: "MemAvailable: 9000000 kB\n",
            "port_is_free": lambda host, port: True,
            "user": os.geteuid(),
            "may_write": lambda path: True,
            "may_read": lambda path: True,
            "memory_share": lambda: None,
            "walls": lambda config, environ: Walls("bubblewrap", tried=60),
        }
        self.status: dict[str, Any] | None = {
            "ready": True,
            "version": "",
            "warnings": [],
            "model": "fake-1",
            "provider": "openai",
            "turns_parked": 0,
            "channels": {"telegram": dict(CHANNEL), "web": dict(CHANNEL)},
        }
        self.deaf = False  # somebody holds the home and does not answer
        self.kept: Kept | None = Kept(
            "background process", installed=True, standing=Standing("running", 4711)
        )
        self.upgrade_interrupted = False
        self.broken: tuple[str, ...] = ()
        self.raw: list[RawChannel] = []  # channels beside those of the file
        self.write("config.yaml", CONFIG.replace("@WORK", str(self.work)))
        for name, text in (("SOUL.md", SOUL), ("USER.md", USER), ("AGENTS.md", AGENTS)):
            self.write(name, text)
        self.write(self.home.database.name, empty_store())
        make_backup(self.home.root, self.home.database, self.home.backups, self.now)

    def write(self, name: str, text: str | bytes, *, age: timedelta = timedelta(0)) -> Path:
        path = self.home.root / name
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        path.write_bytes(text if isinstance(text, bytes) else text.encode())
        path.chmod(0o600)
        if age:
            then = (self.now - age).timestamp()
            os.utime(path, (then, then))
        return path

    def config(self, old: str, new: str) -> None:
        text = self.home.config.read_text()
        assert old in text
        self.write("config.yaml", text.replace(old, new))

    def facts(self) -> Facts:
        def ask(path: str) -> dict[str, Any] | None:
            return None if self.deaf else self.status

        if self.status is not None and not self.status["version"]:
            self.status["version"] = survey(self.environ, ask).version
        found = survey(self.environ, ask, machine=Machine(**self.machine), now=self.now)
        if found.config is not None and self.raw:
            found = replace(
                found, config=replace(found.config, channels=(*found.config.channels, *self.raw))
            )
        return replace(
            found,
            holder="4711" if self.status is not None else None,
            broken=self.broken,
            patience=20.0,
            kept=self.kept,
            upgrade_interrupted=self.upgrade_interrupted,
        )


def channel(patient: Patient, name: str, **fields: object) -> None:
    assert patient.status is not None
    channels: Mapping[str, Any] = patient.status["channels"]
    channels[name].update(fields)
