"""What packages offer is read once, and again when one comes or goes."""

from __future__ import annotations

import shutil
from importlib.metadata import EntryPoints, entry_points
from pathlib import Path

import pytest

import channels.entry_points
from channels.entry_points import offered

GROUP = "ohmo.nobodys"


def names() -> list[str]:
    return [point.name for point in offered(GROUP)]


def test_a_package_is_known_when_it_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(tmp_path))
    assert names() == []
    package = tmp_path / "newcomer-1.0.dist-info"
    package.mkdir()
    (package / "METADATA").write_text("Metadata-Version: 2.1\nName: newcomer\nVersion: 1.0\n")
    (package / "entry_points.txt").write_text(f"[{GROUP}]\nfirst = json\n[other]\nsecond = json\n")
    assert names() == ["first"]
    shutil.rmtree(package)
    assert names() == []


def test_metadata_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    read: list[int] = []

    def counted() -> EntryPoints:
        read.append(1)
        return entry_points()

    monkeypatch.setattr(channels.entry_points, "entry_points", counted)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert offered("console_scripts") == entry_points(group="console_scripts")
    assert "pytest" in offered("console_scripts").names
    assert len(read) == 1
    monkeypatch.syspath_prepend(str(tmp_path / "nothing there"))
    assert offered(GROUP) == offered(GROUP)
    assert len(read) == 2
