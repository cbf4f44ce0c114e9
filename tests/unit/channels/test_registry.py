"""Channels are found by scan and by entry point, a broken package harms nobody; each has a setup."""

from __future__ import annotations

import base64
import importlib
import json
import re
import sys
from importlib.metadata import EntryPoint
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest

from channels.contract import Manifest
from channels.registry import GROUP, DuplicateChannel, Setup, discover, load
from tests.programs import run_process

GOOD = (
    "from channels.contract import Manifest\nMANIFEST = Manifest({name!r}, 'Title', dict,"
    " 'nowhere.adapter:Nothing', 'extra')\n"
)


@pytest.fixture
def stranger(tmp_path: Path):
    """Puts a module in reach and names it as an entry point."""
    sys.path.insert(0, str(tmp_path))
    made: list[str] = []

    def write(module: str, source: str, attribute: str = "") -> EntryPoint:
        (tmp_path / f"{module}.py").write_text(source)
        made.append(module)
        return EntryPoint(
            name=module, value=module + (f":{attribute}" if attribute else ""), group=GROUP
        )

    yield write
    sys.path.remove(str(tmp_path))
    for module in made:
        sys.modules.pop(module, None)


def test_telegram_is_found_without_its_sdk_being_imported() -> None:
    code = (
        "import sys; from channels.registry import discover; found = discover(strangers=[]); assert"
        " 'telegram' in found.manifests, found;wrong = [m for m in ('telegram', 'slack_sdk',"
        " 'mautrix') if m in sys.modules]; assert not wrong, wrong"
    )
    assert run_process(sys.executable, "-c", code).stderr == ""


@pytest.mark.parametrize("attribute", ["", "MANIFEST"])
def test_a_stranger_is_found_by_its_entry_point(stranger, attribute: str) -> None:
    found = discover(strangers=[stranger("carrier_pigeon", GOOD.format(name="pigeon"), attribute)])
    assert isinstance(found.manifests["pigeon"], Manifest)
    assert "telegram" in found.manifests


@pytest.mark.parametrize(
    ("source", "reason"),
    [
        ("import no_such_module_anywhere", "no_such_module_anywhere"),
        ("def", "SyntaxError"),
        ("raise RuntimeError('boom')", "boom"),
        ("class Odd(Exception): ...\nraise Odd('of its own kind')", "Odd: of its own kind"),
        ("MANIFEST = 5", "int"),
        ("", "exports no MANIFEST"),
    ],
)
def test_a_broken_stranger_is_reported_and_skipped(stranger, source: str, reason: str) -> None:
    found = discover(
        strangers=[
            stranger("broken_channel", source),
            stranger("whole_channel", GOOD.format(name="whole")),
        ]
    )
    assert "whole" in found.manifests
    (line,) = [line for line in found.broken if "broken_channel" in line]
    assert reason in line
    assert "\n" not in line


def test_a_name_taken_twice_stops_with_one_line_that_names_both(stranger) -> None:
    with pytest.raises(DuplicateChannel) as caught:
        discover(strangers=[stranger("second_telegram", GOOD.format(name="telegram"))])
    line = str(caught.value)
    assert "\n" not in line
    assert "channels.telegram" in line
    assert "second_telegram" in line


def test_load_gives_what_a_path_names_and_says_what_is_wrong_with_it() -> None:
    assert load("channels.contract:Manifest") is Manifest
    with pytest.raises(ValueError, match="module:Name"):
        load("channels.contract")
    with pytest.raises(AttributeError, match="has no Nothing"):
        load("channels.contract:Nothing")
    with pytest.raises(ImportError):
        load("channels.no_such_room:Nothing")


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
