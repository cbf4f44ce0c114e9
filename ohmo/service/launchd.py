"""launchd: a LaunchAgent that keeps our supervisor alive, and that keeps the daemon: launchd itself
knows no watchdog and no final exit codes.

Keys: launchd.plist(5). Verbs: launchctl(1)."""

from __future__ import annotations

import os
import plistlib
from pathlib import Path
from typing import Any

from channels.durable import write_whole
from ohmo.service.background import Background
from ohmo.service.protocol import Log, Plan, Ran, Run, ServiceFailed, Standing

LABEL = "dev.ohmo.daemon"


def plist(plan: Plan) -> dict[str, Any]:
    """No secret ever stands in it. ``SuccessfulExit: false``: the supervisor ends with 0 when it
    was stopped or when starting again would not help."""
    log = str(plan.home.root / "logs" / "service.log")
    return {
        "Label": LABEL,
        "ProgramArguments": [
            str(plan.python),
            "-P",
            "-m",
            "ohmo.service.supervisor",
            *plan.command,
        ],
        "EnvironmentVariables": {
            "OHMO_HOME": str(plan.home.root),
            "OHMO_SERVICE": "launchd",
            "PATH": plan.search_path,
        },
        "WorkingDirectory": str(plan.user_home),
        "RunAtLoad": True,
        "KeepAlive": {"SuccessfulExit": False},
        "ThrottleInterval": 10,
        "ExitTimeOut": 40,
        "ProcessType": "Interactive",
        "Umask": 0o077,
        "StandardOutPath": log,
        "StandardErrorPath": log,
    }


class Launchd:
    """``agents``: ~/Library/LaunchAgents. ``inner`` waits and looks: the state is the
    supervisor's."""

    def __init__(self, plan: Plan, run: Run, agents: Path, inner: Background) -> None:
        self._plan = plan
        self._run = run
        self._inner = inner
        self._file = agents / f"{LABEL}.plist"
        self._domain = f"gui/{os.getuid()}"

    @property
    def name(self) -> str:
        return "launchd"

    def installed(self) -> bool:
        return self._file.exists()

    def stale(self) -> bool:
        return self.installed() and self._file.read_text(encoding="utf-8") != self._text()

    def _text(self) -> str:
        return plistlib.dumps(plist(self._plan)).decode()

    def install(self) -> list[str]:
        data = self._text()
        before = self._file.read_text(encoding="utf-8") if self._file.exists() else ""
        if before == data:
            return [f"unchanged {self._file}"]
        self._file.parent.mkdir(parents=True, exist_ok=True)
        (self._plan.home.root / "logs").mkdir(mode=0o700, parents=True, exist_ok=True)
        write_whole(self._file, data, mode=0o644)
        return [f"{'changed' if before else 'created'} {self._file}"]

    def uninstall(self) -> list[str]:
        if not self.installed():
            return ["not installed, nothing to do"]
        self.stop()
        self._file.unlink()
        return [f"removed {self._file}"]

    def start(self) -> None:
        self._must_be_installed()
        if not self._loaded():
            self._launchctl("bootstrap", self._domain, str(self._file))
        elif not self._inner.supervised():
            self._launchctl("kickstart", f"{self._domain}/{LABEL}")
        self._inner.wait_until_ready()

    def stop(self) -> None:
        self._must_be_installed()
        if self._loaded():
            self._ctl("bootout", f"{self._domain}/{LABEL}", within=45)
        self._inner.wait_until_ended()

    def restart(self) -> None:
        self.stop()
        self.start()

    def reload(self) -> None:
        self._must_be_installed()
        self._inner.reload()

    def standing(self) -> Standing:
        return self._inner.seen() if self.installed() else Standing("not installed")

    def log(self, lines: int, follow: bool) -> Log:
        return self._inner.log(lines, follow)

    def _loaded(self) -> bool:
        return self._ctl("print", f"{self._domain}/{LABEL}").code == 0

    def _must_be_installed(self) -> None:
        if not self.installed():
            raise ServiceFailed(f"not installed ({self._file} is not there); ohmo service install")

    def _ctl(self, *words: str, within: float = 30.0) -> Ran:
        return self._run(("launchctl", *words), within)

    def _launchctl(self, *words: str) -> None:
        ran = self._ctl(*words)
        if ran.code != 0:
            raise ServiceFailed(f"launchctl {words[0]}: {ran.last}")
