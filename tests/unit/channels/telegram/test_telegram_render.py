"""CommonMark as Telegram's HTML: accepted by Telegram's own rules whatever the text, and nothing
lost."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings
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
from channels.errors import Rejected
from channels.telegram.render import (
    MAX_ENTITIES,
    MAX_TEXT,
    html,
    mark,
    newest,
    parsed,
    render,
    units,
    visible,
)
from channels.text import plain
from tests.platforms.telegram import entities

PRIVATE = Address("telegram", "7", ChatId("1001"))
TOPIC = Address("telegram", "7", ChatId("-100200"), TopicId("77"))
MARKS = [
    "**",
    "*",
    "_",
    "~~",
    "`",
    "- ",
    "1. ",
    "> ",
    "# ",
    "[",
    "](http://x.org/?a=1&b)",
    "![",
    "<b>",
    "</i>",
    "&amp;",
    "&",
    "<",
    ">",
]
MARKS += ["漢字", "😀", '"', "'", "a@b.org", "<http://y.org>", "\\*"]
LINES = [
    "```py\n",
    "```\n",
    "\n",
    "\n\n",
    "  ",
    " ",
    "word ",
    "---\n",
    "| a | b |\n|---|---|\n",
    "| 1 | 2 |\n",
]
SOURCE = st.lists(st.sampled_from(MARKS + LINES), max_size=40).map("".join)


def payloads(parts: tuple[Part, ...]) -> list[dict]:
    return [json.loads(part.payload) for part in parts]


@given(SOURCE)
@settings(deadline=None, max_examples=400)
def test_whatever_is_written_telegram_can_parse_and_counts_as_we_count(source: str) -> None:
    made = html(source)
    text, _ = entities.parse(made)
    assert text == visible(made).strip()
    assert units(text) == entities.units(text)


@given(SOURCE)
@settings(deadline=None, max_examples=200)
def test_entities_are_nested_as_telegram_allows(source: str) -> None:
    _, found = entities.parse(html(source))
    for code in (one for one in found if one["type"] in {"code", "pre"} and "language" not in one):
        start, end = code["offset"], code["offset"] + code["length"]
        for other in found:
            if other is code or other["type"] in {"blockquote", "pre", "code"}:
                continue
            assert other["offset"] >= end or other["offset"] + other["length"] <= start, (
                code,
                other,
            )
    quotes = sorted(
        (one["offset"], one["offset"] + one["length"])
        for one in found
        if one["type"] == "blockquote"
    )
    assert all(first[1] <= second[0] for first, second in pairwise(quotes))


@given(
    st.lists(
        st.sampled_from(
            [
                "word ",
                "<&>",
                "😀",
                "\n\n",
                "**b** ",
                "`c` ",
                "- item\n",
                "| a | b |\n|---|---|\n| 1 | 2 |\n\n",
            ]
        ),
        min_size=1,
        max_size=30,
    ),
    st.integers(60, 150),
)
@settings(deadline=None, max_examples=12)
def test_every_part_is_within_the_limit_even_marked(pieces: list[str], times: int) -> None:
    source = "".join(pieces) * times
    parts = render(Outbound(PRIVATE, source))
    for part in parts:
        for one in (part, mark(part)):
            text, found = entities.parse(json.loads(one.payload)["text"])
            assert 1 <= entities.units(text) <= MAX_TEXT
            assert len(found) <= MAX_ENTITIES


@given(st.text(alphabet="abc .,:!?()-+=1\n\t'\"/é漢😀@$%\u2028", max_size=60))
@settings(deadline=None, max_examples=500)
def test_just_words_look_the_same_with_and_without_the_parser(source: str) -> None:
    assert "\n".join(line.rstrip() for line in html(source).strip().split("\n")) == "\n".join(
        line.rstrip() for line in parsed(source).strip().split("\n")
    )


@given(SOURCE, st.integers(1, 30))
@settings(deadline=None, max_examples=60)
def test_what_is_taken_to_fit_unrendered_fits(source: str, times: int) -> None:
    for body in payloads(render(Outbound(PRIVATE, source * times))):
        assert entities.units(visible(body["text"])) <= MAX_TEXT


@pytest.mark.parametrize(
    "word",
    [
        "**b** ",
        "`c` ",
        "[a](http://x.org) ",
        "# h\n",
        "h\n=\n\n",
        "> q\n\n",
        "    x = 1\n\nand\n\n",
        "<http://y.org> ",
    ],
)
def test_no_message_has_more_forms_than_telegram_shows(word: str) -> None:
    made = [
        entities.parse(json.loads(mark(part).payload)["text"])
        for part in render(Outbound(PRIVATE, word * 301))
    ]
    assert max(len(found) for _, found in made) <= MAX_ENTITIES
    assert sum(len(found) for _, found in made) >= 301


def test_all_words_of_a_long_answer_are_there() -> None:
    source = "\n\n".join(f"## Head {n}\n\nword{n} **bold{n}** `code{n}`" for n in range(900))
    text = " ".join(visible(body["text"]) for body in payloads(render(Outbound(PRIVATE, source))))
    assert text.split() == plain(source).split()


def test_plain_says_the_text_as_it_is() -> None:
    (body,) = payloads(render(Outbound(PRIVATE, "**not bold** <b>", plain=True)))
    assert body["text"] == "**not bold** <b>"
    assert "parse_mode" not in body


def test_a_lone_link_definition_is_shown_as_written() -> None:
    assert html("[a]: http://x.org") == "[a]: http://x.org"


def test_code_keeps_its_indentation_inside_lists() -> None:
    made = html("- step\n\n  ```py\n  if a:\n      b()\n  ```\n\n  after")
    assert '<pre><code class="language-py">if a:\n    b()</code></pre>' in made
    assert made.startswith("• step\n")


def test_an_empty_answer_still_says_something_and_a_file_needs_no_words() -> None:
    assert payloads(render(Outbound(PRIVATE, "")))[0]["text"] == "…"
    (part,) = render(Outbound(PRIVATE, "", files=(Path("/x/a.txt"),)))
    assert part.kind == "file"


def test_choices_stand_under_the_last_text_with_their_styles() -> None:
    parts = render(
        Outbound(
            PRIVATE,
            "x" * 5000,
            choices=(
                Choice("y:1", "Yes", "good"),
                Choice("n:1", "No", "danger"),
                Choice("l:1", "A very long label for a button"),
            ),
        )
    )
    first, last = payloads(parts)
    assert "reply_markup" not in first
    assert last["reply_markup"]["inline_keyboard"] == [
        [
            {"text": "Yes", "callback_data": "y:1", "style": "success"},
            {"text": "No", "callback_data": "n:1", "style": "danger"},
        ],
        [{"text": "A very long label for a button", "callback_data": "l:1"}],
    ]
    with pytest.raises(Rejected, match="64 bytes"):
        render(Outbound(PRIVATE, "x", choices=(Choice("é" * 33, "Too long"),)))


def test_topic_reply_and_preview_are_in_the_payload() -> None:
    (body,) = payloads(render(Outbound(TOPIC, "x", reply_to=MessageId("5"))))
    assert body["message_thread_id"] == 77
    assert body["reply_parameters"] == {"message_id": 5, "allow_sending_without_reply": True}
    assert body["link_preview_options"] == {"is_disabled": True}
    (general,) = payloads(
        render(Outbound(Address("telegram", "7", ChatId("-100200"), TopicId("1")), "x"))
    )
    assert "message_thread_id" not in general


def test_a_mention_in_a_group_links_the_person_and_a_private_chat_needs_none() -> None:
    (body,) = payloads(render(Outbound(TOPIC, "look", mentions=(PersonId("1002"),))))
    assert body["text"] == '<a href="tg://user?id=1002">@1002</a> look'
    assert (
        payloads(render(Outbound(PRIVATE, "look", mentions=(PersonId("1001"),))))[0]["text"]
        == "look"
    )


def test_replacing_edits_in_order_posts_the_rest_and_deletes_the_surplus() -> None:
    old = tuple(Receipt(MessageId(str(number))) for number in (3, 4, 5))
    assert [
        (part.kind, part.target) for part in render(Outbound(PRIVATE, "short", replaces=old))
    ] == [("edit", "3"), ("delete", "4"), ("delete", "5")]
    assert [part.kind for part in render(Outbound(PRIVATE, "x" * 9000, replaces=old[:1]))] == [
        "edit",
        "post",
        "post",
    ]
    with pytest.raises(Rejected):
        render(Outbound(PRIVATE, "x", replaces=(Receipt(MessageId("not a number")),)))


def test_rendering_is_pure() -> None:
    outbound = Outbound(
        TOPIC, "# a\n\n| b | c |\n|---|---|\n| 1 | 2 |", choices=(Choice("v", "l"),)
    )
    assert render(outbound) == render(outbound)


def test_a_draft_shows_the_end_of_a_long_text() -> None:
    text = newest("start\n\n" + "word " * 3000 + "the end")
    assert text.endswith("the end")
    assert units(visible(text)) <= MAX_TEXT


def test_marking_a_deletion_changes_nothing_and_a_file_gets_a_caption() -> None:
    deletion = Part("delete", '{"chat_id":1}', MessageId("4"))
    assert mark(deletion) is deletion
    (file,) = render(Outbound(PRIVATE, "", files=(Path("/x/a.txt"),)))
    assert json.loads(mark(file).payload)["caption"] == "<i>(may be a duplicate)</i>"


def test_nothing_deceptive_leaves_the_house() -> None:
    (body,) = payloads(render(Outbound(PRIVATE, "a\x00b\ud800c\u202ed")))
    assert body["text"] == "abcd"


def test_files_that_stand_together_go_as_albums_of_one_kind_and_plain_ones_alone() -> None:
    photos, papers = [Path(f"/x/{n}.png") for n in range(12)], [Path("/x/a.txt"), Path("/x/b.pdf")]
    outbound = Outbound(TOPIC, "", files=(*photos, *papers, Path("/x/last.jpg")))
    made = payloads(render(outbound))
    assert [(len(body.get("album", ())), body["photo"]) for body in made] == [
        (10, True),
        (2, True),
        (2, False),
        (0, True),
    ]
    assert [one["name"] for body in made[:2] for one in body["album"]] == [
        path.name for path in photos
    ]
    assert {body["message_thread_id"] for body in made} == {int(TOPIC.topic or 0)}
    assert json.loads(mark(render(outbound)[0]).payload)["caption"] == "<i>(may be a duplicate)</i>"
    assert [body.get("album") for body in payloads(render(replace(outbound, plain=True)))] == [
        None
    ] * 15
