"""What a card says about a call; what nobody sees, or takes for something else, is written out: as a
rule over all of Unicode, not as examples."""

from __future__ import annotations

import functools
import unicodedata
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.text import parse
from ohmo.contracts.messages import ToolCall
from ohmo.permissions.rules import Ruling
from ohmo.permissions.wording import argument, detail_of, title_of, visible
from tests.makers import call_context

# Unicode 16, DerivedCoreProperties.txt, Default_Ignorable_Code_Point.
IGNORABLE = (
    "AD 34F 61C 115F-1160 17B4-17B5 180B-180F 200B-200F 202A-202E 2060-206F 3164 FE00-FE0F FEFF"
    " FFA0 FFF0-FFF8 1BCA0-1BCA3 1D173-1D17A E0000-E0FFF"
)


@functools.cache
def every() -> Sequence[str]:
    return [chr(point) for point in range(0x110000)]


def written(character: str) -> str:
    return character.encode("unicode_escape", "surrogatepass").decode()


def in_place(character: str, before: str = "a", after: str = "b") -> str:
    """As it is shown between two others."""
    return visible(f"{before}{character}{after}")[len(before) : -len(after)]


def test_every_control_format_space_surrogate_private_and_unassigned_code_point_is_written_out() -> (
    None
):
    hidden = [one for one in every() if unicodedata.category(one)[0] in "CZ" and one not in " \n\t"]
    assert {unicodedata.category(one) for one in hidden} == set("Cc Cf Cn Co Cs Zl Zp Zs".split())
    shown = visible("".join(f"a{one}b\n" for one in hidden)).splitlines()
    assert shown == [f"a{written(one)}b" for one in hidden]


def test_every_default_ignorable_code_point_is_written_out() -> None:
    ranges = [[int(end, 16) for end in one.split("-")] for one in IGNORABLE.split()]
    points = [chr(point) for ends in ranges for point in range(ends[0], ends[-1] + 1)]
    assert len(points) == 4174  # as the file counts them
    assert [one for one in points if in_place(one) != written(one)] == []


def test_no_mark_stands_without_a_letter_and_none_crosses_one_out_or_encloses_it() -> None:
    marks = [one for one in every() if unicodedata.category(one)[0] == "M"]
    for before in (" ", "/", "\u200b", "\n"):
        shown = visible("".join(f"x{before}{one}" for one in marks))
        assert not [one for one in shown if unicodedata.category(one)[0] == "M"]
    over = [
        one for one in marks if unicodedata.category(one) == "Me" or unicodedata.combining(one) == 1
    ]
    assert [one for one in over if in_place(one) != written(one)] == []


def nonspacing() -> st.SearchStrategy[str]:
    return st.sampled_from([one for one in every() if unicodedata.category(one) == "Mn"])


@given(st.lists(st.deferred(nonspacing), max_size=40))
def test_no_letter_bears_more_than_four_marks_and_none_twice_in_a_row(marks: list[str]) -> None:
    shown = visible("a" + "".join(marks))
    run = [one for one in shown if unicodedata.category(one) == "Mn"]
    assert len(run) <= 4
    assert all(one != other for one, other in pairwise(run))


@given(st.text(), st.booleans())
def test_nothing_hidden_is_left_and_nothing_is_lost(text: str, exact: bool) -> None:
    shown = visible(text, exact=exact)
    assert all(
        one in "\n\t" or unicodedata.category(one) not in ("Cc", "Cf", "Cs", "Co", "Zl", "Zp")
        for one in shown
    )
    assert not any(unicodedata.category(one) == "Zs" for one in shown.replace(" ", ""))
    rest = shown
    for one in text:  # each stands there itself, or written out, in its order
        rest = rest.removeprefix(one) if rest.startswith(one) else rest.removeprefix(written(one))
    assert rest == ""


def test_a_letter_that_stands_beside_ascii_letters_and_is_not_written_out_is_latin_or_east_asian() -> (
    None
):
    """Of every script there is; what the standard library calls a compatible form of an ASCII
    letter is one of these forms."""
    for one in (
        one for one in every() if not one.isascii() and unicodedata.category(one)[0] == "L"
    ):
        if in_place(one) != one:
            continue
        name = unicodedata.name(one)
        assert (
            name.startswith(
                ("LATIN ", "CJK ", "HIRAGANA ", "KATAKANA", "HANGUL ", "BOPOMOFO ", "IDEOGRAPHIC ")
            )
            or one in "ªºµ"
        )
        assert (
            unicodedata.category(one) not in ("Lu", "Ll", "Lt")
            or not unicodedata.normalize("NFKC", one).isascii()
        )


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("curl https://раypal.com", r"curl https://\u0440\u0430ypal.com"),
        ("cat /еtс/passwd", r"cat /\u0435t\u0441/passwd"),
        ("gıthub.com", r"g\u0131thub.com"),
        ("\u212aelvin", r"\u212aelvin"),
        ("𝐬𝐮do", r"\U0001d42c\U0001d42edo"),
    ],
)
def test_letters_of_another_script_inside_a_word_are_written_out_everywhere(
    text: str, shown: str
) -> None:
    assert visible(text) == shown
    assert visible(text, exact=True) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("сору a b", r"\u0441\u043e\u0440\u0443 a b"),
        ("ｒｍ x", r"\uff52\uff4d x"),
        ("rm ‑rf", r"rm \u2011rf"),
        ("https://bank.com∕login.evil.io", r"https://bank.com\u2215login.evil.io"),
        ("echo ’$(id)’", r"echo \u2019$(id)\u2019"),
        ("ls ；id", r"ls \uff1bid"),
        ("ꓮꓑ", r"\ua4ee\ua4d1"),
    ],
)
def test_of_a_command_words_and_signs_that_are_all_lookalikes_are_written_out_too(
    text: str, shown: str
) -> None:
    assert visible(text, exact=True) == shown
    assert visible(text) == text


@pytest.mark.parametrize(
    "text",
    [
        "git commit -m 'Tiếng Việt: đường, Łódź, straße, naïve, ça'",
        "echo 修复：登录，这是ABC的 > 文件.txt",
        "これはテストABCです カタカナー ノート％",
        "한국어 테스트 abc",
        "mv отчёт.txt файл_new",
        "echo Καλημέρα κόσμε",
        "echo שלום كتاب नमस्ते ไทยภาษา မြန်မာ",
        "café e\u0301 — 10 € • ✓ 🎉",
    ],
)
def test_what_people_write_stays_readable(text: str) -> None:
    assert visible(text, exact=True) == text


def test_a_long_text_is_looked_through_in_no_time() -> None:
    assert visible("登录 abc\u0301 " * 100_000, exact=True).count("登") == 100_000


CONTEXT = call_context(Path("/w"), deadline=0.0)


def bash(command: str) -> ToolCall:
    return ToolCall("t.1", "Bash", {"command": command}, "f")


ASKED = Ruling("ask", "mode", "default", "it may change something")


def test_an_edit_that_only_takes_away_says_so_and_a_switch_that_is_off_is_shown() -> None:
    given = {
        "file_path": "a",
        "old_string": "milk",
        "new_string": "",
        "replace_all": False,
        "n": None,
    }
    lines = detail_of(ToolCall("t.1", "Edit", given, "f"), CONTEXT, ASKED).split("\n")
    assert lines == [
        "file_path: `a`",
        "old_string: `milk`",
        "new_string: (empty)",
        "replace_all: `False`",
        "in `/w`: it may change something (mode: default)",
    ]


def test_what_nobody_sees_in_a_command_is_written_out_before_somebody_allows_it() -> None:
    hidden = "\u202e\u2066\u200b\r\x1b\U000e0041\ud800"
    call = ToolCall("t.1", "Bash", {"command": f"ls a{hidden}b"}, "f")
    written = r"`ls a\u202e\u2066\u200b\r\x1b\U000e0041\ud800b`"
    assert f"command: {written}" in detail_of(call, CONTEXT, Ruling("ask", "mode"))
    assert title_of(call) == f"Bash: {written.strip('`')}"


@given(
    st.text(min_size=1, max_size=400), st.integers(1, 50), st.sampled_from(["command", "content"])
)
def test_an_argument_is_shown_whole_and_nothing_in_it_leaves_its_place(
    text: str, times: int, name: str
) -> None:
    text *= times
    (shown,) = [
        node for node in parse(argument(name, text)).walk() if node.type in ("fence", "code_inline")
    ]
    end = "\n" if shown.type == "fence" else ""
    assert shown.content == visible(text, exact=name == "command") + end
    assert len(parse(f"{argument(name, text)}\nlast: `x`").children) == (
        1 if shown.type == "code_inline" else 3
    )


@pytest.mark.parametrize("lines", [1, 2, 5000])
def test_a_title_says_how_many_lines_and_characters_it_leaves_out(lines: int) -> None:
    command = "\n".join(["echo " + "x" * 200, *["rm -rf y"] * (lines - 1)])
    more = {1: "", 2: ", 1 line", 5000: ", 4999 lines"}[lines]
    assert title_of(bash(command)) == f"Bash: echo {'x' * 115}… (+85 characters{more})"
    assert command in detail_of(bash(command), CONTEXT, ASKED)


def test_a_title_of_one_short_line_stands_alone() -> None:
    assert title_of(bash(" make test\n")) == "Bash: make test"
    assert title_of(ToolCall("t", "TodoWrite", {"todos": []}, "f")) == "TodoWrite"


def test_why_somebody_is_asked_and_the_name_of_an_argument_hold_no_markup() -> None:
    ruling = Ruling(
        "ask", "sensitive", "[x](https://e.io)\n\n**ok**", "it says \u202e[y](https://f.io)"
    )
    call = ToolCall("t", "mcp__a__b", {"go\n\n[z](https://g.io)": "1"}, "f")
    detail = detail_of(call, CONTEXT, ruling)
    kinds = {node.type for node in parse(detail).walk()}
    assert kinds <= {"root", "paragraph", "inline", "text", "code_inline", "softbreak"}
    assert "\u202e" not in detail
