"""Channels are found by scan and by entry point; a broken stranger harms nobody."""

from __future__ import annotations

import subprocess
import sys
from importlib.metadata import EntryPoint
from pathlib import Path

import pytest

from channels.contract import Manifest
from channels.registry import GROUP, DuplicateChannel, discover, load

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
    assert (
        subprocess.run(
            [sys.executable, "-c", code], check=False, capture_output=True, text=True
        ).stderr
        == ""
    )


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
