"""Whatever a model or a platform said can be shown by the API."""

from __future__ import annotations

import json

from hypothesis import given, settings
from hypothesis import strategies as st

from ohmo.contracts.events import TextDelta
from ohmo.control.encode import dumps


@settings(deadline=None)
@given(st.text(st.characters(exclude_categories=()) | st.sampled_from('\ud83d\udc00\x00"\\\n\u2028')))
def test_any_text_is_valid_utf8_json_on_one_line_and_comes_back_as_it_was(text: str) -> None:
    line = dumps(TextDelta("turn", text)).encode()
    assert b"\n" not in line
    assert b"\r" not in line
    assert json.loads(line)["text"].encode("utf-16", "surrogatepass") == text.encode("utf-16", "surrogatepass")
