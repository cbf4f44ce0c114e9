"""What a secret looks like is found where it can begin and nowhere is passed over: the same as when
the whole text is tried, at a fraction of the places."""

from __future__ import annotations

import re
import string
import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ohmo.logs.redaction import COOKIES, IN_CONTEXT, NAMED, PLACED, PLAIN, SHAPES, Redactor
from ohmo.logs.searching import folded
from tests.unit.logs.test_assigned_secrets import HOSTILE, SECRETS

EVERY = {
    "shapes": SHAPES,
    "context": IN_CONTEXT,
    "named": NAMED,
    "placed": PLACED,
    "cookies": COOKIES,
}
ISSUED = """sk-ant-aaaaaaaa sk-abcdefghijklmnop1 sk_live_abcdefghijklmnop rk_abcdefghijklmnop
whsec_abcdefghijklmnop xoxb-12345678 xapp-1-12345678 https://hooks.slack.com/services/T1/B2
123456789:aaaaaaaaaabbbbbbbbbbcccccccccc syt_aaaaaaaa syl_aaaaaaaa syr_aaaaaaaa mct_aaaaaaaa
mcr_aaaaaaaa MAAAAAAAAAAAAAAAAAAAAAAA.bbbbbb.ccccccccccccccccccccccccccc ghp_abcdefghijklmnop
github_pat_abcdefghijklmnopqrst glpat-abcdefghijklmnop AKIAIOSFODNN7EXAMPLE ASIAIOSFODNN7EXAMPLE
AIzaaaaaaaaaaabbbbbbbbbbccccccccccc ya29.abcdefghijklmnop hf_abcdefghijklmnop pypi-abcdefghijklmnop
npm_aaaaaaaaaabbbbbbbbbbcccccccccc gsk_abcdefghijklmnop xai-abcdefghijklmnop
SG.abcdefghijklmnop.abcdefghijklmnop ohmo_aaaaaaaaaabbbbbbbbbbccccccccccdd
1234567890.0123456789abcdef.0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef
eyJaaaaaaaa.eyJbbbbbbbb.c""".split()
NAMES = (
    "token password passwd passphrase pwd credential credentials secret access key api account"
    " private signing encryption master next _base Bearer Basic ApiKey login cookie sig -u --user"
).split()
PIECES = st.one_of(
    st.sampled_from([text for text, _ in SECRETS] + HOSTILE + ISSUED),
    st.sampled_from(NAMES).flatmap(lambda name: st.sampled_from([name, name.upper()])),
    st.sampled_from(
        ["--", "-", "_", " ", "\t", "\n", ":", "=", "=>", " is ", "://", "@", "?", "&"]
    ),
    st.sampled_from(["'", '"', "\\", "a1B2c3D4e5", "a-", "\u017f", "\u212a", "\u0130", "\u0131"]),
    st.text(max_size=4),
)


@pytest.mark.parametrize("name", EVERY)
@settings(max_examples=600, deadline=None)
@given(pieces=st.lists(PIECES, max_size=10))
def test_the_same_is_found_as_when_every_place_is_tried(name: str, pieces: list[str]) -> None:
    text = "".join(pieces)
    hinted = EVERY[name]
    everywhere = [found.span() for found in hinted.pattern.finditer(text)]
    assert [found.span() for found in hinted.found(text)] == everywhere
    begins = {start for start in range(len(text)) if hinted.pattern.match(text, start)}
    assert begins <= set(hinted.starts(text))


@pytest.mark.parametrize("token", ISSUED)
def test_each_issuers_token_has_its_hint(token: str) -> None:
    assert [found[0] for found in SHAPES.found(f"a {token}\n")] == [token]


def test_letters_that_the_search_takes_for_others_are_folded_where_they_stand() -> None:
    every = "".join(map(chr, range(sys.maxunicode + 1)))
    assert len(folded(every)) == len(every)
    for letter in string.ascii_lowercase:
        alike = re.findall(letter, every, re.IGNORECASE)
        assert {folded(each) for each in alike} == {letter}


def test_in_ordinary_text_there_are_few_places_to_try() -> None:
    """The product's own code, which speaks of keys and tokens more than others do."""
    folder = Path(__file__).parents[3] / "ohmo"
    text = "\n".join(file.read_text() for file in sorted(folder.glob("s*/*.py")))[: 1 << 19]
    tried = sum(len(hinted.starts(text)) for hinted in EVERY.values())
    assert 0 < 20 * tried < len(EVERY) * len(text)


@settings(max_examples=600, deadline=None)
@given(text=st.from_regex(PLAIN, fullmatch=True) | st.lists(PIECES, max_size=3).map("".join))
def test_what_no_search_looks_at_holds_nothing_that_one_would_find(text: str) -> None:
    if PLAIN.fullmatch(text):
        for hinted in EVERY.values():
            assert hinted.pattern.search(text) is None
        assert Redactor().text(text) == text


def test_a_known_value_is_taken_out_of_the_plainest_word() -> None:
    assert "correcthorse" not in Redactor(lambda: ["correcthorse"]).text("correcthorse")
