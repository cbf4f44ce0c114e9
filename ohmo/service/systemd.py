"""systemd keeps the daemon: as a user unit, or as a system unit with a user of its own."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

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
    reason_in,
)
from ohmo.service.systemd_unit import HIDDEN, SYSTEM_HOME, SYSTEM_USER, only_roots, quoted, unit

UNIT = "ohmo.service"


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
        said: list[str] = []
        if self._system:
            said += self._make_user()
        text = self._text()
        before = self._file.read_text(encoding="utf-8") if self._file.exists() else ""
        self._refuse_foreign(before)
        if before == text:
            said.append(f"unchanged {self._file}")
        else:
            self._file.parent.mkdir(parents=True, exist_ok=True)
            write_whole(self._file, text, mode=0o644)
            said.append(f"{'changed' if before else 'created'} {self._file}")
        self._systemctl("daemon-reload")
        self._systemctl("enable", UNIT)
        if before not in ("", text) and self.standing().state == "running":
            said.append("it runs with the old unit until: ohmo service restart")
        return said + self._lingering()

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
        wanted = (
            "ActiveState",
            "SubState",
            "MainPID",
            "NRestarts",
            "Result",
            "StatusText",
            "ExecMainStatus",
        )
        ran = self._ctl("show", UNIT, f"--property={','.join(wanted)}")
        if ran.code != 0:
            raise ServiceFailed(f"systemctl show {UNIT}: {ran.last}")
        found = {
            name: value for name, _, value in (line.partition("=") for line in ran.out.splitlines())
        }
        return read_standing(found)

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
            raise ServiceFailed(f"it does not start: {self._reason() or ran.last}")

    def _reason(self) -> str:
        """What the daemon said last."""
        ran = self._run(
            ("journalctl", *self._which_unit(), "-n", "40", "-o", "cat", "--no-pager", "-q"), 15
        )
        return reason_in(ran.out.splitlines())

    def _which_unit(self) -> tuple[str, ...]:
        return ("-u", UNIT) if self._system else ("--user", "-u", UNIT)

    def _must_be_installed(self) -> None:
        if not self.installed():
            raise ServiceFailed(f"not installed ({self._file} is not there); ohmo service install")

    def _refuse_foreign(self, before: str) -> None:
        own = quoted(f"OHMO_HOME={self._plan.home.root}")
        other = next(
            (line for line in before.splitlines() if line.startswith('Environment="OHMO_HOME=')), ""
        )
        if before and not self._system and own not in other:
            raise ServiceFailed(
                f"{self._file} runs another home"
                f" ({other.partition('OHMO_HOME=')[2].rstrip(chr(34)) or 'not ours'}); uninstall it"
                " there first"
            )

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

    def _lingering(self) -> list[str]:
        if self._system:
            return []
        user = _login_name(self._environ)
        ran = self._run(("loginctl", "show-user", user, "--property=Linger", "--value"), 15)
        if ran.code == 0 and ran.out.strip() == "yes":
            return []
        return [f"it ends when you log out; to keep it: loginctl enable-linger {user}"]

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


def _login_name(environ: Mapping[str, str]) -> str:
    """Also where nobody set USER."""
    try:
        return pwd.getpwuid(os.geteuid()).pw_name
    except KeyError:
        return environ.get("USER", "") or str(os.geteuid())


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
