"""Config keys for the model: read without secrets, written from a short list only."""

from __future__ import annotations

from pathlib import Path

import pytest

from channels.registry import discover
from ohmo.config.load import load
from ohmo.config.models import Written
from ohmo.contracts.errors import ConfigError
from ohmo.setup.single_keys import WRITABLE, SingleKeys

TEXT = """\
# mine
owner: [slack:U1]
sessions:
  busy: queue # while I work
webhooks:
  build: {secret: "very-secret-1", prompt: go}
profiles:
  default: {provider: openai, api_key: sk-very-secret-2, models: [a]}
"""


@pytest.fixture
def keys(tmp_path: Path) -> SingleKeys:
    home = tmp_path / "home"
    home.mkdir(mode=0o700)
    file = home / "config.yaml"
    file.write_text(TEXT)
    file.chmod(0o600)
    environ = {"OHMO_HOME": str(home), "HOME": str(tmp_path), "PATH": "/bin"}
    manifests = discover().manifests
    return SingleKeys(load(environ=environ, manifests=manifests), environ, manifests)


def test_what_holds_is_read_and_no_secret_with_it(keys: SingleKeys) -> None:
    assert keys.read("sessions.busy") == "queue\n"
    assert keys.read("sessions.scope") == "per_thread\n"  # a default
    for name in Written.model_fields:
        assert "very-secret" not in keys.read(name)
    for key, words in [("sessions.bussy", "did you mean sessions.busy"), ("x", "no such key")]:
        with pytest.raises(ConfigError, match=words):
            keys.read(key)
    with pytest.raises(ConfigError, match="no such key"):
        keys.read("sessions.busy.x")


def test_a_key_is_written_and_every_remark_stays(keys: SingleKeys, tmp_path: Path) -> None:
    keys.refuse("sessions.busy", "steer")
    assert "takes it over" in keys.write("sessions.busy", "steer")
    keys.write("sessions.idle_reset", "2h")
    written = (tmp_path / "home" / "config.yaml").read_text()
    assert written == TEXT.replace("busy: queue #", "busy: steer #").replace(
        "# while I work\n", '# while I work\n  idle_reset: "2h"\n'
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("permissions.mode", "full_auto"),
        ("permissions.allow", "[Bash]"),
        ("owner", "[slack:U2]"),
        ("access.default_role", "admin"),
        ("sandbox.backend", "none"),
        ("profiles.default.api_key", "x"),
        ("profiles.default.base_url", "http://x/"),
        ("channels.slack.dm", "open"),
        ("channels.slack.allow.people", "[x]"),
        ("web_search.url", "http://x/"),
        ("remotes.x.url", "http://x/hooks/x"),
        ("budgets.day.usd", "100000"),
        ("pricing.a.input", "0"),
        ("limits.max_steps", "100000"),
        ("sessions", "{busy: steer}"),
        ("sessions.busy.x", "1"),
        ("", "1"),
    ],
)
def test_what_lets_more_be_done_is_not_written(
    keys: SingleKeys, tmp_path: Path, key: str, value: str
) -> None:
    for attempt in (keys.refuse, keys.write):
        with pytest.raises(ConfigError, match="is the owner's to write"):
            attempt(key, value)
    assert (tmp_path / "home" / "config.yaml").read_text() == TEXT


@pytest.mark.parametrize(
    ("key", "value", "words"),
    [
        ("sessions.busy", "fast", "sessions.busy"),
        ("sessions.busy", "{a: ", "no YAML"),
        ("sessions.busy", "!!python/object:os.system x", "YAML"),
        ("cron.timezone", "Mars/Olympus", "cron.timezone"),
        ("limits.read_lines", "0", "limits.read_lines"),
        ("channels.nowhere.streaming", "off", "nowhere"),
    ],
)
def test_what_would_not_be_taken_is_refused_before_anybody_is_asked(
    keys: SingleKeys, tmp_path: Path, key: str, value: str, words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        keys.refuse(key, value)
    assert (tmp_path / "home" / "config.yaml").read_text() == TEXT


def test_the_list_is_short_and_names_no_part_that_guards() -> None:
    guarded = {"permissions", "access", "owner", "sandbox", "profiles", "budgets", "remotes"}
    assert not {each.split(".")[0] for each in WRITABLE} & guarded
    assert len(WRITABLE) < 12
