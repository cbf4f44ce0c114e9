"""CommonMark for Discord: what it looks like, and that any text fits and is all there."""

from __future__ import annotations

import json
import re
from dataclasses import replace

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from channels.contract import (
    Address,
    ChatId,
    Choice,
    MessageId,
    Outbound,
    PersonId,
    Receipt,
    TopicId,
)
from channels.discord import render
from channels.discord.render import escape, is_visible, markdown, units
from channels.errors import Rejected
from channels.payloads import clean
from tests.platforms.discord.rest import _check_components
from tests.platforms.discord.rig import shown

PLACE = Address("discord", "1", ChatId("2"))


@pytest.mark.parametrize(
    ("source", "wanted"),
    [
        ("**bold** and *it* and ~~gone~~", "**bold** and *it* and ~~gone~~"),
        ("__bold__", "**bold**"),
        ("# One\n\n#### Four", "# One\n**Four**"),
        ("2 * 3 snake_case_name", "2 * 3 snake_case_name"),
        ("||hidden|| and ~~", "\\|\\|hidden\\|\\| and \\~\\~"),
        ("a < b and <@1>", "a < b and \\<@1>"),
        (
            "\\# no heading\n\n\\- no list\n\n1986\\. a year",
            "\\# no heading\n\n\\- no list\n\n1986\\. a year",
        ),
        ("[words](https://example.org/a)", "[words](<https://example.org/a>)"),
        ("[words](ftp://x.y/z)", "words (ftp://x.y/z)"),
        ("<https://example.org>", "<https://example.org>"),
        ("see https://example.org/a_b_c.", "see https://example.org/a_b_c."),
        ("![a cat](https://example.org/cat.png)", "[a cat](<https://example.org/cat.png>)"),
        ("> quoted\n> > deeper", "> quoted\n> \n> deeper"),
        ("- a\n- b\n  - c", "- a\n- b\n  - c"),
        ("3. a\n4. b", "3. a\n4. b"),
        ("`` a`b ``", "``a`b``"),
        ("```python\nx = 1\n```", "```python\nx = 1\n```"),
        ("````\n```\n````", "```\n`\u200b`\u200b`\u200b\n```"),
        ("<b>html</b>", "\\<b>html\\</b>"),
        ("***", "———"),
    ],
)
def test_commonmark_becomes_what_discord_shows(source: str, wanted: str) -> None:
    assert markdown(source) == wanted


def test_a_table_is_a_monospace_block() -> None:
    made = markdown("| name | n |\n|---|--:|\n| ada | 1 |\n| bob | 22 |")
    assert made == "```\nname |  n\n-----+---\nada  |  1\nbob  | 22\n```"


def test_a_message_of_buttons_has_rows_of_five_and_the_rest_stands_under_another() -> None:
    choices = tuple(
        Choice(f"{number}:x", f"Choice {number} " + "long " * 30) for number in range(27)
    )
    bodies = [
        json.loads(part.payload)["body"]
        for part in render.render(Outbound(PLACE, "Which?", choices=choices))
    ]
    assert [len(body["components"]) for body in bodies] == [5, 1]
    for body in bodies:
        _check_components(body["components"])
    assert [len(row["components"]) for row in bodies[0]["components"]] == [5] * 5


def test_nobody_but_the_people_we_mean_hears_a_bell() -> None:
    (part,) = render.render(
        Outbound(PLACE, "@everyone <@77> look", mentions=(PersonId("42"), PersonId("not a number")))
    )
    body = json.loads(part.payload)["body"]
    assert body["allowed_mentions"] == {"parse": [], "users": ["42"], "replied_user": False}
    assert body["content"].startswith("<@42> @everyone")
    assert body["flags"] & render.SUPPRESS_EMBEDS


def test_an_edit_takes_the_buttons_away_and_a_thread_is_a_channel() -> None:
    place = Address("discord", "1", ChatId("2"), TopicId("3"))
    (part,) = render.render(Outbound(place, "closed", replaces=(Receipt(MessageId("9")),)))
    frozen = json.loads(part.payload)
    assert (part.kind, part.target, frozen["channel"], frozen["body"]["components"]) == (
        "edit",
        "9",
        "3",
        [],
    )


def test_files_go_ten_to_a_message_and_never_become_a_text(tmp_path) -> None:  # type: ignore[no-untyped-def]
    paths = tuple(tmp_path / f"{number}.txt" for number in range(12))
    parts = render.render(
        Outbound(PLACE, "here", files=paths, replaces=(Receipt(MessageId("f5")),))
    )
    assert [part.kind for part in parts] == ["post", "delete", "file", "file"]
    assert [len(json.loads(part.payload)["paths"]) for part in parts[2:]] == [10, 2]


def test_a_choice_discord_cannot_hold_is_rejected() -> None:
    with pytest.raises(Rejected, match="1 to 100"):
        render.render(Outbound(PLACE, "x", choices=(Choice("v" * 101, "no"),)))


def test_a_marked_part_stays_within_the_limit() -> None:
    for part in render.render(Outbound(PLACE, "word " * 3000)):
        body = json.loads(render.mark(part).payload)["body"]
        assert "may be a duplicate" in body["content"]
        assert units(body["content"]) <= 2000


def test_a_card_is_one_embed_above_its_buttons_and_stays_one_when_it_is_answered() -> None:
    text = f"**May I?**\n\n```\n{'echo one; ' * 300}\n```\n\nAnswer with a button."
    said = Outbound(PLACE, text, choices=(Choice("1:a", "Allow"),), card=True)
    (part,) = render.render(said)
    body = json.loads(part.payload)["body"]
    assert body["content"] == "**May I?**"
    assert body["embeds"][0]["description"].count("echo one; ") == 300
    assert not body["flags"] & render.SUPPRESS_EMBEDS
    (part,) = render.render(replace(said, choices=(), replaces=(Receipt(MessageId("9")),)))
    settled = json.loads(part.payload)["body"]
    assert (part.kind, settled["components"]) == ("edit", [])
    assert settled["embeds"][0]["color"] != body["embeds"][0]["color"]


def test_no_address_of_a_card_is_previewed() -> None:
    """Discord's servers would fetch it, and what stands in it would leave with the request."""
    (part,) = render.render(
        Outbound(
            PLACE, "Look at https://x.y/secret\n\nnow", choices=(Choice("1:a", "Yes"),), card=True
        )
    )
    body = json.loads(part.payload)["body"]
    assert "://" not in body["content"]
    assert "https://x.y/secret" in body["embeds"][0]["description"]


MARKS = st.sampled_from(
    [
        "*",
        "**",
        "_",
        "__",
        "~~",
        "`",
        "```",
        "\n",
        "\n\n",
        "> ",
        "- ",
        "1. ",
        "# ",
        "|",
        "||",
        "[",
        "](",
        ")",
        "<@1>",
        "\\",
        " ",
        "a",
        "Wort",
        "👩\u200d💻",
        "e\u0301",
        "https://x.y/z_",
        "@everyone",
        "    ",
        "<b>",
        "&amp;",
        "\U0001f1e9\U0001f1ea",
    ]
)
sources = st.lists(MARKS | st.characters(), max_size=80).map("".join)


@settings(max_examples=150, deadline=None)
@given(sources, st.booleans(), st.integers(1, 60), st.booleans())
def test_any_text_gives_messages_within_the_limits_that_say_something(
    source: str, plain: bool, times: int, card: bool
) -> None:
    parts = render.render(Outbound(PLACE, source * times, plain=plain, card=card))
    assert parts
    for part in parts:
        body = json.loads(part.payload.encode().decode())["body"]
        embeds = [embed["description"] for embed in body.get("embeds", [])]
        assert all(1 <= units(one) <= 4096 for one in embeds)
        assert units(body["content"]) <= 2000
        assert all("://" not in body["content"] for _ in embeds)
        assert any(is_visible(one) for one in (body["content"], *embeds))


@settings(max_examples=150, deadline=None)
@given(sources)
@example("https://x.y/z_`- `")
def test_plain_text_is_shown_letter_by_letter(source: str) -> None:
    text = clean(source)
    if is_visible(text) and units(escape(text)) < 1900:
        said = "".join(
            shown(json.loads(part.payload)["body"]["content"])
            for part in render.render(Outbound(PLACE, text, plain=True))
        )
        assert re.sub(r"\s", "", said) == re.sub(r"\s", "", text)


@settings(max_examples=100, deadline=None)
@given(
    st.lists(
        st.text(st.characters(categories=["L", "N"]), min_size=1, max_size=12),
        min_size=1,
        max_size=400,
    ),
    st.sampled_from([" ", "\n", "\n\n", "\n- "]),
)
def test_every_word_is_said_in_order_however_it_is_cut(words: list[str], between: str) -> None:
    source = between.join(words)
    said = " ".join(
        shown(json.loads(part.payload)["body"]["content"])
        for part in render.render(Outbound(PLACE, source))
    )
    assert re.sub(r"[\s-]", "", said) == re.sub(r"[\s-]", "", clean(source))


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.text(
            st.characters(exclude_characters="\u200b", exclude_categories=["C", "Z"]), max_size=60
        ),
        min_size=1,
        max_size=120,
    )
)
def test_code_is_never_torn_open(lines: list[str]) -> None:
    fence = "`" * (
        2 + max((len(run) for line in lines for run in re.findall("`+", line)), default=1) + 1
    )
    for part in render.render(Outbound(PLACE, f"{fence}\n" + "\n".join(lines) + f"\n{fence}")):
        content = json.loads(part.payload)["body"]["content"]
        assert content.count("```") % 2 == 0
