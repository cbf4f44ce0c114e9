"""What local models think aloud: a quote wherever it is read, nothing where only the answer
counts."""

from __future__ import annotations

import itertools

import pytest

from channels.text import quote_growing, quote_thinking, without_thinking


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
