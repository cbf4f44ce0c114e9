"""What becomes a link on any platform, and what is said of where it leads: one rule, held against
every renderer."""

from __future__ import annotations

import html
import re
from collections.abc import Callable
from time import monotonic
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from channels.discord.render import markdown
from channels.feishu.render import markup
from channels.matrix.render import to_html
from channels.slack.mrkdwn import mrkdwn
from channels.slack.render import streamed
from channels.telegram.render import html as telegram
from channels.text import disclosed, is_link


class Renderer(NamedTuple):
    """``links``: the targets that the platform makes links of, taken out of what it is sent."""

    render: Callable[[str], str]
    links: re.Pattern[str]


_ANCHOR = re.compile(r'<a href="([^"]*)"')
RENDERERS = {
    "slack": Renderer(mrkdwn, re.compile(r"<([^<>|]*)(?:\|[^<>]*)?>")),
    "discord": Renderer(markdown, re.compile(r"(?<!\\)<([^<>\s]+)>")),
    "telegram": Renderer(telegram, _ANCHOR),
    "feishu": Renderer(markup, re.compile(r"\[[^\[\]]*\]\(([^()]*)\)")),
    "matrix": Renderer(to_html, _ANCHOR),
}
every = pytest.mark.parametrize("on", RENDERERS)


def targets(on: str, source: str) -> list[str]:
    return [
        html.unescape(found) for found in RENDERERS[on].links.findall(RENDERERS[on].render(source))
    ]


def read(on: str, source: str) -> str:
    """What people read: no targets, no tags."""
    made = RENDERERS[on].render(source)
    made = re.sub(r"<[^<>|]*\|([^<>]*)>", r"\1", made) if on == "slack" else made
    made = re.sub(r"\]\([^()]*\)", "]", made) if on == "feishu" else made
    made = re.sub(r"</?a[^>]*>", "", made) if on in ("telegram", "matrix") else made
    made = re.sub(r"\]\(<[^<>]*>\)", "]", made) if on == "discord" else made
    return html.unescape(re.sub("[\u200b\u2060\\\\]", "", made))


SCHEMES = "tg slack matrix discord lark javascript data file ftp magnet tel vbscript ssh x".split()
scheme = st.one_of(
    st.sampled_from(SCHEMES), st.from_regex(r"[a-zA-Z][a-zA-Z0-9+.-]{0,9}", fullmatch=True)
)
rest = st.from_regex(r"(//)?[a-z0-9@:/?#=&.%\\]{0,30}", fullmatch=True)
form = st.sampled_from(
    [
        "[words]({})",
        "![words]({})",
        "<{}>",
        "[words](<{}>)",
        "[words][1]\n\n[1]: {}",
        "**[w*o*rds]({})**",
        "{}",
    ]
)


@every
@given(scheme, rest, form)
def test_only_addresses_of_the_web_and_of_mail_become_links(
    on: str, scheme: str, rest: str, form: str
) -> None:
    for target in targets(on, form.format(f"{scheme}:{rest}")):
        assert re.fullmatch(
            r"(?:https?://[^/?#@\\]+(?:[/?#].*)?|mailto:.+)", target, re.IGNORECASE
        ), target


HIDING = [
    "[https://bank.com]({})",
    "[bank.com]({})",
    "[www.bank.com/login]({})",
    "[bank\u200b.com]({})",
    "[bank．com]({})",
    "[**bank**.com]({})",
    "[bank]({}).com",
    "**[bank]({})**.com",
    "https://[bank]({})",
    "[ba]({})nk.*co*m",
    "![https://bank.com]({})",
    "[me@bank.com]({})",
    "[https:bank]({})",
    "[see https://bank.com]({})",
    "[`https://bank.com`]({})",
    "| a |\n|---|\n| [https://bank.com]({}) |",
    "- [bank.com/x]({})",
    "[https://bank.com/\u3002evil]({})",
    "[https://bank.com:443]({})",
    "[HTTPS://BANK.COM]({})",
    "[//bank.com]({})",
]


@every
@pytest.mark.parametrize("words", HIDING)
@pytest.mark.parametrize("host", ["evil.io", "bank.com.evil.io", "bank.co", "xbank.com"])
def test_words_that_look_like_an_address_never_stand_for_another_host(
    on: str, words: str, host: str
) -> None:
    source = words.format(f"https://{host}/path")
    if on == "slack" and words.startswith("|"):
        # a table is code there
        source = source.partition("\n| ")[0] + "\n| " + source.rpartition("| [")[2]
    assert re.search(rf"(?<![\w.]){re.escape(host)}", read(on, source)), read(on, source)


@given(
    st.from_regex(r"[a-z0-9]{1,8}(\.[a-z0-9]{1,8}){0,3}", fullmatch=True),
    st.from_regex(r"[a-z0-9]{1,8}(\.[a-z0-9]{1,8}){1,3}", fullmatch=True),
)
def test_whatever_host_words_name_the_other_one_is_told(host: str, named: str) -> None:
    told = disclosed(f"https://{named}/", f"https://{host}/")
    assert told == ("" if named == host else f" ({host})")
    assert disclosed(named, f"https://{host}/") == told


@every
@pytest.mark.parametrize(
    "source",
    [
        "[docs](https://a.io)",
        "[https://a.io/x](https://a.io/y)",
        "<https://a.io>",
        "[a.io](https://a.io)",
        "see ([docs](https://a.io)).",
    ],
)
def test_an_honest_link_is_left_as_it_is(on: str, source: str) -> None:
    assert "(a.io)" not in read(on, source)
    assert len(targets(on, source)) == 1


@pytest.mark.parametrize(
    ("address", "is_one"),
    [
        ("https://a.io", True),
        ("HTTP://a.io:80/x?y#z", True),
        ("mailto:a@b.c", True),
        ("https://[::1]/x", True),
        ("https://a.io/@you", True),
        ("https://a.io@evil.io", False),
        ("https://a.io\\@evil.io", False),
        ("https://", False),
        ("https:a.io", False),
        ("//a.io", False),
        ("https://a.io\nx", False),
        ("https://[x", False),
        ("mailto:", False),
        ("https://a b", False),
        ("a.io", False),
        ("", False),
    ],
)
def test_what_a_link_is(address: str, is_one: bool) -> None:
    assert is_link(address) == is_one


@pytest.mark.parametrize(
    "source",
    [
        "@durov",
        "tell @durov now",
        "*@durov*",
        "[@durov](https://a.io)",
        "tg://user?id=1",
        "<tg://user?id=1>",
        "x\n@durov",
    ],
)
def test_telegram_makes_no_call_and_no_link_of_words_by_itself(source: str) -> None:
    assert re.search(r"(?<!\w)@[a-z]|tg:/", telegram(source)) is None


def test_addresses_of_mail_and_code_keep_their_letters_in_telegram() -> None:
    assert telegram("me@bank.com `@types/node`") == "me@bank.com <code>@types/node</code>"


@pytest.mark.parametrize(
    "source",
    [
        "<@U123>",
        "<!channel>",
        "<!here|x>",
        "@everyone",
        "<@123>",
        "<at id=all></at>",
        '<at user_id="all">x</at>',
    ],
)
def test_nobody_is_called_by_the_models_words(source: str) -> None:
    assert "<@" not in mrkdwn(source)
    assert "<!" not in mrkdwn(source)
    assert "<at" not in markup(source)
    assert not re.search(r"(?<!\\)<@", markdown(source))
    assert not re.search(r"<[@!a]", streamed(source)) or source.startswith("<at")


def test_a_stream_of_slack_makes_no_links_before_the_answer_is_whole() -> None:
    for source in (
        "[a](slack://x)",
        "[a][b]",
        "[b]: slack://x",
        "<slack://x>",
        "<https://evil.io|https://bank.com>",
    ):
        assert not re.search(r"\][(\[:]|<\w", streamed(source))


@every
def test_many_links_in_one_line_take_no_time(on: str) -> None:
    began = monotonic()
    RENDERERS[on].render("x" * 10_000 + " " + "[bank](https://evil.io)." * 400)
    assert monotonic() - began < 5
