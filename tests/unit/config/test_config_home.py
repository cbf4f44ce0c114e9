"""The home folder is private, ours, and found."""

from __future__ import annotations

import stat
from pathlib import Path

import pytest

from ohmo.config.home import Home, find_home
from ohmo.contracts.errors import ConfigError


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
