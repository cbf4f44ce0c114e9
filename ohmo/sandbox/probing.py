"""Whether a backend holds on this machine: it is run, with somebody inside who tries what must not
succeed."""

from __future__ import annotations

import asyncio
import json
import os
import secrets
import socket
import sys
import tempfile
from contextlib import ExitStack, closing
from dataclasses import replace
from pathlib import Path
from typing import Literal

from ohmo.contracts.messages import Json
from ohmo.contracts.sandbox import Cage, Sandbox
from ohmo.processes.job import Command, JobEnded, ProcessRunner
from ohmo.sandbox import bubblewrap, docker, landlock, sandbox_exec, seccomp
from ohmo.sandbox.walls import CageSettings

_MAC = sys.platform == "darwin"
_SECONDS = 20.0
_NAMELESS = {
    "landlock": "Landlock knows ports and no addresses",
    "sandbox-exec": "its profiles know no addresses but this machine's",
}
_TEXT = Path(__file__).with_name("attempts.py")
_APPARMOR = Path("/proc/sys/kernel/apparmor_restrict_unprivileged_userns")
_SWITCHES = (
    (Path("/proc/sys/kernel/unprivileged_userns_clone"), "0"),
    (Path("/proc/sys/user/max_user_namespaces"), "0"),
)


def backends(settings: CageSettings, path: str, scratch: Path) -> tuple[list[Sandbox], list[str]]:
    """Those that may hold here, the best first, and why others cannot. ``path``: where programs
    are; ``scratch``: a folder for temporary files."""
    wanted = settings.backend
    if _MAC:
        if wanted == "auto":
            return [sandbox_exec.SandboxExec(scratch)], []
        return [], [f"{wanted}: not on macOS, where sandbox.backend: auto takes sandbox-exec"]
    found: list[Sandbox] = []
    why: list[str] = []
    if not seccomp.supported():
        return [], [f"there is no filter of system calls for {os.uname().machine}"]
    if wanted in ("auto", "bubblewrap"):
        program = bubblewrap.find(path)
        if program is None:
            why.append("bubblewrap: there is no bwrap (install the package bubblewrap)")
        else:
            found.append(bubblewrap.Bubblewrap(program))
    if wanted in ("auto", "landlock"):
        reason = landlock.why_not()
        if reason:
            why.append(f"landlock: {reason}")
        else:
            found.append(landlock.Landlock(scratch))
    reason = docker.why_not(settings.engine) if wanted in ("auto", "docker") else "not asked for"
    if not reason:
        image = settings.image or docker.IMAGE
        found.append(docker.Docker(image, str(settings.root), settings.engine))
    elif wanted == "docker":  # who has none and asks for none need not be told
        why.append(f"docker: {reason}")
    return found, why


async def nameless(sandbox: Sandbox, cage: Cage) -> str:
    """Why names of the network cannot be told apart in it; "": they can. What leads into a
    container depends on engine and image, so there it is tried."""
    if sandbox.name != "docker":
        return _NAMELESS.get(sandbox.name, "")
    try:
        return (await holds(sandbox, cage, "names"))[0]
    except OSError as error:
        return str(error)


async def holds(
    sandbox: Sandbox, cage: Cage, network: Literal["off", "names"] = "off"
) -> tuple[str, int]:
    """One line about what it lets through, or why it does not start, "" when it holds; and how many
    ways out were tried. ``cage``: as commands get it; ``network``: with no name open. Raises
    TimeoutError."""
    with ExitStack() as held:
        top = _ground(held)
        own, outside = top / "own", top / "outside"
        listener = held.enter_context(closing(socket.create_server(("127.0.0.1", 0))))
        abstract = f"ohmo-probe-{secrets.token_hex(8)}"
        for address in (*(() if _MAC else ("\0" + abstract,)), str(top / "socket")):
            local = held.enter_context(closing(socket.socket(socket.AF_UNIX)))
            local.bind(address)
            local.listen()
        datagrams = held.enter_context(closing(socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)))
        datagrams.bind(str(top / "datagrams"))
        order: dict[str, Json] = {
            "hidden": [str(path) for path in cage.hide],
            "outside": str(outside),
            "own": str(own / "file"),
            "port": listener.getsockname()[1],
            "abstract": abstract,
            "unix": str(top / "socket"),
            "unix datagram": str(top / "datagrams"),
            "terminal": _terminal(held),
            "pid": os.getpid(),
            "calls": {} if _MAC else dict(seccomp.numbers()),
            "names": network == "names",
        }
        python = _real(sys.executable)
        here = tuple({python, _real(sys.base_prefix)})
        inner = replace(cage, read=(*cage.read, *here), write=(*cage.write, own), network=network)
        text = await asyncio.to_thread(_TEXT.read_text, encoding="utf-8")
        program = "python3" if sandbox.name == "docker" else str(python)
        command = Command(
            (program, "-I", "-S", "-c", text, json.dumps(order)),
            own,
            {"PATH": "/usr/bin:/bin", "LANG": "C.UTF-8"},
            top / "spill",
            _SECONDS,
            cage=inner,
        )
        try:
            ended = await ProcessRunner(sandbox=sandbox).run(command, lambda _: None)
        except OSError as error:
            return str(error), 0
        if ended.reason == "timeout":
            raise TimeoutError(f"it did not end within {_SECONDS:.0f} s")
        if (top / "outside.new").exists():
            return "it lets through: write outside", 0
    return _judged(ended)


def _judged(ended: JobEnded) -> tuple[str, int]:
    """What ``ohmo.sandbox.attempts`` told, as ``holds`` says it."""
    try:
        told = json.loads(ended.output.out.head)
        through = f"it lets through: {', '.join(told['succeeded'])}" if told["succeeded"] else ""
        fails = "" if told["works"] else "what should work in it does not"
        return through or fails, int(told["tried"])
    except (ValueError, KeyError, TypeError):
        lines = ended.output.err.head.decode("utf-8", "replace").strip().splitlines()
        why = lines[-1] if lines else _end(ended)
        return f"it does not start: {why}{_hint()}", 0


def _end(ended: JobEnded) -> str:
    if ended.signal is not None:
        return f"its trial was killed by {ended.signal}; sandbox.memory may be too small for it"
    return ended.reason or f"its trial ended with {ended.code} and said nothing"


def _ground(held: ExitStack) -> Path:
    """A folder that nobody else gets into, with what is tried on."""
    top = _real(held.enter_context(tempfile.TemporaryDirectory(prefix="ohmo-probe-")))
    (top / "own").mkdir()
    (top / "own").chmod(0o777)  # a container may run as somebody else
    (top / "outside").write_text("secret", encoding="ascii")
    return top


def _terminal(held: ExitStack) -> str:
    """Of somebody else; "" where there can be none."""
    try:
        ends = os.openpty()
    except OSError:
        return ""
    for fd in ends:
        held.callback(os.close, fd)
    return os.ttyname(ends[1])


def _real(path: str) -> Path:
    return Path(os.path.realpath(path))


def _hint() -> str:
    """What the machine forbids, and how it is allowed."""
    try:
        if _APPARMOR.read_text(encoding="ascii").strip() == "1":
            return (
                " (AppArmor forbids user namespaces, as Ubuntu 24.04 does: install the package"
                " apparmor-profiles and link /usr/share/apparmor/extra-profiles/bwrap-userns-"
                "restrict into /etc/apparmor.d, or `sysctl -w"
                " kernel.apparmor_restrict_unprivileged_userns=0`)"
            )
    except OSError:
        pass
    for path, off in _SWITCHES:
        try:
            if path.read_text(encoding="ascii").strip() == off:
                return f" (user namespaces are off: {path} is {off})"
        except OSError:
            continue
    mounts = Path("/proc/self/mountinfo").read_text(encoding="utf-8", errors="replace")
    if any(line.split()[4].startswith("/proc/") for line in mounts.splitlines()):
        return " (parts of /proc are masked, as in containers and strict units)"
    return ""
