"""A home with secrets, an agent's home inside it, a workspace with a few traps."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import pytest

from ohmo.contracts.messages import ToolCall
from ohmo.contracts.store import Grant
from ohmo.contracts.tool import CallContext, Footprint
from ohmo.permissions.paths import SensitivePaths
from ohmo.permissions.policy import Policy
from ohmo.permissions.rules import rule_set
from ohmo.permissions.ruling import Ruling
from ohmo.permissions.shell import Shell

Mode = Literal["default", "plan", "full_auto"]
Role = Literal["guest", "user", "admin", "owner"]


@dataclass(frozen=True)
class House:
    home: Path
    work: Path
    sensitive: SensitivePaths
    shell: Shell

    def policy(self, allow: Sequence[str] = (), ask: Sequence[str] = (), deny: Sequence[str] = ()) -> Policy:
        places = {"WORKSPACE": str(self.work), "HOME": str(self.home)}
        return Policy(rule_set(allow, ask, deny, places), self.sensitive, self.shell, self.work)

    def context(self, mode: Mode = "default", role: Role = "owner", person: str = "ada") -> CallContext:
        return CallContext("t", "t.1", "thread", person, self.work, time.monotonic() + 100, mode, role, "session-1", lambda _: None)

    def bash(
        self,
        command: str,
        mode: Mode = "default",
        role: Role = "owner",
        *,
        allow: Sequence[str] = (),
        ask: Sequence[str] = (),
        deny: Sequence[str] = (),
        grants: Sequence[Grant] = (),
    ) -> Ruling:
        script = self.shell.parse(command, self.work)
        footprint = Footprint(script.reads, script.writes, (), command, "none" if script.read_only else "once")
        call = ToolCall("t.1", "Bash", {"command": command}, "")
        return self.policy(allow, ask, deny).rule(call, footprint, self.context(mode, role), grants)


@pytest.fixture
def house(tmp_path: Path) -> House:
    home, work = tmp_path / "home" / "ada", tmp_path / "home" / "ada" / "work"
    for name in (
        ".ssh/id_rsa",
        ".ssh/config",
        ".aws/credentials",
        ".netrc",
        ".kube/config",
        ".ohmo/config.yaml",
        ".ohmo/ohmo.db",
        ".ohmo/run/token",
    ):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("secret\n")
    for name in ("a.py", "notes.txt", "private/diary.txt", "public/hello.txt", "src/b.py"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("x = 1\n")
    (work / "link").symlink_to(home / ".ssh")
    (work / "innocent.txt").symlink_to(home / ".netrc")
    (work / "up").symlink_to(home)
    return House(home, work, SensitivePaths(home, home / ".ohmo"), Shell(home))


Judge = Callable[..., Ruling]
