"""Read, Write and Edit: bounded, exact, in one step."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from tool_calls import Call

from ohmo.tools.edit import replaced
from ohmo.tools.files import decode, encode
from ohmo.tools.inputs import explain
from ohmo.tools.results import ToolError

PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d4944415478da63f8ffff3f0005fe02fea7d1a7b80000000049454e44ae426082"
)


async def test_lines_are_numbered_and_the_rest_is_announced(call: Call, work: Path) -> None:
    (work / "a.txt").write_text("".join(f"line {number}\n" for number in range(1, 501)))
    result = await call("Read", file_path="a.txt")
    lines = result.text.splitlines()
    assert lines[0] == "     1\tline 1"
    assert lines[199] == "   200\tline 200"
    assert lines[200] == "[more lines follow: Read with offset=201]"
    assert len(lines) == 201
    further = await call("Read", file_path=str(work / "a.txt"), offset=201, limit=2)
    assert further.text.splitlines() == [
        "   201\tline 201",
        "   202\tline 202",
        "[more lines follow: Read with offset=203]",
    ]
    last = await call("Read", file_path="a.txt", offset=500)
    assert last.text == "   500\tline 500"
    past = await call("Read", file_path="a.txt", offset=900)
    assert "500 lines" in past.text


async def test_a_long_line_is_cut_and_can_be_read_in_pieces(call: Call, work: Path) -> None:
    text = "".join(f"{number:07d}" for number in range(10_000))
    (work / "one.json").write_text(text)
    first = await call("Read", file_path="one.json")
    assert first.text.startswith(
        "     1\t"
        + text[:2000]
        + " [... 68000 more characters: Read with offset=1, char_offset=2000]"
    )
    collected, at = "", 0
    while True:
        piece = (await call("Read", file_path="one.json", offset=1, char_offset=at)).text
        body, _, note = piece.rpartition("\n")
        collected += body
        at += len(body)
        if note == "[end of line]":
            break
        assert f"char_offset={at}" in note
    assert collected == text


async def test_pieces_of_a_later_line_stay_in_that_line(call: Call, work: Path) -> None:
    (work / "b.txt").write_text("short\n" + "é" * 30_000 + "\nafter\n")
    piece = await call("Read", file_path="b.txt", offset=2, char_offset=29_990)
    assert piece.text == "é" * 10 + "\n[end of line]"
    none = await call("Read", file_path="b.txt", offset=2, char_offset=99_999)
    assert "no character" in none.text


async def test_the_whole_result_is_bounded(call: Call, work: Path) -> None:
    (work / "wide.txt").write_text(("x" * 1990 + "\n") * 300)
    result = await call("Read", file_path="wide.txt")
    assert len(result.text) < 70_000
    assert "more lines follow" in result.text


async def test_an_empty_file_a_folder_and_a_missing_file_are_said(call: Call, work: Path) -> None:
    (work / "empty").touch()
    assert "empty" in (await call("Read", file_path="empty")).text
    assert "Glob" in (await call("Read", file_path=".")).text
    (work / "Notes.md").touch()
    missing = await call("Read", file_path="notes.md")
    assert missing.error
    assert "Notes.md" in missing.text
    assert "device" in (await call("Read", file_path="/dev/zero")).text


async def test_binary_files_are_said_and_images_shown(call: Call, work: Path) -> None:
    (work / "x.bin").write_bytes(b"\0\1\2" * 100)
    assert "binary (300 bytes)" in (await call("Read", file_path="x.bin")).text
    (work / "p.png").write_bytes(PNG)
    result = await call("Read", file_path="p.png")
    assert [(image.media_type, image.path.name) for image in result.images] == [
        ("image/png", "p.png")
    ]


async def test_other_codings_can_be_read_and_edited_without_harm(call: Call, work: Path) -> None:
    cases = {
        "u16.txt": "\ufeffgrün\r\nrot\r\n".encode("utf-16-le"),
        "l1.txt": "grün\nrot\n".encode("latin-1"),
        "bom.txt": b"\xef\xbb\xbfgr\xc3\xbcn\nrot\n",
    }
    for name, data in cases.items():
        (work / name).write_bytes(data)
        assert "grün" in (await call("Read", file_path=name)).text
        assert not (await call("Edit", file_path=name, old_string="rot", new_string="blau")).error
        coded = {"u16.txt": "utf-16-le", "l1.txt": "latin-1", "bom.txt": "utf-8"}[name]
        assert (work / name).read_bytes() == data.replace("rot".encode(coded), "blau".encode(coded))


async def test_a_character_the_coding_lacks_is_refused(call: Call, work: Path) -> None:
    (work / "l1.txt").write_bytes("grün\n".encode("latin-1"))
    result = await call("Edit", file_path="l1.txt", old_string="gr", new_string="€")
    assert result.error
    assert "latin-1" in result.text
    assert (work / "l1.txt").read_bytes() == "grün\n".encode("latin-1")


async def test_write_makes_folders_and_keeps_the_mode(call: Call, work: Path) -> None:
    assert not (await call("Write", file_path="deep/er/run.sh", content="#!/bin/sh\n")).error
    (work / "deep/er/run.sh").chmod(0o750)
    assert not (await call("Write", file_path="deep/er/run.sh", content="#!/bin/bash\n")).error
    assert (work / "deep/er/run.sh").stat().st_mode & 0o777 == 0o750
    assert (work / "deep/er/run.sh").read_text() == "#!/bin/bash\n"
    assert [path.name for path in (work / "deep/er").iterdir()] == ["run.sh"]


async def test_windows_line_ends_are_kept(call: Call, work: Path) -> None:
    (work / "w.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    assert not (
        await call("Edit", file_path="w.txt", old_string="one\ntwo", new_string="1\n2")
    ).error
    assert (work / "w.txt").read_bytes() == b"1\r\n2\r\nthree\r\n"
    assert not (await call("Write", file_path="w.txt", content="a\nb\n")).error
    assert (work / "w.txt").read_bytes() == b"a\r\nb\r\n"


async def test_writing_through_a_symlink_changes_its_target(call: Call, work: Path) -> None:
    (work / "target.txt").write_text("old\n")
    (work / "link.txt").symlink_to("target.txt")
    assert not (await call("Write", file_path="link.txt", content="new\n")).error
    assert (work / "link.txt").is_symlink()
    assert (work / "target.txt").read_text() == "new\n"


async def test_a_file_changed_by_somebody_else_is_not_overwritten(call: Call, work: Path) -> None:
    (work / "a.txt").write_text("one\n")
    await call("Read", file_path="a.txt")
    (work / "a.txt").write_text("one, changed\n")
    for arguments in ({"content": "mine\n"}, {"old_string": "one", "new_string": "two"}):
        result = await call(
            "Write" if "content" in arguments else "Edit", file_path="a.txt", **arguments
        )
        assert result.error
        assert "changed since" in result.text
    assert (work / "a.txt").read_text() == "one, changed\n"
    await call("Read", file_path="a.txt")
    assert not (await call("Edit", file_path="a.txt", old_string="one", new_string="two")).error
    assert not (await call("Edit", file_path="a.txt", old_string="two", new_string="three")).error


async def test_edit_wants_exactly_one_place(call: Call, work: Path) -> None:
    (work / "a.py").write_text("x = 1\ny = 2\nx = 1\n")
    twice = await call("Edit", file_path="a.py", old_string="x = 1", new_string="x = 2")
    assert twice.error
    assert "2 times (lines 1, 3)" in twice.text
    none = await call("Edit", file_path="a.py", old_string="z = 1", new_string="x = 2")
    assert none.error
    assert "not in the file" in none.text
    spaces = await call("Edit", file_path="a.py", old_string="x  =  1\ny = 2", new_string="x")
    assert "other spaces" in spaces.text
    assert (work / "a.py").read_text() == "x = 1\ny = 2\nx = 1\n"
    every = await call(
        "Edit", file_path="a.py", old_string="x = 1", new_string="x = 2", replace_all=True
    )
    assert "2 places" in every.text
    assert (work / "a.py").read_text() == "x = 2\ny = 2\nx = 2\n"


async def test_several_edits_are_made_in_order_and_all_or_none(call: Call, work: Path) -> None:
    (work / "a.txt").write_text("one two two\n")
    edits = [
        {"old_string": "one", "new_string": "two"},
        {"old_string": "two", "new_string": "three", "replace_all": True},
    ]
    result = await call("MultiEdit", file_path="a.txt", edits=edits)
    assert (result.error, (work / "a.txt").read_text()) == (False, "three three three\n")
    assert "2 edits, 4 places" in result.text
    result = await call(
        "MultiEdit",
        file_path="a.txt",
        edits=[{"old_string": "three three three", "new_string": "x"}, edits[0]],
    )
    assert (result.error, (work / "a.txt").read_text()) == (True, "three three three\n")
    assert result.text.startswith("`edits.1`: `old_string` is not in the file")
    assert result.text.endswith("nothing was changed")


async def test_nothing_is_left_beside_a_file_that_cannot_be_written(call: Call, work: Path) -> None:
    (work / "folder").mkdir()
    assert (await call("Write", file_path="folder", content="x")).error
    (work / "file").write_text("x")
    assert (await call("Write", file_path="file/below", content="x")).error
    half = await call("Write", file_path="half", content="\ud800")
    assert half.error
    assert sorted(path.name for path in work.iterdir()) == ["file", "folder"]


@given(st.text(alphabet="ab\n\r é"), st.text(alphabet="ab\n", min_size=1), st.text(alphabet="ab\n"))
def test_an_edit_changes_one_place_and_nothing_else(text: str, old: str, new: str) -> None:
    try:
        after, count = replaced(text, old, new, every=False)
    except ToolError:
        return
    assert count == 1
    assert after.replace("\r\n", "\n").count("\n") - text.replace("\r\n", "\n").count(
        "\n"
    ) == new.count("\n") - old.count("\n")


@given(st.binary())
def test_decoding_and_encoding_loses_no_byte(data: bytes) -> None:
    before = decode(data)
    if before is not None:
        assert encode(*before) == data


@pytest.mark.parametrize("path", ["", "   ", "a\0b", "\ud800", "x/" * 3000])
async def test_an_impossible_path_is_one_clear_line(call: Call, path: str) -> None:
    for name, more in (
        ("Read", {}),
        ("Write", {"content": "x"}),
        ("Edit", {"old_string": "a", "new_string": "b"}),
    ):
        with pytest.raises(ValidationError) as wrong:
            await call(name, file_path=path, **more)
        text = explain(wrong.value)
        assert text.startswith(f"{name}: the arguments do not fit")
        assert "`file_path`" in text
