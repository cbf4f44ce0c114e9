"""No secret that is there goes to an address that somebody writes at the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from channels.registry import discover
from ohmo.config.load import load
from ohmo.contracts.errors import ConfigError
from ohmo.contracts.setup import ModelWish
from ohmo.setup.config_editor import ConfigEditor

CONFIG = """\
profiles:
  default:
    provider: openai
    base_url: https://models.example.org/v1
    models: [small]
    api_key: env:OPENAI_API_KEY
channels:
  matrix:
    enabled: true
    homeserver: https://matrix.example.org
    user: "@bot:example.org"
    access_token: env:MATRIX_ACCESS_TOKEN
"""


@pytest.fixture
def desk(tmp_path: Path) -> ConfigEditor:
    (tmp_path / "config.yaml").write_text(CONFIG)
    (tmp_path / ".env").write_text(
        "OPENAI_API_KEY=held-0123456789\nMATRIX_ACCESS_TOKEN=held-9876543210\n"
    )
    (tmp_path / ".env").chmod(0o600)
    environ = {
        "OHMO_HOME": str(tmp_path),
        "OPENAI_API_KEY": "held-0123456789",
        "MATRIX_ACCESS_TOKEN": "held-9876543210",
    }
    manifests = discover().manifests
    return ConfigEditor(load(environ=environ, manifests=manifests), {}, manifests)


async def test_a_key_that_is_there_is_not_sent_to_another_address(desk: ConfigEditor) -> None:
    with pytest.raises(ConfigError, match=r"key: say it for https://else\.example\.org"):
        await desk.try_model(ModelWish("openai", "https://else.example.org/v1", "small", ""))
    with pytest.raises(ConfigError, match="is a reference"):
        await desk.try_model(
            ModelWish("openai", "https://else.example.org/v1", "small", "env:MATRIX_ACCESS_TOKEN")
        )


async def test_a_token_that_is_there_is_not_sent_to_another_address(desk: ConfigEditor) -> None:
    with pytest.raises(ConfigError, match=r"channels\.matrix\.\w+: say it for the new address"):
        await desk.try_channel("matrix", {"homeserver": "https://else.example.org"})
    with pytest.raises(ConfigError, match="is a reference"):
        await desk.try_channel(
            "matrix",
            {"homeserver": "https://else.example.org", "access_token": "env:OPENAI_API_KEY"},
        )
