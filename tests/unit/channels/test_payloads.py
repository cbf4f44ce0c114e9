"""Malformed frames are kept: their heads, the newest hundred, whatever they are made of."""

from __future__ import annotations

from pathlib import Path

import pytest

from channels.payloads import FILES, SIZE, Quarantine


@pytest.mark.parametrize(
    ("frame", "kept"),
    [
        ("{ no json", b"{ no json"),
        (b"\xff\xfe broken", b"\xff\xfe broken"),
        ({"a": 1}, b'{"a": 1}'),
        ("half a pair \ud83d", b"half a pair \\ud83d"),
        ("x" * 10_000_000, b"x" * SIZE),
        ({"a": "y" * 10_000}, b'{"a": "' + b"y" * (SIZE - 7)),
        ("é" * 5_000, "é".encode() * (SIZE // 2)),
    ],
    ids=["text", "bytes", "json", "surrogate", "long text", "long json", "wide"],
)
def test_the_head_of_a_frame_is_kept_as_it_came(tmp_path: Path, frame: object, kept: bytes) -> None:
    aside = Quarantine(tmp_path / "malformed")
    aside.keep(frame, "one")
    assert (tmp_path / "malformed" / "one.txt").read_bytes() == kept
    assert aside.count == 1


def test_a_frame_that_json_cannot_write_is_counted_and_named(tmp_path: Path) -> None:
    ring: list[object] = []
    ring.append(ring)
    aside = Quarantine(tmp_path)
    aside.keep(ring, "ring")
    assert b"cannot be written down" in (tmp_path / "ring.txt").read_bytes()


def test_the_newest_hundred_stay_and_all_are_counted(tmp_path: Path) -> None:
    aside = Quarantine(tmp_path)
    for number in range(FILES + 20):
        aside.keep(f"frame {number}")
    heads = {path.read_text() for path in tmp_path.iterdir()}
    assert len(heads) == FILES
    assert f"frame {FILES + 19}" in heads
    assert aside.count == FILES + 20


def test_equal_frames_without_a_name_are_kept_once(tmp_path: Path) -> None:
    aside = Quarantine(tmp_path)
    for _ in range(3):
        aside.keep("again")
    assert (len(list(tmp_path.iterdir())), aside.count) == (1, 3)


def test_a_name_from_a_platform_stays_inside_the_folder(tmp_path: Path) -> None:
    aside = Quarantine(tmp_path / "malformed")
    aside.keep("x", "../../etc/passwd")
    assert [path.name for path in (tmp_path / "malformed").iterdir()] == ["______etc_passwd.txt"]


def test_a_folder_that_cannot_be_made_is_no_failure(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    aside = Quarantine(tmp_path / "file")
    aside.keep("x")
    assert aside.count == 1
