"""The wizard: every step by a flag, idempotent, never over an edit; a model that is really asked;
OpenHarness taken over."""

from __future__ import annotations

import asyncio
import json
import stat
import subprocess
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from ruamel.yaml import YAML

from ohmo.config.home import read_env
from tests.platforms.model.script import Turn
from tests.platforms.model.server import ModelServer, serving
from tests.programs import OHMO, environ, ohmo
from tests.terminal import terminal

TOKEN = f"123456:{'A' * 35}"
ROOT = Path(__file__).parents[3]


def init(
    home: Path, *arguments: str, code: int | None = None, stdin: str = "", **environ: str
) -> subprocess.CompletedProcess[str]:
    return ohmo(home, "init", *arguments, code=code, stdin=stdin, **environ)


def config(home: Path) -> dict[str, object]:
    return YAML(typ="safe").load((home / "config.yaml").read_text())


@pytest.fixture
def model() -> Iterator[ModelServer]:
    server, up, down = ModelServer(), threading.Event(), threading.Event()

    async def serve() -> None:
        async with serving(server):
            up.set()
            await asyncio.to_thread(down.wait)

    thread = threading.Thread(target=lambda: asyncio.run(serve()), daemon=True)
    thread.start()
    assert up.wait(20)
    yield server
    down.set()
    thread.join(20)


@pytest.mark.cold_start
def test_everything_by_flags_and_again_without_a_change(home: Path, model: ModelServer) -> None:
    flags = (
        *(
            "--provider",
            "openai",
            "--base-url",
            f"{model.url}/v1",
            "--model",
            "fake-1",
            "--preset",
            "safe",
            "--workspace",
            str(home.parent / "w"),
        ),
        *(
            "--channel",
            "slack",
            "--set",
            "slack.bot_token=xoxb-1-secret",
            "--set",
            "slack.app_token=xapp-1-secret",
        ),
        *("--set", "slack.api_url=http://127.0.0.1:9/api/", "--owner", "slack:U1"),
    )
    first = init(home, *flags)
    assert "model   openai fake-1 answered" in first.stdout, first.stderr
    assert "failed  slack:" in first.stdout  # nobody answers there
    assert "network, proxy, api_url" in first.stdout
    assert first.returncode == 1
    found = config(home)
    assert found["owner"] == ["slack:U1"]
    assert found["channels"]["slack"]["bot_token"] == "env:SLACK_BOT_TOKEN"  # type: ignore[index]
    assert stat.S_IMODE((home / ".env").stat().st_mode) == 0o600
    assert 'SLACK_BOT_TOKEN="xoxb-1-secret"' in (home / ".env").read_text()
    everything = (
        "".join(
            path.read_text() for path in home.rglob("*") if path.is_file() and path.name != ".env"
        )
        + first.stdout
    )
    assert "1-secret" not in everything
    before = {path: path.read_bytes() for path in home.rglob("*") if path.is_file()}
    again = init(home, "--no-test", code=0)
    assert {
        word
        for line in again.stdout.splitlines()
        if "/home/" in line and (word := line.split()[0]) in ("created", "changed", "added")
    } == set()
    assert {path: path.read_bytes() for path in home.rglob("*") if path.is_file()} == before


def test_what_init_wrote_itself_grows_with_new_flags(home: Path) -> None:
    assert (
        init(
            home, "--channel", "telegram", "--set", f"telegram.token={TOKEN}", "--no-test"
        ).returncode
        == 0
    )
    said = init(home, "--channel", "slack", "--owner", "telegram:7", "--no-test")
    assert f"changed {home}/config.yaml" in said.stdout
    found = config(home)
    assert {name for name, one in found["channels"].items() if one["enabled"]} == {
        "telegram",
        "slack",
        "web",
    }  # type: ignore[attr-defined]
    assert found["owner"] == ["telegram:7"]


def test_an_edited_file_stays_and_what_was_asked_for_is_shown(home: Path) -> None:
    init(home, "--no-test")
    (home / "config.yaml").write_text("owner: []  # mine\n")
    (home / "SOUL.md").write_text("mine")
    said = init(home, "--channel", "telegram", "--no-test")
    assert (home / "config.yaml").read_text() == "owner: []  # mine\n"
    assert (home / "SOUL.md").read_text() == "mine"
    assert "you edited config.yaml, so it stays" in said.stdout
    assert "| " in said.stdout
    assert "telegram:" in said.stdout


def test_a_model_that_refuses_is_told_with_the_next_step(home: Path, model: ModelServer) -> None:
    model.next(Turn(status=401, kind="authentication_error", message="wrong key"))
    said = init(
        home,
        "--provider",
        "anthropic",
        "--base-url",
        model.url,
        "--model",
        "fake-1",
        "--api-key",
        "-",
        stdin="sk-ant-not-right-1\n",
        code=1,
    )
    assert "failed  profiles" not in said.stdout
    assert "the key is not accepted" in said.stdout
    assert "make a new key" in said.stdout
    assert "sk-ant-not-right-1" in (home / ".env").read_text()
    assert "sk-ant-not-right-1" not in said.stdout + (home / "config.yaml").read_text()


def test_a_token_that_is_said_again_replaces_the_old_one_and_nothing_else(home: Path) -> None:
    env = home / ".env"
    init(home, "--set", "telegram.token=123456:" + "a" * 35, "--no-test", code=0)
    env.write_text(f"# mine\nOTHER=1\n{env.read_text()}LAST=2\n")
    said = init(home, "--set", "telegram.token=654321:" + "b" * 35, "--no-test")
    assert f"changed {env}: TELEGRAM_TOKEN" in said.stdout
    assert "654321" not in said.stdout
    assert read_env(env) == {"OTHER": "1", "LAST": "2", "TELEGRAM_TOKEN": "654321:" + "b" * 35}
    assert env.read_text().startswith("# mine\n")
    assert stat.S_IMODE(env.stat().st_mode) == 0o600
    again = init(home, "--set", "telegram.token=654321:" + "b" * 35, "--no-test")
    assert f"kept    {env}" in again.stdout


def test_a_token_of_the_wrong_form_is_called_wrong_not_missing(home: Path) -> None:
    said = init(home, "--set", "telegram.token=abc", code=1)
    assert "wrong   config.yaml:" in said.stdout
    assert "channels.telegram.token: is no bot token" in said.stdout


def test_missing_secrets_name_the_exact_page(home: Path) -> None:
    said = init(home, "--channel", "slack")
    assert "api.slack.com/apps, your app, Basic Information, App-Level Tokens" in said.stdout
    assert "environment variable SLACK_APP_TOKEN is not set" in said.stdout
    assert said.returncode == 0


def test_the_slack_manifest_can_be_pasted(home: Path) -> None:
    said = init(home, "--channel", "slack", "--no-test")
    file = home / "setup" / "slack-manifest.yaml"
    assert str(file) in said.stdout
    manifest = YAML(typ="safe").load(file.read_text())
    assert manifest["settings"]["socket_mode_enabled"] is True
    assert {"chat:write", "files:write", "im:history", "app_mentions:read"} <= set(
        manifest["oauth_config"]["scopes"]["bot"]
    )
    assert {"message.im", "app_mention"} <= set(
        manifest["settings"]["event_subscriptions"]["bot_events"]
    )
    # docs.slack.dev, app manifest reference
    assert len(manifest["display_information"]["description"]) <= 140


@pytest.mark.parametrize(
    ("arguments", "line"),
    [
        (("--set", "telegram.tokn=x"), "--set telegram.tokn: unknown key, did you mean token?"),
        (("--set", "telegram=x"), "expected CHANNEL.KEY=VALUE"),
        (("--owner", "me"), "expected CHANNEL:ID"),
        (("--source", "/x"), "goes with --from openharness"),
        (("--channel", "myspace"), "'myspace' is not one of"),
    ],
)
def test_a_wrong_flag_is_one_line_and_writes_nothing(
    arguments: tuple[str, ...], line: str, home: Path
) -> None:
    said = init(home, *arguments, "--no-test", code=2)
    assert line in said.stderr
    assert said.stderr.count("\n") == 1
    assert not (home / "config.yaml").exists()


def openharness(folder: Path, data: Path) -> dict[Path, bytes]:
    """A home as OpenHarness' ohmo 0.1.9 writes it."""
    (folder / "memory").mkdir(parents=True)
    data.mkdir(parents=True)
    channels = {
        "telegram": {"token": TOKEN, "allow_from": ["77"]},
        "slack": {"bot_token": "xoxb-9", "app_token": "", "allow_from": ["*"]},
        "email": {},
    }
    gateway = {
        "enabled_channels": list(channels),
        "channel_configs": channels,
        "permission_mode": "full_auto",
        "provider_profile": "codex",
    }
    files = {
        folder / "gateway.json": json.dumps(gateway),
        folder / "soul.md": "# SOUL\nI am Ohmo of old.",
        folder / "user.md": "# user\nAda.",
        folder / "memory" / "MEMORY.md": "- tea",
        folder / "memory" / "tea.md": "Ada drinks green tea.",
        data / "cron_jobs.json": json.dumps(
            [
                {
                    "name": "daily",
                    "schedule": "0 9 * * 1-5",
                    "command": "make report",
                    "cwd": "/srv",
                },
                {"name": "x"},
            ]
        ),
    }
    for path, text in files.items():
        path.write_text(text)
    return {path: path.read_bytes() for path in files}


@pytest.mark.parametrize("beside", [False, True])
def test_openharness_is_taken_over_and_left_as_it_is(beside: bool, tmp_path: Path) -> None:
    """Into a home of our own, or beside its files in the very folder."""
    theirs = tmp_path / ".ohmo"
    before = openharness(theirs, tmp_path / ".openharness" / "data")
    home = theirs if beside else tmp_path / "ours"
    refused = init(home, "--no-test") if beside else None
    assert refused is None or (refused.returncode == 78 and "--from openharness" in refused.stderr)
    for _ in range(2):
        said = init(home, "--from", "openharness", "--no-test", code=0)
    assert {path: path.read_bytes() for path in before} == before
    assert "I am Ohmo of old." in (home / "SOUL.md").read_text()
    assert "Ada." in (home / "USER.md").read_text()
    assert (home / "memory" / "tea.md").read_text() == "Ada drinks green tea."
    found = config(home)
    assert found["channels"]["telegram"] == {
        "enabled": True,
        "token": "env:TELEGRAM_TOKEN",
        "dm": "allowlist",
        "allow": {"people": ["77"]},
    }  # type: ignore[index]
    assert found["channels"]["slack"]["enabled"] is True  # type: ignore[index]
    assert TOKEN in (home / ".env").read_text()
    [job] = found["cron"]["jobs"]  # type: ignore[index]
    assert (job["name"], job["schedule"], job["enabled"], job["rules"]) == (
        "daily",
        "0 9 * * 1-5",
        False,
        ["Bash(make report)"],
    )
    for line in (
        "channel email",
        "allow_from *",
        "full_auto was not taken over",
        "a job without name",
        "it has no app_token",
    ):
        assert line in said.stdout
    assert "full_auto" not in (home / "config.yaml").read_text()


def at_a_terminal(home: Path, *answers: tuple[bytes, str | Callable[[], str]]) -> tuple[int, bytes]:
    """Runs ``ohmo init``; each answer is given at the prompt that has its words. An answer of
    ``\x03`` is Ctrl-C."""
    left = list(answers)
    command = [*OHMO, "init", "--no-test"]
    with terminal(command, environ(home, TERM="dumb"), ROOT) as at:
        while at.piece():
            asked = at.shown.rpartition(b"\n")[2]
            # a hidden prompt throws away what came before it
            if left and left[0][0] in asked and asked.endswith(b": "):
                answer = left.pop(0)[1]
                words = answer if isinstance(answer, str) else answer()
                at.types(words if words == "\x03" else f"{words}\n")
        return at.ended(), at.shown


def test_a_person_chooses_among_the_models_the_endpoint_has(home: Path, model: ModelServer) -> None:
    model.models = ["qwen-large", "qwen-small", "text-embedding-3"]
    code, said = at_a_terminal(
        home,
        (b"provider", "openai"),
        (b"endpoint", model.url),
        (b"API key", "sk-test-1"),
        (b"number or name", "qwen-smal"),
        (b"number or name", "2"),
        (b"platforms", ""),
        (b"service", "n"),
    )
    assert code == 0, said.decode()
    assert b"1) qwen-large" in said
    assert b"embedding" not in said
    assert b"qwen-smal: the endpoint has no such model, did you mean qwen-small?" in said
    assert config(home)["profiles"]["default"]["models"] == ["qwen-small"]  # type: ignore[index]


def test_a_model_the_endpoint_does_not_have_is_told_with_those_it_has(
    home: Path, model: ModelServer
) -> None:
    model.models = ["qwen-large", "qwen-small"]
    said = init(
        home,
        "--provider",
        "openai",
        "--base-url",
        model.url,
        "--model",
        "qwen-smal",
        OPENAI_API_KEY="sk-test-1",
        code=1,
    )
    assert "there is no model qwen-smal at this endpoint" in said.stdout
    assert "it has qwen-small, qwen-large" in said.stdout


def test_a_person_at_a_terminal_is_asked(home: Path) -> None:
    code, said = at_a_terminal(
        home,
        (b"provider", "offline"),
        (b"platforms", "telegramm"),
        (b"platforms", "telegram"),
        (b"Bot token", TOKEN),
        (b"Owner, as", "7"),
        (b"Owner, as", "telegram:7"),
        (b"service", "n"),
    )
    assert code == 0, said.decode()
    found = config(home)
    assert found["profiles"]["default"]["provider"] == "offline"  # type: ignore[index]
    assert found["owner"] == ["telegram:7"]
    assert TOKEN in (home / ".env").read_text()
    assert b"BotFather" in said
    assert b"telegramm: there is no such platform, did you mean telegram?" in said, (
        "a typing mistake left the platform out"
    )
    assert b"'7': expected CHANNEL:ID" in said


def test_what_a_step_says_to_paste_is_there_when_it_says_so(home: Path) -> None:
    """The tokens that are asked for come from pages into which these texts go first."""
    seen: list[str] = []

    def pasted(name: str, answer: str) -> Callable[[], str]:
        def found() -> str:
            seen.append((home / "setup" / name).read_text())
            return answer

        return found

    code, said = at_a_terminal(
        home,
        (b"provider", "offline"),
        (b"platforms", "slack matrix"),
        (b"Bot User", pasted("slack-manifest.yaml", "")),
        (b"App-level", ""),
        (b"homeserver", "https://chat.example.net"),
        (b"Full id", "@helper:example.net"),
        (b"Access token", pasted("matrix-login.sh", "syt_secret")),
        (b"Owner, as", ""),
        (b"service", "n"),
    )
    assert code == 0, said.decode()
    manifest, login = seen
    assert "socket_mode_enabled: true" in manifest
    assert "https://chat.example.net/_matrix/client/v3/login" in login
    assert '"user": "helper"' in login
    assert "syt_secret" not in (home / "setup" / "matrix-login.sh").read_text()
    again = init(home, "--no-test", "--yes")
    assert {
        line.split()[0]
        for line in again.stdout.splitlines()
        if "setup/" in line and "next" not in line
    } == {"kept"}, again.stdout


def test_ctrl_c_at_a_question_leaves_what_the_next_run_goes_on_from(home: Path) -> None:
    code, said = at_a_terminal(
        home, (b"provider", "offline"), (b"platforms", "slack"), (b"Bot User", "\x03")
    )
    assert code in (1, 130), said.decode()
    assert b"Traceback" not in said
    assert not (home / "config.yaml").exists()
    code, said = at_a_terminal(
        home, (b"provider", "offline"), (b"platforms", ""), (b"service", "n")
    )
    assert code == 0, said.decode()
    ohmo(home, "config", "check", code=0)


def test_the_service_is_installed_and_started_when_asked(home: Path) -> None:
    home.mkdir(mode=0o700, exist_ok=True)
    (home / "config.yaml").write_text(
        "profiles: {default: {provider: offline}}\ncontrol: {listen: null}\n"
    )
    (home / "config.yaml").chmod(0o600)
    try:
        made = init(home, "--yes", "--no-test", "--service", code=0)
        assert "it runs, and takes this over within seconds" in made.stdout
        assert "running" in ohmo(home, "service", "status", code=0).stdout
        init(home, "--yes", "--no-test", "--service", code=0)
    finally:
        ohmo(home, "service", "stop")
        ohmo(home, "service", "uninstall", code=0)


def test_a_service_that_would_not_start_is_neither_installed_nor_offered(home: Path) -> None:
    init(home, "--yes", "--no-test", "--provider", "offline", code=0)
    config = home / "config.yaml"
    right = config.read_text()
    config.write_text(f"{right}chanels: {{}}\n")
    for _ in range(2):
        said = init(home, "--yes", "--no-test", "--service")
        lines = [line for line in said.stdout.splitlines() if "the service is" in line]
        assert (said.returncode, said.stderr, len(lines)) == (1, "", 1), said.stdout + said.stderr
        assert lines[0].startswith(
            "failed  the service is left as it is, because it would not start with this"
            " configuration: config.yaml:"
        )
        assert "chanels: unknown key, did you mean channels?" in lines[0]
        assert lines[0].endswith("mend it, then: ohmo service install && ohmo service start")
        assert not (home / "run" / "service.json").exists()
    init(home, "--yes", "--no-test", "--no-service", code=0)
    code, heard = at_a_terminal(home, (b"platforms", ""))  # nobody is asked about a service
    assert code == 0, heard.decode()
    assert b"note    the service is left as it is" in heard


def test_a_token_that_only_this_shell_knows_is_said_before_a_service_is_made(home: Path) -> None:
    said = init(
        home,
        "--yes",
        "--no-test",
        "--channel",
        "telegram",
        "--service",
        TELEGRAM_TOKEN=TOKEN,
        code=1,
    )
    assert "failed  the service is left as it is" in said.stdout
    assert "TELEGRAM_TOKEN" in said.stdout.partition("with this configuration: ")[2].splitlines()[0]
    assert not (home / "run" / "service.json").exists()


def test_answers_in_a_pipe_are_not_dropped_without_a_word(home: Path) -> None:
    said = init(home, "--no-test", code=0, stdin="offline\ntelegram\n")
    assert "every step has a flag: ohmo init --help" in said.stdout


def test_hostile_files_of_openharness_take_nothing_over(tmp_path: Path) -> None:
    theirs, data = tmp_path / ".ohmo", tmp_path / ".openharness" / "data"
    openharness(theirs, data)
    (tmp_path / "id_rsa").write_text("a private key")
    (theirs / "soul.md").unlink()
    (theirs / "soul.md").symlink_to(tmp_path / "id_rsa")
    channels = {
        "telegram": {
            "token": f'{TOKEN}"\nOHMO__PERMISSIONS__MODE=full_auto\nX="',
            "allow_from": "everybody",
        },
        "feishu": {"domain": "https://a\n  dm: open", "app_id": ["x"]},
        "slack": 7,
    }
    (theirs / "gateway.json").write_text(
        json.dumps(
            {"enabled_channels": [*channels, "slack", {"a": 1}], "channel_configs": channels}
        )
    )
    commands = {
        "all": "*",
        "prefix": "rm:*",
        "late": "echo ${HOME}",
        "lines": "a\nb",
        "ok": "make report",
    }
    jobs: list[object] = [
        {"name": f"{name} }}\n", "schedule": "0 9 * * *", "command": command}
        for name, command in commands.items()
    ]
    jobs += [
        {"name": "bad", "schedule": "every full moon", "command": "x"},
        7,
        None,
        {"name": ["x"], "schedule": {}, "command": 1},
    ]
    (data / "cron_jobs.json").write_text(json.dumps(jobs))
    home = tmp_path / "ours"
    said = init(home, "--from", "openharness", "--no-test", code=0)
    assert "Traceback" not in said.stderr
    env = (home / ".env").read_text() if (home / ".env").exists() else ""
    assert "full_auto" not in env
    assert "private key" not in (home / "SOUL.md").read_text()
    found = config(home)
    rules = {job["name"]: job["rules"] for job in found["cron"]["jobs"]}  # type: ignore[index]
    assert rules.pop("ok") == ["Bash(make report)"]
    assert set(rules) == {"all", "prefix", "late", "lines"}
    assert not any(rules.values())
    assert "dm" not in found["channels"]["feishu"]  # type: ignore[index]
    for line in (
        "token holds a line break",
        "domain holds a line break",
        "job bad was left out",
        "got no rule",
    ):
        assert line in said.stdout
    (theirs / "gateway.json").write_text("[" * 100_000)
    init(tmp_path / "deep", "--from", "openharness", "--no-test", code=0)


def test_a_secret_with_a_line_break_writes_no_other_variable(home: Path) -> None:
    said = init(home, "--set", "telegram.token=1:a\nLD_PRELOAD=/evil.so", "--no-test")
    assert said.returncode != 0
    assert "line break" in said.stderr
    assert not (home / ".env").exists()
