"""What needs no daemon: help, mistakes, first files, configuration, logs also where files of them are
turned over or damaged."""

from __future__ import annotations

import gzip
import json
import stat
import subprocess
import sys
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from ohmo.cli.commands.logs import growing
from ohmo.cli.main import run
from ohmo.cli.show import until
from ohmo.logs.writing import RotatingFile
from tests.programs import OHMO, environ, ohmo, run_process


def test_help_imports_next_to_nothing(home: Path) -> None:
    code = (
        "import sys; from ohmo.cli.main import run; run(['--help']); print(*sorted(sys.modules),"
        " file=sys.stderr)"
    )
    done = run_process(sys.executable, "-c", code, code=0, cwd=Path(__file__).parents[3])
    loaded = set(done.stderr.split())
    heavy = set(
        """
        pydantic ruamel.yaml aiohttp structlog asyncio http.client importlib.metadata anthropic
        openai logging
    """.split()
    )
    assert heavy & loaded == set()
    assert {name for name in loaded if name.startswith(("ohmo.", "channels"))} == set(
        "ohmo.cli ohmo.cli.main ohmo.contracts ohmo.contracts.errors".split()
    )
    assert "Start the daemon in the foreground" in done.stdout


def test_every_command_explains_itself(capsys: pytest.CaptureFixture[str]) -> None:
    commands = Path(__file__).parents[3] / "ohmo" / "cli" / "commands"
    for path in commands.glob("[!_]*.py"):
        assert run([path.stem, "--help"]) == 0
        assert "Usage: ohmo" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (
            ("stats",),
            "ohmo: there is no command 'stats', did you mean status?; ohmo --help explains",
        ),
        (("status", "--chek"), "ohmo: No such option '--chek'"),
        (("-p", "  "), "ohmo: -p needs a text to say"),
        (
            ("inbox", "why", "nonsense"),
            "ohmo: 'nonsense': expected THREAD/SEQ as `ohmo inbox list` shows it",
        ),
        (("-p", "x", "status"), "ohmo: -p stands alone, without a command"),
    ],
)
def test_a_mistake_at_the_keyboard_is_one_line_and_code_2(
    arguments: tuple[str, ...], line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(arguments) == 2
    said = capsys.readouterr()
    assert said.out == ""
    assert said.err.startswith(line)
    assert said.err.count("\n") == 1


@pytest.mark.cold_start
def test_init_creates_a_private_home_once(home: Path) -> None:
    ohmo(home, "init", "--channel", "slack", "--owner", "slack:U1", "--preset", "safe", code=0)
    assert stat.S_IMODE((home / "config.yaml").stat().st_mode) == 0o600
    assert {"config.yaml", "SOUL.md", "USER.md", "AGENTS.md"} <= {
        path.name for path in home.iterdir()
    }
    (home / "SOUL.md").write_text("mine", encoding="utf-8")
    again = ohmo(home, "init")
    assert again.stdout.count("kept") == 5  # with the manifest for Slack
    assert (home / "SOUL.md").read_text(encoding="utf-8") == "mine"
    found = json.loads(
        ohmo(
            home, "config", "show", "--json", SLACK_BOT_TOKEN="xoxb-1", SLACK_APP_TOKEN="xapp-1"
        ).stdout
    )
    assert found["channels"]["slack"]["enabled"] is True
    assert found["permissions"]["preset"] == "safe"
    assert found["owner"] == ["slack:U1"]


def test_init_leaves_a_foreign_home_alone(home: Path) -> None:
    (home / "gateway.json").write_text("{}", encoding="utf-8")
    said = ohmo(home, "init", code=78)
    assert "belongs to another program" in said.stderr
    assert [path.name for path in home.iterdir()] == ["gateway.json"]


def test_a_wrong_configuration_is_code_78_and_a_line_for_each_problem(home: Path) -> None:
    text = (
        "channels:\n  slack:\n    enabled: true\n    bot_tokn: env:X\n    bot_token: env:B\n   "
        " app_token: env:A\nlimits: {max_stps: 1}\n"
    )
    (home / "config.yaml").write_text(text, encoding="utf-8")
    expected = [
        "config.yaml:4: channels.slack.bot_tokn: unknown key, did you mean bot_token?",
        "config.yaml:7: limits.max_stps: unknown key, did you mean max_steps?",
    ]
    for command in (("config", "check"), ("run",)):
        said = ohmo(home, *command, A="xapp-1", B="xoxb-1", code=78)
        assert said.stderr.splitlines() == expected


@pytest.mark.parametrize(
    ("text", "line"),
    [
        (
            "workspace: /dev/null",
            "ohmo: workspace: /dev/null cannot be used as a folder (File exists); set workspace",
        ),
        (
            "channels: {matrix: {enabled: true, access_token: x, homeserver: example.org}}",
            "config.yaml:1: channels.matrix.homeserver: must be",
        ),
        (
            "store: {url: 'postgresql://h/d'}",
            "config.yaml:1: store.url: a daemon on PostgreSQL comes in a later version",
        ),
    ],
)
def test_what_only_the_start_finds_out_is_one_line_too(home: Path, text: str, line: str) -> None:
    (home / "config.yaml").write_text(text, encoding="utf-8")
    (home / "config.yaml").chmod(0o600)
    for command in (
        (("run",), ("config", "check")) if line.startswith("config.yaml") else (("run",),)
    ):
        said = ohmo(home, *command, OHMO__CONTROL__LISTEN="null", code=78)
        assert said.stderr.startswith(line)
        assert said.stderr.count("\n") == 1


def test_a_variable_is_blamed_for_the_section_it_makes_and_no_provider_is_offered_that_there_is_not(
    home: Path,
) -> None:
    (home / "config.yaml").write_text("profiles: {default: {provider: mine}}", encoding="utf-8")
    (home / "config.yaml").chmod(0o600)
    said = ohmo(home, "config", "check", OHMO__PERMISIONS__MODE="plan")
    assert (said.returncode, said.stderr.splitlines()) == (
        78,
        [
            "OHMO__PERMISIONS__MODE: permisions: unknown key, did you mean permissions?",
            (
                "config.yaml:1: profiles.default.provider: expected one of auto, anthropic, openai,"
                " offline, not 'mine'"
            ),
        ],
    )
    assert "opencode" not in ohmo(home, "config", "schema").stdout


@pytest.mark.cold_start
def test_show_hides_every_secret(home: Path) -> None:
    text = """\
profiles: {default: {provider: openai, api_key: sk-literal-secret}}
channels:
  matrix: {enabled: true, access_token: syt-literal-secret, password: hunter22}
"""
    (home / "config.yaml").write_text(text, encoding="utf-8")
    (home / "config.yaml").chmod(0o600)
    for arguments in (("config", "show"), ("config", "show", "--json")):
        said = ohmo(home, *arguments, code=0)
        assert not any(secret in said.stdout for secret in ("literal-secret", "hunter22"))


def test_show_speaks_in_the_units_one_writes_and_can_be_read_again(home: Path) -> None:
    (home / "config.yaml").write_text(
        "permissions: {approval_timeout: 5m}\nlimits: {turn_timeout: 5400}\n"
    )
    first = ohmo(home, "config", "show").stdout
    assert "approval_timeout: 5m\n" in first
    assert "turn_timeout: 1h30m\n" in first
    assert "memory: 2GiB\n" in first
    (home / "config.yaml").write_text(
        "".join(part for part in first.partition("permissions:")[1:]).partition("channels:")[0]
    )
    again = ohmo(home, "config", "show", code=0)
    assert again.stdout == first


def test_the_schema_is_json(home: Path) -> None:
    assert json.loads(ohmo(home, "config", "schema").stdout)["title"] == "ohmo config.yaml"


def test_edit_replaces_the_file_only_when_nothing_is_wrong(home: Path, tmp_path: Path) -> None:
    (home / "config.yaml").write_text("limits: {max_steps: 5}\n", encoding="utf-8")
    editor = tmp_path / "editor"
    editor.write_text('#!/bin/sh\nsed -i "s/max_steps: .*/$WORDS/" "$1"\n', encoding="utf-8")
    editor.chmod(0o755)
    said = ohmo(home, "config", "edit", EDITOR=str(editor), WORDS="max_steps: x}", code=78)
    assert "config.edited.yaml:1: limits.max_steps: expected a whole number, not 'x'" in said.stderr
    assert (home / "config.yaml").read_text(encoding="utf-8") == "limits: {max_steps: 5}\n"
    ohmo(home, "config", "edit", EDITOR=str(editor), WORDS="max_steps: 6}", code=0)
    assert (home / "config.yaml").read_text(encoding="utf-8") == "limits: {max_steps: 6}\n"
    assert not (home / "config.edited.yaml").exists()


def test_logs_are_shown_by_gravity(home: Path) -> None:
    ohmo(home, "logs", code=1)
    (home / "logs").mkdir()
    lines = [
        {"at": "t", "level": level, "event": f"e.{level}", "turn": "x"}
        for level in ("debug", "info", "error")
    ]
    text = "".join(json.dumps(line) + "\n" for line in lines) + '{"torn": '
    (home / "logs" / "ohmo.jsonl").write_text(text, encoding="utf-8")
    assert "e.debug" in ohmo(home, "logs").stdout
    shown = ohmo(home, "logs", "--level", "error").stdout
    assert "e.error" in shown
    assert "e.info" not in shown
    assert (
        json.loads(
            ohmo(home, "logs", "--json", "--level", "info", "-n", "3").stdout.splitlines()[0]
        )["event"]
        == "e.info"
    )


def test_a_time_to_come_is_told_as_such() -> None:
    now = datetime(2026, 1, 5, 12, tzinfo=UTC)
    assert until((now + timedelta(minutes=55)).isoformat(), now) == "in 55 min"
    assert until((now - timedelta(seconds=1)).isoformat(), now) == "over"
    assert until(None, now) == "-"


def test_a_channel_that_does_not_exist_is_named_with_the_nearest_one(home: Path) -> None:
    assert (
        ohmo(home, "channels", "test", "telegrm").stderr
        == "ohmo: there is no channel 'telegrm', did you mean telegram?\n"
    )
    assert (
        "not enabled; set channels.telegram.enabled"
        in ohmo(home, "channels", "test", "telegram").stderr
    )


def test_whoever_reads_our_standard_error_through_a_pipe_hears_of_trouble_and_of_nothing_else(
    home: Path,
) -> None:
    slack = {
        "enabled": True,
        "bot_token": "xoxb-1-1-abc",
        "app_token": "xapp-1-A-1-abc",
        "api_url": "http://127.0.0.1:9/api/",
    }
    (home / "config.yaml").write_text(
        json.dumps(
            {
                "profiles": {"default": {"provider": "offline"}},
                "control": {"listen": None},
                "channels": {"slack": slack},
            }
        )
    )
    (home / "config.yaml").chmod(0o600)
    with subprocess.Popen(
        [*OHMO, "run"],
        env=environ(home),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as daemon:
        assert daemon.stderr is not None
        over = threading.Timer(60, daemon.kill)
        over.start()
        line = daemon.stderr.readline()
        over.cancel()
        daemon.terminate()
        rest = daemon.stderr.read()
    assert " warning channel_down channel=slack error=Slack: " in line
    assert " info " not in rest
    assert daemon.returncode == 0


def lines(*numbers: int) -> bytes:
    return b"".join(
        json.dumps(
            {"at": "2026-11-22T12:00:00Z", "level": "info", "event": f"line{number}"}
        ).encode()
        + b"\n"
        for number in numbers
    )


def test_a_damaged_older_file_is_named_and_hides_no_other(home: Path) -> None:
    folder = home / "logs"
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "ohmo.jsonl").write_bytes(lines(7, 8))
    (folder / "ohmo.jsonl.1").write_bytes(lines(5, 6))
    # it was being packed when the process was killed
    (folder / "ohmo.jsonl.1.gz").write_bytes(gzip.compress(lines(5, 6))[:20])
    (folder / "ohmo.jsonl.2.gz").write_bytes(b"junk")
    (folder / "ohmo.jsonl.3.gz").write_bytes(gzip.compress(lines(1, 2)))
    said = ohmo(home, "logs", "-n", "100", code=0)
    assert [
        line.split()[2] for line in said.stdout.splitlines()
    ] == "line1 line2 line5 line6 line7 line8".split()
    assert "ohmo.jsonl.2.gz: cannot be read further" in said.stderr
    assert "ohmo.jsonl.1.gz" not in said.stderr


def test_a_log_that_is_followed_while_it_is_turned_over_loses_and_doubles_no_line(
    home: Path,
) -> None:
    """Several MB in a moment; the reader looks now and then."""
    path = home / "logs" / "ohmo.jsonl"
    file, seen = RotatingFile(path, 1 << 20, 50), list[str]()
    file.write(lines(0))
    reader = growing(path, 0)
    seen.append(next(reader))
    for number in range(1, 20_000):
        file.write(lines(number)[:-2] + b', "padding": "' + b"x" * 100 + b'"}\n')
        if number % 3_000 == 0:  # in between it was turned over
            while len(seen) < number:
                seen.append(next(reader))
    file.write(lines(20_000))
    while len(seen) <= 20_000:
        seen.append(next(reader))
    reader.close()
    assert len(list(path.parent.iterdir())) > 3
    assert [json.loads(line)["event"] for line in seen] == [
        f"line{number}" for number in range(20_001)
    ]
