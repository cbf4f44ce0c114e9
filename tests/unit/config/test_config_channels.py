"""Shared keys of channels, and a platform's own through its model."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import BaseModel, ConfigDict, SecretStr

from channels.contract import Manifest
from ohmo.config.channels import decode_channel, open_channels
from ohmo.config.load import Config, load
from ohmo.contracts.errors import ConfigError


class Settings(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    bot_token: str
    api_url: str = "https://slack.example/api/"
    retries: int = 3
    password: str | None = None
    access: str | None = "env:SLACK_ACCESS"


class Closed(BaseModel):
    token: SecretStr


SLACK = Manifest("slack", "Slack", Settings, "x:y", "slack", ("bot_token", "password", "access"))
WEB = Manifest("web", "Browser", type("Web", (BaseModel,), {}), "x:y", "")
KNOWN = {"slack": SLACK, "web": WEB}


def loaded(home: Path, text: str, mode: int = 0o600, **environ: str) -> Config:
    file = home / "config.yaml"
    file.write_text(text, encoding="utf-8")
    file.chmod(mode)
    return load(environ={"OHMO_HOME": str(home), "HOME": "/home/ada", **environ})


def refused(home: Path, text: str, mode: int = 0o600, **environ: str) -> list[str]:
    found = loaded(home, text, mode, **environ)
    with pytest.raises(ConfigError) as raised:
        open_channels(found.channels, KNOWN)
    return str(raised.value).split("\n")


def test_a_misspelt_key_of_a_platform_has_its_line_and_the_nearest_name(home: Path) -> None:
    text = "channels:\n  slack:\n    enabled: true\n    bot_tokn: env:X\n    bot_token: env:T\n"
    assert refused(home, text, T="t") == [
        "config.yaml:4: channels.slack.bot_tokn: unknown key, did you mean bot_token?"
    ]


def test_a_misspelt_shared_key_is_found_too(home: Path) -> None:
    assert refused(home, "channels: {slack: {mentoin: required}}\n") == [
        "config.yaml:1: channels.slack.mentoin: unknown key, did you mean mention?"
    ]


def test_an_enabled_channel_gets_its_secrets(home: Path) -> None:
    found = loaded(
        home, "channels: {slack: {enabled: yes, bot_token: env:T, dm: off}}\n", T="xoxb-1"
    )
    policy, settings = decode_channel(found.channels[0], SLACK)
    assert policy.dm == "off"
    assert settings == Settings(bot_token="xoxb-1", access=None)
    assert "xoxb-1" in found.vault.values


def test_an_unwritten_secret_is_looked_for_under_its_usual_name(home: Path) -> None:
    found = loaded(
        home, "channels: {slack: {enabled: true}}\n", SLACK_BOT_TOKEN="a", SLACK_ACCESS="b"
    )
    assert open_channels(found.channels, KNOWN)[0].settings == Settings(bot_token="a", access="b")


def test_a_missing_secret_of_an_enabled_channel_is_an_error_and_of_a_disabled_one_is_not(
    home: Path,
) -> None:
    assert refused(home, "channels:\n  slack:\n    enabled: true\n") == [
        (
            "config.yaml:2: channels.slack.bot_token: missing secret: environment variable"
            " SLACK_BOT_TOKEN is not set; set it there or in .env beside config.yaml, or write"
            " env:NAME, file:PATH or keyring:SERVICE/NAME"
        )
    ]
    assert [
        each.manifest.name
        for each in open_channels(
            loaded(home, "channels: {slack: {bot_token: env:NO}}\n").channels, KNOWN
        )
    ] == ["web"]


def test_a_written_reference_that_leads_nowhere_is_an_error_even_when_the_key_is_optional(
    home: Path,
) -> None:
    found = refused(home, "channels: {slack: {enabled: true, bot_token: x, password: env:NO}}\n")
    assert found == [
        (
            "config.yaml:1: channels.slack.password: missing secret: environment variable NO is not"
            " set; set it there or in .env beside config.yaml, or write env:NAME, file:PATH or"
            " keyring:SERVICE/NAME"
        )
    ]


def test_a_literal_secret_in_a_file_of_everybody_is_refused_without_showing_it(home: Path) -> None:
    found = refused(home, "channels: {slack: {enabled: true, bot_token: xoxb-literal}}\n", 0o644)
    assert found[0].startswith(
        "config.yaml:1: channels.slack.bot_token: a secret stands in a file that others can read"
    )
    assert "xoxb-literal" not in found[0]


def test_a_wrong_type_of_a_platform_key_has_its_line(home: Path) -> None:
    assert refused(
        home, "channels:\n  slack:\n    enabled: true\n    bot_token: x\n    retries: many\n"
    ) == ["config.yaml:5: channels.slack.retries: expected a whole number, not 'many'"]


def test_an_unknown_channel_is_named_with_the_nearest_one(home: Path) -> None:
    assert refused(home, "channels: {slak: {}}\n") == [
        "config.yaml:1: channels.slak: there is no channel 'slak', did you mean slack?"
    ]


def test_several_accounts_of_one_platform_have_names(home: Path) -> None:
    text = (
        "channels:\n  slack:\n    - {enabled: true, bot_token: a, account: one}\n    - {enabled:"
        " true, bot_token: b, account: two}\n"
    )
    opened = open_channels(loaded(home, text).channels, KNOWN)
    assert [
        (each.policy.account, each.settings.bot_token) for each in opened if each.manifest is SLACK
    ] == [("one", "a"), ("two", "b")]
    with pytest.raises(
        ConfigError,
        match=r"config.yaml:4: channels.slack\[1\].account: one is the name of another account",
    ):
        loaded(home, text.replace("two", "one"))


def test_ids_of_people_may_be_numbers(home: Path) -> None:
    found = loaded(home, "channels: {slack: {allow: {people: [123, U1], groups: [-100123]}}}\n")
    assert found.channels[0].policy.allow.people == ("123", "U1")
    assert found.channels[0].policy.allow.groups == ("-100123",)


def test_problems_of_file_and_platforms_come_together(home: Path) -> None:
    (home / "config.yaml").write_text(
        "limitz: {}\nchannels: {slack: {enabled: true, bot_tokn: x}}\n", encoding="utf-8"
    )
    with pytest.raises(ConfigError) as raised:
        load(environ={"OHMO_HOME": str(home), "HOME": "/home/ada"}, manifests=KNOWN)
    assert [line.split(": ")[1] for line in str(raised.value).split("\n")] == [
        "limitz",
        "channels.slack.bot_tokn",
        "channels.slack.bot_token",
    ]


def test_a_settings_model_may_close_its_secret(home: Path) -> None:
    found = loaded(home, "channels: {slack: {enabled: true, token: hunter22}}\n")
    _, settings = decode_channel(
        found.channels[0], Manifest("slack", "Slack", Closed, "x:y", "", ("token",))
    )
    assert settings.token.get_secret_value() == "hunter22"
    assert "hunter22" not in repr(found)


def test_an_address_of_a_channel_that_there_is_not_has_its_line(home: Path) -> None:
    file = home / "config.yaml"
    file.write_text(
        "owner: [slakc:U1, slack:U1]\naccess:\n  roles: {admin: [irc:x]}\ncron:\n  jobs:\n"
        "    - {name: a, every: 5m, prompt: x, to: slck:C1}\n",
        encoding="utf-8",
    )
    with pytest.raises(ConfigError) as raised:
        load(environ={"OHMO_HOME": str(home), "HOME": "/home/ada"}, manifests=KNOWN)
    assert str(raised.value).split("\n") == [
        "config.yaml:1: owner[0]: there is no channel 'slakc', did you mean slack?",
        "config.yaml:3: access.roles.admin[0]: there is no channel 'irc', only slack, web",
        "config.yaml:6: cron.jobs[0].to: there is no channel 'slck', did you mean slack?",
    ]


def test_a_time_zone_that_there_is_not_has_its_line_also_without_jobs(home: Path) -> None:
    with pytest.raises(ConfigError) as raised:
        loaded(home, "cron: {timezone: Mars/Phobos}\n")
    assert (
        str(raised.value)
        == "config.yaml:1: cron.timezone: 'Mars/Phobos' is no time zone; write an IANA name such as"
        " Europe/Berlin, UTC, or local"
    )
