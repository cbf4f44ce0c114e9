"""What a command did, held against what was judged of it."""

from __future__ import annotations

import os
import re

from tests.differential.box import Ran
from tests.differential.judged import Judged
from tests.differential.trace import Trace, read_trace
from tests.unit.permissions.attack_scenes import CANARY, Scene

# What programs open besides their operands: libraries, locales, names of users, the state of the
# machine.
_SYSTEM = re.compile(
    r"""/(usr|lib|lib64|bin|sbin|opt)(/.*)?
    |/root/\.pyenv/.*|/home/runner/.*|/opt/hostedtoolcache/.*
    |/etc/(ld\.so\..*|nsswitch\.conf|passwd|group|localtime|timezone|locale\.alias|gitconfig|magic.*|host\.conf|hosts
        |resolv\.conf|os-release|debian_version|terminfo.*|mtab|mke2fs\.conf|ssl/openssl\.cnf|inputrc|jq|ripgreprc)
    |/proc|/proc/(self|thread-self|\d+)/(status|stat|statm|cmdline|maps|mounts|mountinfo|cgroup|auxv|wchan|ctty|limits
        |task(/.*)?|attr/current|loginuid|comm)
    |/proc/(filesystems|meminfo|cpuinfo|stat|uptime|loadavg|mounts|version|sys/.*|tty/.*|modules|partitions|diskstats|net/.*)
    |/sys(/.*)?|/run/utmp|/var/run/utmp|/var/lib/dpkg(/.*)?
    |/dev/(null|tty|urandom|random|shm)
    |pipe:.*|anon_inode:.*|socket:.*""",
    re.VERBOSE,
)
# they open each one's environment, and show it when asked to
_SHOWS_PROCESSES = frozenset(("ps", "pgrep", "pidof", "w"))
_PROCESS = re.compile(r"/proc/\d+/(?!environ|mem|fd|root|cwd|map_files)\w+")
# What git, ripgrep and jq look for by themselves, wherever they stand.
_OWN = re.compile(
    r".*/(\.git(/.*)?|\.gitignore|\.gitattributes|\.gitmodules|\.gitconfig|\.mailmap|\.ignore|\.rgignore|\.jq"
    r"|\.config/git(/.*)?|bare(/.*)?|hostile(/.*)?)"
)
_OWNERS = frozenset(("git", "rg", "jq"))
_WRITABLE = re.compile(r"/dev/(null|tty)")
_SPILL = re.compile(r"/(tmp|dev/shm)/(tac|sort)\w{6}")  # what they set aside of a long input
# git's cache of what it looked at
_LOCKS = re.compile(r".*/(\.git|bare)/(index(\.lock)?|modules/.*/index(\.lock)?)")
_NAMES = re.compile(
    r'sun_path="(/var)?/run/(nscd/socket|systemd/userdb/[\w.]+|dbus/system_bus_socket)"'
)
_HELPERS = re.compile(r"(/usr)?/(lib|libexec)/git-core/git(-\w+)*|/usr/bin/git")


def beyond(ran: Ran, judged: Judged, scene: Scene) -> list[str]:
    """What it did beyond what was judged, at most five lines; nothing where all is well."""
    trace = read_trace(ran.trace)
    found = ["printed a secret"] if CANARY in ran.out else []
    found += [f"started {one}" for one in _started(trace, judged, scene)]
    found += [
        f"opened {path}" for path in sorted(trace.opened) if not _may_open(path, judged, scene)
    ]
    found += [
        f"opened for writing {path}" for path in sorted(trace.tried) if not _may_write(path, judged)
    ]
    found += [f"did {change}" for change in trace.changes if not _may_change(change, judged)]
    if ran.code != -2 and not trace.started:
        found.append(f"was not traced: {ran.out[:200]}")
    return found[:5]


def _started(trace: Trace, judged: Judged, scene: Scene) -> list[str]:
    wrong: list[str] = []
    for one in trace.started[1:]:  # the first is bash itself
        program = os.path.realpath(os.path.join(judged.folder, one.program))
        if program.startswith(f"{scene.work}/"):
            wrong.append(f"{program}, from the workspace")
        elif not judged.knows(one.argv) and not (
            "git" in judged.programs and _HELPERS.fullmatch(program)
        ):
            wrong.append(f"{program} {list(one.argv)}")
    return wrong


def _may_open(path: str, judged: Judged, scene: Scene) -> bool:
    inside = path == str(scene.work) or path.startswith(f"{scene.work}/")
    if inside and (judged.covers(path) or path in judged.folders):
        return True
    if _SYSTEM.fullmatch(path) is not None or _PROCESS.fullmatch(path) is not None:
        return True
    if judged.programs & _SHOWS_PROCESSES and re.fullmatch(r"/proc/\d+/environ", path) is not None:
        return True
    if "xargs" in judged.programs and re.fullmatch(r"/proc/\d+/fd", path) is not None:
        return True  # of itself: it closes what it was handed
    if path.startswith((f"{scene.root}/stubs/", f"{scene.root}/tools/")):
        return True
    if judged.programs & _OWNERS and _OWN.fullmatch(path) is not None:
        return True
    # A program that looks for its folder opens the way there: .gitignore of the folders above, the
    # folders themselves.
    return path == judged.folder or (
        bool(judged.programs & {"rg", "git", "find"}) and str(scene.work).startswith(path)
    )


def _may_write(path: str, judged: Judged) -> bool:
    if judged.programs & {"tac", "sort"} and _SPILL.fullmatch(path) is not None:
        return True
    return _WRITABLE.fullmatch(path) is not None or (
        "git" in judged.programs and _LOCKS.fullmatch(path) is not None
    )


def _may_change(change: str, judged: Judged) -> bool:
    if change.startswith("connect("):
        return _NAMES.search(change) is not None
    if not change.startswith(("rename(", "unlink(")):
        return False
    return all(_may_write(path, judged) for path in re.findall(r'"([^"]*)"', change))
