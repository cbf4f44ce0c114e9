"""CommonMark: cutting loses nothing, plain words read well, cleaning takes only what deceives;
thinking is a quote, and nothing where only the answer counts."""

from __future__ import annotations

import itertools
import re
import time
import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from channels.payloads import clean
from channels.split import split_markdown
from channels.text import (
    code_span,
    literal,
    parse,
    plain,
    quote_growing,
    quote_thinking,
    unescaped,
    without_thinking,
)

FAMILY = "👨\u200d👩\u200d👧\u200d👦"
PROSE = st.text(
    alphabet=st.sampled_from("aé.!? \n\t-#*>|1)\u0301\u200d👨🏽🇩🇪\U0001f1eb中ก"), max_size=300
)
MARKDOWN = st.lists(
    st.sampled_from(
        [
            "# Head\n",
            "word ",
            "**bold** ",
            "\n\n",
            "- item\n",
            "  - inner\n",
            "1. one\n",
            "> quote\n",
            "```py\n",
            "```\n",
            "~~~\n",
            "| a | b |\n|---|---|\n",
            "| 1 | 2 |\n",
            "    code\n",
            "[l](http://x) ",
        ]
    ),
    max_size=60,
).map("".join)


def at_most(limit: int):
    return lambda piece: len(piece) <= limit


def solid(text: str) -> str:
    return re.sub(r"\s", "", text)


@given(PROSE, st.integers(20, 80))
@example("x" * 200, 20)
@settings(deadline=None)
def test_every_piece_fits_and_no_character_but_white_space_is_lost(text: str, limit: int) -> None:
    if "|" in text and "-" in text:  # a torn table repeats its head on purpose
        text = text.replace("|", "")
    pieces = split_markdown(text, at_most(limit))
    assert all(len(piece) <= limit for piece in pieces)
    assert solid("".join(pieces)) == solid(text)


@given(MARKDOWN, st.integers(40, 200))
@settings(deadline=None)
def test_markdown_of_every_kind_is_cut_into_pieces_that_fit_and_keep_its_words(
    text: str, limit: int
) -> None:
    pieces = split_markdown(text, at_most(limit))
    assert all(0 < len(piece) <= limit for piece in pieces)
    for word in ("word", "Head", "item", "quote", "bold", "code", "inner"):
        assert sum(piece.count(word) for piece in pieces) >= text.count(word)


@given(st.text(max_size=120), st.integers(1, 3))
@settings(deadline=None)
def test_even_absurd_limits_end_and_lose_nothing(text: str, limit: int) -> None:
    text = re.sub(r"[`~|]", "", text)
    assert solid("".join(split_markdown(text, at_most(limit)))) == solid(text)


@given(
    st.lists(
        st.sampled_from(
            [
                FAMILY,
                "e\u0301\u0323",
                "🇩🇪",
                "👍🏽",
                "❤\ufe0f",
                "각",
                "\u1112\u1161\u11ab",
                "नि",
                "x",
            ]
        ),
        min_size=1,
        max_size=40,
    ),
    st.integers(8, 30),
)
@settings(deadline=None)
def test_a_visible_character_is_never_torn(characters: list[str], limit: int) -> None:
    pieces = split_markdown("".join(characters), at_most(limit))
    rest = list(characters)
    for piece in pieces:
        built = ""
        while rest and len(built) < len(piece):
            built += rest.pop(0)
        assert built == piece


def test_halves_of_a_surrogate_pair_stay_together() -> None:
    for piece in split_markdown("\ud83d\ude00" * 9, at_most(3)):
        assert piece == "\ud83d\ude00"


def test_a_torn_fence_is_closed_and_opened_again_with_its_language() -> None:
    code = "\n".join(f"print({n})" for n in range(40))
    pieces = split_markdown(f"Before\n\n```python title\n{code}\n```\n\nAfter", at_most(120))
    inner: list[str] = []
    for piece in pieces:
        fences = [node for node in parse(piece).children if node.type == "fence"]
        assert [fence.info for fence in fences] in (["python title"], [])
        inner += [fence.content.strip("\n") for fence in fences]
    assert "\n".join(inner) == code
    assert pieces[0].startswith("Before")
    assert pieces[-1].endswith("After")


@pytest.mark.parametrize("frame", ["> {}", "- {}", "1. a\n   - b\n     - {}"])
def test_a_torn_fence_inside_a_quote_or_a_list_stays_code(frame: str) -> None:
    lines = ["```py", *(f"if x{n}:" if n % 2 == 0 else "    y()" for n in range(30)), "```"]
    prefix = "> " if frame.startswith(">") else " " * (len(frame.rsplit("\n", maxsplit=1)[-1]) - 2)
    head, last = frame.rsplit("\n", 1) if "\n" in frame else ("", frame)
    source = (
        (head + "\n" if head else "")
        + last.format(lines[0])
        + "\n"
        + "\n".join(prefix + line for line in lines[1:])
    )
    pieces = split_markdown(source, at_most(90))
    assert len(pieces) > 2
    content = [
        node.content for piece in pieces for node in parse(piece).walk() if node.type == "fence"
    ]
    assert "".join(content) == "\n".join(lines[1:-1]) + "\n"


def test_the_rest_of_a_torn_list_is_not_taken_for_code() -> None:
    source = "- outer\n" + "\n".join(f"    - inner number {n}" for n in range(20))
    pieces = split_markdown(source, at_most(100))
    assert len(pieces) > 3
    assert not [
        node for piece in pieces for node in parse(piece).walk() if node.type == "code_block"
    ]


def test_a_torn_table_repeats_its_head() -> None:
    rows = "\n".join(f"| {n} | x |" for n in range(30))
    pieces = split_markdown(f"| number | letter |\n|---|:-:|\n{rows}", at_most(120))
    assert len(pieces) > 2
    for piece in pieces:
        table = parse(piece).children[0]
        assert table.type == "table"
        assert plain(piece).startswith("number | letter\n")


def test_cuts_prefer_blocks_then_lines_then_sentences_then_words() -> None:
    assert split_markdown("One block.\n\nAnother block.", at_most(20)) == [
        "One block.",
        "Another block.",
    ]
    assert split_markdown("- first thing\n- second thing", at_most(20)) == [
        "- first thing",
        "- second thing",
    ]
    assert split_markdown("A sentence. And one more.", at_most(20)) == [
        "A sentence.",
        "And one more.",
    ]
    assert split_markdown("several words without end", at_most(12)) == [
        "several",
        "words",
        "without end",
    ]


def test_a_cut_does_not_make_a_heading_of_an_inner_number_sign() -> None:
    pieces = split_markdown("we saw a nice # sign there", at_most(16))
    assert not any(piece.startswith("# ") for piece in pieces)


def test_blank_text_gives_no_piece_and_short_text_stays_as_it_is() -> None:
    assert split_markdown(" \n\n", at_most(9)) == []
    assert split_markdown("# Hi\n\n- a", at_most(99)) == ["# Hi\n\n- a"]


@pytest.mark.parametrize(
    "unit", ["word ", "x", "Some *words*.\n\n", "- ", "[", "\\", "a\u0301", "| a "], ids=repr
)
def test_a_megabyte_asks_in_all_for_little_more_than_its_own_length(unit: str) -> None:
    text = unit * (1_000_000 // len(unit))
    asked = 0

    def fits(piece: str) -> bool:
        nonlocal asked
        asked += len(piece)
        return len(piece) <= 4000

    pieces = split_markdown(text, fits)
    assert len(pieces) < 400
    assert asked < 12 * len(text)


def test_ten_times_the_text_takes_about_ten_times_the_time() -> None:
    def seconds(size: int) -> float:
        text = "Some words, and *more* of them.\n\n```\nx = 1\ny = 2\n```\n\n" * size
        start = time.process_time()
        split_markdown(text, at_most(4000))
        return time.process_time() - start

    seconds(200)
    assert seconds(5000) < 40 * max(seconds(500), 0.01)


def test_plain_words_keep_structure_and_addresses() -> None:
    source = (
        "# Title\n\nA *b* `c` ~~d~~ [site](http://x.org) <http://y.org>\n\n- one\n  1. two\n\n>"
        " said\n\n"
    )
    source += "```py\nx = 1\n```\n\n| a | b |\n|---|---|\n| 1 | 2 |\n\n![alt](p.png)"
    assert (
        plain(source)
        == "Title\n\nA b c d site (http://x.org) http://y.org\n\n• one\n  1. two\n\n> said\n\nx ="
        " 1\n\na | b\n1 | 2\n\nalt (p.png)"
    )


@given(st.text(max_size=200))
@settings(deadline=None)
def test_plain_words_never_fail(text: str) -> None:
    assert isinstance(plain(text), str)


@given(
    st.text(alphabet=st.characters(codec=None), max_size=200)
    | st.text(alphabet="a \u200d\u200c\x00\u202e\U000e0041\ud83d\ude00👩नि\u094d", max_size=60)
)
def test_cleaned_text_holds_nothing_that_deceives_and_cleaning_twice_changes_nothing(
    text: str,
) -> None:
    cleaned = clean(text)
    assert not re.search(
        "[\x00\u202a-\u202e\u2066-\u2069\U000e0000-\U000e007f\ud800-\udfff]", cleaned
    )
    assert clean(cleaned) == cleaned
    cleaned.encode()


@given(st.text(alphabet=st.characters(exclude_categories=["Cs", "Cf", "Cc"]), max_size=200))
def test_legal_text_comes_back_exactly(text: str) -> None:
    if re.search("[\U000e0000-\U000e007f]", text):
        return
    assert clean(text) == text
    assert unicodedata.is_normalized("NFC", text) == unicodedata.is_normalized("NFC", clean(text))


@pytest.mark.parametrize(
    "word",
    [
        FAMILY,
        "می\u200cخواهم",
        "क्\u200dष",
        "ന്\u200d ok",
        "❤\ufe0f\u200d🔥",
        "👩🏽\u200d💻",
        "\u200fעברית\u200e",
    ],
)
def test_joiners_and_marks_that_a_script_or_an_emoji_needs_are_kept(word: str) -> None:
    assert clean(f"see {word} here") == f"see {word} here"


def test_joiners_without_neighbours_are_taken_out() -> None:
    assert clean("\u200da \u200c b\u200d\u200d c") == "a  b c"
    assert clean("pass\u200dword") == "pass\u200dword"


def test_two_halves_become_the_character_they_stand_for() -> None:
    assert clean("\ud83d\ude00 \ud83d") == "😀 "


@pytest.mark.parametrize(
    ("text", "shown", "answer"),
    [
        (
            "<think>\nhm\n\nwell\n</think>\nThe answer.",
            "> hm\n>\n> well\n\nThe answer.",
            "The answer.",
        ),
        ("<think></think>Yes", "Yes", "Yes"),
        ("\n<THINK>a</THINK>b", "> a\n\nb", "b"),
        ("<think>cut off", "> cut off", ""),
        ("say <think>it</think>", "say <think>it</think>", "say <think>it</think>"),
        ("", "", ""),
    ],
)
def test_thinking_is_a_quote_and_the_answer_stands_alone(
    text: str, shown: str, answer: str
) -> None:
    assert quote_thinking(text) == shown
    assert quote_thinking(quote_thinking(text)) == shown
    assert without_thinking(text) == answer


def test_a_thought_that_grows_only_grows_as_a_quote() -> None:
    """Some platforms append to a draft and cannot take anything back; the last word waits there
    anyway."""
    whole = "<think>one two\n\nthree four </think> five six"
    shown = [
        quote_thinking(whole[:end]).rstrip()
        for end in range(len("<think>"), len(whole) + 1)
        if whole[end - 1].isspace()
    ]
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(shown)), shown


@pytest.mark.parametrize(
    "whole",
    [
        "<think>\nthe kettle\n\n first </b> step\n</think>\n\nTea  it is.\n\n<think> stays",
        " \n<THINK>a </THINK >b</Think> c",
        "<think></think>Yes",
        "<thinking> is another word",
        "say <think>it</think>",
        "\n\nan answer \n",
    ],
)
def test_what_is_shown_of_an_answer_that_grows_is_never_taken_back(whole: str) -> None:
    shown = [quote_growing(whole[:end]) for end in range(len(whole) + 1)]
    assert all(
        later.startswith(earlier)
        for earlier, later in itertools.pairwise([*shown, quote_thinking(whole)])
    ), shown


@given(st.text(), st.text())
def test_what_was_made_literal_is_read_as_it_was_and_code_stays(words: str, code: str) -> None:
    assert unescaped(literal(words)) == words
    shown = code_span(code)
    assert unescaped(f"{literal(words)} {shown}") == f"{words} {shown}"
