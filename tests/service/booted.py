"""A real systemd, booted in a container over this machine's own file system; whatever it writes is
gone with it."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import signal
import subprocess
import sys
import sysconfig
import time
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

from tests.programs import run_process

ROOT = Path(__file__).parents[2]
LANDLOCK = "landlock_create_ruleset landlock_add_rule landlock_restrict_self"


def missing() -> str:
    """What keeps it from being booted here; empty when nothing does."""
    if os.geteuid() != 0:
        return "needs root"
    programs = [
        name
        for name in ("systemd-nspawn", "nsenter", "loginctl", "useradd", "pgrep")
        if shutil.which(name) is None
    ]
    if programs:
        return (
            f"needs {', '.join(programs)} (apt install systemd-container dbus-user-session"
            " libpam-systemd procps)"
        )
    found = run_process("/usr/bin/python3", "-c", "import sys; print(*sys.version_info[:2])")
    if found.stdout.split() != [str(part) for part in sys.version_info[:2]]:
        return "needs /usr/bin/python3 of the same version as the tests' own"
    return ""


@dataclass(frozen=True, slots=True)
class Booted:
    """``leader``: its process 1, seen from here."""

    leader: int

    def run(
        self, command: str, *, user: str = "", code: int | None = 0, within: float = 110
    ) -> str:
        """Both outputs of a shell line, as root or as somebody with a user manager."""
        if user:
            inner = f"cd; export XDG_RUNTIME_DIR=/run/user/$(id -u); {command}"
            command = f"su -s /bin/sh {user} -c {shlex.quote(inner)}"
        inside = ["nsenter", "-t", str(self.leader), "-a"]
        done = run_process(*inside, "/bin/sh", "-c", command, code=code, timeout=within)
        return done.stdout + done.stderr


@contextlib.contextmanager
def booted(folder: Path) -> Generator[Booted | None]:
    """None: it does not boot here."""
    layers = folder / "layers"
    layers.mkdir()
    with contextlib.ExitStack() as stack:
        if not _mount(stack, layers, "-t", "tmpfs", "tmpfs"):
            yield None
            return
        upper, work, merged = (layers / name for name in ("upper", "work", "merged"))
        for one in (upper, work, merged):
            one.mkdir()
        if not _mount(
            stack,
            merged,
            "-t",
            "overlay",
            "overlay",
            "-o",
            f"lowerdir=/,upperdir={upper},workdir={work}",
        ):
            yield None
            return
        with (folder / "boot.log").open("wb") as log:
            container = subprocess.Popen(
                [
                    "systemd-nspawn",
                    "--quiet",
                    "--register=no",
                    "--keep-unit",
                    "--machine=ohmo-test",
                    "-D",
                    str(merged),
                    "--private-network",
                    # its own filter is older than they are, and a machine has none
                    f"--system-call-filter={LANDLOCK}",
                    f"--bind-ro={sysconfig.get_path('purelib')}:/opt/site",
                    f"--bind-ro={ROOT}:/opt/source",
                    "--console=pipe",
                    "-b",
                    "systemd.unified_cgroup_hierarchy=0",
                    "systemd.unit=multi-user.target",
                    *(
                        f"systemd.mask={name}.service"
                        for name in ("docker", "postgresql", "ssh", "containerd")
                    ),
                ],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
            )
        stack.callback(_end, container)
        leader = _leader(container)
        if leader is None:
            yield None
            return
        found = Booted(leader)
        _prepare(found)
        yield found
        with contextlib.suppress(ProcessLookupError):
            os.kill(leader, signal.SIGRTMIN + 3)  # systemd(1): a clean power-off
        with contextlib.suppress(subprocess.TimeoutExpired):
            container.wait(30)


def _mount(stack: contextlib.ExitStack, place: Path, *words: str) -> bool:
    if (
        subprocess.run(["mount", *words, str(place)], capture_output=True, check=False).returncode
        != 0
    ):
        return False
    stack.callback(subprocess.run, ["umount", "-l", str(place)], check=False)
    return True


def _leader(container: subprocess.Popen[bytes]) -> int | None:
    """Process 1 of the container once everything is up."""
    deadline = time.monotonic() + 60
    while container.poll() is None and time.monotonic() < deadline:
        found = run_process("pgrep", "-P", str(container.pid)).stdout.split()
        if found:
            state = run_process(
                "nsenter", "-t", found[0], "-a", "systemctl", "is-system-running"
            ).stdout.strip()
            if state in ("running", "degraded"):
                return int(found[0])
        time.sleep(0.3)
    return None


def _prepare(found: Booted) -> None:
    """A user with a lasting user manager, and ohmo in a path with a space for them, in /opt/ohmo
    for the system unit."""
    for user, place in (("root", "/opt/ohmo"), ("pat", "/srv/ohmo here")):
        script = f'#!/bin/sh\nexec "{place}/bin/python" -P -m ohmo "$@"\n'
        site = f"{place}/lib/python3.{sys.version_info.minor}/site-packages/here.pth"
        found.run(
            f'/usr/bin/python3 -m venv --without-pip "{place}" && printf'
            f' "/opt/source\\n/opt/site\\n" > "{site}"'
        )
        found.run(
            f"printf %s {shlex.quote(script)} > /usr/local/bin/ohmo-{user} && chmod 755"
            f" /usr/local/bin/ohmo-{user}"
        )
    found.run("useradd -m pat && loginctl enable-linger pat")
    found.run(
        'for i in $(seq 200); do [ -S "/run/user/$(id -u pat)/systemd/private" ] && exit 0; sleep'
        " 0.1; done; exit 1"
    )


def _end(container: subprocess.Popen[bytes]) -> None:
    if container.poll() is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(container.pid, signal.SIGKILL)
    container.wait()
