"""What a channel keeps in files: each is the old one or the new one, what a killed life left on is
known to the next, malformed frames are kept, bounded."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import stat
import threading
from pathlib import Path

import pytest

from channels.durable import is_unfinished, replacing, take_place, write_whole
from channels.payloads import FILES, SIZE, Quarantine
from channels.stale_typing import OpenIndicators


def test_a_file_is_written_whole_or_not_at_all(tmp_path: Path) -> None:
    path = tmp_path / "config.yaml"
    write_whole(path, "one")
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    with pytest.raises(UnicodeEncodeError):
        write_whole(path, "two\ud800")
    with pytest.raises(OSError, match="No space"), replacing(path) as file:
        raise OSError(errno.ENOSPC, "No space left on device", file.name)
    assert path.read_text(encoding="utf-8") == "one"
    assert [path.name for path in tmp_path.iterdir()] == ["config.yaml"]


@pytest.mark.parametrize(("umask", "opened"), [(0o077, 0o600), (0o022, 0o644)])
def test_the_umask_decides_over_a_file_that_is_opened_and_not_over_one_that_is_written(
    tmp_path: Path, umask: int, opened: int
) -> None:
    before = os.umask(umask)
    try:
        write_whole(tmp_path / "a.service", "text", mode=0o644)
        with replacing(tmp_path / "b", 0o666) as file:
            file.write(b"text")
    finally:
        os.umask(before)
    assert [stat.S_IMODE((tmp_path / name).stat().st_mode) for name in ("a.service", "b")] == [
        0o644,
        opened,
    ]


def test_the_file_is_on_the_disk_before_it_gets_its_name_and_the_name_before_anybody_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, synced, really = tmp_path / "x", list[tuple[str, bool]](), os.fsync

    def watched(descriptor: int) -> None:
        synced.append((Path(f"/dev/fd/{descriptor}").resolve().name[:3], path.exists()))
        really(descriptor)

    monkeypatch.setattr(os, "fsync", watched)
    write_whole(path, "text")
    assert synced == [(".x.", False), (tmp_path.name[:3], True)]
    synced.clear()
    take_place(path, tmp_path / "y")
    assert synced == [(tmp_path.name[:3], False)]


def test_what_a_killed_process_leaves_is_known_by_its_name(tmp_path: Path) -> None:
    for _ in range(200):
        with replacing(tmp_path / ".env"):
            assert [path for path in tmp_path.iterdir() if is_unfinished(path.name)]
        assert not is_unfinished(".env")


@pytest.mark.parametrize("letter", ["a", "é", "説", "😀"])
def test_a_name_may_be_as_long_as_the_system_lets_it(tmp_path: Path, letter: str) -> None:
    path = tmp_path / (letter * (255 // len(letter.encode())))
    write_whole(path, "text")
    assert path.read_text(encoding="utf-8") == "text"


def test_two_who_write_at_once_write_one_after_the_other(tmp_path: Path) -> None:
    path, texts = tmp_path / "x", [letter * 100_000 for letter in "abcd"]
    threads = [
        threading.Thread(target=write_whole, args=(path, text)) for text in texts for _ in range(5)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert path.read_text(encoding="utf-8") in texts
    assert list(tmp_path.iterdir()) == [path]


async def test_the_next_life_knows_what_was_left_on_until_it_is_off(tmp_path: Path) -> None:
    first = OpenIndicators(tmp_path)
    for indicator in ("C1 1.0", "C1 2.0", "C2 "):
        await first.on(indicator)
    await first.off("C1 2.0")
    second = OpenIndicators(tmp_path)
    assert second.left() == ("C1 1.0", "C2 ")
    await second.on("C1 1.0")  # its turn goes on
    assert second.left() == ("C2 ",)
    assert OpenIndicators(tmp_path).left() == ("C1 1.0", "C2 "), (
        "a death before it was taken back forgets nothing"
    )
    await second.forget()
    assert (OpenIndicators(tmp_path).left(), second.any("C1 "), second.any("C2 ")) == (
        ("C1 1.0",),
        True,
        False,
    )


@pytest.mark.parametrize("content", ["", "{", '{"a": 1}', "[1, null]"])
async def test_a_damaged_list_is_an_empty_one(tmp_path: Path, content: str) -> None:
    (tmp_path / "lights.json").write_text(content)
    assert OpenIndicators(tmp_path).left() == ()


async def test_without_a_folder_nothing_is_remembered_and_a_full_disk_stops_nobody(
    tmp_path: Path,
) -> None:
    (tmp_path / "file").touch()
    for folder in (None, tmp_path / "file" / "no folder"):
        indicators = OpenIndicators(folder)
        await indicators.on("x")
        assert "x" in indicators
        await indicators.off("x")
        assert OpenIndicators(folder).left() == ()


async def test_a_write_that_was_cancelled_mixes_with_no_later_one(tmp_path: Path) -> None:
    """It goes on in its thread: two at once shared one unfinished file."""
    begun, may_end, at_once, most = threading.Event(), threading.Event(), 0, 0

    def slowly(file: Path, indicators: list[str]) -> None:
        nonlocal at_once, most
        at_once += 1
        most = max(most, at_once)
        if not begun.is_set():
            begun.set()
            may_end.wait(20)
        file.write_text(json.dumps(indicators))
        at_once -= 1

    indicators = OpenIndicators(tmp_path, write=slowly)
    first = asyncio.create_task(indicators.on("a"))
    assert await asyncio.to_thread(begun.wait, 20)
    first.cancel()
    await asyncio.wait([first])
    later = [asyncio.create_task(indicators.on(name)) for name in "bc"]
    await asyncio.wait(later, timeout=0.2)
    may_end.set()
    await asyncio.gather(*later)
    assert most == 1
    assert OpenIndicators(tmp_path).left() == ("a", "b", "c")


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
