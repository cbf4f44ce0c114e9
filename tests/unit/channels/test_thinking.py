"""What local models think aloud: a quote wherever it is read, nothing where only the answer counts."""

from __future__ import annotations

import itertools

import pytest

from channels.thinking import quoted, without


@pytest.mark.parametrize(
    ("text", "shown", "answer"),
    [
        ("<think>\nhm\n\nwell\n</think>\nThe answer.", "> hm\n>\n> well\n\nThe answer.", "The answer."),
        ("<think></think>Yes", "Yes", "Yes"),
        ("\n<THINK>a</THINK>b", "> a\n\nb", "b"),
        ("<think>cut off", "> cut off", ""),
        ("say <think>it</think>", "say <think>it</think>", "say <think>it</think>"),
        ("", "", ""),
    ],
)
def test_thinking_is_a_quote_and_the_answer_stands_alone(text: str, shown: str, answer: str) -> None:
    assert quoted(text) == shown
    assert quoted(quoted(text)) == shown
    assert without(text) == answer


def test_a_thought_that_grows_only_grows_as_a_quote() -> None:
    """Some platforms append to a draft and cannot take anything back; the last word waits there anyway."""
    whole = "<think>one two\n\nthree four </think> five six"
    shown = [quoted(whole[:end]).rstrip() for end in range(len("<think>"), len(whole) + 1) if whole[end - 1].isspace()]
    assert all(later.startswith(earlier) for earlier, later in itertools.pairwise(shown)), shown
