"""From the configuration to links, policies and roles."""

from __future__ import annotations

import os
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from channels.console.adapter import Console
from channels.registry import discover
from ohmo.assembly.deps import finding_programs
from ohmo.assembly.messages import Wired, roles, wire
from ohmo.config.load import Config, load
from ohmo.gateway.access import Policy
from ohmo.permissions.policy import Host, sensitive_of, snapshot_of
from ohmo.permissions.sensitive_paths import Touch


def configured(tmp_path: Path, text: str) -> Config:
    file = tmp_path / "config.yaml"
    file.write_text(text)
    file.chmod(0o600)
    return load(
        file,
        environ={**os.environ, "HOME": str(tmp_path), "OHMO_HOME": str(tmp_path / ".ohmo")},
        manifests=discover(strangers=()).manifests,
    )


def wired(tmp_path: Path, text: str) -> Wired:
    return wire(configured(tmp_path, text), lambda: datetime(2026, 1, 1, tzinfo=UTC))


def twins(first: str, second: str) -> str:
    lines = [
        f'    - {{account: {name}, enabled: true, token: "12345{name}:{"A" * 35}", {rest}}}'
        for name, rest in (("1", first), ("2", second))
    ]
    return "channels:\n  telegram:\n" + "\n".join(lines) + "\n"


def test_the_house_itself_is_always_there_and_the_browser_by_default(tmp_path: Path) -> None:
    made = wired(tmp_path, "")
    assert [link.label for link in made.links] == ["house", "web"]
    assert made.browser is not None


def test_what_lives_in_this_process_is_one_for_its_life(tmp_path: Path) -> None:
    made = wired(tmp_path, "channels: {console: {enabled: true}, web: {enabled: false}}")
    (link,) = [link for link in made.links if link.name == "console"]
    assert isinstance(link.build(), Console)
    assert link.build() is link.build()
    assert (made.browser, link.heavy) == (None, False)


def test_two_accounts_of_one_platform_have_names_and_folders_of_their_own(tmp_path: Path) -> None:
    made = wired(tmp_path, twins("dm: open", "dm: open"))
    links = [link for link in made.links if link.name == "telegram"]
    assert [link.label for link in links] == ["telegram/1", "telegram/2"]
    assert len({link.state for link in links}) == 2


@pytest.mark.parametrize(
    ("first", "second", "policy"),
    [
        ("dm: open, groups: open", "dm: pairing, groups: off", Policy("pairing", "off")),
        ("dm: allowlist", "dm: pairing", Policy("allowlist", "allowlist")),
        ("mention: optional", "mention: required", Policy()),
        ("mention: optional", "mention: optional", Policy(mention_required=False)),
        (
            "allow: {people: ['1', '2']}",
            "allow: {people: ['2', '3']}",
            Policy(people=frozenset({"2"})),
        ),
    ],
)
def test_two_accounts_of_one_platform_share_the_stricter_rule(
    tmp_path: Path, first: str, second: str, policy: Policy
) -> None:
    assert wired(tmp_path, twins(first, second)).policy("telegram", "any") == policy


def test_an_account_that_has_connected_has_its_own_rule(tmp_path: Path) -> None:
    house = wired(tmp_path, twins("dm: open, activity: keep", "dm: pairing"))
    first = next(link for link in house.links if link.name == "telegram")
    first.met("1001")
    assert house.policy("telegram", "1001").dm == "open"
    assert house.policy("telegram", "1002").dm == "pairing"
    assert (house.activity("telegram", "1001"), house.activity("web", "local")) == ("keep", "off")


@pytest.mark.parametrize("second", ["allow: {people: ['3']}", "dm: pairing"])
def test_lists_that_share_nobody_let_in_nobody(tmp_path: Path, second: str) -> None:
    people = (
        wired(tmp_path, twins("allow: {people: ['1', '2']}", second))
        .policy("telegram", "any")
        .people
    )
    assert people
    assert not people & {"1", "2", "3"}


def test_an_owner_is_an_owner_and_a_person_named_twice_has_the_higher_role(tmp_path: Path) -> None:
    text = (
        "owner: ['slack:U1']\naccess: {roles: {guest: ['slack:U2', 'slack:U3'], admin:"
        " ['slack:U2'], user: ['slack:U1']}, default_role: guest}"
    )
    found: Any = roles(configured(tmp_path, text))
    assert found.named == {"slack:U1": "owner", "slack:U2": "admin", "slack:U3": "guest"}
    assert found.default == "guest"


def test_what_belongs_to_the_home_and_lies_elsewhere_is_closed_too(tmp_path: Path) -> None:
    text = (
        f"backups: {{folder: {tmp_path}/kept}}\nstore: {{url:"
        f" 'sqlite:///{tmp_path}/apart/house.db'}}\n"
    )
    (tmp_path / "dotfiles").mkdir()
    (tmp_path / "config.yaml").symlink_to(tmp_path / "dotfiles" / "[my] ohmo.yaml")
    config = configured(tmp_path, text)
    host = Host(tmp_path, config.home.root, "")
    sensitive = sensitive_of(snapshot_of(config), host)
    closed = (
        "config.yaml",
        "dotfiles/[my] ohmo.yaml",
        "kept/ohmo-20260101T000000Z.tar.gz",
        "apart/house.db",
        "apart/house.db-wal",
    )
    assert [sensitive.touch(name, str(tmp_path)) for name in closed] == [Touch.INSIDE] * 5
    assert [
        sensitive.touch(name, str(tmp_path))
        for name in ("kept/notes.txt", "apart/house.txt", "dotfiles/m ohmo.yaml")
    ] == [Touch.CLEAR] * 3


@pytest.mark.parametrize(
    ("path", "found"),
    [
        ("/a:/b", "/a:/b"),
        (":/a", "/a"),
        ("/a:", "/a"),
        (".:/a::b/c:/d", "/a:/d"),
        ("", "/usr/local/bin:/usr/bin:/bin"),
        (".", "/usr/local/bin:/usr/bin:/bin"),
        (None, "/usr/local/bin:/usr/bin:/bin"),
    ],
)
def test_no_program_is_found_in_the_working_directory(path: str | None, found: str) -> None:
    given = {"HOME": "/h"} if path is None else {"HOME": "/h", "PATH": path}
    made = finding_programs(given)
    own = str(Path(sys.executable).parent)
    assert made == {"HOME": "/h", "PATH": f"{found}:{own}"}
    assert finding_programs(made) == made
