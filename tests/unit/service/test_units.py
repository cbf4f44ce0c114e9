"""What is written for systemd and launchd: right, whole, and without secrets."""

from __future__ import annotations

import json
import os
import plistlib
import shlex
import shutil
import signal
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import pytest

from ohmo.config.home import Home
from ohmo.service.background import LABEL, Background, Launchd, plist
from ohmo.service.choice import Machine, choose
from ohmo.service.protocol import Manager, Plan, Ran, ServiceFailed, reason_in, search_path
from ohmo.service.systemd import Systemd, quoted, read_standing, system_plan, unit
from tests.programs import run_process

ANALYZE = shutil.which("systemd-analyze")
needs_analyze = pytest.mark.needs("systemd-analyze")


def plan_of(folder: Path) -> Plan:
    python = folder / "a bc%d$e" / "bin" / "python"
    python.parent.mkdir(parents=True, exist_ok=True)
    if not python.exists():
        python.symlink_to(sys.executable)
    home = folder / "ho me"
    home.mkdir(exist_ok=True)
    return Plan(python, Home(home / ".ohmo"), home, search_path(python, home))


class Hands:
    """Answers commands as told, and remembers them."""

    def __init__(self, answers: dict[str, Ran] | None = None) -> None:
        self.answers = answers or {}
        self.done: list[str] = []

    def __call__(self, command: Sequence[str], within: float) -> Ran:
        line = shlex.join(command)
        self.done.append(line)
        return next(
            (answer for part, answer in self.answers.items() if part in line), Ran(0, "", "")
        )


def analyze(*words: str, folder: Path) -> subprocess.CompletedProcess[str]:
    assert ANALYZE is not None
    environ = {**os.environ, "XDG_RUNTIME_DIR": str(folder)}
    return run_process(ANALYZE, *words, env=environ)


@needs_analyze
@pytest.mark.parametrize("system", [False, True], ids=["user", "system"])
def test_systemd_reads_the_unit_without_a_complaint_also_from_a_path_with_strange_letters(
    tmp_path: Path, system: bool
) -> None:
    plan = plan_of(tmp_path)
    file = tmp_path / "ohmo.service"
    plan = (
        Plan(plan.python, Home(Path("/var/lib/ohmo/.ohmo")), plan.user_home, plan.search_path)
        if system
        else plan
    )
    file.write_text(unit(plan, system=system, of_root=system))
    found = analyze(
        "verify", "--man=no", *([] if system else ["--user"]), str(file), folder=tmp_path
    )
    complaints = [line for line in found.stderr.splitlines() if "ohmo.service" in line]
    assert (found.returncode, complaints) == (0, []), found.stderr


@needs_analyze
def test_the_system_unit_is_exposed_to_at_most_two_of_ten(tmp_path: Path) -> None:
    file = tmp_path / "ohmo.service"
    file.write_text(unit(system_plan(Path("/opt/ohmo/bin/python")), system=True, of_root=True))
    found = analyze(
        "security", "--offline=true", "--threshold=20", "--no-pager", str(file), folder=tmp_path
    )
    assert found.returncode == 0, found.stdout[-2000:]


def test_a_unit_restarts_what_crashed_and_not_what_would_fail_again(tmp_path: Path) -> None:
    text = unit(plan_of(tmp_path), system=False)
    lines = (
        "Type=notify Restart=on-failure WatchdogSec=20 OOMPolicy=continue KillMode=mixed".split()
    )
    for line in lines:
        assert line in text.splitlines()
    prevented = next(
        line for line in text.splitlines() if line.startswith("RestartPreventExitStatus=")
    )
    assert {"1", "75", "78"} <= set(prevented.partition("=")[2].split())
    assert "70" not in prevented.split("=")[1].split()


def test_a_path_with_quotes_is_refused_because_systemd_does(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    with pytest.raises(ServiceFailed, match="install ohmo elsewhere"):
        unit(
            Plan(Path('/opt/a"b/python'), plan.home, plan.user_home, plan.search_path), system=False
        )


def test_a_path_with_a_line_feed_is_refused() -> None:
    with pytest.raises(ServiceFailed, match="control character"):
        quoted("/tmp/a\nExecStartPre=/bin/evil")


def test_installing_twice_changes_nothing_and_tells_how_to_outlive_the_session(
    tmp_path: Path,
) -> None:
    hands = Hands({"loginctl": Ran(0, "no\n", "")})
    service = Systemd(
        plan_of(tmp_path), hands, {"USER": "pat"}, system=False, units=tmp_path / "units"
    )
    first, second = service.install(), service.install()
    assert first[0].startswith("created")
    assert second[0].startswith("unchanged")
    assert any("enable-linger" in line for line in first)
    assert hands.done.count("systemctl --user enable ohmo.service") == 2
    text = (tmp_path / "units" / "ohmo.service").read_text()
    assert "TOKEN" not in text
    assert "API_KEY" not in text


@pytest.mark.parametrize("kind", ["systemd", "launchd", "background"])
def test_what_was_installed_from_another_place_is_stale(tmp_path: Path, kind: str) -> None:
    def manager(plan: Plan) -> Manager:
        inner = Background(plan, {})
        if kind == "background":
            return inner
        return (
            Systemd(plan, Hands(), {}, system=False, units=tmp_path)
            if kind == "systemd"
            else Launchd(plan, Hands({}), tmp_path, inner)
        )

    plan = plan_of(tmp_path)
    (plan.home.root / "run").mkdir(parents=True, exist_ok=True)
    assert not manager(plan).stale()
    manager(plan).install()
    assert not manager(plan).stale()
    assert manager(
        Plan(Path("/elsewhere/bin/python"), plan.home, plan.user_home, plan.search_path)
    ).stale()


def test_a_unit_of_another_home_is_not_overwritten(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    Systemd(plan, Hands(), {}, system=False, units=tmp_path).install()
    other = Plan(plan.python, Home(tmp_path / "other"), plan.user_home, plan.search_path)
    with pytest.raises(ServiceFailed, match="another home"):
        Systemd(other, Hands(), {}, system=False, units=tmp_path).install()


def test_a_start_that_fails_names_the_line_of_the_configuration(tmp_path: Path) -> None:
    journal = (
        "Starting ohmo\nconfig.yaml:3: chanels: unknown key, did you mean channels?\nmain process"
        " exited\n"
    )
    hands = Hands(
        {"start": Ran(1, "", "Job for ohmo.service failed"), "journalctl": Ran(0, journal, "")}
    )
    service = Systemd(plan_of(tmp_path), hands, {}, system=False, units=tmp_path)
    with pytest.raises(ServiceFailed, match="not installed"):
        service.start()
    service.install()
    with pytest.raises(ServiceFailed, match=r"config\.yaml:3: chanels"):
        service.start()


def test_a_system_unit_is_not_made_for_an_installation_it_could_not_see(tmp_path: Path) -> None:
    service = Systemd(
        system_plan(Path("/home/pat/ohmo/.venv/bin/python")),
        Hands(),
        {},
        system=True,
        units=tmp_path,
    )
    with pytest.raises(ServiceFailed, match="/opt/ohmo"):
        service.install()


@pytest.mark.parametrize(
    ("properties", "state"),
    [
        (
            {
                "ActiveState": "active",
                "SubState": "running",
                "MainPID": "7",
                "StatusText": "serving",
            },
            "running",
        ),
        ({"ActiveState": "activating", "SubState": "start"}, "starting"),
        ({"ActiveState": "activating", "SubState": "auto-restart"}, "restarting"),
        ({"ActiveState": "failed", "Result": "exit-code", "ExecMainStatus": "78"}, "failed"),
        ({"ActiveState": "inactive", "StatusText": "serving"}, "stopped"),
    ],
)
def test_what_systemd_says_becomes_one_word(properties: dict[str, str], state: str) -> None:
    found = read_standing(properties)
    assert found.state == state
    assert (found.detail == "serving") == (state == "running")
    assert ("78" in found.detail) == (state == "failed")


def test_the_plist_comes_back_as_it_was_written_and_restarts_only_failures(tmp_path: Path) -> None:
    plan = plan_of(tmp_path)
    found = plistlib.loads(plistlib.dumps(plist(plan)))
    assert found == plist(plan)
    assert found["KeepAlive"] == {"SuccessfulExit": False}
    assert found["ProgramArguments"][0] == str(plan.python)
    assert found["StandardErrorPath"] == str(plan.home.root / "logs" / "service.log")
    assert not [key for key in found["EnvironmentVariables"] if "TOKEN" in key or "KEY" in key]


# launchd.plist(5): the keys ohmo uses and the type each has to have; launchd ignores what it does
# not know, and refuses a wrong type.
LAUNCHD = {
    "Label": str,
    "ProgramArguments": list,
    "EnvironmentVariables": dict,
    "WorkingDirectory": str,
    "RunAtLoad": bool,
    "KeepAlive": dict,
    "ThrottleInterval": int,
    "ExitTimeOut": int,
    "ProcessType": str,
    "Umask": int,
    "StandardOutPath": str,
    "StandardErrorPath": str,
}


def test_the_installed_plist_keeps_the_rules_of_launchd_and_survives_strange_paths(
    tmp_path: Path,
) -> None:
    strange = tmp_path / "a & b <c> 'ü' \"d\""
    strange.mkdir()
    plan = plan_of(strange)
    (plan.home.root / "run").mkdir(parents=True, exist_ok=True)
    Launchd(plan, Hands({}), strange / "agents", Background(plan, {})).install()
    file = strange / "agents" / f"{LABEL}.plist"
    text = file.read_text(encoding="utf-8")
    assert text.startswith(
        '<?xml version="1.0" encoding="UTF-8"?>\n<!DOCTYPE plist PUBLIC "-//Apple//DTD PLIST'
        ' 1.0//EN"'
    )
    # launchctl refuses an agent that others can write
    assert (file.stat().st_mode & 0o777) == 0o644
    found = plistlib.loads(file.read_bytes())
    assert {key: type(value) for key, value in found.items()} == LAUNCHD
    # as plutil -convert does
    assert found == plistlib.loads(plistlib.dumps(found, fmt=plistlib.FMT_BINARY))
    assert all(
        isinstance(word, str) and word
        for word in (*found["ProgramArguments"], *found["EnvironmentVariables"].values())
    )
    for path in (
        found["ProgramArguments"][0],
        found["WorkingDirectory"],
        found["StandardOutPath"],
        found["StandardErrorPath"],
    ):
        assert path.startswith("/")  # neither ~ nor $HOME is expanded
    assert found["ProcessType"] in ("Background", "Standard", "Adaptive", "Interactive")


def test_launchd_is_asked_with_the_verbs_of_its_manual(tmp_path: Path) -> None:
    hands, plan = (
        Hands({"launchctl print": Ran(113, "", "Could not find service")}),
        plan_of(tmp_path),
    )
    (plan.home.root / "run").mkdir(parents=True)
    (plan.home.root / "run" / "service.state").write_text(
        '{"state": "running", "supervisor": 1, "daemon": 2}'
    )
    service = Launchd(plan, hands, tmp_path / "agents", Background(plan, {}))
    assert service.standing().state == "not installed"
    assert service.install()[0].startswith("created")
    assert service.install()[0].startswith("unchanged")
    service.start()
    assert (
        f"launchctl bootstrap gui/{os.getuid()}"
        f" {shlex.quote(str(tmp_path / 'agents' / (LABEL + '.plist')))}" in hands.done
    )
    hands.answers = {}
    (plan.home.root / "run" / "service.state").write_text('{"state": "stopped"}')
    assert service.uninstall() == [f"removed {tmp_path / 'agents' / (LABEL + '.plist')}"]
    assert f"launchctl bootout gui/{os.getuid()}/{LABEL}" in hands.done
    assert service.uninstall() == ["not installed, nothing to do"]


def machine(root: Path, platform: str = "linux", **environ: str) -> Machine:
    return Machine(platform, root, {"HOME": str(root / "home"), **environ}, 1000)


def test_a_machine_is_taken_for_what_it_is(tmp_path: Path) -> None:
    home = Home(tmp_path / "home" / ".ohmo")
    assert (
        choose(machine(tmp_path), Path(sys.executable), home, system=False).name
        == "background process"
    )
    assert (
        choose(machine(tmp_path, "darwin"), Path(sys.executable), home, system=False).name
        == "launchd"
    )
    (tmp_path / "run/systemd/system").mkdir(parents=True)
    assert (
        choose(machine(tmp_path), Path(sys.executable), home, system=False).name
        == "background process"
    )  # booted, but nobody is logged in
    (tmp_path / "run/user/1000/systemd").mkdir(parents=True)
    (tmp_path / "run/user/1000/systemd/private").touch()
    assert (
        choose(machine(tmp_path), Path(sys.executable), home, system=False).name
        == "systemd, user unit"
    )
    assert (
        choose(machine(tmp_path), Path(sys.executable), home, system=True).name
        == "systemd, system unit"
    )
    assert (
        choose(machine(tmp_path), Path(sys.executable), home, system=False, kind="background").name
        == "background process"
    )
    (tmp_path / "proc/sys/kernel").mkdir(parents=True)
    (tmp_path / "proc/sys/kernel/osrelease").write_text("5.15.153.1-microsoft-standard-WSL2\n")
    assert machine(tmp_path).wsl


def test_without_systemd_a_system_unit_is_refused_with_the_way_out(tmp_path: Path) -> None:
    with pytest.raises(ServiceFailed, match="without --system"):
        choose(machine(tmp_path), Path(sys.executable), Home(tmp_path), system=True)


def test_the_reason_is_the_last_line_the_daemon_said_about_itself() -> None:
    assert reason_in(
        ["ohmo: first", "noise", "ohmo: /h: another ohmo (pid 7) owns this home", "exited"]
    ).startswith("/h: another")
    assert reason_in(["nothing", "said"]) == ""


def test_windows_is_told_where_to_go() -> None:
    code = "import sys; from ohmo.cli.main import main; sys.platform = 'win32'; main(['run'])"
    found = run_process(sys.executable, "-c", code)
    assert (found.returncode, found.stdout) == (1, "")
    assert "WSL 2" in found.stderr
    assert len(found.stderr.splitlines()) == 1


@pytest.mark.parametrize("folder", ["/home/a\nExecStartPre=/bin/evil", "/home/a\\", "/home/a "])
def test_a_home_that_would_write_lines_of_its_own_into_the_unit_is_refused(
    tmp_path: Path, folder: str
) -> None:
    plan = plan_of(tmp_path)
    with pytest.raises(ServiceFailed, match="a unit cannot name it"):
        unit(Plan(plan.python, plan.home, Path(folder), plan.search_path), system=False)


@pytest.mark.parametrize(
    "written",
    [
        "garbage",
        "[]",
        '{"state": 5, "daemon": "x", "restarts": "many"}',
        '{"state": "singing", "supervisor": -1}',
    ],
)
def test_a_state_file_that_is_nonsense_is_no_crash(tmp_path: Path, written: str) -> None:
    plan = plan_of(tmp_path)
    (plan.home.root / "run").mkdir(parents=True)
    service = Background(plan, {})
    service.install()
    (plan.home.root / "run" / "service.state").write_text(written)
    assert service.standing().state == "stopped"
    service.stop()


class Waiting:
    """Time that passes only while somebody sleeps."""

    def __init__(self, tmp_path: Path) -> None:
        self.now = 0.0
        self.passed: dict[float, str] = {}  # what is written down when
        plan = plan_of(tmp_path)
        run = plan.home.root / "run"
        run.mkdir(parents=True)
        self._state = run / "service.state"
        self.service = Background(plan, {}, now=lambda: self.now, sleep=self.sleep)

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        for at in [at for at in self.passed if at <= self.now]:
            self._state.write_text(json.dumps({"state": self.passed.pop(at)}))


@pytest.mark.parametrize("code", [0, -signal.SIGTERM, 75])
def test_a_start_that_another_command_stops_waits_for_the_one_that_starts_it_again(
    tmp_path: Path, code: int
) -> None:
    waiting = Waiting(tmp_path)
    waiting.passed = {0.2: "stopped", 3.0: "running"}
    waiting.service.wait_until_ready(lambda: code)
    assert 3.0 <= waiting.now < 4.0


@pytest.mark.parametrize("code", [0, -signal.SIGTERM])
def test_a_start_that_another_command_stops_for_good_has_not_failed(
    tmp_path: Path, code: int
) -> None:
    waiting = Waiting(tmp_path)
    waiting.service.wait_until_ready(lambda: code)
    assert 5.0 <= waiting.now < 6.0


@pytest.mark.parametrize(("code", "within"), [(1, 0.1), (-signal.SIGKILL, 0.1), (75, 6.0)])
def test_a_supervisor_that_ends_by_itself_is_a_failed_start(
    tmp_path: Path, code: int, within: float
) -> None:
    waiting = Waiting(tmp_path)
    with pytest.raises(ServiceFailed, match="ended at once"):
        waiting.service.wait_until_ready(lambda: code)
    assert waiting.now < within


@pytest.mark.parametrize(
    ("kind", "words"), [("systemd", "no user manager of systemd"), ("launchd", "only on a Mac")]
)
def test_a_manager_that_this_machine_has_not_is_refused_before_anything_is_written(
    tmp_path: Path, kind: Literal["systemd", "launchd"], words: str
) -> None:
    machine = Machine("linux", tmp_path, {"HOME": str(tmp_path)}, 1000)
    with pytest.raises(ServiceFailed, match=words):
        choose(machine, Path(sys.executable), Home(tmp_path / ".ohmo"), system=False, kind=kind)
