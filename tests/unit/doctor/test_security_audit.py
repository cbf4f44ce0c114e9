"""Each way in is named with its severity and the step that closes it, and each rule that another one
leaves nothing to decide; a careful home has none that is grave."""

from __future__ import annotations

import errno
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from ohmo.config.load import load
from ohmo.config.models import Sandbox
from ohmo.doctor.audit import ORDER, PACKAGES, audit, close
from ohmo.doctor.checks.sandbox import holds
from ohmo.doctor.examination import examine
from ohmo.sandbox.walls import Standing

sys.path.insert(0, str(Path(__file__).parent))
from patient import Patient

TELEGRAM = "telegram: {enabled: true, groups: open}"
CAREFUL = "telegram: {enabled: true}"
WAYS = {
    "open_door_full_auto": (
        [
            (CAREFUL, "telegram: {enabled: true, dm: open}"),
            ("permissions: {", "permissions: {mode: full_auto, "),
        ],
        "critical",
        "dm: pairing",
    ),
    "open_door": ([(CAREFUL, "telegram: {enabled: true, dm: open}")], "high", "dm: pairing"),
    "open_groups": ([(CAREFUL, TELEGRAM)], "medium", "groups: allowlist"),
    "default_admin": (
        [("cron:", "access: {default_role: admin}\ncron:")],
        "high",
        "default_role: user",
    ),
    "no_owner": ([('owner: ["telegram:1"]', "owner: []")], "low", "owner:"),
    "full_auto": ([("permissions: {", "permissions: {mode: full_auto, ")], "high", "mode: default"),
    "wide_rule": ([('"Bash(git status:*)"', '"Bash"')], "high", "single commands"),
    "reads_outside": (
        [("permissions: {", "permissions: {read_outside: allow, ")],
        "low",
        "read_outside: ask",
    ),
    "listens": ([("cron:", 'control: {listen: "0.0.0.0:7717"}\ncron:')], "high", "127.0.0.1:7717"),
    "plain_model": ([("http://127.0.0.1:1", "http://gateway.example")], "high", "https://"),
    "literal_secret": (
        [("models: [fake-1]", "models: [fake-1], api_key: sk-literal")],
        "low",
        "env:NAME",
    ),
}


@pytest.fixture
def patient(tmp_path: Path) -> Patient:
    found = Patient(tmp_path)
    found.config(TELEGRAM, CAREFUL)
    return found


def findings(
    patient: Patient, user: int = 1000, packages: Path = PACKAGES
) -> dict[str, tuple[str, str]]:
    return {
        risk.name: (risk.severity, risk.next)
        for risk in audit(load(environ=patient.environ), user, packages)
    }


def test_a_careful_home_has_nothing_open(patient: Patient) -> None:
    assert findings(patient) == {}
    assert set(findings(patient, user=0)) == {"root"}


def test_what_lies_open_in_the_home_is_closed_and_nothing_else_is_touched(patient: Patient) -> None:
    for name in ("config.yaml", ""):
        (patient.home.root / name).chmod(0o755)
    (patient.home.root / "notes").write_text("x")
    assert findings(patient)["open_file"][0] == "high"
    config = load(environ=patient.environ)
    assert len(close(config)) == 2
    assert (findings(patient), close(config)) == ({}, [])
    assert (patient.home.root / "config.yaml").stat().st_mode & 0o777 == 0o700


def test_one_file_that_cannot_be_closed_keeps_no_other_open(
    patient: Patient, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("config.yaml", ""):
        (patient.home.root / name).chmod(0o755)
    closes = Path.chmod

    def foreign(path: Path, mode: int) -> None:
        if path == patient.home.root:
            raise PermissionError(errno.EPERM, "Operation not permitted")
        closes(path, mode)

    monkeypatch.setattr(Path, "chmod", foreign)
    one, other = close(load(environ=patient.environ))
    assert "cannot be closed (Operation not permitted)" in one
    assert other == f"{patient.home.root / 'config.yaml'}: closed to others"


def test_the_preset_full_is_named_and_that_it_is_not_in_force(patient: Patient) -> None:
    patient.config("permissions: {", "permissions: {preset: full, ")
    assert findings(patient) == {"full_auto": ("medium", "set permissions.preset: balanced")}
    config = load(environ=patient.environ)
    fell = Standing("none", ("there is no bwrap",), fell=True)
    for backend, walls, name in (
        ("auto", fell, "no_sandbox"),
        ("none", Standing("none"), "full_not_in_force"),
    ):
        changed = replace(config, sandbox=Sandbox(backend=backend))
        (risk,) = [one for one in audit(changed, 1000, walls=walls) if one.name == name]
        assert "permissions.preset: full is not in force" in risk.text
    assert not [
        one for one in audit(config, 1000, walls=Standing("landlock")) if "not in force" in one.text
    ]


@pytest.mark.parametrize(
    ("backend", "why", "next"),
    [
        ("docker", "docker: there is no engine at /run/docker.sock", "start the engine"),
        ("landlock", "landlock: the kernel has none", "set sandbox.backend: auto"),
        ("bubblewrap", "bubblewrap: there is no bwrap", "install the package bubblewrap"),
        ("auto", "bubblewrap: it does not start: AppArmor", "mend what the line names"),
    ],
)
def test_the_next_step_is_one_of_the_backend_that_was_asked_for(
    patient: Patient, backend: str, why: str, next: str
) -> None:
    patient.config("cron:", f"sandbox: {{backend: {backend}}}\ncron:")
    config = load(environ=patient.environ)
    walls = Standing("none", (why,), fell=True)
    (risk,) = [one for one in audit(config, 1000, walls=walls) if one.name == "no_sandbox"]
    assert next in risk.next
    patient.machine["walls"] = lambda *_: walls
    assert next in holds(patient.facts()).next


def test_walls_that_were_given_up_are_named(patient: Patient) -> None:
    patient.config("cron:", "sandbox: {backend: none}\ncron:")
    assert findings(patient)["no_sandbox"] == ("high", "set sandbox.backend: auto")
    patient.config("{backend: none}", "{network: on}")
    assert findings(patient)["open_network"] == ("medium", "set sandbox.network: ask")


@pytest.mark.parametrize("name", sorted(WAYS))
def test_each_way_in_is_named(name: str, patient: Patient) -> None:
    edits, severity, step = WAYS[name]
    for old, new in edits:
        patient.config(old, new)
    found = findings(patient)
    assert found[name][0] == severity
    assert step in found[name][1]
    assert set(found) - {name} <= {"full_auto"}


@pytest.mark.parametrize("name", ["packages", "packages/ohmo", "above"])
def test_folders_in_which_somebody_else_could_put_another_ohmo_or_home_are_named(
    name: str, patient: Patient, tmp_path: Path
) -> None:
    packages = tmp_path / "packages"
    (packages / "ohmo").mkdir(parents=True)
    folder = patient.home.root.parent if name == "above" else tmp_path / name
    assert findings(patient, packages=packages) == {}
    folder.chmod(0o757)
    assert findings(patient, packages=packages) == {
        "exchangeable": ("critical", f"chmod o-w {folder}")
    }
    folder.chmod(0o1777)  # as /tmp: nobody replaces what is not theirs
    assert findings(patient, packages=packages) == {}
    folder.chmod(0o755)


HOOK = (
    "webhooks: {ci: {secret: a-secret-in-a-private-file, prompt: 'look', to: 'telegram:1', role:"
    " owner, rules: ['Bash']}}\ncron:"
)


def test_what_runs_when_nobody_is_there_is_looked_at_too(patient: Patient) -> None:
    patient.config("cron:", HOOK)
    assert findings(patient)["wide_job"][0] == "high"
    assert "strong_webhook" not in findings(patient)
    patient.config("permissions: {", "permissions: {mode: full_auto, ")
    assert findings(patient)["strong_webhook"] == ("critical", "set webhooks.ci.role: user")


@pytest.mark.parametrize("part", ["config.yaml", ".env", "run/token", "ohmo.db", "backups"])
def test_what_others_can_open_is_named(part: str, patient: Patient) -> None:
    path = patient.home.root / part
    if not path.exists():
        path.write_text("")
    path.chmod(0o755 if path.is_dir() else 0o644)
    assert findings(patient)["open_file"][1] == f"chmod go= {path}"


def test_the_gravest_come_first(patient: Patient) -> None:
    patient.config(CAREFUL, "telegram: {enabled: true, dm: open}")
    patient.config('owner: ["telegram:1"]', "owner: []")
    ranks = [ORDER.index(risk.severity) for risk in audit(load(environ=patient.environ), 0)]
    assert ranks == sorted(ranks)


sys.path.insert(0, str(Path(__file__).parent))

SHADOWED = [
    ("Bash(git:*)", "Bash(git status:*)"),
    ("Bash(git status:*)", "Bash(git status -s)"),
    ("Bash", "Bash(ls:*)"),
    ("Read(/srv/**)", "Read(/srv/a/*.txt)"),
    ("Read(/srv/**)", "Read(/srv/a/**)"),
    ("mcp__notes__*", "mcp__notes__write"),
]
FREE = [
    ("Bash(git status:*)", "Bash(git:*)"),
    ("Bash(git:*)", "Bash(gitk:*)"),
    ("Bash(git push)", "Bash(git push origin)"),
    ("Read(/srv/**)", "Read(/srv/../etc/**)"),
    ("Read(/srv/**)", "Read(/srv2/a)"),
    ("Read(/srv/*/x/**)", "Read(/srv/a/b)"),
    ("Read(/srv/**)", "Write(/srv/a)"),
    ("mcp__notes__*", "mcp__mail__write"),
]


def found(folder: Path, kind: str, higher: str, lower: str) -> str:
    patient = Patient(folder)
    patient.config('allow: ["Bash(git status:*)"]', f'{kind}: ["{higher}"], allow: ["{lower}"]')
    (one,) = examine(patient.facts(), only=("configuration.conflicts",))
    return one.finding.text if one.finding.state == "warning" else ""


@pytest.mark.parametrize("kind", ["deny", "ask"])
@pytest.mark.parametrize(("higher", "lower"), SHADOWED)
def test_a_rule_that_decides_nothing_is_named_with_what_beats_it(
    tmp_path: Path, kind: str, higher: str, lower: str
) -> None:
    text = f"permissions.allow: {lower} has no effect, permissions.{kind}: {higher} beats it"
    assert found(tmp_path, kind, higher, lower) == text


@pytest.mark.parametrize(("higher", "lower"), FREE)
def test_a_rule_that_still_decides_something_is_left_alone(
    tmp_path: Path, higher: str, lower: str
) -> None:
    assert found(tmp_path, "deny", higher, lower) == ""
