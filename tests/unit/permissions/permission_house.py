"""A house to judge calls in: homes, workspace, policy."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from ohmo.contracts.messages import ToolCall
from ohmo.contracts.outbox import Grant
from ohmo.contracts.tool import CallContext, Footprint
from ohmo.permissions.policy import Policy
from ohmo.permissions.rules import Ruling, rule_set
from ohmo.permissions.sensitive_paths import SensitivePaths
from ohmo.shell.parsing import Shell
from ohmo.shell.reading import reads_only
from tests.makers import call_context

Mode = Literal["default", "plan", "full_auto"]
Role = Literal["guest", "user", "admin", "owner"]


def judged_by(*policies: Policy) -> Callable[[CallContext], Sequence[Policy]]:
    """What a gate asks: always these, the present one first."""
    return lambda _: policies


@dataclass(frozen=True)
class House:
    home: Path
    work: Path
    sensitive: SensitivePaths
    shell: Shell

    def policy(
        self, allow: Sequence[str] = (), ask: Sequence[str] = (), deny: Sequence[str] = ()
    ) -> Policy:
        places = {"WORKSPACE": str(self.work), "HOME": str(self.home)}
        return Policy(rule_set(allow, ask, deny, places), self.sensitive, self.shell, self.work)

    def context(
        self, mode: Mode = "default", role: Role = "owner", person: str = "ada"
    ) -> CallContext:
        return call_context(
            self.work, person=person, mode=mode, role=role, session="session-1", media="place"
        )

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
        footprint = Footprint(
            script.reads, script.writes, (), command, "none" if reads_only(script) else "once"
        )
        call = ToolCall("t.1", "Bash", {"command": command}, "")
        return self.policy(allow, ask, deny).rule(call, footprint, self.context(mode, role), grants)
