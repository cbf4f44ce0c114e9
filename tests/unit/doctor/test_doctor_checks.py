"""Every named check: one thing is broken, this check and no other says so, and its next step can be
read."""

from __future__ import annotations

import functools
import json
import os
import sqlite3
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import ohmo.cron.recipes
from ohmo.config.channels import RawChannel
from ohmo.config.models import ChannelPolicy
from ohmo.contracts.cron import JobBody, JobSpec
from ohmo.doctor.check import Finding, Kept
from ohmo.doctor.checks.configuration import rules_match
from ohmo.doctor.checks.hooks import counterparts
from ohmo.doctor.examination import checks, examine, mend, survey
from ohmo.sandbox.walls import Standing as Walls
from ohmo.service.protocol import Standing
from ohmo.store.codec import write_job
from ohmo.storefile.inspection import problem

sys.path.insert(0, str(Path(__file__).parent))
from patient import Patient, channel

Break = Callable[[Patient], object]


def sql(patient: Patient, *statements: str) -> None:
    with closing(sqlite3.connect(patient.home.database)) as connection, connection:
        for statement in statements:
            connection.execute(statement)


def arrival(state: str, *, at: int, ending: str = "NULL", ended: str = "NULL") -> tuple[str, str]:
    thread = (
        "INSERT INTO threads (thread, channel, account, chat, topic, person, ready_at) VALUES ('t',"
        " 'telegram', '1', '1', '', '', 1)"
    )
    columns = (
        "thread, seq, sort, kind, message, album, person, said_at, at, ready_at, body, state,"
        " ending, ended_at"
    )
    values = (
        f"'t', 1, '1', 'message', 'm', '', '1', {at}, {at}, {at}, '{{}}', '{state}', {ending},"
        f" {ended}"
    )
    return thread, f"INSERT INTO inbox ({columns}) VALUES ({values})"


def ms(patient: Patient, **ago: float) -> int:
    return int((patient.now - timedelta(**ago)).timestamp() * 1000)


def damage(patient: Patient) -> None:
    raw = bytearray(patient.home.database.read_bytes())
    for at in range(1024, len(raw), 1024):
        raw[at : at + 40] = b"\xff" * 40
    patient.home.database.write_bytes(raw)


def job(
    patient: Patient,
    state: str = "",
    *,
    spec: JobSpec | None = None,
    next_at: int | None = None,
    **ago: float,
) -> None:
    """An hourly job called j; ``state``: of its run so long ago, "": it never ran."""
    body = JobBody(spec or JobSpec("j", "p", "UTC", schedule="0 * * * *"), patient.now)
    values = f"'{write_job(body)}', 1, 1, {next_at or 'NULL'}, 'owner'"
    sql(
        patient,
        "INSERT INTO jobs (job, name, origin, body, revision, enabled, next_at, person) VALUES"
        f" ('J', 'j', 'person', {values})",
    )
    if state:
        sql(
            patient,
            "INSERT INTO occurrences (job, due, state, reason, at) VALUES ('J',"
            f" {ms(patient, **ago)}, '{state}', 'why', {ms(patient, **ago)})",
        )


def log(patient: Patient, **event: object) -> None:
    patient.write("logs/ohmo.jsonl", json.dumps({"at": patient.now.isoformat(), **event}) + "\n")


def machine(**fields: object) -> Break:
    return lambda patient: patient.machine.update(fields)


def without(name: str) -> Break:
    return machine(has_program=lambda wanted: wanted != name)


def without_module(name: str) -> Break:
    return machine(has_module=lambda wanted: wanted != name)


def said(**fields: object) -> Break:
    return lambda patient: (patient.status or {}).update(fields)


def edit(old: str, new: str) -> Break:
    return lambda patient: patient.config(old, new)


def mode(name: str, value: int) -> Break:
    return lambda patient: (patient.home.root / name).chmod(value)


def alone(then: Break | None = None) -> Break:
    def do(patient: Patient) -> None:
        patient.status = None
        if then is not None:
            then(patient)

    return do


def kept(**fields: Any) -> Break:
    return lambda patient: setattr(
        patient, "kept", Kept("background process", installed=True, **fields)
    )


def gone(patient: Patient) -> None:
    patient.status = None
    patient.environ["OHMO_HOME"] += "-elsewhere"


TELEGRAM = "telegram: {enabled: true, groups: open}"


# name: how it is broken, words of the next step, other checks that cannot but say something too
def hooks_of_a_project(p: Patient) -> None:
    config = p.facts().config
    assert config is not None
    file = config.workspace / ".ohmo" / "hooks.yaml"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("hooks:\n  - {on: turn_end, command: x}\n")


BREAKS: dict[str, tuple[Break, str, frozenset[str]]] = {
    "backup.recent": (
        lambda p: [one.unlink() for one in p.home.backups.iterdir()],
        "ohmo backup",
        frozenset(),
    ),
    "backup.whole": (
        lambda p: next(p.home.backups.iterdir()).write_bytes(b"no archive"),
        "delete it",
        frozenset(),
    ),
    "cron.failing": (lambda p: job(p, "failed", hours=1), "ohmo cron history j", frozenset()),
    "cron.missed": (lambda p: job(p, "missed", hours=1), "ohmo service install", frozenset()),
    "cron.late": (lambda p: job(p, next_at=ms(p, hours=1)), "ohmo logs", frozenset()),
    "cron.open": (lambda p: job(p, "claimed", hours=30), "ohmo approvals list", frozenset()),
    "cron.target": (
        lambda p: job(p, spec=JobSpec("j", "p", "UTC", schedule="0 * * * *", to="slack:C1")),
        "ohmo cron edit j --to",
        frozenset(),
    ),
    "cron.secret": (
        lambda p: job(
            p,
            spec=JobSpec("j", "p", "UTC", schedule="0 * * * *", secrets=(("T", "env:NOT_THERE"),)),
        ),
        ".env",
        frozenset({"cron.allowed"}),
    ),
    "cron.allowed": (
        lambda p: job(p, spec=JobSpec("j", "p", "UTC", schedule="0 * * * *", rules=("Bash(ls)",))),
        "ohmo cron edit j",
        frozenset(),
    ),
    "cron.often": (
        lambda p: job(p, spec=JobSpec("j", "p", "UTC", schedule="* * * * * */5")),
        "ohmo cron edit j --every 5m",
        frozenset(),
    ),
    "cron.programs": (
        lambda p: (
            job(p, spec=JobSpec("j", "Run ohmo triage gitlab a/b.", "UTC", schedule="0 * * * *")),
            without("glab")(p),
        ),
        "install glab",
        frozenset(),
    ),
    "cron.recipes": (lambda p: p.write("recipes/mine.yaml", "schedule: ["), "mend", frozenset()),
    "channels.some": (
        lambda p: (p.config(TELEGRAM, "web: {enabled: false}"), p.config("telegram:1", "web:1")),
        "channels.web.enabled: true",
        frozenset({"configuration.reachable"}),
    ),
    "channels.sdk": (without_module("telegram"), "pip install 'ohmo[telegram]'", frozenset()),
    "channels.encryption": (
        lambda p: (
            p.raw.append(
                RawChannel(
                    "matrix", ChannelPolicy(enabled=True, groups="open"), {"encryption": True}
                )
            ),
            without_module("vodozemac")(p),
        ),
        "pip install 'ohmo[e2ee]'",
        frozenset(),
    ),
    "channels.deaf": (
        edit("groups: open", "dm: off, groups: off"),
        "channels.telegram.dm: pairing",
        frozenset(),
    ),
    "channels.groups": (edit(", groups: open", ""), "channels.telegram.allow.groups", frozenset()),
    "channels.twins": (
        edit(
            TELEGRAM,
            "telegram:\n    - {enabled: true, groups: open, account: a, token:"
            " env:TELEGRAM_TOKEN}\n    - {enabled: true, groups: open, account: b, token:"
            " env:TELEGRAM_TOKEN}",
        ),
        "its own token",
        frozenset(),
    ),
    "channels.starting": (
        lambda p: channel(p, "telegram", state="starting"),
        "ohmo logs",
        frozenset(),
    ),
    "channels.refused": (
        lambda p: channel(p, "telegram", state="auth_failed", detail="Unauthorized"),
        "@BotFather",
        frozenset(),
    ),
    "channels.conflict": (
        lambda p: channel(p, "telegram", state="conflict", detail="409"),
        "stop the other program",
        frozenset(),
    ),
    "channels.connected": (
        lambda p: channel(p, "telegram", state="reconnecting", detail="no answer"),
        "--only channels.telegram",
        frozenset(),
    ),
    "configuration.file": (
        edit("models: [fake-1]", "modls: [fake-1]"),
        "ohmo config edit",
        frozenset(),
    ),
    "configuration.there": (
        lambda p: (
            p.home.config.unlink(),
            p.environ.update(OHMO__OWNER='["web:1"]', OHMO__WORKSPACE=str(p.work)),
        ),
        "ohmo init",
        frozenset(),
    ),
    "configuration.edited": (
        lambda p: p.write("config.edited.yaml", "x: 1"),
        "ohmo config edit",
        frozenset(),
    ),
    "configuration.packages": (
        lambda p: setattr(p, "broken", ("entry point x: ImportError",)),
        "uninstall it",
        frozenset(),
    ),
    "configuration.workspace": (lambda p: p.work.rmdir(), "--fix", frozenset()),
    "configuration.wide": (
        lambda p: p.environ.update(HOME=str(p.work)),
        "workspace to a folder of its own",
        frozenset(),
    ),
    "configuration.owner": (edit('owner: ["telegram:1"]', "owner: []"), "/whoami", frozenset()),
    "configuration.reachable": (
        edit("telegram:1", "slack:U1"),
        "channels.slack.enabled: true",
        frozenset(),
    ),
    "configuration.roles": (
        edit("cron:", 'access: {roles: {admin: ["telegram:2"], guest: ["telegram:2"]}}\ncron:'),
        "remove one",
        frozenset(),
    ),
    "configuration.conflicts": (
        edit('allow: ["Bash(git status:*)"]', 'allow: ["Bash(git status:*)"], deny: [Bash]'),
        "one of the two",
        frozenset(),
    ),
    "configuration.unmatched": (
        edit("Bash(git status:*)", "CronCreate(news)"),
        "write CronCreate",
        frozenset(),
    ),
    "configuration.zone": (
        lambda p: (p.config("Europe/Berlin", "local"), p.environ.update(TZ="Europe/Belrin")),
        "Europe/Berlin",
        frozenset(),
    ),
    "configuration.port": (
        alone(machine(port_is_free=lambda host, port: False)),
        "7718",
        frozenset({"daemon.running"}),
    ),
    "configuration.listen": (
        edit("cron:", 'control: {listen: "0.0.0.0:7717"}\ncron:'),
        "127.0.0.1:7717",
        frozenset(),
    ),
    "configuration.backups": (
        edit("cron:", "backups: {every: null}\ncron:"),
        "every: 24h",
        frozenset(),
    ),
    "configuration.secret": (
        edit("provider: openai,", "provider: auto, api_key: file:/nowhere/key,"),
        "put the key there",
        frozenset(),
    ),
    "home.folder": (
        gone,
        "ohmo init",
        frozenset(
            """
                daemon.running configuration.there configuration.owner configuration.workspace
            """.split()
        ),
    ),
    "home.foreign": (
        lambda p: (p.home.database.unlink(), p.home.config.unlink(), p.write("gateway.json", "{}")),
        "--from openharness",
        frozenset({"configuration.there", "configuration.owner", "configuration.workspace"}),
    ),
    "home.owner": (lambda p: p.machine.update(user=os.geteuid() + 1), "chown", frozenset()),
    "hooks.readable": (lambda p: p.write("hooks.yaml", "hooks: 7\n"), "mend it", frozenset()),
    "hooks.counterparts": (
        lambda p: p.write("hooks.yaml", "hooks: {Notification: []}\n"),
        "docs/hooks.md",
        frozenset(),
    ),
    "hooks.project": (hooks_of_a_project, "ohmo trust list", frozenset()),
    "home.mode": (mode("", 0o755), "chmod go=", frozenset()),
    "home.folder_modes": (mode("state", 0o755), "chmod go=", frozenset()),
    "home.database_mode": (mode("ohmo.db", 0o644), "chmod go=", frozenset()),
    "home.token_mode": (lambda p: p.write("run/token", "x").chmod(0o644), "chmod go=", frozenset()),
    "home.config_mode": (mode("config.yaml", 0o644), "chmod go=", frozenset()),
    "home.env_mode": (lambda p: p.write(".env", "A=b\n").chmod(0o644), "chmod go=", frozenset()),
    "home.env": (lambda p: p.write(".env", "no value\n").chmod(0o600), "NAME=value", frozenset()),
    "home.folders": (lambda p: (p.home.root / "spill").rmdir(), "--fix", frozenset()),
    "home.writable": (
        lambda p: p.machine.update(may_write=lambda path: path.name != "media"),
        "chmod u+rwx",
        frozenset(),
    ),
    "home.local": (
        lambda p: p.machine.update(
            mounts=lambda: f"1 1 0:1 / {p.home.root} rw - nfs4 server:/x rw\n"
        ),
        "local disk",
        frozenset(),
    ),
    "home.room": (machine(room=lambda path: (2**20, 10**6)), "make room", frozenset()),
    "home.entries": (machine(room=lambda path: (10 * 2**30, 3)), "df -i", frozenset()),
    "home.leftovers": (
        lambda p: p.write(".config.yaml.abcd1234", "half", age=timedelta(hours=2)),
        "--fix",
        frozenset(),
    ),
    "home.pages": (lambda p: (p.home.root / "SOUL.md").unlink(), "ohmo init", frozenset()),
    "home.cut": (
        lambda p: p.write("SOUL.md", "Speak plainly. " * 7_000),
        "raise prompt.budgets.persona",
        frozenset(),
    ),
    "home.text": (lambda p: p.write("USER.md", b"\xff\xfe\xff"), "UTF-8", frozenset()),
    "home.socket": (
        alone(lambda p: p.write("run/ohmo.sock", "")),
        "--fix",
        frozenset({"daemon.running"}),
    ),
    "home.quarantine": (
        lambda p: p.write("quarantine/ohmo.db-1/ohmo.db", "x"),
        "ohmo inbox audit",
        frozenset(),
    ),
    "machine.python": (machine(python=(3, 10)), "Python 3.11", frozenset()),
    "machine.encoding": (machine(encoding="ascii"), "LANG=C.UTF-8", frozenset()),
    "machine.files": (machine(open_files=lambda: 64), "ulimit -n", frozenset()),
    "machine.memory": (
        machine(memory=lambda: "MemAvailable: 1000 kB\n"),
        "stop what you do not need",
        frozenset(),
    ),
    "machine.root": (
        machine(user=0),
        "user of its own",
        frozenset() if os.geteuid() == 0 else frozenset({"home.owner"}),
    ),
    "machine.bash": (without("bash"), "apt install bash", frozenset()),
    "machine.git": (without("git"), "apt install git", frozenset()),
    "machine.rg": (without("rg"), "apt install ripgrep", frozenset()),
    "sandbox.holds": (
        machine(walls=lambda config, environ: Walls("none", ("there is no bwrap",), fell=True)),
        "install the package bubblewrap",
        frozenset(),
    ),
    "machine.uvloop": (without_module("uvloop"), "pip install uvloop", frozenset()),
    "machine.traces": (
        lambda p: (
            p.environ.update(OTEL_EXPORTER_OTLP_ENDPOINT="http://127.0.0.1:4318"),
            without_module("opentelemetry.sdk")(p),
        ),
        "ohmo[otel]",
        frozenset(),
    ),
    "configuration.tools": (
        edit('web_search: {provider: searxng, url: "http://127.0.0.1:3"}\n', ""),
        "docs/tools.md",
        frozenset(),
    ),
    "model.key": (
        lambda p: (
            p.environ.pop("OPENAI_API_KEY"),
            p.config('{provider: openai, base_url: "http://127.0.0.1:1", models: [fake-1], ', "{"),
        ),
        "ANTHROPIC_API_KEY",
        frozenset(),
    ),
    "model.chain": (
        edit(
            "fallback: [second]}",
            'fallback: [same]}\n  same: {provider: openai, base_url: "http://127.0.0.1:1", models:'
            " [fake-1]}",
        ),
        "remove same",
        frozenset(),
    ),
    "model.budgets": (
        edit("workspace:", "budgets: {day: {usd: 5}}\nworkspace:"),
        "pricing:",
        frozenset(),
    ),
    "model.rate": (
        edit("fallback: [second]}", "fallback: [second], rate: {tokens: 5000}}"),
        "in a minute, or null",
        frozenset(),
    ),
    "model.wire": (edit("http://127.0.0.1:1", "http://gateway.example"), "https://", frozenset()),
    "service.asked": (kept(broken="systemctl: no answer"), "ohmo service status", frozenset()),
    "service.installed": (
        lambda p: setattr(p, "kept", Kept("background process")),
        "ohmo service install",
        frozenset(),
    ),
    "service.current": (kept(stale=True), "ohmo service install", frozenset()),
    "service.state": (
        kept(standing=Standing("failed", detail="exit code 78")),
        "ohmo service logs",
        frozenset(),
    ),
    "service.keeper": (
        kept(standing=Standing("running", 4711, alone=True)),
        "ohmo service start",
        frozenset(),
    ),
    "service.upgrade": (
        lambda p: setattr(p, "upgrade_interrupted", True),
        "ask again in two minutes",
        frozenset(),
    ),
    "daemon.running": (alone(), "ohmo run", frozenset()),
    "daemon.answers": (lambda p: setattr(p, "deaf", True), "kill 4711", frozenset()),
    "daemon.ready": (said(ready=False), "ohmo logs", frozenset()),
    "daemon.version": (said(version="0.0.1"), "ohmo service restart", frozenset()),
    "daemon.warnings": (said(warnings=["the store was damaged"]), "ohmo status", frozenset()),
    "daemon.model": (said(model="offline"), "docs/models.md", frozenset()),
    "daemon.questions": (said(turns_parked=2), "ohmo approvals list", frozenset()),
    "trust.waiting": (
        said(waiting=[{"kind": "skill", "name": "x"}]),
        "ohmo trust allow skill x",
        frozenset(),
    ),
    "mcp.reached": (
        said(servers=[{"name": "x", "error": "it closed the connection", "waiting": []}]),
        "ohmo mcp test",
        frozenset(),
    ),
    "mcp.approved": (
        said(servers=[{"name": "x", "error": "", "waiting": ["add: new: Adds."]}]),
        "ohmo mcp approve x",
        frozenset(),
    ),
    "mcp.usable": (
        said(servers=[{"name": "x", "error": "", "waiting": [], "off": ["add: no tool"]}]),
        "ohmo mcp list",
        frozenset(),
    ),
    "mcp.project": (said(notes=["/w/.mcp.json does not count"]), "docs/mcp.md", frozenset()),
    "skills.sound": (
        said(skills=[{"state": "broken", "path": "/s", "why": "w"}]),
        "ohmo skills list",
        frozenset(),
    ),
    "plugins.sound": (
        said(plugins=[{"state": "broken", "path": "/p", "why": "w", "notes": []}]),
        "ohmo plugins list",
        frozenset(),
    ),
    "sandbox.places": (
        lambda p: p.config(
            "workspace:", "mcp: {x: {command: x, sandbox: {read: [/etc]}}}\nworkspace:"
        ),
        "mend the key sandbox",
        frozenset(),
    ),
    "plugins.project": (
        lambda p: (p.home.root.parent / "work/.ohmo/plugins").mkdir(parents=True),
        "$OHMO_HOME/plugins",
        frozenset(),
    ),
    "log.writable": (
        lambda p: (
            log(p, event="x"),
            p.machine.update(may_write=lambda path: path.suffix != ".jsonl"),
        ),
        "chmod u+rw",
        frozenset(),
    ),
    "log.errors": (
        lambda p: log(p, level="error", event="channel_failed"),
        "--level error",
        frozenset(),
    ),
    "log.lost": (lambda p: log(p, level="warning", event="log.lost", lines=7), "disk", frozenset()),
    "store.sound": (damage, "ohmo restore", frozenset()),
    "store.version": (
        lambda p: sql(p, "UPDATE meta SET value = '999' WHERE name = 'schema'"),
        "ohmo restore",
        frozenset(),
    ),
    "store.log": (
        lambda p: os.truncate(p.write("ohmo.db-wal", b""), 300 * 2**20),
        "ohmo store compact",
        frozenset(),
    ),
    "store.hollow": (
        lambda p: sql(
            p,
            "CREATE TABLE big (x BLOB)",
            "INSERT INTO big VALUES (zeroblob(70000000))",
            "DROP TABLE big",
        ),
        "ohmo store compact",
        frozenset(),
    ),
    "store.laws": (
        lambda p: sql(p, *arrival("waiting", at=ms(p)), "UPDATE threads SET ready_at = NULL"),
        "ohmo inbox audit",
        frozenset(),
    ),
    "store.dead_letters": (
        lambda p: sql(p, *arrival("ended", at=ms(p), ending="'dead'", ended="1")),
        "ohmo inbox retry",
        frozenset(),
    ),
    "store.dead_posts": (
        lambda p: sql(
            p,
            *arrival("ended", at=ms(p), ending="'answered'", ended="1"),
            "INSERT INTO outbox (id, thread, seq, channel, account, kind, body, state, at,"
            " ready_at, expires, ttl, ended_at) VALUES ('o', 't', 2, 'telegram', '1', 'message',"
            " '{}', 'dead', 1, 1, 1, 1, 1)",
        ),
        "ohmo outbox retry",
        frozenset(),
    ),
    "store.waiting": (
        lambda p: sql(p, *arrival("waiting", at=ms(p, hours=1))),
        "ohmo inbox why",
        frozenset(),
    ),
    "store.clock": (
        lambda p: sql(p, *arrival("ended", at=ms(p, hours=-2), ending="'answered'", ended="1")),
        "timedatectl",
        frozenset(),
    ),
    "store.asking": (
        lambda p: sql(
            p,
            "INSERT INTO people (channel, account, person, name, role, at) VALUES ('telegram', '1',"
            " '2', 'Eve', 'asking', 1)",
        ),
        "ohmo pairing approve",
        frozenset(),
    ),
}
USUAL = frozenset({"machine.root"} if os.geteuid() == 0 else ())  # tests may run as root
LIVE = frozenset(check.name for check in checks() if check.live)


remembered = functools.cache(ohmo.cron.recipes.parse)


@pytest.fixture
def patient(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Patient:
    """The recipes that come with ohmo are parsed once, not for every patient."""
    monkeypatch.setattr(ohmo.cron.recipes, "parse", remembered)
    return Patient(tmp_path)


WANTING = ("problem", "warning", "note")


def wanting(patient: Patient) -> set[str]:
    return {one.check.name for one in examine(patient.facts()) if one.finding.state in WANTING}


def test_every_check_has_a_test_that_breaks_it() -> None:
    names = [check.name for check in checks()]
    assert len(names) == len(set(names)) >= 40
    assert set(BREAKS) == set(names) - LIVE


@pytest.mark.parametrize(
    ("rate", "says"),
    [
        ("tokens: 5000", "5000 is less than one request with its longest answer takes"),
        ("requests: 1", "1 is less than an answer with one tool takes (2)"),
        ("requests: 50, tokens: 200000", ""),
    ],
)
def test_a_rate_into_which_little_fits_is_told_with_its_key(
    patient: Patient, rate: str, says: str
) -> None:
    patient.config("models: [fake-2]", f"models: [fake-2], rate: {{{rate}}}")
    found = {one.check.name: one.finding for one in examine(patient.facts())}["model.rate"]
    key = rate.partition(":")[0]
    assert (f"profiles.second.rate.{key}: {says}" in found.text) if says else found.state == "ok"


def test_tools_that_nobody_has_set_up_are_named_with_their_keys(patient: Patient) -> None:
    patient.config('web_search: {provider: searxng, url: "http://127.0.0.1:3"}\n', "")
    patient.config('images: {model: picture-1, base_url: "http://127.0.0.1:4"}\n', "")
    found = {one.check.name: one.finding for one in examine(patient.facts())}
    absent = "WebSearch (web_search.provider), ImageGeneration (images.model)"
    assert found["configuration.tools"].text == f"not set up: {absent}"
    assert found["configuration.tools"].state == "note"


def test_a_budget_in_dollars_says_what_a_model_without_a_price_does_to_it(patient: Patient) -> None:
    patient.config("workspace:", "budgets: {day: {usd: 5}}\nworkspace:")
    found = {one.check.name: one.finding for one in examine(patient.facts())}["model.budgets"]
    assert found.text == (
        "fake-1 has no known price, so what it costs counts as nothing and no budget in usd stops"
        " it"
    )
    assert "dollars per million tokens" in found.next


def test_places_that_a_hook_or_server_cannot_have_are_named_before_it_starts(
    patient: Patient,
) -> None:
    hook = "{name: keeps, on: turn_end, command: x, sandbox: {write: ['~']}}"
    patient.write("hooks.yaml", f"hooks:\n  - {hook}\n")
    server = "{command: x, sandbox: {read: [/etc, /nowhere]}}"
    patient.config("workspace:", f"mcp: {{shop: {server}}}\nworkspace:")
    found = {one.check.name: one.finding for one in examine(patient.facts())}["sandbox.places"]
    assert found.text == (
        "the hook keeps: sandbox.write: ~ is a sensitive place, or holds one; name another; the MCP"
        " server shop: sandbox.read: /etc is a sensitive place, or holds one; name another"
    )


def test_nothing_is_wrong_with_the_healthy(patient: Patient) -> None:
    assert wanting(patient) <= USUAL
    assert not [
        one
        for one in examine(patient.facts())
        if one.finding.state == "skipped" and not one.check.live
    ]


@pytest.mark.parametrize("name", sorted(BREAKS))
def test_a_check_finds_exactly_what_was_broken(name: str, patient: Patient) -> None:
    broken, step, also = BREAKS[name]
    broken(patient)
    found = {one.check.name: one.finding for one in examine(patient.facts())}
    assert found[name].state in WANTING, found[name]
    assert step in found[name].next
    assert "\n" not in found[name].text + found[name].next
    wanted = {one for one, finding in found.items() if finding.state in WANTING}
    assert wanted - (USUAL - {name}) - also == {name}


MENDABLE = sorted(one.name for one in checks() if one.mend is not None)


@pytest.mark.parametrize("name", MENDABLE)
def test_what_is_marked_fixable_is_mended_and_may_be_mended_again(
    name: str, patient: Patient
) -> None:
    BREAKS[name][0](patient)
    # whether a file may be written is asked of the machine, which the test stands for
    real = name in ("home.writable", "log.writable")
    if real:
        patient.machine["may_write"] = lambda path: (
            not path.is_relative_to(patient.home.root) or bool(path.stat().st_mode & 0o200)
        )
        (patient.home.log if name == "log.writable" else patient.home.media).chmod(
            0o400 if name == "log.writable" else 0o500
        )
    for _ in range(2):
        facts = patient.facts()
        results = mend(facts, examine(facts), patient.facts)
        found = next(result for result in results if result.check.name == name)
        assert found.finding.state in ("ok", "skipped"), found
    assert not found.mended  # the second time there was nothing to mend


def stamps(home: Path) -> dict[Path, int]:
    """SQLite's shared memory is touched by every reader."""
    return {
        path: path.stat().st_mtime_ns
        for path in home.rglob("*")
        if path.is_file() and path.suffix != ".db-shm"
    }


def test_mending_changes_nothing_of_the_healthy(patient: Patient) -> None:
    before = stamps(patient.home.root)
    facts = patient.facts()
    mend(facts, examine(facts), patient.facts)
    assert stamps(patient.home.root) == before
    assert problem(patient.home.database) is None


def finding(patient: Patient, name: str) -> Finding:
    return next(one.finding for one in examine(patient.facts()) if one.check.name == name)


def test_half_written_files_are_found_wherever_the_house_writes_whole_ones(
    patient: Patient,
) -> None:
    """Those of a channel hold the keys of its device."""
    names = [f"{folder}.x.abcd1234" for folder in ("", "memory/", "run/", "state/matrix/")]
    for name in names:
        patient.write(name, "half", age=timedelta(hours=2))
    patient.write("state/matrix/.y.abcd1234", "of one that is writing now")
    facts = patient.facts()
    mend(facts, examine(facts), patient.facts)
    assert [path.name for path in patient.home.root.rglob(".?.????????")] == [".y.abcd1234"]


def test_what_somebody_put_aside_under_a_name_of_their_own_is_not_taken_for_half_written(
    patient: Patient,
) -> None:
    names = """
        .env.template .env.original .env.20261122 memory/.note.20261122 state/matrix/.keys.personal
        notes.new
    """.split()
    for name in names:
        patient.write(name, "mine", age=timedelta(hours=2))
    facts = patient.facts()
    mend(facts, examine(facts), patient.facts)
    assert [name for name in names if not (patient.home.root / name).exists()] == []


def foreign(patient: Patient) -> None:
    for name in ("ohmo.db", "config.yaml", "SOUL.md"):
        (patient.home.root / name).unlink()
    patient.write("gateway.json", "{}")


@pytest.mark.parametrize("broken", [foreign, machine(user=os.geteuid() + 1)])
def test_nothing_is_mended_in_a_home_that_is_somebody_elses(
    patient: Patient, broken: Break
) -> None:
    broken(patient)
    patient.home.root.chmod(0o755)
    before = {path: path.stat().st_mode for path in patient.home.root.rglob("*")}
    facts = patient.facts()
    results = mend(facts, examine(facts), patient.facts)
    assert {path: path.stat().st_mode for path in patient.home.root.rglob("*")} == before
    assert patient.home.root.stat().st_mode & 0o777 == 0o755
    assert "left as it is" in next(
        result.mended for result in results if result.check.name == "home.mode"
    )


def test_whoever_may_not_look_into_the_home_hears_of_that_alone_and_not_that_nobody_runs(
    patient: Patient,
) -> None:
    patient.machine.update(user=os.geteuid() + 1, may_read=lambda path: False)
    assert wanting(patient) - USUAL == {"home.owner"}
    assert "ask as that user: sudo -u '#" in finding(patient, "home.owner").next
    assert "closed to you" in finding(patient, "daemon.running").text


def test_a_daemon_that_does_not_answer_is_asked_once(patient: Patient) -> None:
    asked: list[str] = []
    patient.deaf = True
    facts = patient.facts()
    found = survey(patient.environ, asked.append, now=patient.now)
    found = replace(found, holder="4711", machine=facts.machine)
    rows = {one.check.name: one.finding for one in examine(found)}
    assert asked == ["/api/v1/status"]
    assert rows["daemon.answers"].state == "problem"
    assert "does not answer" in rows["channels.connected"].text


def test_lines_of_the_log_that_were_lost_long_ago_are_no_longer_told(patient: Patient) -> None:
    event = {
        "at": (patient.now - timedelta(days=3)).isoformat(),
        "level": "warning",
        "event": "log.lost",
        "lines": 7,
    }
    patient.write("logs/ohmo.jsonl", json.dumps(event) + "\n")
    assert finding(patient, "log.lost").state == "ok"


def test_what_is_usual_in_a_container_is_not_told_as_wrong(patient: Patient) -> None:
    patient.environ["OHMO_SERVICE"] = "container"
    patient.config("cron:", 'control: {listen: "0.0.0.0:7717"}\ncron:')
    patient.kept = None
    assert wanting(patient) <= USUAL


def test_a_container_that_has_no_memory_left_is_found_whatever_its_machine_has(
    patient: Patient,
) -> None:
    patient.machine["memory_share"] = lambda: 0.9
    assert "90%" in finding(patient, "machine.memory").text


@pytest.mark.parametrize(("runs", "step"), [(True, "ask again in two minutes"), (False, "returns")])
def test_an_interrupted_upgrade_is_told_with_what_comes_next(
    patient: Patient, runs: bool, step: str
) -> None:
    patient.upgrade_interrupted = True
    if not runs:
        patient.status = None
    assert step in finding(patient, "service.upgrade").next


def test_times_are_told_in_the_zone_of_the_configuration(patient: Patient) -> None:
    assert "timezone: Europe/Berlin" in patient.home.config.read_text()
    for one in patient.home.backups.iterdir():
        one.rename(one.with_name("ohmo-20990101T080000Z.tar.gz"))
    text = finding(patient, "backup.recent").text
    assert text.endswith("the newest 2099-01-01 09:00 CET (Europe/Berlin)")


@pytest.mark.parametrize(
    ("rule", "why"),
    [
        ("Edit([)", "its [ is closed nowhere"),
        ("mcp__nosuch__tool", "there is no server nosuch"),
        ("mcp__nosuch", "there is no server nosuch"),
    ],
)
def test_a_rule_about_what_is_not_there_is_named(patient: Patient, rule: str, why: str) -> None:
    patient.config('["Bash(git status:*)"]', f'["Read(./[ab].py)", "mcp__*", "{rule}"]')
    assert why in rules_match(patient.facts()).text


@pytest.mark.parametrize(("key", "said"), [("match: Bsh", "Bsh"), ('if: "Bsh(x)"', "Bsh")])
def test_a_hook_about_no_tool_is_named(patient: Patient, key: str, said: str) -> None:
    hooks = "hooks: [{name: one, on: pre_tool_use, KEY, command: [/bin/true]}]\n"
    patient.write("hooks.yaml", hooks.replace("KEY", key))
    assert f"no tool is called {said}" in counterparts(patient.facts()).text
    patient.write("hooks.yaml", hooks.replace("KEY", key.replace("Bsh", "Bash")))
    assert counterparts(patient.facts()).state == "ok"
