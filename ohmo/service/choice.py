"""Which service manager this machine has."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

from channels.record import record
from ohmo.config.home import Home
from ohmo.service.background import Background, Launchd
from ohmo.service.protocol import Manager, Plan, Ran, Run, ServiceFailed, search_path
from ohmo.service.systemd import Systemd, system_plan

Kind = Literal["systemd", "launchd", "background"]


@record
class Machine:
    """What is looked at. ``root``: the root of the file system."""

    platform: str
    root: Path
    environ: Mapping[str, str]
    uid: int

    @property
    def wsl(self) -> bool:
        """Windows Subsystem for Linux: Microsoft's kernels carry its name in their release."""
        try:
            release = (self.root / "proc/sys/kernel/osrelease").read_text(encoding="ascii")
        except OSError:
            return False
        return "microsoft" in release.lower()

    @property
    def booted_by_systemd(self) -> bool:
        """sd_booted(3)."""
        return (self.root / "run/systemd/system").is_dir()

    @property
    def has_user_manager(self) -> bool:
        """``systemctl --user`` finds somebody to talk to: its socket lies in $XDG_RUNTIME_DIR."""
        runtime = self.environ.get("XDG_RUNTIME_DIR") or f"/run/user/{self.uid}"
        socket = self.root / runtime.lstrip("/") / "systemd" / "private"
        return self.booted_by_systemd and socket.exists()

    def kind(self) -> Kind:
        """The manager of a person's own services."""
        if self.platform == "darwin":
            return "launchd"
        return "systemd" if self.has_user_manager else "background"


def run_command(
    command: Sequence[str], within: float, *, inherits: Sequence[int] = (), cwd: Path | None = None
) -> Ran:
    """``inherits``: descriptors that stay open in it. ``cwd`` None: ours. Raises ServiceFailed when
    there is no such program, TimeoutError when it takes longer than ``within`` seconds."""
    try:
        ran = subprocess.run(  # noqa: S603 - a fixed program, no shell
            list(command),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            errors="replace",
            timeout=within,
            check=False,
            env={**os.environ, "SYSTEMD_PAGER": "cat", "LC_ALL": "C.UTF-8"},
            pass_fds=inherits,
            cwd=cwd,
        )
    except FileNotFoundError as error:
        raise ServiceFailed(f"{command[0]} is not installed") from error
    except subprocess.TimeoutExpired as error:
        raise TimeoutError(f"{command[0]} took longer than {within:.0f} s") from error
    return Ran(ran.returncode, ran.stdout, ran.stderr)


def choose(
    machine: Machine,
    python: Path,
    home: Home,
    *,
    system: bool,
    kind: Kind | None = None,
    run: Run = run_command,
) -> Manager:
    """``kind`` None: the one that is installed, else the one this machine has. Raises
    ServiceFailed: one that this machine has not, or ``system`` without root."""
    user_home = Path(machine.environ.get("HOME") or "/")
    plan = Plan(
        python, home, user_home, search_path(python, user_home, darwin=machine.platform == "darwin")
    )
    if system:
        if kind not in (None, "systemd") or not machine.booted_by_systemd:
            raise ServiceFailed(
                "--system needs a machine that was booted by systemd; without --system ohmo runs as"
                " a background process"
            )
        return Systemd(
            system_plan(python),
            run,
            machine.environ,
            system=True,
            units=machine.root / "etc/systemd/system",
        )
    if kind == "systemd" and not machine.has_user_manager:
        raise ServiceFailed(
            "no user manager of systemd answers here (systemctl --user); without --manager ohmo"
            " runs as a background process"
        )
    if kind == "launchd" and machine.platform != "darwin":
        raise ServiceFailed(
            "launchd is only on a Mac; without --manager ohmo chooses what this machine has"
        )
    background = Background(plan, machine.environ)
    if kind == "background" or (kind is None and background.installed()):
        return background
    kind = kind or machine.kind()
    if kind == "systemd":
        folder = Path(machine.environ.get("XDG_CONFIG_HOME") or user_home / ".config")
        return Systemd(plan, run, machine.environ, system=False, units=folder / "systemd" / "user")
    if kind == "launchd":
        return Launchd(plan, run, user_home / "Library" / "LaunchAgents", background)
    return background
