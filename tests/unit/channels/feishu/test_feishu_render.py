"""CommonMark to Feishu cards, pure: valid within the limits whatever is said, and every word of it
there."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from channels.contract import (
    Address,
    ChatId,
    Choice,
    MessageId,
    Outbound,
    Part,
    PersonId,
    Receipt,
    TopicId,
)
from channels.feishu.render import (
    MAX_TEXT,
    MOST_BYTES,
    draft,
    file_receipt,
    mark,
    markup,
    render,
    size,
)
from channels.payloads import clean
from channels.text import plain
from tests.platforms.feishu import cards
from tests.platforms.feishu.rules import Rules

PLACE = Address("feishu", "cli_1", ChatId("oc_1"))
THREAD = Address("feishu", "cli_1", ChatId("oc_1"), TopicId("om_root"))
PIECES = [
    "**",
    "*",
    "_",
    "`",
    "```",
    "~~",
    "\n",
    "\n\n",
    "- ",
    "1. ",
    "> ",
    "# ",
    "[a](https://x.org)",
    "<at id=all></at>",
    "|a|b|\n|-|-|\n|1|2|\n",
    "<b>",
    "&amp;",
    "&#60;",
    "\\",
    "\\*",
    ":OK:",
    "    code",
    "snake_case",
    "日本語",
    "👩‍💻",
    "2*3",
    "![i](img_1)",
    "---",
    "$$",
    "a",
]
commonmark = st.lists(st.sampled_from(PIECES) | st.text(max_size=8), max_size=30).map("".join)


def bodies(*parts: Part) -> list[dict[str, Any]]:
    return [json.loads(part.payload) for part in parts]


def shown(card: dict[str, Any]) -> str:
    return cards.text_of(card)


def letters(text: str) -> str:
    """What must not be lost: letters and digits, in their order."""
    return "".join(re.findall(r"[^\W_]", text))


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("a *b* **c** `d` ~~e~~", "a *b* **c** `d` ~~e~~"),
        ("# Title with **bold**", "# Title with **bold**"),
        ("Title\n=====", "## Title"),
        ("[words](https://x.org/?a=1&b=2)", "[words](https://x.org/?a=1&b=2)"),
        ("[click](ftp://x.org)", "click (ftp://x.org)"),
        ("![alt](https://x.org/i.png)", "[alt](https://x.org/i.png)"),
        ("- one\n- two\n  - deep", "- one\n- two\n    - deep"),
        ("3. three\n4. four", "3. three\n4. four"),
        ("> said\n> twice", "> said\n> twice"),
        ("***", "---"),
        ("```py\nif a < b:\n```", "```py\nif a < b:\n```"),
        (r"\*not bold\* and 2 * 3", "&#42;not bold&#42; and 2 &#42; 3"),
        ("snake_case_name _x_", "snake_case_name *x*"),
        ("<at id=all></at>", "&#60;at id=all>&#60;/at>"),
        (r"\\<at id=all></at>", "&#92;&#60;at id=all>&#60;/at>"),
        (r"C:\\**bold**", "C:&#92;**bold**"),
        ("&amp;lt; is :OK:", "&#38;lt; is &#58;OK:"),
        ("m-1-2f: a-b", "m-1-2f: a-b"),
        ("|a|b|\n|-|-|\n|1|x\\|y|", "| a | b |\n| --- | --- |\n| 1 | x&#124;y |"),
        (r"\# no head", "&#35; no head"),
        (r"1\. no list", "1&#46; no list"),
    ],
)
def test_commonmark_reads_as_feishu_shows_it(source: str, wanted: str) -> None:
    assert markup(source) == wanted


def test_code_calls_nobody_and_cannot_close_its_own_fence() -> None:
    text = markup("````\n```\n<at id=all></at>\n````\n\n`<at id=all></at>`")
    assert text.count("```") == 2
    assert not cards.CALLS_ALL.search(text)


HOST = re.compile(r" \((?:[\w-]+\.)+\w+\)")  # stands behind words that look like another address


@example("[a](https://x.org):OK:")
@settings(max_examples=150, deadline=None)
@given(commonmark)
def test_any_commonmark_gives_cards_that_feishu_accepts_and_says_every_word(text: str) -> None:
    parts = render(Outbound(PLACE, text))
    said = [body["card"] for body in bodies(*parts)]
    for card in said:
        cards.check(card, Rules())
        assert size(card) <= MOST_BYTES
        assert not cards.calls_all(json.dumps(card))
    if clean(text).strip():
        words = [HOST.sub("", each) for each in ("".join(map(shown, said)), plain(clean(text)))]
        assert letters(words[0]).replace("nothingtosay", "") == letters(words[1]).replace(
            "nothingtosay", ""
        )


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=200))
def test_plain_says_exactly_what_was_said(text: str) -> None:
    parts = render(Outbound(PLACE, text, plain=True))
    said = "".join(
        body["card"]["body"]["elements"][0]["text"]["content"] for body in bodies(*parts)
    )
    assert said == (clean(text).rstrip() if clean(text).strip() else "(nothing to say)")


@settings(max_examples=12, deadline=None)
@given(st.sampled_from(["字", "a", "<", "*", '"', "\\", "👩‍💻", "é "]), st.integers(9_000, 40_000))
def test_long_texts_of_any_alphabet_are_split_within_thirty_kilobytes(
    letter: str, count: int
) -> None:
    text = letter * count
    said = [body["card"] for body in bodies(*render(Outbound(PLACE, text)))]
    assert all(size(card) <= MOST_BYTES for card in said)
    assert letters("".join(map(shown, said))) == letters(text)


def test_a_card_never_holds_more_tables_than_feishu_takes() -> None:
    text = "\n\n".join(f"table {number}\n\n|a|b|\n|-|-|\n|{number}|x|" for number in range(11))
    said = [body["card"] for body in bodies(*render(Outbound(PLACE, text)))]
    assert len(said) > 1
    for card in said:
        cards.check(card, Rules())
    assert [
        word
        for word in (f"table {n}" for n in range(11))
        if word not in "\n".join(map(shown, said))
    ] == []


def test_buttons_carry_the_choice_the_thread_and_a_persons_own_chat() -> None:
    choices = (Choice("yes", "Yes", "good"), Choice("no", "N" * 200, "danger"))
    (body,) = bodies(*render(Outbound(THREAD, "Shall I?", choices=choices)))
    yes, no = cards.buttons(body["card"])
    assert yes["behaviors"] == [
        {"type": "callback", "value": {"choice": "yes", "topic": "om_root"}}
    ]
    assert (yes["type"], no["type"], len(no["text"]["content"])) == ("primary", "danger", 100)
    (body,) = bodies(
        *render(Outbound(Address("feishu", "cli_1", ChatId("ou_ada")), "Shall I?", choices=choices))
    )
    assert cards.buttons(body["card"])[0]["behaviors"][0]["value"] == {
        "choice": "yes",
        "to": "ou_ada",
    }


def test_people_are_called_only_when_the_house_says_so() -> None:
    (body,) = bodies(
        *render(Outbound(PLACE, "look", mentions=(PersonId("ou_ada"), PersonId("all"))))
    )
    assert body["card"]["body"]["elements"][0]["content"] == "<at id=ou_ada></at>"


def test_a_thread_is_answered_by_a_reply_to_its_root_and_a_message_by_a_quote() -> None:
    (body,) = bodies(*render(Outbound(THREAD, "hi", reply_to=MessageId("om_2"))))
    assert (body["reply"], body["in_thread"]) == ("om_root", True)
    (body,) = bodies(*render(Outbound(PLACE, "hi", reply_to=MessageId("om_2"))))
    assert (body["reply"], "in_thread" in body) == ("om_2", False)


def test_files_come_last_and_their_messages_are_replaced_not_edited(tmp_path: Path) -> None:
    old = (Receipt(MessageId("om_1")), Receipt(file_receipt("om_2")), Receipt(MessageId("om_3")))
    parts = render(Outbound(PLACE, "short", files=(tmp_path / "a.png",), replaces=old))
    assert [(part.kind, part.target) for part in parts] == [
        ("edit", "om_1"),
        ("delete", "om_3"),
        ("delete", "om_2/file"),
        ("file", None),
    ]


def test_a_draft_asks_for_a_stream_and_its_newer_texts_fit_one_card() -> None:
    (body,) = bodies(*render(Outbound(PLACE, "thinking", draft=True)))
    assert body["stream"] is True
    assert size(draft("字" * MAX_TEXT)) <= MOST_BYTES


def test_the_mark_of_doubt_is_a_line_of_its_own() -> None:
    (part,) = render(Outbound(PLACE, "the figures"))
    (body,) = bodies(mark(part))
    assert "the figures" in shown(body["card"])
    assert "duplicate" in shown(body["card"])
    cards.check(body["card"], Rules())
