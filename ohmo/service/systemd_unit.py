"""The text of ohmo.service, a user unit or a hardened system unit, and what it may name.
Directives: systemd.service(5), systemd.exec(5), systemd.kill(5)."""

from __future__ import annotations

import stat
from pathlib import Path

from ohmo.config.home import Home
from ohmo.service.protocol import (
    NEVER_AGAIN,
    STOP_WITHIN,
    WATCHDOG,
    Plan,
    ServiceFailed,
    search_path,
)

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
PrivateUsers=yes
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


def _folder(path: Path) -> str:
    """The value of WorkingDirectory=, where quotes mean themselves and a backslash at the end would
    swallow the next line (systemd.syntax(7))."""
    text = str(path)
    if any(ord(letter) < 32 for letter in text) or text.endswith("\\") or text != text.strip():
        raise ServiceFailed(
            f"the path {text!r} holds a control character, or a space or backslash at its end; a"
            " unit cannot name it"
        )
    return text.replace("%", "%%")


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
    command = [":" + plan.command[0], *plan.command[1:]]
    text = _UNIT.format(
        edit="systemctl edit ohmo" if system else "systemctl --user edit ohmo",
        order="Wants=network-online.target\nAfter=network-online.target\n" if system else "",
        command=" ".join(quoted(word) for word in command),
        folder=_folder(SYSTEM_HOME if system else plan.user_home),
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


def only_roots(python: Path) -> bool:
    """Whether an environment can be changed by nobody but root, so that root may run it at every
    start."""
    prefix, program = python.parents[1], python.resolve()
    looked = (
        prefix,
        python.parent,
        program,
        *program.parents[:2],
        *prefix.glob("lib/*"),
        *prefix.glob("lib/*/site-packages"),
    )
    above = (
        *prefix.parents,
        *prefix.resolve().parents,
        *program.parents,
    )  # whose owner could put another environment in its place
    return all(_roots(path, 0o022) for path in looked) and all(
        _roots(path, 0o022) or _roots(path, 0, stat.S_ISVTX) for path in above
    )


def _roots(path: Path, forbidden: int, wanted: int = 0) -> bool:
    """Whether the folder or file is root's, with none of these bits of its mode, and all of
    those."""
    found = path.stat()
    return found.st_uid == 0 and not found.st_mode & forbidden and found.st_mode & wanted == wanted


def system_plan(python: Path) -> Plan:
    """The plan of the system unit: everything below the user ``ohmo``'s own folder."""
    return Plan(python, Home(SYSTEM_HOME / ".ohmo"), SYSTEM_HOME, search_path(python, SYSTEM_HOME))
