"""A file that is written again is the old one or the new one, whatever happens in between."""

from __future__ import annotations

import errno
import os
import stat
import threading
from pathlib import Path

import pytest

from channels.durable import is_unfinished, replacing, take_place, write_whole


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
