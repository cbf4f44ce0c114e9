"""Durations, sizes, flags, folders; references to secrets, whose values are never shown; a home that
is private, ours, and found."""

from __future__ import annotations

import copy
import importlib
import pickle
import pkgutil
import stat
from datetime import timedelta
from pathlib import Path

import pytest
from pydantic import BaseModel, ValidationError

import ohmo.tools
from ohmo.config.home import Home, find_home
from ohmo.config.rules import tool_names
from ohmo.config.values import Expansion, Secret, SecretMissing, Vault, duration, flag, size
from ohmo.contracts.errors import ConfigError

KNOWN = Expansion({"OHMO_HOME": "/h/.ohmo", "WORKSPACE": "/w", "HOME": "/h"})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("30m", 1800),
        ("24h", 86400),
        ("1h30m", 5400),
        ("250ms", 0.25),
        ("1.5s", 1.5),
        ("7d", 604800),
        ("2w", 1209600),
        (90, 90),
        (0.5, 0.5),
    ],
)
def test_a_duration_is_read(text: object, seconds: float) -> None:
    assert duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize(
    "text",
    ["", "5", "5x", "m5", "5m x", True, -1, None, [], "1h 30", 1e300, float("nan"), "99999999999w"],
)
def test_what_is_no_duration_says_how_one_looks(text: object) -> None:
    with pytest.raises(ValueError, match="expected a duration such as 30s"):
        duration(text)


@pytest.mark.parametrize(
    ("text", "count"),
    [
        ("12KiB", 12288),
        ("2GiB", 2 << 30),
        ("50kB", 50_000),
        (7, 7),
        ("10 MiB", 10 << 20),
        ("1.5KiB", 1536),
        ("9b", 9),
    ],
)
def test_a_size_is_read(text: object, count: int) -> None:
    assert size(text) == count


@pytest.mark.parametrize("text", ["", "KiB", "12QiB", -1, True, None, 1.5])
def test_what_is_no_size_says_how_one_looks(text: object) -> None:
    with pytest.raises(ValueError, match="expected a size such as 12KiB"):
        size(text)


def test_flags_take_the_words_people_write() -> None:
    assert [flag(word) for word in ("yes", "On", "no", "OFF", True, "maybe", 1)] == [
        True,
        True,
        False,
        False,
        True,
        "maybe",
        1,
    ]


def test_only_three_names_expand() -> None:
    assert KNOWN.text("Read(${WORKSPACE}/** and ${HOME})") == "Read(/w/** and /h)"
    for text in ("${PATH}", "${HOME", "${}"):
        with pytest.raises(ValueError, match="means nothing here"):
            KNOWN.text(text)
    assert KNOWN.text("$HOME $5") == "$HOME $5"


def test_a_path_is_absolute() -> None:
    assert KNOWN.path("~/x") == Path("/h/x")
    assert KNOWN.path("${OHMO_HOME}/y") == Path("/h/.ohmo/y")
    with pytest.raises(ValueError, match="absolute"):
        KNOWN.path("x/y")


def test_every_tool_of_the_house_may_stand_in_a_rule() -> None:
    found = [
        importlib.import_module(f"ohmo.tools.{info.name}")
        for info in pkgutil.iter_modules(ohmo.tools.__path__)
        if not info.ispkg
    ]
    names = {module.TOOL.name for module in found if hasattr(module, "TOOL")}
    assert len(names) >= 9
    assert names == set(tool_names())


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


def test_home_is_found_in_the_environment() -> None:
    assert find_home({"HOME": "/home/ada"}).root == Path("/home/ada/.ohmo")
    assert find_home({"HOME": "/home/ada", "OHMO_HOME": "/srv/ohmo"}).root == Path("/srv/ohmo")
    assert find_home({"HOME": "/home/ada", "OHMO_HOME": "~/x"}).root == Path("/home/ada/x")
    with pytest.raises(ConfigError, match="set OHMO_HOME"):
        find_home({})


def test_a_prepared_home_is_for_its_owner_only(tmp_path: Path) -> None:
    home = Home(tmp_path / "a" / "home")
    home.prepare()
    home.root.chmod(0o755)
    home.prepare()
    assert stat.S_IMODE(home.root.stat().st_mode) == 0o700
    assert stat.S_IMODE((home.root / "run").stat().st_mode) == 0o700


def test_a_foreign_home_is_recognised_and_left_alone(tmp_path: Path) -> None:
    home = Home(tmp_path)
    (tmp_path / "gateway.json").write_text("{}", encoding="utf-8")
    with pytest.raises(ConfigError, match="belongs to another program"):
        home.prepare()
    assert [path.name for path in tmp_path.iterdir()] == ["gateway.json"]
    (tmp_path / "ohmo.db").touch()
    assert not home.foreign()


def test_a_home_that_cannot_be_is_one_line(tmp_path: Path) -> None:
    file = tmp_path / "file"
    file.touch()
    with pytest.raises(ConfigError, match="cannot use this folder as home"):
        Home(file).prepare()
    with pytest.raises(ConfigError, match="cannot use this folder as home"):
        Home(file / "below").prepare()


def test_the_socket_is_where_the_note_says(tmp_path: Path) -> None:
    home = Home(tmp_path)
    assert home.socket() == tmp_path / "run" / "ohmo.sock"
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "ohmo.sock.path").write_text("/run/user/1/x.sock\n", encoding="utf-8")
    assert home.socket() == Path("/run/user/1/x.sock")
