"""The reference is what the code says; `make reference` writes it anew."""

from __future__ import annotations

import pytest

from ohmo.cli.reference import FOLDER, PAGES


@pytest.mark.parametrize("name", sorted(PAGES))
def test_the_reference_has_not_drifted(name: str) -> None:
    assert (FOLDER / name).read_text(encoding="utf-8") == PAGES[name](), "run: make reference"
