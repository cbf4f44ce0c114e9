"""systemd keeps the daemon: as a user unit, or as a hardened system unit with a user of its own.
Directives: systemd.service(5), systemd.exec(5), systemd.kill(5)."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

from channels.durable import write_whole
from ohmo.config.home import Home
from ohmo.service.protocol import (
    NEVER_AGAIN,
    READY_WITHIN,
    STOP_WITHIN,
    WATCHDOG,
    Log,
    Plan,
    Ran,
    Run,
    ServiceFailed,
    Standing,
    State,
    reason_in,
    search_path,
)
from ohmo.service.versions import only_roots

UNIT = "ohmo.service"
_HOME_LINE = 'Environment="OHMO_HOME='


class Systemd:
    """``units``: the folder the unit is written to. ``environ``: for the user's name."""

    def __init__(
        self, plan: Plan, run: Run, environ: Mapping[str, str], *, system: bool, units: Path
    ) -> None:
        self._plan = plan
        self._run = run
        self._environ = environ
        self._system = system
        self._file = units / UNIT

    @property
    def name(self) -> str:
        return "systemd, system unit" if self._system else "systemd, user unit"

    def installed(self) -> bool:
        return self._file.exists()

    def stale(self) -> bool:
        return self.installed() and self._file.read_text(encoding="utf-8") != self._text()

    def _text(self) -> str:
        return unit(
            self._plan, system=self._system, of_root=self._system and only_roots(self._plan.python)
        )

    def install(self) -> list[str]:
        lines: list[str] = []
        if self._system:
            lines += self._make_user()
        text = self._text()
        before = self._file.read_text(encoding="utf-8") if self._file.exists() else ""
        if before and not self._system:
            homes = [line for line in before.splitlines() if line.startswith(_HOME_LINE)]
            if not homes or quoted(f"OHMO_HOME={self._plan.home.root}") not in homes[0]:
                other = homes[0].removeprefix(_HOME_LINE).rstrip('"') if homes else "not ours"
                raise ServiceFailed(
                    f"{self._file} runs another home ({other}); uninstall it there first"
                )
        if before == text:
            lines.append(f"unchanged {self._file}")
        else:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._file, text, mode=0o644)
            lines.append(f"{'changed' if before else 'created'} {self._file}")
        self._systemctl("daemon-reload")
        self._systemctl("enable", UNIT)
        if before not in ("", text) and self.standing().state == "running":
            lines.append("it runs with the old unit until: ohmo service restart")
        if not self._system:
            try:
                user = pwd.getpwuid(os.geteuid()).pw_name
            except KeyError:  # nobody set USER either
                user = self._environ.get("USER", "") or str(os.geteuid())
            ran = self._run(("loginctl", "show-user", user, "--property=Linger", "--value"), 15)
            if ran.code != 0 or ran.out.strip() != "yes":
                lines.append(f"it ends when you log out; to keep it: loginctl enable-linger {user}")
        return lines

    def uninstall(self) -> list[str]:
        if not self.installed():
            return ["not installed, nothing to do"]
        self._systemctl("disable", "--now", UNIT, within=STOP_WITHIN + 15)
        self._file.unlink()
        self._systemctl("daemon-reload")
        self._ctl("reset-failed", UNIT)
        return [f"removed {self._file}"]

    def start(self) -> None:
        self._must_be_installed()
        self._ctl("reset-failed", UNIT)
        self._begin("start")

    def stop(self) -> None:
        self._must_be_installed()
        self._systemctl("stop", UNIT, within=STOP_WITHIN + 15)

    def restart(self) -> None:
        self._must_be_installed()
        self._ctl("reset-failed", UNIT)
        self._begin("restart")

    def reload(self) -> None:
        self._must_be_installed()
        self._systemctl("reload", UNIT)

    def standing(self) -> Standing:
        if not self.installed():
            return Standing("not installed")
        names = (
            "ActiveState",
            "SubState",
            "MainPID",
            "NRestarts",
            "Result",
            "StatusText",
            "ExecMainStatus",
        )
        ran = self._ctl("show", UNIT, f"--property={','.join(names)}")
        if ran.code != 0:
            raise ServiceFailed(f"systemctl show {UNIT}: {ran.last}")
        properties: dict[str, str] = {}
        for line in ran.out.splitlines():
            name, _, value = line.partition("=")
            properties[name] = value
        return read_standing(properties)

    def log(self, lines: int, follow: bool) -> Log:
        return Log(
            command=(
                "journalctl",
                *self._which_unit(),
                "-n",
                str(lines),
                "--no-pager",
                *(["-f"] if follow else []),
            )
        )

    def _begin(self, verb: str) -> None:
        """Type=notify: systemctl returns when the daemon says READY=1."""
        try:
            ran = self._ctl(verb, UNIT, within=READY_WITHIN)
        except TimeoutError:
            raise ServiceFailed(
                f"not ready within {READY_WITHIN:.0f} s, it goes on trying; ohmo service logs shows"
                " where it stands"
            ) from None
        if ran.code != 0:
            command = (
                "journalctl",
                *self._which_unit(),
                "-n",
                "40",
                "-o",
                "cat",
                "--no-pager",
                "-q",
            )
            last_lines = self._run(command, 15).out.splitlines()
            raise ServiceFailed(f"it does not start: {reason_in(last_lines) or ran.last}")

    def _which_unit(self) -> tuple[str, ...]:
        return ("-u", UNIT) if self._system else ("--user", "-u", UNIT)

    def _must_be_installed(self) -> None:
        if not self.installed():
            raise ServiceFailed(f"not installed ({self._file} is not there); ohmo service install")

    def _make_user(self) -> list[str]:
        """The system unit's own user. Refuses an installation that user could not read."""
        for folder in HIDDEN:
            if self._plan.python.is_relative_to(folder):
                raise ServiceFailed(
                    f"ohmo is installed in {self._plan.python.parents[1]}, where a system unit"
                    " cannot see it; install it below /opt, for example in /opt/ohmo"
                )
        try:
            pwd.getpwnam(SYSTEM_USER)
        except KeyError:
            made = self._run(
                (
                    "useradd",
                    "--system",
                    "--user-group",
                    "--home-dir",
                    str(SYSTEM_HOME),
                    "--shell",
                    "/usr/sbin/nologin",
                    SYSTEM_USER,
                ),
                30,
            )
            if made.code != 0:
                raise ServiceFailed(
                    f"cannot make the user {SYSTEM_USER}: {made.last}; run it as root"
                ) from None
            return [f"created the user {SYSTEM_USER}"]
        return []

    def _ctl(self, *words: str, within: float = 30.0) -> Ran:
        return self._run(("systemctl", *([] if self._system else ["--user"]), *words), within)

    def _systemctl(self, *words: str, within: float = 30.0) -> None:
        try:
            ran = self._ctl(*words, within=within)
        except TimeoutError:
            raise ServiceFailed(
                f"systemctl {words[0]} takes longer than {within:.0f} s; ohmo service status says"
                " where it stands"
            ) from None
        if ran.code != 0:
            raise ServiceFailed(f"systemctl {' '.join(words)}: {ran.last}")


def read_standing(found: Mapping[str, str]) -> Standing:
    """From the properties of org.freedesktop.systemd1 that ``systemctl show`` prints."""
    active, sub = found.get("ActiveState", ""), found.get("SubState", "")
    states: dict[str, State] = {
        "active": "running",
        "reloading": "running",
        "failed": "failed",
        "deactivating": "stopped",
    }
    state = states.get(active, "stopped")
    if active == "activating":
        state = "restarting" if sub == "auto-restart" else "starting"
    detail = found.get("StatusText", "") if state in ("running", "starting") else ""
    if state == "failed":
        detail = (
            f"{found.get('Result', '')}, exit code {found.get('ExecMainStatus', '?')}; ohmo service"
            " logs says why"
        )
    return Standing(
        state, _number(found.get("MainPID")) or None, _number(found.get("NRestarts")), detail
    )


def _number(text: str | None) -> int:
    return int(text) if text and text.isdigit() else 0


SYSTEM_USER = "ohmo"
SYSTEM_HOME = Path("/var/lib/ohmo")
SYSTEM_ENV = Path("/etc/ohmo/env")
# what the system unit cannot see
HIDDEN = tuple(Path(folder) for folder in ("/home", "/root", "/tmp", "/var/tmp", "/run/user"))  # noqa: S108

_UNIT = """\
# Written by `ohmo service install`; a change here is lost at the next install. \
To change something: {edit}
[Unit]
Description=ohmo, a personal agent
{order}StartLimitIntervalSec=600
StartLimitBurst=10

[Service]
Type=notify
NotifyAccess=main
ExecStart={command}
ExecReload=/bin/kill -HUP $MAINPID
WorkingDirectory={folder}
{environment}
# 1, 2, 3 will never start, 75 another instance, 78 configuration, 203 and 217 no such program \
or user: starting again would not help
Restart=on-failure
RestartSec=1
RestartPreventExitStatus={never_again} 203 217
# the event loop itself feeds this; what hangs is ended with SIGABRT, and \
the stack of every thread is in the log
WatchdogSec={watchdog}
TimeoutStartSec=300
TimeoutStopSec={stop}
# only the daemon is asked to stop, it ends its own children; what is left after the time is killed
KillMode=mixed
# a command that takes all memory dies alone
OOMPolicy=continue
LimitCORE=0
UMask=0077
NoNewPrivileges=yes
LockPersonality=yes
RestrictRealtime=yes
RestrictSUIDSGID=yes
SystemCallArchitectures=native
"""
_ROLLBACK = """\
# takes an interrupted `ohmo upgrade` back; the user of the service may not
ExecStartPre=+-:{command}
"""
_SYSTEM = """\
User={user}
Group={user}
StateDirectory=ohmo
StateDirectoryMode=0700
# tokens: NAME=value lines in this file (root, 0600), or \
LoadCredential= and file:/run/credentials/ohmo.service/NAME (docs/service.md)
EnvironmentFile=-{env}
CapabilityBoundingSet=
AmbientCapabilities=
PrivateTmp=yes
PrivateDevices=yes
# no PrivateUsers=: from a namespace of its own nobody who asks could be told from what it runs
PrivateMounts=yes
ProtectSystem=strict
ProtectHome=yes
ProtectProc=invisible
ProcSubset=pid
ProtectClock=yes
ProtectControlGroups=yes
ProtectHostname=yes
ProtectKernelLogs=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RemoveIPC=yes
KeyringMode=private
DevicePolicy=closed
# no namespaces: nothing in it can make one, bubblewrap neither
RestrictNamespaces=yes
RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6
# what @sandbox holds, by name, because older systemd does not know that group
SystemCallFilter=@system-service landlock_create_ruleset landlock_add_rule \
landlock_restrict_self seccomp
SystemCallFilter=~@privileged @resources
SystemCallErrorNumber=EPERM
"""


def quoted(word: str) -> str:
    """One word of a command line or an assignment (systemd.syntax(7), systemd.service(5) "COMMAND
    LINES"); ``$`` is left to the ``:`` prefix. Raises ServiceFailed: a line feed has no place in a
    unit."""
    if any(ord(letter) < 32 for letter in word):
        raise ServiceFailed(f"the path {word!r} holds a control character; a unit cannot name it")
    return '"' + word.replace("\\", "\\\\").replace('"', '\\"').replace("%", "%%") + '"'


def unit(plan: Plan, *, system: bool, of_root: bool = False) -> str:
    """The text of ``ohmo.service``. No secret ever stands in it. ``of_root``: nobody but root can
    change what is installed."""
    environment = {
        "OHMO_HOME": str(plan.home.root),
        "OHMO_SERVICE": "systemd",
        "PATH": plan.search_path,
    }
    if set(plan.command[0]) & set("\"'\\"):
        raise ServiceFailed(
            f"{plan.command[0]}: systemd starts no program with quotes or a backslash in its path;"
            " install ohmo elsewhere"
        )
    command = " ".join(quoted(word) for word in (":" + plan.command[0], *plan.command[1:]))
    # in WorkingDirectory= quotes mean themselves, and a backslash at the end would swallow the
    # next line (systemd.syntax(7))
    folder = str(SYSTEM_HOME if system else plan.user_home)
    control = any(ord(letter) < 32 for letter in folder)
    if control or folder.endswith("\\") or folder != folder.strip():
        raise ServiceFailed(
            f"the path {folder!r} holds a control character, or a space or backslash at its end; a"
            " unit cannot name it"
        )
    text = _UNIT.format(
        edit="systemctl edit ohmo" if system else "systemctl --user edit ohmo",
        order="Wants=network-online.target\nAfter=network-online.target\n" if system else "",
        command=command,
        folder=folder.replace("%", "%%"),
        environment="\n".join(
            f"Environment={quoted(f'{name}={value}')}" for name, value in environment.items()
        ),
        never_again=" ".join(map(str, NEVER_AGAIN)),
        watchdog=WATCHDOG,
        stop=f"{STOP_WITHIN:g}",
    )
    if system:
        words = (plan.command[0], "-I", "-m", "ohmo.service.rollback")
        rollback = " ".join(quoted(word) for word in words)
        text += (_ROLLBACK.format(command=rollback) if of_root else "") + _SYSTEM.format(
            user=SYSTEM_USER, env=SYSTEM_ENV
        )
    return f"{text}\n[Install]\nWantedBy={'multi-user.target' if system else 'default.target'}\n"


def system_plan(python: Path) -> Plan:
    """The plan of the system unit: everything below the user ``ohmo``'s own folder."""
    return Plan(python, Home(SYSTEM_HOME / ".ohmo"), SYSTEM_HOME, search_path(python, SYSTEM_HOME))
