"""The reference and the quick starts are what the code says; `make reference` writes them anew."""

from __future__ import annotations

import pytest

from tests.reference import DOCS, pages

PAGES = pages()


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_reference_has_not_drifted(name: str) -> None:
    assert (DOCS / name).read_text(encoding="utf-8") == PAGES[name], "run: make reference"
