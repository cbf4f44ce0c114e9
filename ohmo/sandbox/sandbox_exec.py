"""sandbox-exec(1) of macOS: the kernel compares every path, after links, with the rules of a
profile; the last one that fits decides. Rendered, and tested as text: nobody has run it on a Mac
for us, so there too it is only used after the trial at the start. Without network there are no
sockets at all, and names of the network are not told apart."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from ohmo.contracts.messages import Json
from ohmo.contracts.sandbox import Cage, Launch
from ohmo.sandbox.limits import LARGEST, own_folder, temporary

PROGRAM = "/usr/bin/sandbox-exec"
#: What programs cannot start without, beside the ``read`` of a cage. No service of the system that
#: keeps secrets or starts programs (SecurityServer, launchservicesd, pasteboard) can be looked up.
_ALWAYS = """(version 1)
(deny default)
(allow process-exec process-fork)
(allow process-info* signal (target same-sandbox))
(allow sysctl-read)
(allow file-read-metadata)
(allow mach-lookup
  (global-name "com.apple.system.notification_center")
  (global-name "com.apple.system.opendirectoryd.libinfo"))
(allow file-read-data (literal "/"))
(allow file-read* (literal "/dev/random") (literal "/dev/urandom"))
(allow file-read* file-write-data
  (literal "/dev/null") (literal "/dev/zero") (literal "/dev/tty") (literal "/dev/dtracehelper"))
(allow file-ioctl (literal "/dev/tty") (literal "/dev/dtracehelper"))
"""
_NETWORK = """(allow network-outbound (remote ip) (literal "/private/var/run/mDNSResponder"))
(allow network-inbound (local ip))
(allow network-bind (local ip))
(allow system-socket)
(allow mach-lookup
  (global-name "com.apple.SystemConfiguration.configd") (global-name "com.apple.trustd.agent"))
"""
_SYSTEM = (
    *("/System", "/Library/Developer", "/Library/Frameworks", "/Applications/Xcode.app"),
    *("/private/etc", "/private/var/select", "/private/var/db/timezone", "/private/var/db/dyld"),
)


class SandboxExec:
    """``scratch``: folder in which each command gets one of its own."""

    name: Literal["sandbox-exec"] = "sandbox-exec"

    def __init__(self, scratch: Path) -> None:
        self._scratch = scratch

    @asynccontextmanager
    async def launch(self, argv: tuple[str, ...], cwd: Path, cage: Cage) -> AsyncGenerator[Launch]:
        """Raises OSError."""
        del cwd
        async with own_folder(self._scratch) as own:
            # Its memory is nobody's to count there, and of processes it counts the whole user's.
            rules: dict[str, Json] = {"rlimits": {"CORE": 0, "FSIZE": LARGEST}, "pids": cage.pids}
            words = (PROGRAM, "-p", profile(cage, own))
            yield Launch((*words, *argv), rules=rules, env=temporary(str(own)))


def profile(cage: Cage, own: Path) -> str:
    """Text for ``sandbox-exec -p``. ``own``: a folder without links for temporary files."""
    ways: dict[Path, Literal["read", "write", "hide"]] = {}
    ways |= dict.fromkeys((*map(Path, _SYSTEM), *cage.read), "read")
    ways |= dict.fromkeys((*cage.write, own), "write")
    ways |= dict.fromkeys(cage.hide, "hide")
    rules: list[str] = []
    for path in sorted(ways, key=lambda path: len(path.parts)):  # so that the nearest decides
        reads = "deny" if ways[path] == "hide" else "allow"
        writes = "allow" if ways[path] == "write" else "deny"
        rules.append(f"({reads} file-read* file-map-executable (subpath {_quoted(path)}))")
        rules.append(f"({writes} file-write* (subpath {_quoted(path)}))")
    # Paths are all that is compared: what leads to one that is closed cannot be moved away either.
    closed = [path for path, way in ways.items() if way != "write"]
    above = dict.fromkeys(folder for each in closed for folder in each.parents)
    rules += [f"(deny file-write-unlink (literal {_quoted(path)}))" for path in above]
    if cage.doors:  # the socket of the house is one of what can be read
        rules += [f"(allow network-outbound (literal {_quoted(path)}))" for path in cage.read]
    return _ALWAYS + (_NETWORK if cage.network == "on" else "") + "\n".join(rules)


def _quoted(path: Path) -> str:
    escaped = str(path).replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
