"""CommonMark to Slack calls, pure."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

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
from channels.slack.mrkdwn import mrkdwn
from channels.slack.render import MAX_TEXT, draft, mark, render, size
from tests.platforms.slack.workspace import check_blocks

PLACE = Address("slack", "T1", ChatId("C1"), TopicId("1.0"))


def bodies(*parts: Part) -> list[dict[str, Any]]:
    return [json.loads(part.payload) for part in parts]


@pytest.mark.parametrize(
    ("source", "shown"),
    [
        ("a *b* **c** `d` ~~e~~", "a _b_ *c* `d` ~e~"),
        ("# Title with **bold**", "*Title with bold*"),
        ("**bold with *both* inside**", "*bold with _both_ inside*"),
        ("[words](https://x.org/?a=1&b=2)", "<https://x.org/?a=1&amp;b=2|words>"),
        ("<https://x.org>", "<https://x.org>"),
        ("[a|b>c](https://x.org/p|q)", "<https://x.org/p%7Cq|a¦b&gt;c>"),
        ("[click](ftp://x.org)", "click (ftp://x.org)"),
        ("![alt](https://x.org/i.png)", "<https://x.org/i.png|alt>"),
        ("- one\n- two\n  - deep", "• one\n• two\n    • deep"),
        ("3. three\n4. four", "3. three\n4. four"),
        ("> said\n> twice", "> said\n> twice"),
        ("---", "———"),
        ("```py\nif a < b && c:\n```", "```\nif a &lt; b &amp;&amp; c:\n```"),
        ("`` a`b ``", "`aˋb`"),
        (
            "1 < 2 & <!channel> <@U1> <#C1>",
            "1 &lt; 2 &amp; &lt;!channel&gt; &lt;@U1&gt; &lt;#C1&gt;",
        ),
        ("<b>html</b>", "&lt;b&gt;html&lt;/b&gt;"),
        ("snake_case_name and 5 * 3", "snake_case_name and 5 * 3"),
        (r"\*not bold\*", "*\u200bnot bold*"),
        ("line\nbreak", "line\nbreak"),
    ],
)
def test_commonmark_reads_as_slack_shows_it(source: str, shown: str) -> None:
    assert mrkdwn(source) == shown


def test_a_table_stands_in_a_fixed_width_face_with_wide_characters_counted() -> None:
    assert (
        mrkdwn("|name|n|\n|-|-|\n|日本|1|\n|a|22|")
        == "```\nname | n\n-----+---\n日本 | 1\na    | 22\n```"
    )


def test_a_table_is_a_block_of_its_own_between_the_words_around_it() -> None:
    (body,) = bodies(
        *render(Outbound(PLACE, "**Before**\n\n|name|n|\n|:-:|-:|\n|`a`<!here>|1|\n||22|\n\nafter"))
    )
    before, table, after = body["blocks"]
    assert (before["text"]["text"], after["text"]["text"]) == ("*Before*", "after")
    assert [[cell["text"] for cell in row] for row in table["rows"]] == [
        ["name", "n"],
        ["a<!here>", "1"],
        ["\u00a0", "22"],
    ]
    assert [column["align"] for column in table["column_settings"]] == ["center", "right"]
    assert "```\nname" in body["text"]
    check_blocks(body["blocks"])


def test_each_table_has_a_message_of_its_own_because_slack_takes_one() -> None:
    table = "|a|b|\n|-|-|\n|1|2|\n\n"
    made = bodies(
        *render(
            Outbound(
                PLACE,
                f"one\n\n{table}two\n\n{table}end",
                mentions=(PersonId("U1"),),
                choices=(Choice("y", "Yes"),),
            )
        )
    )
    assert [[block["type"] for block in body["blocks"]] for body in made] == [
        ["section", "section", "table"],
        ["section", "table", "section", "actions"],
    ]
    for body in made:
        check_blocks(body["blocks"])


@pytest.mark.parametrize(
    "table",
    ["|a|\n|-|\n" + "|x|\n" * 100, "|" + "a|" * 21 + "\n|" + "-|" * 21 + "\n|" + "x|" * 21 + "\n"],
)
def test_a_table_beyond_the_limits_of_its_block_stays_text(table: str) -> None:
    for body in bodies(*render(Outbound(PLACE, table))):
        assert "blocks" not in body
        assert "```" in body["text"]


def test_plain_has_no_table_block() -> None:
    (body,) = bodies(*render(Outbound(PLACE, "|a|\n|-|\n|1|", plain=True)))
    assert "blocks" not in body


@settings(deadline=None, max_examples=60)
@given(
    st.lists(
        st.text(st.sampled_from("ab|-\n\\`<>:* ") | st.characters(codec="utf-8"), max_size=40),
        max_size=8,
    )
)
def test_whatever_stands_in_tables_makes_blocks_that_slack_takes(cells: list[str]) -> None:
    rows = "".join(f"|{cell}|{cell[::-1]}|\n" for cell in cells)
    for body in bodies(*render(Outbound(PLACE, f"words\n\n|h|i|\n|-|-|\n{rows}"))):
        check_blocks(body.get("blocks", []))
        assert size(body["text"]) <= MAX_TEXT


def test_code_cannot_close_its_own_fence() -> None:
    shown = mrkdwn("````\n```\n<!channel>\n````")
    assert shown.count("```") == 2
    assert "<!channel>" not in shown


@settings(deadline=None, max_examples=60)
@given(
    st.text(
        st.sampled_from("ab <>&*_~`#-|!@[]()\n1.\\") | st.characters(codec="utf-8"), max_size=300
    )
)
def test_no_text_can_write_a_mention_or_an_empty_post(text: str) -> None:
    for body in bodies(*render(Outbound(PLACE, text))):
        assert body["text"]
        assert "<!" not in body["text"]
        assert "<@" not in body["text"]
        assert size(body["text"]) <= MAX_TEXT


def test_a_post_says_where_and_unfurls_nothing() -> None:
    (body,) = bodies(*render(Outbound(PLACE, "hi")))
    assert body == {
        "channel": "C1",
        "thread_ts": "1.0",
        "text": "hi",
        "mrkdwn": True,
        "unfurl_links": False,
        "unfurl_media": False,
    }


def test_plain_says_the_text_as_it_is_with_markup_switched_off() -> None:
    (body,) = bodies(*render(Outbound(PLACE, "**stars** & <tags>", plain=True)))
    assert (body["text"], body["mrkdwn"]) == ("**stars** &amp; &lt;tags&gt;", False)
    assert "blocks" not in body


@pytest.mark.parametrize(
    "text",
    [
        "&" * 9000,
        "word " * 4000,
        "字" * 9000,
        "👩‍👩‍👧‍👦" * 900,
        "x" * 12_000,
        "|a|b|\n|-|-|\n" + "|<<<<|>>>>|\n" * 900,
        "```\n" + "&\n" * 3000 + "```",
    ],
)
@pytest.mark.parametrize("plain", [False, True])
def test_every_part_stays_within_what_can_still_be_edited(text: str, plain: bool) -> None:
    parts = render(Outbound(PLACE, text, plain=plain, choices=(Choice("y", "Yes"),)))
    for body in bodies(*parts):
        assert size(body["text"]) <= MAX_TEXT
        check_blocks(body.get("blocks", []))
    assert [
        any(block["type"] == "actions" for block in body.get("blocks", ()))
        for body in bodies(*parts)
    ].count(True) == 1
    assert "blocks" in bodies(parts[-1])[0]


def test_choices_are_buttons_within_block_kits_limits() -> None:
    choices = tuple(Choice(f"v{number}", "label " * 30) for number in range(60))
    (body,) = bodies(*render(Outbound(PLACE, "Pick", choices=choices)))
    check_blocks(body["blocks"])
    buttons = [
        button
        for block in body["blocks"]
        if block["type"] == "actions"
        for button in block["elements"]
    ]
    assert [button["value"] for button in buttons] == [choice.value for choice in choices]
    assert body["blocks"][0]["text"]["verbatim"] is True


def test_styles_are_slacks_own_words() -> None:
    choices = (Choice("a", "A", "good"), Choice("b", "B", "danger"), Choice("c", "C"))
    (body,) = bodies(*render(Outbound(PLACE, "Pick", choices=choices)))
    assert [button.get("style") for button in body["blocks"][1]["elements"]] == [
        "primary",
        "danger",
        None,
    ]


def test_only_wanted_people_are_called() -> None:
    (body,) = bodies(
        *render(
            Outbound(PLACE, "look", mentions=(PersonId("U1"), PersonId("!here"), PersonId("U1>x")))
        )
    )
    assert body["text"] == "<@U1> look"


def test_replacing_edits_in_order_posts_the_rest_and_deletes_the_surplus() -> None:
    old = tuple(Receipt(MessageId(ts)) for ts in ("1.1", "1.2", "F00000001"))
    fewer = render(Outbound(PLACE, "one", replaces=old))
    assert [(part.kind, part.target) for part in fewer] == [
        ("edit", "1.1"),
        ("delete", "1.2"),
        ("delete", "F00000001"),
    ]
    more = render(Outbound(PLACE, "word " * 3000, replaces=old[:1]))
    assert [part.kind for part in more] == ["edit", *["post"] * (len(more) - 1)]
    assert set(bodies(more[0])[0]) == {"channel", "text", "blocks"}


def test_files_come_last_and_need_no_text() -> None:
    files = (Path("/tmp/a.txt"), Path("/tmp/b.txt"))
    assert [part.kind for part in render(Outbound(PLACE, "see", files=files))] == [
        "post",
        "file",
        "file",
    ]
    assert [part.kind for part in render(Outbound(PLACE, "", files=files))] == ["file", "file"]
    assert len(render(Outbound(PLACE, ""))) == 1


def test_a_mark_is_visible_and_changes_nothing_else() -> None:
    text, file = render(
        Outbound(PLACE, "hi", files=(Path("/tmp/a.txt"),), choices=(Choice("y", "Yes"),))
    )
    before, after = bodies(text, mark(text))
    assert after["text"] == "hi\n_may be a duplicate_"
    assert after["blocks"][:2] == before["blocks"]
    assert bodies(mark(file))[0]["title"] == "a.txt (may be a duplicate)"
    (edit,) = render(Outbound(PLACE, "hi", replaces=(Receipt(MessageId("1.1")),)))
    assert mark(edit) == edit


def test_rendering_is_the_same_bytes_every_time() -> None:
    outbound = Outbound(PLACE, "# T\n\n- a\n- b", choices=(Choice("y", "Yes"),))
    assert render(outbound) == render(outbound)


def test_lone_surrogates_and_nul_do_not_reach_slack() -> None:
    (body,) = bodies(*render(Outbound(PLACE, "a\x00b\ud800c")))
    assert body["text"] == "abc"


def test_an_edit_names_its_blocks_because_slack_keeps_those_it_does_not_name() -> None:
    shown = (Receipt(MessageId("1.0")),)
    assert [
        body["blocks"] for body in bodies(*render(Outbound(PLACE, "Allowed once", replaces=shown)))
    ] == [[]]
    assert draft("so far")["blocks"] == []


def test_a_draft_holds_as_much_as_one_message() -> None:
    assert draft("**so** far")["text"] == "*so* far"
    assert size(draft("word " * 5000)["text"]) <= MAX_TEXT
    assert size(draft("长句子。" * 5000)["text"]) <= MAX_TEXT
    assert draft("")["text"]
