"""Where no manager knows watchdogs and final exit codes, a supervisor of our own keeps the daemon:
in the background (containers, WSL without systemd), or kept alive itself by launchd.

launchd's keys: launchd.plist(5); verbs: launchctl(1)."""

from __future__ import annotations

import json
import os
import plistlib
import signal
import subprocess
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, cast

from channels.durable import write_whole
from ohmo.service.protocol import (
    READY_WITHIN,
    STOP_WITHIN,
    Log,
    Plan,
    Ran,
    Run,
    ServiceFailed,
    Standing,
    State,
)
from ohmo.storefile.lock import holder, is_held

TAKE_OVER = 5.0  # seconds in which a command that stopped it may start it again
_STOPPED = (0, -signal.SIGTERM)  # by another command, when it listened to signals and before
_BY_ANOTHER = (*_STOPPED, 75)  # 75: it came second
_WRITTEN = ("starting", "running", "restarting", "stopped", "failed")
_KEPT = (
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TMPDIR",
    "XDG_RUNTIME_DIR",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
)


class Background:
    """``environ``: of whoever starts it; only a few harmless variables are handed on, tokens belong
    into ``$OHMO_HOME/.env``."""

    def __init__(
        self,
        plan: Plan,
        environ: Mapping[str, str],
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._plan = plan
        self._environ = environ
        self._now = now
        self._sleep = sleep
        run = plan.home.root / "run"
        self._record = run / "service.json"
        self._state = run / "service.state"
        self._lock = run / "service.lock"

    @property
    def name(self) -> str:
        return "background process"

    def installed(self) -> bool:
        return self._record.exists()

    def stale(self) -> bool:
        return self.installed() and self._record.read_text(encoding="utf-8") != self._text()

    def _text(self) -> str:
        return json.dumps(
            {
                "manager": "background",
                "command": self._plan.command,
                "path": self._plan.search_path,
            },
            indent=2,
        )

    def install(self) -> list[str]:
        text = self._text()
        before = self._record.read_text(encoding="utf-8") if self.installed() else ""
        if before == text:
            return [f"unchanged {self._record}"]
        write_whole(self._record, text)
        return [
            f"{'changed' if before else 'created'} {self._record}",
            "it does not start by itself when the machine does: ohmo service start",
        ]

    def uninstall(self) -> list[str]:
        if not self.installed():
            return ["not installed, nothing to do"]
        self.stop()
        for file in (self._record, self._state, self._lock):
            file.unlink(missing_ok=True)
        return [f"removed {self._record}"]

    def start(self) -> None:
        self._must_be_installed()
        if not self.supervised():
            self._state.unlink(missing_ok=True)
            self.wait_until_ready(self._launch().poll)
            return
        self.wait_until_ready()

    def stop(self) -> None:
        """The supervisor stops the daemon; a daemon whose supervisor was killed is stopped
        itself."""
        self._must_be_installed()
        target = holder(self._lock) or (
            self._read().get("supervisor") if self.supervised() else self._daemon()
        )
        told = target if isinstance(target, int) and target > 1 else None
        if told is not None:
            with suppress(ProcessLookupError):
                os.kill(told, signal.SIGTERM)
        elif not self.supervised():
            return  # one that is started at this moment was asked for by somebody else
        self.wait_until_ended(told)

    def restart(self) -> None:
        self.stop()
        self.start()

    def reload(self) -> None:
        """Raises ServiceFailed: it does not run."""
        daemon = self._daemon()
        if daemon is None:
            raise ServiceFailed("not running; ohmo service start")
        os.kill(daemon, signal.SIGHUP)

    def standing(self) -> Standing:
        if not self.installed():
            return Standing("not installed")
        return self.seen()

    def seen(self) -> Standing:
        """What the supervisor wrote down, checked against the locks."""
        found, alone = self._read(), not self.supervised()
        # Who wrote it may have been killed in the middle, or be somebody else: nothing of it is
        # believed as it stands.
        said, restarts, daemon = (
            found.get("state"),
            _number(found.get("restarts")) or 0,
            _number(found.get("daemon")),
        )
        state: State = (
            cast("State", said) if said in _WRITTEN else "stopped" if alone else "starting"
        )
        detail = str(found.get("detail", ""))
        if alone and state in ("running", "starting") and self._daemon() is not None:
            why = "its supervisor was killed; `ohmo service start` gives it a new one"
            return Standing("running", daemon, restarts, why, alone=True)
        if alone and state not in ("failed", "stopped"):
            why = "the supervisor and the daemon were killed; ohmo service start"
            return Standing("stopped", None, restarts, why, alone=True)
        return Standing(state, daemon, restarts, detail)

    def log(self, lines: int, follow: bool) -> Log:  # noqa: ARG002 - its reader counts lines
        return Log(file=self._plan.home.root / "logs" / "service.log")

    def supervised(self) -> bool:
        return is_held(self._lock, unclear=False)

    def wait_until_ready(self, code: Callable[[], int | None] = lambda: None) -> None:
        """Returns also when another command stopped it meanwhile. ``code``: with which exit code
        the supervisor that should make it ready has ended, None: it runs. Raises ServiceFailed."""
        deadline = self._now() + READY_WITHIN
        until: float | None = None  # a supervisor that another command stopped may get a successor
        while self._now() < deadline:
            found = self._read()
            if found.get("state") == "running":
                return
            if found.get("state") == "failed" and not self.supervised():
                raise ServiceFailed(f"it does not start: {found.get('detail')}")
            ended = code()
            if ended is None or self.supervised():
                until = None
            elif until is None and ended in _BY_ANOTHER:
                until = self._now() + TAKE_OVER
            elif until is None or self._now() > until:
                if ended in _STOPPED:
                    return
                raise ServiceFailed("the supervisor ended at once; ohmo service logs says why")
            self._sleep(0.05)
        raise ServiceFailed(
            f"not ready within {READY_WITHIN:.0f} s, it goes on trying; ohmo service logs shows"
            " where it stands"
        )

    def wait_until_ended(self, told: int | None = None) -> None:
        """``told``: the process that was told to end; another one, of a command given meanwhile, is
        not waited for. None: whoever it is. Raises ServiceFailed."""
        deadline = self._now() + STOP_WITHIN + 10
        while True:
            if self.supervised():
                if told is not None and holder(self._lock) not in (None, told):
                    return
            elif self._daemon() is None or self._read().get("state") not in ("running", "starting"):
                return
            if self._now() > deadline:
                raise ServiceFailed(
                    f"it does not end within {STOP_WITHIN + 10:.0f} s; ohmo service logs says what"
                    " it waits for"
                )
            self._sleep(0.05)

    def _launch(self) -> subprocess.Popen[bytes]:
        """A session of its own: it outlives the shell and hears no Ctrl-C. What it needs it reads
        itself; nothing is inherited open."""
        environ = {
            name: value
            for name, value in self._environ.items()
            if name in _KEPT or name.startswith("LC_")
        }
        environ |= {
            "OHMO_HOME": str(self._plan.home.root),
            "OHMO_SERVICE": "background",
            "PATH": self._plan.search_path,
        }
        log = self._plan.home.root / "logs" / "service.log"
        log.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            return subprocess.Popen(  # noqa: S603 - our own interpreter and module
                [
                    str(self._plan.python),
                    "-P",
                    "-m",
                    "ohmo.service.supervisor",
                    *self._plan.command,
                ],
                stdin=subprocess.DEVNULL,
                stdout=descriptor,
                stderr=descriptor,
                cwd="/",
                env=environ,
                start_new_session=True,
            )
        except OSError as error:
            raise ServiceFailed(
                f"{self._plan.python}: cannot be run ({error.strerror}); ohmo service install"
                " writes the right path"
            ) from error
        finally:
            os.close(descriptor)

    def _daemon(self) -> int | None:
        """The daemon the supervisor wrote down, as long as it is the one that owns the home: its
        number may be somebody else's by now. Never the first process of the machine, which is
        nobody's daemon that a supervisor started."""
        pid = holder(self._plan.home.lock)
        return pid if pid is not None and pid > 1 and pid == self._read().get("daemon") else None

    def _must_be_installed(self) -> None:
        if not self.installed():
            raise ServiceFailed("not installed; ohmo service install")

    def _read(self) -> dict[str, Any]:
        try:
            found: object = json.loads(self._state.read_text(encoding="utf-8"))
        except (OSError, ValueError):
            return {}
        return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _number(found: object) -> int | None:
    return found if isinstance(found, int) else None


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
    """A LaunchAgent. ``agents``: ~/Library/LaunchAgents. ``inner`` waits and looks: the state is
    the supervisor's."""

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
