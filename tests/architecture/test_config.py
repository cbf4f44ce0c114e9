"""``config.example.yaml`` loads, means the defaults, and names every key with a comment; the schema
knows every key too."""

from __future__ import annotations

import dataclasses
import re
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

from channels.contract import Manifest
from channels.registry import discover
from ohmo.config.channels import POLICY_KEYS
from ohmo.config.export import schema
from ohmo.config.load import Config, load
from ohmo.config.models import ChannelPolicy, Job, McpServer, Remote, Written
from ohmo.config.problems import keys_at
from ohmo.config.source import Source, parse
from ohmo.setup.answers import CHANNELS as STARTED
from ohmo.setup.answers import Answers, config_text, variable

EXAMPLE = Path(__file__).parents[2] / "config.example.yaml"
ENVIRON = {"HOME": "/home/ada", "OHMO_HOME": "/home/ada/.ohmo"}
ONLY_IN_COMMENTS: dict[str, type[BaseModel]] = {
    "mcp": McpServer,
    "cron.jobs": Job,
    "remote": Remote,
}


def manifests() -> dict[str, Manifest]:
    return discover(strangers=()).manifests


def example() -> Source:
    return parse(EXAMPLE.read_text(encoding="utf-8"), EXAMPLE.name)


def model_keys(model: type[BaseModel], above: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    for name, field in model.model_fields.items():
        yield (*above, name)
        inner = field.annotation
        if (
            isinstance(inner, type)
            and typing.get_origin(inner) is None
            and issubclass(inner, BaseModel)
        ):
            yield from model_keys(inner, (*above, name))


def plain(config: Config) -> dict[str, Any]:
    hidden = ("file", "source", "written", "vault", "channels")
    return {
        field.name: getattr(config, field.name)
        for field in dataclasses.fields(config)
        if field.name not in hidden
    }


def test_the_example_loads_and_means_the_defaults() -> None:
    found = load(EXAMPLE, environ=ENVIRON, manifests=manifests())
    nothing = load(environ=ENVIRON)
    assert plain(found) == plain(nothing)
    assert [channel.name for channel in found.channels if channel.enabled] == [
        channel.name for channel in nothing.channels
    ]
    assert all(
        channel.policy.model_copy(update={"enabled": False}) == ChannelPolicy()
        for channel in found.channels
    )


@pytest.mark.parametrize(
    "path",
    [
        *model_keys(Written),
        *(("profiles", "default", key) for key in keys_at(Written, ("profiles", "x"))),
    ],
    ids=".".join,
)
def test_the_example_names_every_key(path: tuple[str, ...]) -> None:
    assert path in example().places


@pytest.mark.parametrize("place", sorted(ONLY_IN_COMMENTS))
def test_the_example_names_the_keys_of_what_is_empty_in_a_comment(place: str) -> None:
    line = EXAMPLE.read_text(encoding="utf-8").split("\n")[
        int(example().place(tuple(place.split("."))).split(":")[1]) - 1
    ]
    assert [
        key for key in ONLY_IN_COMMENTS[place].model_fields if not re.search(rf"\b{key}\b", line)
    ] == []


@pytest.mark.parametrize("channel", sorted(manifests()))
def test_the_example_names_every_key_of_every_channel_with_its_default(channel: str) -> None:
    table: Any = example().data["channels"]
    for name, field in manifests()[channel].settings.model_fields.items():
        assert name in table[channel], f"channels.{channel}.{name}"
        if not field.is_required() and name not in manifests()[channel].secrets:
            assert table[channel][name] == field.default


def test_the_example_names_every_shared_key_once() -> None:
    table: Any = example().data["channels"]
    assert set(POLICY_KEYS) <= set(table["slack"])
    assert set(table) == set(manifests())


def test_every_line_with_a_value_says_what_it_is_for() -> None:
    lines = EXAMPLE.read_text(encoding="utf-8").split("\n")
    bare = [line for line in lines if re.search(r":\s*\S", line.split("#")[0]) and "#" not in line]
    assert [line.strip() for line in bare if line.strip() not in ("enabled: false",)] == []


def test_the_schema_knows_every_key() -> None:
    found = schema(manifests())
    assert set(found["properties"]) == set(Written.model_fields)
    slack = found["$defs"]["channel_slack"]["properties"]
    assert {"bot_token", *POLICY_KEYS} <= set(slack)


@pytest.mark.parametrize("name", sorted(set(STARTED) & set(manifests())))
def test_the_first_file_of_a_home_is_right(name: str, tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    secrets = {
        secret: f"env:{variable(name, secret)}"
        for secret in manifests()[name].secrets
        if secret != "password"
    }
    file.write_text(
        config_text(Answers(owner=("slack:U1",), channels={name: dict(secrets)})), encoding="utf-8"
    )
    environ = {
        **ENVIRON,
        "SLACK_BOT_TOKEN": "xoxb-1",
        "SLACK_APP_TOKEN": "xapp-1",
        "TELEGRAM_TOKEN": f"123456:{'A' * 35}",
        "MATRIX_TOKEN": "syt_x",
        "DISCORD_TOKEN": "MTIzNDU2Nzg5MDEyMzQ1Njc4.GabcDE." + "a" * 38,
        "FEISHU_APP_ID": "cli_a1b2c3d4e5f6",
        "FEISHU_APP_SECRET": "s" * 32,
    }
    found = load(file, environ=environ, manifests=manifests())
    assert {channel.name for channel in found.channels if channel.enabled} == {name}
    assert found.owner == ("slack:U1",)
