"""Bash: one command in a session of its own, bounded in time and output, nothing left behind."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path

import structlog
from pydantic import BaseModel, ConfigDict, Field, field_validator

from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.permissions.sensitive_places import pages_of
from ohmo.processes.job import Command, Job, JobEnded, Stream, child_environment
from ohmo.processes.keeper import COLUMNS, ROWS
from ohmo.shell.hosts import endpoint, hosts_of, is_local, networked, written
from ohmo.shell.parsing import DEFAULT_PATH, Shell
from ohmo.shell.reading import environment_of, reads_only, touched
from ohmo.shell.script import Script
from ohmo.tools.inputs import PydanticTool, SafeText
from ohmo.tools.interactive_commands import waits_for_keyboard
from ohmo.tools.results import (
    ToolError,
    clipped,
    description,
    error_result,
    split_room,
    text_result,
)
from ohmo.tools.workbench import Workbench

log = structlog.get_logger("ohmo.sandbox")
#: What programs say at a wall.
AT_A_WALL = re.compile(
    rb"Read-only file system|ermission denied|No such file|not permitted|[Nn]etwork|[Rr]esolv"
    rb"|not found|not a git repository|onnect|No space left|resource busy|\bpty"
)
_CAGED = (
    "\n[it ran in a sandbox: only the system, the workspace and what a rule or a person allowed by"
    " name are there; only the workspace{} and $TMPDIR can be written to; there is no network"
    " without network: true{}]"
)
_BUT = ", but for .git/config and .git/hooks,"
_NAMED = ", and then only what its words or `hosts` name"

_MOST_REFUSED = 16  # names that the model is told of
_OPENED = (
    "call it again with these in `hosts`, and a person is asked; a rule WebFetch(domain:NAME) opens"
    " one for good"
)


class BashInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="Bash", defer_build=True)
    command: SafeText = Field(max_length=100_000)
    timeout: float | None = Field(default=None, gt=0, description="seconds")
    run_in_background: bool = False
    terminal: bool = Field(
        default=False, description="a pseudo-terminal, for what refuses to run without one"
    )
    network: bool = Field(default=False, description="it needs the network; a person is asked")
    hosts: list[SafeText] = Field(
        default=[], max_length=16, description="names it connects to, when its words do not say"
    )
    description: str | None = Field(default=None, description="what it does, in a few words")

    @field_validator("hosts")
    @classmethod
    def _names(cls, hosts: list[str]) -> list[str]:
        found = list(map(endpoint, hosts))
        for host, name in zip(hosts, found, strict=True):
            if name is None:
                raise ValueError(f"{host!r} is no host; write example.org or example.org:443")
        return [written(*name) for name in found if name is not None]


class Bash(PydanticTool):
    name = "Bash"
    input = BashInput

    def __init__(self, workbench: Workbench) -> None:
        self._bench = workbench
        self._limits = workbench.limits
        environ = workbench.environ
        self._shell = Shell(Path(environ.get("HOME", "/")), environ.get("PATH", DEFAULT_PATH))
        self.description = description(
            "Bash",
            timeout=int(self._limits.bash_timeout),
            most=int(self._limits.bash_timeout_most),
            kib=self._limits.bash_output // 1024,
            rows=ROWS,
            columns=COLUMNS,
        )

    def footprint(self, arguments: BashInput, cwd: Path) -> Footprint:
        script = self._shell.parse(arguments.command, cwd)
        written = {str(path) for path in script.writes} - {os.devnull}  # by >, by whatever program
        reads = reads_only(script) and not written and not arguments.run_in_background
        effect = "none" if reads else "once"
        touches = touched(script)
        network = self._needs_network(arguments, script)
        names = hosts_of(script) if network else ()
        said = tuple(dict.fromkeys(name for name in arguments.hosts if name not in names))
        names += said
        hosts = [each[0] for each in map(endpoint, names) if each is not None]
        return Footprint(
            reads=script.reads,
            writes=script.writes,
            command=arguments.command,
            effect=effect,
            touches=touches,
            places=(script.folders, script.named),
            asks=self._asks(changes=effect != "none"),
            network=network,
            names=names,
            said=said,
            apart=self._apart,
            hosts=tuple(dict.fromkeys(host for host in hosts if not is_local(host))),
            note=self._network_note(names) if network else "",
        )

    @property
    def _apart(self) -> bool:
        walls = self._bench.walls
        return walls is not None and walls.tells_names

    def _network_note(self, names: tuple[str, ...]) -> str:
        if not names or not self._apart:
            return "[with the network]"
        return f"[with the network: {', '.join(names)}]"

    def _asks(self, *, changes: bool) -> str:
        """Why no rule is enough."""
        known = self._bench.walls.known if self._bench.walls is not None else None
        return "no sandbox holds it here" if changes and known is not None and known.fell else ""

    def _needs_network(self, arguments: BashInput, script: Script) -> bool:
        """Where the sandbox asks before a command has it."""
        walls = self._bench.walls
        if walls is None or not walls.asks_network:
            return False
        return arguments.network or bool(arguments.hosts) or any(map(networked, script.commands))

    async def run(self, arguments: BashInput, context: CallContext) -> ToolOutput:
        try:
            self._fit(arguments, context)
            if arguments.run_in_background:

                async def start(output: Path) -> Job:
                    order = await self._caged(arguments, context, None)
                    kept = replace(order, spill=output, kept=True)
                    return await self._bench.processes.start(kept, lambda _: None)

                name = await self._bench.background.begin(context.thread, start)
                running = text_result(
                    context,
                    f"running in the background as {name}; BashOutput reads it, KillShell ends it",
                )
                tools = ("BashOutput", "KillShell")
                return replace(running, result=replace(running.result, tools=tools))
            refused: dict[str, None] = {}
            ended, limit = await self.ended(arguments, context, refused=refused.setdefault)
        except ToolError as error:
            return error_result(context, f"not run: {error}")
        except OSError as error:
            return error_result(context, f"not run: {error.strerror or error}")
        text = job_report(ended, self._limits.bash_output, limit)
        stream = ended.output.out if arguments.terminal else ended.output.err
        said = stream.head + stream.tail
        fell = ended.code != 0 or b"Read-only file system" in said  # git goes on, with code 0
        if fell and AT_A_WALL.search(said[-4_000:]):
            text += await self._wall()
        if refused:
            names = ", ".join(list(refused)[:_MOST_REFUSED])
            text += f"\n[not reached, because nobody opened it to this command: {names}; {_OPENED}]"
        made = error_result if ended.code != 0 else text_result
        output = made(context, blotted(text, context), spill=ended.spill)
        return replace(output, result=replace(output.result, unreached=tuple(refused)))

    async def ended(
        self,
        arguments: BashInput,
        context: CallContext,
        more: Mapping[str, str] | None = None,
        writes: tuple[Path, ...] = (),
        refused: Callable[[str], None] = lambda _: None,
    ) -> tuple[JobEnded, str]:
        """How the command ended, and for ``job_report`` its timeout. ``more``: of its environment.
        ``writes``: folders it may also write to. Raises ToolError: it is not run; OSError."""
        self._fit(arguments, context)
        seconds, way_out = self._time(arguments.timeout, context.deadline - time.monotonic())
        order = await self._caged(arguments, context, seconds, writes, refused)
        order = replace(order, env={**order.env, **(more or {})})
        ended = await self._bench.processes.run(order, context.progress)
        return ended, f"{seconds:.3g} s; {way_out}"

    def _fit(self, arguments: BashInput, context: CallContext) -> None:
        """Raises ToolError: it would wait for a keyboard, or there is no folder to run it in."""
        reason = waits_for_keyboard(
            self._shell.parse(arguments.command, context.cwd), terminal=arguments.terminal
        )
        if reason is not None:
            raise ToolError(reason)
        if not context.cwd.is_dir():
            raise ToolError(f"the working directory {context.cwd} is gone")

    def _time(self, wanted: float | None, left: float) -> tuple[float, str]:
        """Seconds the command gets, and what would give it more. ``left``: seconds of the turn."""
        most = self._limits.bash_timeout_most
        # Room to end it and to say so.
        left -= 3.0
        asked = min(wanted or self._limits.bash_timeout, most)
        if left < asked:
            return max(0.1, left), "that is all that was left of this turn"
        if asked < most:
            return asked, "give a longer `timeout` or run_in_background"
        return asked, "there is no longer one, but run_in_background has none"

    async def _wall(self) -> str:
        """What the walls let through; "": there are none."""
        walls = self._bench.walls
        if walls is None or (backend := (await walls.standing()).backend) == "none":
            return ""
        # Landlock opens folders only, with all that lies in them.
        but = "" if backend == "landlock" else _BUT
        return _CAGED.format(but, _NAMED if walls.tells_names else "")

    async def _caged(
        self,
        arguments: BashInput,
        context: CallContext,
        seconds: float | None,
        writes: tuple[Path, ...] = (),
        refused: Callable[[str], None] = lambda _: None,
    ) -> Command:
        """Raises ToolError: it would run without the walls under which it was judged."""
        order = self._order(arguments, context, seconds)
        if (walls := self._bench.walls) is None:
            return order
        if (arguments.network or arguments.hosts) and walls.network == "off":
            raise ToolError("commands have no network here (sandbox.network: off)")
        standing = await walls.standing()
        if standing.fell and not context.judged.asked:
            footprint = self.footprint(arguments, context.cwd)
            if footprint.effect != "none":
                raise ToolError(f"{footprint.asks}; call it again, and a person is asked")
        root, opened = self._bench.spill.parent, context.judged.opened
        if not opened.network and self.footprint(arguments, context.cwd).network:
            raise ToolError("it needs the network, and what allowed it names nothing that does")
        own = tuple(root / page for page in pages_of(context))
        cage = await walls.cage(context.cwd, own, writes, opened=opened)

        def closed(name: str) -> None:
            name = blotted(name, context)  # whatever the command put into it
            whose = {"person": context.person, "thread": context.thread, "session": context.session}
            log.info("cage_name_refused", name=name, turn=context.turn, call=context.call, **whose)
            refused(name)

        told = cage and replace(cage, names=replace(cage.names, refused=closed))
        return replace(order, cage=told)

    def _order(self, arguments: BashInput, context: CallContext, seconds: float | None) -> Command:
        environ = {
            "PWD": str(context.cwd),
            **context.secrets,
            **environment_of(self._shell.parse(arguments.command, context.cwd)),
        }
        if arguments.terminal:
            environ = {"TERM": "xterm-256color", **environ}
        return Command(
            argv=("/bin/bash", "--norc", "--noprofile", "-c", "--", arguments.command),
            cwd=context.cwd,
            env=child_environment(self._bench.environ, environ),
            spill=self._bench.folder(context) / f"{context.call}.txt",
            timeout=seconds,
            keep=self._limits.bash_output,
            terminal=arguments.terminal,
            spill_half=self._limits.spill // 2,
        )


def blotted(text: str, context: CallContext) -> str:
    """Without the secrets a command was lent, also in small letters, as names of hosts come: it
    tells them to nobody."""
    for secret in context.secrets.values():
        text = re.sub(re.escape(secret), "********", text, flags=re.IGNORECASE)
    return text


def job_report(ended: JobEnded, room: int, limit: str = "") -> str:
    """The outputs within ``room`` bytes, then how it ended. ``limit``: its timeout, and what would
    give it more."""
    much = f"all but {ended.cut} bytes in the middle" if ended.cut else "whole output"
    where = f"; {ended.problem}" if ended.problem else ""
    if ended.spill:
        where = f"; {much}: {ended.spill}"
    parts = output_parts(ended.output.out, ended.output.err, room, where)
    left = ""
    if ended.left:
        left = f"; {ended.left} processes it left running were ended"
        left += ", use run_in_background to keep one"
    if ended.reason == "timeout":
        parts.append(f"[ended after its timeout of {limit}]")
    elif ended.reason == "keyboard":
        parts.append(
            "[ended: it read the terminal for 5 s and nobody is at the keyboard; give the answer by"
            " flag or by pipe]"
        )
    elif ended.reason:
        parts.append(f"[ended: {ended.reason}]")
    elif ended.signal:
        parts.append(f"[ended by {ended.signal}{left}]")
    elif ended.code or left:
        parts.append(f"[exit code {ended.code}{left}]")
    return "\n".join(part for part in parts if part) or "(no output)"


def background_report(name: str, ended: JobEnded, room: int) -> str:
    """The same of a command in the background."""
    well = " with exit code 0" if ended.code == 0 and not ended.reason else ""
    return f"{job_report(ended, room)}\n[{name} has ended{well}]"


def output_parts(out: Stream, err: Stream, room: int, where: str) -> list[str]:
    room_out, room_err = split_room(out, err, room)
    parts: list[str] = []
    if out.total:
        parts.append(clipped(out, room_out, where).rstrip("\n"))
    if err.total:
        parts.append("[stderr]\n" + clipped(err, room_err, where).rstrip("\n"))
    return parts


TOOL = Bash
