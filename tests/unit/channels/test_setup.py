"""Every platform's own set-up: its secrets are asked for with a page, its documents can be used as
they are."""

from __future__ import annotations

import base64
import importlib
import json
import re
from urllib.parse import parse_qs, urlsplit

import pytest

from channels.registry import Setup, discover

PLATFORMS = ("slack", "discord", "telegram", "feishu", "matrix")


def setup(name: str) -> Setup:
    found = importlib.import_module(f"channels.{name}.setup").SETUP
    assert isinstance(found, Setup)
    return found


@pytest.mark.parametrize("name", PLATFORMS)
def test_every_secret_is_asked_for_with_the_page_it_stands_on(name: str) -> None:
    found = setup(name)
    assert all(ask.page and ask.question for ask in found.asks)
    manifest = discover(strangers=()).manifests.get(name)
    if manifest is not None:
        fields = manifest.settings.model_fields  # type: ignore[attr-defined]
        assert {ask.key for ask in found.asks} <= set(fields)
        assert {ask.key for ask in found.asks if ask.secret} <= set(manifest.secrets)


@pytest.mark.parametrize("name", PLATFORMS)
def test_every_document_a_step_names_exists_and_reveals_no_secret(name: str) -> None:
    found = setup(name)
    named = {name for step in found.steps for name in re.findall(r"\{([^}]+)\}", step)}
    assert named <= {document.name for document in found.documents}
    secrets = {ask.key: "very-secret" for ask in found.asks if ask.secret}
    assert "very-secret" not in "".join(
        [*(document.text(secrets) for document in found.documents), *found.after(secrets)]
    )


def test_the_discord_invitation_names_the_application_and_exactly_its_rights() -> None:
    token = base64.b64encode(b"123456789012345678").decode().rstrip("=") + ".GabcDE." + "x" * 38
    text = setup("discord").documents[0].text({"token": token})
    query = parse_qs(urlsplit(text.strip()).query)
    assert query["client_id"] == ["123456789012345678"]
    assert query["scope"] == ["bot applications.commands"]
    rights = int(query["permissions"][0])
    assert rights & (1 << 11)  # SEND_MESSAGES
    assert rights & (1 << 16)  # READ_MESSAGE_HISTORY
    assert not rights & (1 << 3)  # ADMINISTRATOR


def test_the_feishu_scopes_are_what_its_import_takes() -> None:
    found = json.loads(setup("feishu").documents[0].text({}))
    assert {"im:message:send_as_bot", "im:resource"} <= set(found["scopes"]["tenant"])
