"""The profile of macOS, as text: read here as Apple's kernel reads it (the last rule that fits), because no Mac runs these
tests. What is decided of each path is compared with what ``Cage`` says."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ohmo.contracts.sandbox import Cage
from ohmo.sandbox import probing
from ohmo.sandbox.sandbox_exec import SandboxExec, profile
from ohmo.sandbox.walls import CageSettings, Standing

Rule = tuple[str, list[str], list[tuple[str, str]]]
OWN = Path("/private/tmp/own")
WORK = Path("/Users/ada/work")


def _parsed(text: str) -> Any:
    """Symbols and strings as they stand; each list as a list. Anything else is no profile."""
    stack: list[list[Any]] = [[]]
    at = 0
    for found in re.finditer(r'\s*(?:([()])|"((?:[^"\\]|\\["\\])*)"|([^\s()"]+))', text):
        assert found.start() == at, f"not read: {text[at : found.start()]!r}"
        at = found.end()
        bracket, quoted, symbol = found.groups()
        if bracket == "(":
            stack.append([])
        elif bracket == ")":
            done = stack.pop()
            stack[-1].append(done)
        elif symbol is not None:
            stack[-1].append(symbol)
        else:
            stack[-1].append(re.sub(r"\\(.)", r"\1", quoted))
    assert len(stack) == 1
    assert not text[at:].strip()
    return stack[0]


def _rules(cage: Cage) -> Iterator[Rule]:
    version, *rules = _parsed(profile(cage, OWN))
    assert version == ["version", "1"]
    for word, *rest in rules:
        assert word in ("allow", "deny")
        operations = [each for each in rest if isinstance(each, str)]
        yield word, operations, [tuple(each) for each in rest if isinstance(each, list)]


def decided(cage: Cage, operation: str, path: Path) -> bool:
    answer = False
    for word, operations, filters in _rules(cage):
        named = any(each in (operation, "default") for each in operations)
        wild = any(each.endswith("*") and operation.startswith(each[:-1]) for each in operations)
        fits = not filters or any(
            (kind == "literal" and path == Path(value))
            or (kind == "subpath" and (path == Path(value) or Path(value) in path.parents))
            for kind, value, *_ in filters
        )
        if (named or wild) and fits:
            answer = word == "allow"
    return answer


def expected(cage: Cage, path: Path) -> str:
    for above in (path, *path.parents):
        if above in cage.hide:
            return "hide"
        if above in (*cage.write, OWN):
            return "write"
        if above in cage.read:
            return "read"
    return "hide"


def _expected_to_move(cage: Cage, path: Path) -> bool:
    closed = [each for each in (*cage.read, *cage.hide) if expected(cage, each) != "write"]
    return expected(cage, path) == "write" and not any(path in each.parents for each in closed)


NAMES = st.sampled_from(["a", "b", ".git", 'q"', "back\\slash", "with space", "ü"])
PATHS = st.lists(NAMES, min_size=1, max_size=4).map(lambda parts: Path("/Users", *parts))
SETS = st.lists(PATHS, max_size=4).map(tuple)


@given(read=SETS, write=SETS, hide=SETS, path=PATHS)
def test_each_path_is_decided_as_the_cage_says(
    read: tuple[Path, ...], write: tuple[Path, ...], hide: tuple[Path, ...], path: Path
) -> None:
    cage = Cage(read=read, write=write, hide=hide)
    way = expected(cage, path)
    assert decided(cage, "file-read-data", path) == (way != "hide")
    assert decided(cage, "file-map-executable", path) == (way != "hide")
    assert decided(cage, "file-write-data", path) == (way == "write")
    assert decided(cage, "file-write-create", path) == (way == "write")
    assert decided(cage, "file-write-unlink", path) == _expected_to_move(cage, path)
    assert not decided(cage, "file-link", path)  # a second name of what may only be read


def test_what_leads_to_a_protected_folder_is_not_moved_away() -> None:
    hooks = WORK / ".git/hooks"
    cage = Cage(read=(hooks,), write=(WORK,))
    assert not decided(cage, "file-write-unlink", WORK / ".git")
    assert decided(cage, "file-write-unlink", WORK / ".git/index")
    assert not decided(cage, "file-write-create", hooks / "pre-commit")


def _allowed(cage: Cage) -> set[str]:
    return {each for word, operations, _ in _rules(cage) if word == "allow" for each in operations}


@pytest.mark.parametrize("network", ["off", "names", "on"])
def test_there_is_network_only_where_all_of_it_is_allowed(network: Any) -> None:
    allowed = {
        each for each in _allowed(Cage(read=(), write=(WORK,), network=network)) if "net" in each
    }
    assert bool(allowed) == (network == "on")


def test_the_socket_of_the_house_is_open_to_who_may_knock_and_the_rest_is_not() -> None:
    socket = Path("/Users/ada/.ohmo/run/ohmo.sock")
    cage = Cage(read=(socket,), write=(WORK,), hide=(Path("/Users/ada/.ohmo"),), doors=True)
    assert decided(cage, "network-outbound", socket)
    assert not decided(cage, "network-outbound", Path("/Users/ada/.ohmo/run/other.sock"))
    assert not decided(cage, "file-read-data", Path("/Users/ada/.ohmo/config.yaml"))


async def test_the_command_is_started_by_it_with_a_folder_of_its_own(tmp_path: Path) -> None:
    cage = Cage(read=(), write=(WORK,), pids=9)
    async with SandboxExec(tmp_path / "scratch").launch(("/bin/ls", "-l"), WORK, cage) as launch:
        own = Path(launch.env["TMPDIR"])
        assert own.is_dir()
        assert launch.argv == ("/usr/bin/sandbox-exec", "-p", profile(cage, own), "/bin/ls", "-l")
        assert launch.rules["pids"] == 9
        (own / "left").touch()
    assert not own.exists()


def test_a_mac_has_no_other_backend(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(probing, "_MAC", True)

    def found(backend: Any) -> tuple[list[str], list[str]]:
        settings = CageSettings(
            backend=backend,
            network="ask",
            memory=1,
            cpus=1,
            pids=1,
            home=tmp_path,
            root=tmp_path,
            workspace=tmp_path,
            absolute=(),
            anywhere=(),
            path="/bin",
        )
        able, why = probing.backends(settings, "/bin", tmp_path)
        return [each.name for each in able], why

    assert found("auto") == (["sandbox-exec"], [])
    able, why = found("landlock")
    assert able == []
    assert "sandbox.backend: auto" in why[0]


async def test_people_are_told_that_names_of_the_network_are_not_told_apart(tmp_path: Path) -> None:
    cage = Cage(read=(), write=(WORK,))
    why = await probing.nameless(SandboxExec(tmp_path), cage)
    assert Standing(SandboxExec.name, nameless=why).note.endswith("a yes to all of it")
