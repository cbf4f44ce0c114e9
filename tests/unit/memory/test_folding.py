"""Folding: done again it changes nothing, marks and case say nothing, signs are words."""

from __future__ import annotations

import unicodedata

from hypothesis import given, settings
from hypothesis import strategies as st

from ohmo.memory.folding import fold, question


@given(st.text(max_size=200))
@settings(max_examples=1_000)
def test_folding_again_changes_nothing(text: str) -> None:
    assert fold(fold(text)) == fold(text)


@given(st.text(alphabet="aàáảãạăằâầeèêểiìoòôồơờuùưừyỳdđ XYZ 你好 かガ한글", max_size=60))
def test_marks_case_and_the_way_they_are_written_say_nothing(text: str) -> None:
    bare = "".join(
        sign for sign in unicodedata.normalize("NFD", text) if not unicodedata.combining(sign)
    )
    plain = unicodedata.normalize("NFC", bare).replace("đ", "d")
    assert fold(text) == fold(unicodedata.normalize("NFD", text)) == fold(text.upper())
    assert fold(text) == fold(plain)


def test_words_and_signs() -> None:
    assert fold("Ngày phát hành, Đà Nẵng!") == "ngay phat hanh da nang"
    assert fold("发布日期 CI/CD v2") == "发 布 日 期 ci cd v2"
    assert fold("ガス代は7円") == "カ ス 代 は 7 円"
    assert fold("한국어") == "한 국 어"
    assert fold("ﬁx Ⅳ ｆｕｌｌ straße") == "fix iv full strasse"


@given(st.text(max_size=300))
def test_a_question_is_always_one_the_index_can_read(text: str) -> None:
    for loose in (True, False):
        terms = question(text, loose=loose)
        assert terms.count('"') % 2 == 0
        assert not set(terms) & set("'*^:(){}+-,.;\\")


def test_what_says_little_is_not_what_is_meant() -> None:
    assert question("what is the", loose=False) == ""
    assert question("hello, how are you?", loose=False) == ""
    assert question("what is tea", loose=False) == '"tea"'
    assert '"what"' in question("what is tea")
    assert question("茶", loose=False) == ""
    assert question("绿茶", loose=False) == '"绿 茶"'
