"""What would become of a call that is not made: nobody is asked, no hook runs, nothing changes."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Literal

from channels.record import record
from ohmo.contracts.errors import BadArguments
from ohmo.contracts.messages import Json, ToolCall
from ohmo.contracts.tool import Allow, CallContext, Deny, Gate, Mode, Standing, Toolbox, Verdict
from ohmo.lifecycle import outcome
from ohmo.permissions.policies import Walled


@record
class Tried:
    """``by``: the layer that decides, with its rule. ``why``: in one line; empty where it is
    allowed. ``remembers``: the rule that an answer for longer would store, empty: none is
    offered."""

    verdict: Literal["allow", "ask", "deny"]
    by: str
    why: str = ""
    remembers: str = ""


class Trial:
    """``gate``: one without hooks. ``workspace``: where calls are made that name no folder.
    ``walls``: what stands in a footprint rests on which holds. ``configured``: the mode where
    nobody chose one."""

    def __init__(
        self,
        toolbox: Toolbox,
        gate: Gate,
        workspace: Path,
        walls: Walled | None,
        configured: Callable[[], Mode],
    ) -> None:
        self._toolbox = toolbox
        self._gate = gate
        self._workspace = workspace
        self._walls = walls
        self._configured = configured

    async def __call__(
        self,
        name: str,
        arguments: str | Mapping[str, Json],
        mode: Mode | None,
        role: Standing,
        cwd: str,
    ) -> Tried:
        """``arguments``: as text the tool's first one. ``mode`` None: the configured one. Raises
        BadArguments."""
        tool = self._toolbox.tools().get(name)
        if tool is None:
            near = get_close_matches(name, self._toolbox.tools(), n=1, cutoff=0.5)
            meant = f"; did you mean {near[0]}?" if near else ""
            raise BadArguments(f"there is no tool named {name[:60]}{meant}")
        if isinstance(arguments, str):
            required = tool.schema.get("required")
            first = required[0] if isinstance(required, list) and required else ""
            if arguments and not first:
                raise BadArguments(f"{name} has no argument that has to be there; give all as JSON")
            arguments = {str(first): arguments} if arguments else {}
        folder = Path(cwd) if cwd else self._workspace
        parsed = tool.parse(arguments)
        if self._walls is not None:
            await self._walls.settled()
        # It reads the arguments and the disk, both of which may be anything.
        footprint = outcome(lambda: tool.footprint(parsed, folder))
        if isinstance(footprint, Exception):
            raise BadArguments(f"{name}: {footprint}")
        context = CallContext(
            turn="trial",
            call="trial",
            thread="",
            person="owner",
            cwd=folder,
            deadline=math.inf,
            mode=mode or self._configured(),
            role=role,
            session="",
            progress=lambda _: None,
        )
        call = ToolCall("trial", name, arguments, "")
        decision = await self._gate.judge(call, footprint, context, _nobody)
        if isinstance(decision, Allow):
            return Tried("allow", decision.layer)
        if isinstance(decision, Deny):
            return Tried("deny", decision.source, decision.reason)
        return Tried("ask", decision.layer, decision.question.why, decision.question.rule)


async def _nobody(digest: str) -> Verdict | None:
    """Has answered."""
    del digest
    return None
