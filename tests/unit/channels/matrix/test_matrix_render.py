"""CommonMark into Matrix events."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
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
from channels.matrix.inbound import AUTOMATED
from channels.matrix.render import LARGEST, MARK, mark, render, revision, to_html

PLACE = Address("matrix", "@ohmo:e.org", ChatId("!r"))
# Matrix Client-Server API, "m.room.message msgtypes": HTML that clients should render
ALLOWED = set(
    """
    del h1 h2 h3 h4 h5 h6 blockquote p a ul ol sup sub li b i u strong em s code hr br div table
    thead tbody tr th td caption pre span
""".split()
)


def content(part: Part) -> dict[str, Any]:
    return json.loads(part.payload)["content"]


def only(outbound: Outbound) -> dict[str, Any]:
    (part,) = render(outbound)
    return content(part)


class Tags(HTMLParser):
    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()
        self.attributes: set[tuple[str, str, str]] = set()
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.add(tag)
        self.attributes |= {(tag, name, value or "") for name, value in attrs}

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.mark.parametrize(
    ("source", "html"),
    [
        (
            "**a** *b* ~~c~~ `d<`",
            "<p><strong>a</strong> <em>b</em> <del>c</del> <code>d&lt;</code></p>",
        ),
        ("# T\n\ntext\nnext", "<h1>T</h1>\n<p>text<br>next</p>"),
        ("- a\n- b\n\n3. c", '<ul><li>a</li><li>b</li></ul>\n<ol start="3"><li>c</li></ol>'),
        ("```py\n1 < 2\n```", '<pre><code class="language-py">1 &lt; 2\n</code></pre>'),
        ("> q\n\n---", "<blockquote><p>q</p></blockquote>\n<hr>"),
        ('[x](https://e.org/?a=1&b="2)', '<p><a href="https://e.org/?a=1&amp;b=%222">x</a></p>'),
        ("<b onclick=x>hi</b>", "<p>&lt;b onclick=x&gt;hi&lt;/b&gt;</p>"),
        ("<script>\nalert(1)\n</script>", "<p>&lt;script&gt;<br>alert(1)<br>&lt;/script&gt;</p>"),
        ("![cat](https://e.org/c.png)", '<p><a href="https://e.org/c.png">cat</a></p>'),
        (
            "| a | b |\n|--:|---|\n| 1 | 2 |",
            "<table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td><td>2</td></tr></tbody></table>",
        ),
    ],
)
def test_commonmark_becomes_the_html_clients_allow(source: str, html: str) -> None:
    assert to_html(source) == html


@settings(deadline=None)
@given(
    st.text(st.sampled_from("ab <>&\"'*_`~[]()!#-|\n\\/:;=javscriptdonklQ"), max_size=80)
    | st.text(max_size=40)
)
def test_no_text_brings_tags_attributes_or_schemes_of_its_own(source: str) -> None:
    tags = Tags()
    tags.feed(to_html(source))
    assert tags.seen <= ALLOWED
    for tag, name, value in tags.attributes:
        assert (tag, name) in {("a", "href"), ("code", "class"), ("ol", "start")}
        assert name != "href" or re.match(r"(https?|ftp|mailto|magnet):", value, re.IGNORECASE)


def test_a_message_has_plain_words_beside_the_html_and_rings_nobody() -> None:
    said = only(Outbound(PLACE, "**hello** @room"))
    assert (said["msgtype"], said["body"], said["format"]) == (
        "m.text",
        "hello @room",
        "org.matrix.custom.html",
    )
    assert said["m.mentions"] == {}


def test_who_is_mentioned_is_named_and_becomes_a_pill() -> None:
    said = only(Outbound(PLACE, "@bob:e.org look, @eve:e.org", mentions=(PersonId("@bob:e.org"),)))
    assert said["m.mentions"] == {"user_ids": ["@bob:e.org"]}
    assert (
        said["formatted_body"]
        == '<p><a href="https://matrix.to/#/@bob:e.org">@bob:e.org</a> look, @eve:e.org</p>'
    )


def test_what_the_model_thought_becomes_a_quote() -> None:
    said = only(Outbound(PLACE, "<think>\nhm\n\nwell\n</think>\nThe answer."))
    assert (
        said["formatted_body"]
        == "<blockquote><p>hm</p><p>well</p></blockquote>\n<p>The answer.</p>"
    )
    assert "<think>" not in said["body"]
    assert only(Outbound(PLACE, "<think></think>Yes"))["body"] == "Yes"
    assert "<blockquote>" in only(Outbound(PLACE, "<think>cut off"))["formatted_body"]


def test_plain_text_has_no_markup_at_all() -> None:
    assert only(Outbound(PLACE, "**a** <b>", plain=True)) == {
        "msgtype": "m.text",
        "body": "**a** <b>",
        "m.mentions": {},
        AUTOMATED: True,
    }


def test_choices_stand_below_as_words() -> None:
    said = only(Outbound(PLACE, "Shall I?", choices=(Choice("y", "Yes"), Choice("n", "No"))))
    assert said["body"] == "Shall I?\n\nAnswer with one of: Yes · No"


def test_a_thread_and_a_reply_keep_their_relation() -> None:
    topic = Address("matrix", "@ohmo:e.org", ChatId("!r"), TopicId("$root"))
    assert only(Outbound(PLACE, "x", reply_to=MessageId("$m")))["m.relates_to"] == {
        "m.in_reply_to": {"event_id": "$m"}
    }
    assert only(Outbound(topic, "x"))["m.relates_to"] == {
        "rel_type": "m.thread",
        "event_id": "$root",
        "is_falling_back": True,
        "m.in_reply_to": {"event_id": "$root"},
    }
    relation = only(Outbound(topic, "x", reply_to=MessageId("$m")))["m.relates_to"]
    assert (relation["is_falling_back"], relation["m.in_reply_to"]) == (False, {"event_id": "$m"})


def test_an_edit_carries_the_new_content_and_its_target() -> None:
    (part,) = render(Outbound(PLACE, "**new**", replaces=(Receipt(MessageId("$old")),)))
    said = content(part)
    assert (part.kind, part.target, said["body"]) == ("edit", "$old", "* new")
    assert said["m.relates_to"] == {"rel_type": "m.replace", "event_id": "$old"}
    assert said["m.new_content"]["formatted_body"] == "<p><strong>new</strong></p>"


def test_surplus_messages_are_deleted_and_files_come_last() -> None:
    old = (Receipt(MessageId("$1")), Receipt(MessageId("$2")))
    parts = render(
        Outbound(PLACE, "short", replaces=old, files=(Path("/tmp/a.png"), Path("/tmp/b")))
    )
    assert [(part.kind, part.target) for part in parts] == [
        ("edit", "$1"),
        ("delete", "$2"),
        ("file", None),
        ("file", None),
    ]
    assert [content(part)["msgtype"] for part in parts[2:]] == ["m.image", "m.file"]
    assert [part.kind for part in render(Outbound(PLACE, "", files=(Path("/tmp/a.png"),)))] == [
        "file"
    ]


@pytest.mark.parametrize(
    "text",
    [
        "word " * 9000,
        "漢字" * 15_000,
        '<&">' * 9000,
        "**b** " * 9000,
        "> q\n\n" * 5000,
        "| a | b |\n|-|-|\n" + "| 1 | 2 |\n" * 5000,
        "# h\n" * 5000,
        "\n\n".join(["- x"] * 9000),
        "\x01" * 50_000 + "end",
    ],
)
def test_every_part_stays_within_the_size_of_an_event(text: str) -> None:
    parts = render(Outbound(PLACE, text, replaces=(Receipt(MessageId("$1")),))) + render(
        Outbound(PLACE, text, plain=True)
    )
    assert (
        max(len(json.dumps(content(part), ensure_ascii=False).encode()) for part in parts)
        <= LARGEST
    )


def test_a_marked_part_says_so_in_every_form_it_has() -> None:
    (edit,) = render(Outbound(PLACE, "words", replaces=(Receipt(MessageId("$1")),)))
    marked = content(mark(edit))
    assert all(MARK in said[key] for said in (marked, marked["m.new_content"]) for key in ("body",))
    assert MARK in marked["m.new_content"]["formatted_body"]
    assert mark(edit).target == edit.target
    delete = Part("delete", json.dumps({"room": "!r"}), MessageId("$1"))
    assert mark(delete) == delete


def test_a_revision_that_is_too_long_shows_its_beginning() -> None:
    said = content(revision("!r", MessageId("$1"), "word " * 9000))
    assert said["m.new_content"]["body"].startswith("word word")
    assert said["m.new_content"]["body"].endswith("…")
