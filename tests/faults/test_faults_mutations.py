"""A sample of row 48; the whole is ``python -m tests.faults.mutations``."""

from __future__ import annotations

import pytest

from tests.faults.mutations import campaign


@pytest.mark.parametrize("backup", [False, True])
def test_a_ruined_store_never_loses_a_message_in_silence(backup: bool) -> None:
    found = campaign(range(40), backup=backup)
    assert not {key: count for key, count in found.items() if key[1].isupper()}
    assert ("told, whole" if backup else "told") in {outcome for _, outcome in found}
