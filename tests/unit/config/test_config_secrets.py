"""References lead to values; values are never shown."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

from ohmo.config.values import Secret, SecretMissing, Vault


class Holder(BaseModel):
    key: Secret


def test_a_secret_never_prints_itself() -> None:
    literal = Secret("hunter22")
    held = Holder(key=literal)
    for text in (
        repr(literal),
        str(literal),
        f"{literal}",
        repr(held),
        str(held.model_dump()),
        held.model_dump_json(),
        f"{[literal]!r}",
    ):
        assert "hunter22" not in text
    assert "env:TOKEN" in repr(Secret("env:TOKEN"))


def test_a_wrong_secret_is_not_repeated_in_the_error() -> None:
    with pytest.raises(ValidationError) as raised:
        Holder.model_validate({"key": ["hunter22"]})
    assert "expected env:NAME" in str(raised.value)


def test_references_are_found(tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text("from-file\n", encoding="utf-8")
    vault = Vault({"TOKEN": " from-env ", "HOME": str(tmp_path)})
    assert vault.reveal(Secret("env:TOKEN")) == "from-env"
    assert vault.reveal(Secret(f"file:{file}")) == "from-file"
    assert vault.reveal(Secret("file:~/token")) == "from-file"
    assert vault.reveal(Secret("plain")) == "plain"
    assert vault.values == {"from-env", "from-file", "plain"}


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("env:NOWHERE", "environment variable NOWHERE is not set"),
        ("env:EMPTY", "environment variable EMPTY is not set"),
        ("file:/nowhere/at/all", "file /nowhere/at/all cannot be read (No such file or directory)"),
        ("keyring:only-one-word", "must read keyring:SERVICE/NAME"),
    ],
)
def test_a_missing_secret_says_where_it_was_looked_for(text: str, line: str) -> None:
    with pytest.raises(SecretMissing) as raised:
        Vault({"EMPTY": " "}).reveal(Secret(text))
    assert line in str(raised.value)
    assert Vault({}).find(Secret(text)) is None


def test_copies_stay_closed() -> None:
    assert "hunter22" not in repr(copy.deepcopy(Secret("hunter22")))
    assert pickle.loads(pickle.dumps(Secret("hunter22"))) == Secret("hunter22")
