"""From a file and an environment to one configuration, or to every problem with its line."""

from __future__ import annotations

import json
from datetime import timedelta
from pathlib import Path

import pytest

from ohmo.config.load import Config, load
from ohmo.config.rules import tool_names
from ohmo.contracts.errors import ConfigError
from ohmo.permissions.rules import parse_rule


def written(home: Path, text: str, mode: int = 0o600) -> Path:
    file = home / "config.yaml"
    file.write_text(text, encoding="utf-8")
    file.chmod(mode)
    return file


def loaded(home: Path, text: str, **environ: str) -> Config:
    written(home, text)
    return load(environ={"OHMO_HOME": str(home), "HOME": "/home/ada", **environ})


def problems(home: Path, text: str, **environ: str) -> list[str]:
    with pytest.raises(ConfigError) as raised:
        loaded(home, text, **environ)
    return str(raised.value).split("\n")


def test_no_file_means_defaults_with_the_browser_chat(home: Path) -> None:
    found = load(environ={"OHMO_HOME": str(home), "HOME": "/home/ada"})
    assert found.file is None
    assert found.profile.provider == "auto"
    assert [(channel.name, channel.enabled) for channel in found.channels] == [("web", True)]
    assert found.workspace == Path("/home/ada/ohmo-workspace")
    assert found.store_url == f"sqlite:///{home}/ohmo.db"
    assert found.control.address == ("127.0.0.1", 7717)
    assert found.permissions.mode == "default"
    assert not list(home.iterdir())


def test_the_asked_file_wins_over_the_home(home: Path, tmp_path: Path) -> None:
    written(home, "limits: {max_steps: 3}\n")
    other = tmp_path / "other.yaml"
    other.write_text("limits: {max_steps: 4}\n", encoding="utf-8")
    environ = {"OHMO_HOME": str(home), "HOME": "/home/ada"}
    assert load(environ=environ).limits.max_steps == 3
    assert load(other, environ=environ).limits.max_steps == 4
    assert load(environ={**environ, "OHMO_CONFIG": str(other)}).limits.max_steps == 4


def test_the_environment_wins_over_the_file(home: Path) -> None:
    found = loaded(
        home,
        "control: {listen: null}\n",
        OHMO__CONTROL__LISTEN="0.0.0.0:80",
        OHMO__LIMITS__TURN_TIMEOUT="5m",
    )
    assert found.control.address == ("0.0.0.0", 80)
    assert found.limits.turn_timeout == timedelta(minutes=5)


def test_a_wrong_environment_variable_is_named(home: Path) -> None:
    assert problems(home, "", OHMO__CONTROL__LISTN="x") == [
        "OHMO__CONTROL__LISTN: control.listn: unknown key, did you mean listen?"
    ]


@pytest.mark.parametrize(
    ("name", "told"),
    [
        ("OHMO__PERMISIONS__MODE", "permisions: unknown key, did you mean permissions?"),
        (
            "OHMO__PERMISSIONS__MODE__DEEP",
            "permissions.mode: expected one of default, plan, full_auto, not keys and values",
        ),
        (
            "OHMO__CRON__JOBS__0",
            "cron.jobs: expected a list, for example [a, b], not keys and values",
        ),
    ],
)
def test_a_variable_that_makes_a_section_is_blamed_for_it(home: Path, name: str, told: str) -> None:
    assert problems(home, "permissions: {mode: plan}\ncron: {jobs: []}\n", **{name: "x"}) == [
        f"{name}: {told}"
    ]


def test_of_providers_only_those_there_are_are_named(home: Path) -> None:
    (line,) = problems(home, "profiles: {default: {provider: mine}}")
    assert (
        line == "config.yaml:1: profiles.default.provider: expected one of auto, anthropic, openai,"
        " offline, not 'mine'"
    )
    (line,) = problems(home, "profiles: {default: {provider: gemini}}")
    assert (
        line == "config.yaml:1: profiles.default.provider: gemini as a provider comes in a later"
        " version; remove this"
    )


def test_every_problem_is_said_at_once_in_the_order_of_the_file(home: Path) -> None:
    text = """\
profile: defalt
permisions: {}
limits:
  max_steps: "3"
  turn_timeout: 5x
  queue: 0
channels:
  slack: {dm: pairng, enabled: maybe}
  web: 3
control: {listen: nowhere}
owner: slack:U1
workspace: relative
"""
    assert problems(home, text) == [
        "config.yaml:1: profile: there is no profile 'defalt', did you mean default?",
        "config.yaml:2: permisions: unknown key, did you mean permissions?",
        "config.yaml:4: limits.max_steps: expected a whole number, not '3'",
        (
            "config.yaml:5: limits.turn_timeout: expected a duration such as 30s, 15m, 24h, 7d, or"
            " a number of seconds"
        ),
        "config.yaml:6: limits.queue: must be at least 1, not 0",
        "config.yaml:8: channels.slack.enabled: expected yes or no, not 'maybe'",
        (
            "config.yaml:8: channels.slack.dm: expected one of pairing, allowlist, open, off, not"
            " 'pairng'; did you mean pairing?"
        ),
        "config.yaml:9: channels.web: expected keys and values, for example {enabled: true}",
        (
            "config.yaml:10: control.listen: expected HOST:PORT, for example 127.0.0.1:7717, or"
            " null for the unix socket only"
        ),
        "config.yaml:11: owner: expected a list, for example [a, b], not 'slack:U1'",
        (
            "config.yaml:12: workspace: expected an absolute path, or one that starts with ~ or"
            " ${HOME}, not 'relative'"
        ),
    ]


def test_a_name_that_is_none_is_told_in_words(home: Path) -> None:
    (home / "config.yaml").write_text("mcp:\n  a b: {command: x}\n")
    with pytest.raises(ConfigError) as error:
        load(environ={"OHMO_HOME": str(home)})
    words = "expected a name of letters, digits, - and _, beginning with a letter or digit"
    assert f"config.yaml:2: mcp.a b: {words}" in str(error.value)


def test_an_empty_section_means_its_defaults(home: Path) -> None:
    found = loaded(home, "limits:\npermissions:\nprofiles:\n  default:\nchannels:\n  slack:\n")
    assert found.limits.max_steps == 50
    assert not found.channels[0].enabled


def test_folders_expand_in_paths_and_rules(home: Path) -> None:
    found = loaded(
        home,
        'workspace: ~/w\npermissions: {allow: ["Read(${WORKSPACE}/**)", "Read(${HOME}/x)"]}\nstore:'
        ' {url: "sqlite:///${OHMO_HOME}/a.db"}\n',
    )
    assert found.permissions.allow == ("Read(/home/ada/w/**)", "Read(/home/ada/x)", "MemoryWrite")
    assert found.store_url == f"sqlite:///{home}/a.db"
    assert problems(home, "permissions: {deny: ['Read(${SECRET})']}\n") == [
        (
            "config.yaml:1: permissions.deny[0]: ${SECRET} means nothing here; known are ${OHMO_HOME},"
            " ${WORKSPACE}, ${HOME}"
        )
    ]


def test_the_key_follows_the_provider(home: Path) -> None:
    found = loaded(home, "profiles: {default: {provider: openai}}\n", OPENAI_API_KEY="k" * 9)
    assert found.profile.api_key is not None
    assert found.vault.reveal(found.profile.api_key) == "k" * 9


def test_a_missing_key_of_the_active_profile_is_an_error(home: Path) -> None:
    text = "profiles:\n  default:\n    provider: anthropic\n  other: {provider: openai}\n"
    assert problems(home, text) == [
        (
            "config.yaml:2: profiles.default.api_key: missing secret: environment variable"
            " ANTHROPIC_API_KEY is not set; set it, or write api_key: env:NAME, file:PATH or"
            " keyring:SERVICE/NAME"
        )
    ]
    assert loaded(home, text, ANTHROPIC_API_KEY="x").profile.provider == "anthropic"


def test_fallback_profiles_need_their_keys_and_names(home: Path) -> None:
    text = (
        "profiles:\n  default: {provider: offline, fallback: [b, c]}\n  b: {provider: openai,"
        " fallback: [default]}\n"
    )
    found = problems(home, text)
    assert found[0].startswith(
        "config.yaml:2: profiles.default.fallback[1]: there is no profile 'c'"
    )
    assert found[1].startswith("config.yaml:3: profiles.b.api_key: missing secret")
    good = loaded(home, text.replace(", c", ""), OPENAI_API_KEY="x")
    assert [name for name, _ in good.fallback] == ["b"]


def test_a_server_of_ones_own_needs_no_key(home: Path) -> None:
    found = loaded(
        home, "profiles: {default: {provider: openai, base_url: 'http://127.0.0.1:11434/v1'}}\n"
    )
    assert found.profile.base_url == "http://127.0.0.1:11434/v1"


def test_a_profile_is_chosen_by_argument_then_environment(home: Path) -> None:
    text = (
        "profiles: {default: {}, work: {provider: offline}, play: {provider: offline, models:"
        " [m]}}\n"
    )
    assert loaded(home, text, OHMO_PROFILE="work").profile_name == "work"
    environ = {"OHMO_HOME": str(home), "HOME": "/home/ada", "OHMO_PROFILE": "work"}
    assert load(environ=environ, profile="play").profile.models == ("m",)
    with pytest.raises(
        ConfigError, match="--profile: there is no profile 'wrok', did you mean work"
    ):
        load(environ=environ, profile="wrok")


def test_a_literal_secret_needs_a_private_file(home: Path) -> None:
    text = "profiles: {default: {provider: openai, api_key: sk-literal-0123456789}}\n"
    written(home, text, 0o644)
    with pytest.raises(ConfigError) as raised:
        load(environ={"OHMO_HOME": str(home), "HOME": "/home/ada"})
    assert str(raised.value).startswith(
        "config.yaml:1: profiles.default.api_key: a secret stands in a file that others can read"
    )
    assert "sk-literal" not in str(raised.value)
    assert loaded(home, text).profile.api_key is not None


def test_the_store_url_may_be_a_secret(home: Path) -> None:
    assert (
        loaded(home, "store: {url: env:DB}\n", DB="sqlite:////x/y.db").store_url
        == "sqlite:////x/y.db"
    )
    (missing,) = problems(home, "store: {url: env:DB}\n")
    assert missing.startswith(
        "config.yaml:1: store.url: missing secret: environment variable DB is not set; set it there"
        " or in .env"
    )
    for text in ("store: {url: env:DB}\n", "store: {url: 'postgresql://u:p4ssword@h/d'}\n"):
        (later,) = problems(home, text, DB="postgresql://u:p4ssword@h/d")
        assert later.startswith(
            "config.yaml:1: store.url: a daemon on PostgreSQL comes in a later version; write"
            " sqlite:///"
        )
        assert "p4ssword" not in later


def test_a_webhook_whose_secret_is_gone_is_a_line_before_anything_starts(home: Path) -> None:
    text = "webhooks: {ci: {secret: env:HOOK, prompt: look, to: 'telegram:1'}}\n"
    assert loaded(home, text, HOOK="hush-hush").webhooks["ci"].to == "telegram:1"
    (missing,) = problems(home, text)
    assert missing.startswith(
        "config.yaml:1: webhooks.ci.secret: missing secret: environment variable HOOK is not set;"
        " set it there or in .env"
    )


def test_what_is_not_built_yet_is_not_silently_ignored(home: Path) -> None:
    text = "profiles: {default: {provider: codex}}\nremote: {endpoint: https://s3.example.org, bucket: b, access_key: a, secret_key: c}\n"
    found = problems(home, text)
    assert len(found) == 2
    assert all("comes in a later version" in line for line in found)


def test_containers_can_be_asked_for(home: Path) -> None:
    asked = loaded(home, "sandbox: {backend: docker, image: 'mine@sha256:0'}\n").sandbox
    assert (asked.backend, asked.image) == ("docker", "mine@sha256:0")


def test_the_preset_full_is_full_auto_in_a_sandbox_and_a_written_mode_wins(home: Path) -> None:
    full = loaded(home, "permissions: {preset: full}\n").permissions
    assert (full.mode, full.caged, full.allow) == ("full_auto", True, ("MemoryWrite",))
    for mode in ("default", "plan", "full_auto"):
        written = loaded(home, f"permissions: {{preset: full, mode: {mode}}}\n").permissions
        assert (written.mode, written.caged) == (mode, False)
    balanced = loaded(home, "permissions: {mode: full_auto}\n").permissions
    assert (balanced.mode, balanced.caged) == ("full_auto", False)


def test_a_rule_for_a_tool_that_does_not_exist_would_guard_nothing_so_it_is_refused(
    home: Path,
) -> None:
    text = "permissions:\n  deny: ['bash(rm:*)', 'Fly']\n  allow: ['mcp__notes__*', 'Bash(ls:*)']\n"
    assert problems(home, text) == [
        "config.yaml:2: permissions.deny[0]: there is no tool 'bash', did you mean Bash?",
        "config.yaml:2: permissions.deny[1]: there is no tool 'Fly', only "
        + ", ".join(tool_names()),
    ]


@pytest.mark.parametrize(
    "rule",
    [
        "WebFetch(example.org)",
        "WebFetch(domain:https://example.org)",
        "WebFetch(domain:example.org/path)",
        "WebFetch(domain:example.org:443)",
        "WebFetch(domain:bücher.example)",
        "WebFetch(domain:)",
    ],
)
@pytest.mark.parametrize(
    ("key", "text"),
    [
        ("permissions.deny[0]", "permissions: {{deny: [{}]}}\n"),
        ("permissions.ask[0]", "permissions: {{ask: [{}]}}\n"),
        ("permissions.allow[0]", "permissions: {{allow: [{}]}}\n"),
        (
            "webhooks.ci.rules[0]",
            "webhooks: {{ci: {{secret: x, prompt: p, to: 'telegram:1', rules: [{}]}}}}\n",
        ),
    ],
)
def test_a_rule_about_what_no_host_can_be_would_guard_nothing_so_it_is_refused(
    home: Path, key: str, text: str, rule: str
) -> None:
    (problem,) = problems(home, text.format(json.dumps(rule)))
    assert problem.startswith(f"config.yaml:1: {key}: {rule!r}: WebFetch takes domain:HOST, a name")


@pytest.mark.parametrize("host", ["*", "*.example.org", "example.org.", "10.0.0.1", "::1", "a_b"])
def test_a_rule_about_a_host_is_read_wherever_it_is_used(home: Path, host: str) -> None:
    rule = f"WebFetch(domain:{host})"
    (read,) = loaded(home, f"permissions: {{deny: ['{rule}']}}\n").permissions.deny
    assert parse_rule(read).pattern == f"domain:{host}"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("permissions: {deny: ['Ba*']}", "permissions.deny[0]: 'Ba*' is not a rule"),
        ("control: {listen: 'nosuch..host:80'}", "control.listen: expected HOST:PORT"),
        ('workspace: "/tmp/a\\0b"', "workspace: expected an absolute path"),
        ("limits: {queue: 10000000000000000000}", "limits.queue: must be at most 2147483647"),
    ],
)
def test_what_no_start_could_use_is_refused_when_it_is_read(
    home: Path, text: str, says: str
) -> None:
    assert says in "\n".join(problems(home, f"{text}\n"))


def test_presets_fill_what_was_not_written(home: Path) -> None:
    assert loaded(home, "permissions: {preset: safe, mode: plan}\n").permissions.mode == "plan"
    assert loaded(home, "").permissions.allow == ("MemoryWrite",)
    safe = loaded(
        home, "permissions: {preset: safe, allow: ['WebFetch(domain:example.org)']}\n"
    ).permissions
    assert safe.ask == ("WebSearch",)
    assert safe.allow == ("WebFetch(domain:example.org)",)


@pytest.mark.parametrize("text", ["\ufeffprofile: default\n", "profile: default\r\n"])
def test_files_of_other_systems_are_read(home: Path, text: str) -> None:
    assert loaded(home, text).profile_name == "default"


def test_a_file_that_cannot_be_read_is_one_line(home: Path) -> None:
    environ = {"OHMO_HOME": str(home), "HOME": "/home/ada"}
    with pytest.raises(ConfigError, match="cannot be read"):
        load(home / "nowhere.yaml", environ=environ)
    (home / "config.yaml").write_bytes(b"a: \xff\n")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load(environ=environ)
    with pytest.raises(ConfigError, match="cannot be read"):
        load(home, environ=environ)


def test_the_result_is_frozen(home: Path) -> None:
    found = loaded(home, "")
    with pytest.raises(AttributeError):
        found.workspace = Path("/")  # pyright: ignore[reportAttributeAccessIssue]
    with pytest.raises(ValueError):
        found.limits.max_steps = 1  # pyright: ignore[reportAttributeAccessIssue]
