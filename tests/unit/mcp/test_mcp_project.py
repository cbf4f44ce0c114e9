"""``.mcp.json`` of the workspace: nothing of it counts before its very bytes are trusted, and
whatever stands in it then breaks nothing and is told nothing but what it is given."""

from __future__ import annotations

import asyncio
import json
import mmap
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ohmo.contracts.trust import Kind, Trust
from ohmo.logs.redaction import Redactor
from ohmo.mcp.project import ProjectFile
from ohmo.mcp.written import Look

ENVIRON = {"HOME": "/home/ada", "PATH": "/bin"}
SECRET = "sk-never-told"
ANY_JSON = st.recursive(
    st.none() | st.booleans() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=9), inner),
    max_leaves=12,
)
KEYS = st.sampled_from(["type", "command", "args", "env", "url", "headers", "cwd"])
ROWS = st.dictionaries(KEYS, ANY_JSON | st.text(), max_size=6)


class Allowing:
    """Trusts these digests; all of them where ``digests`` is None."""

    def __init__(self, *digests: str, everything: bool = False) -> None:
        self.digests = digests
        self.everything = everything

    async def trusted(self, kind: Kind, name: str, digest: str) -> bool:
        return (
            kind == "mcp" and name.startswith("/") and (self.everything or digest in self.digests)
        )

    async def allow(self, kind: Kind, name: str, digest: str, person: str) -> None:
        raise AssertionError((kind, name, digest, person))

    async def leave_off(self, kind: Kind, name: str, digest: str, person: str) -> None:
        raise AssertionError((kind, name, digest, person))

    async def revoke(self, kind: Kind, name: str) -> int:
        raise AssertionError((kind, name))

    async def trusts(self) -> list[Trust]:
        return []


def project(folder: Path, trusts: Allowing) -> ProjectFile:
    return ProjectFile(folder, trusts, ENVIRON, {"mine"}, Redactor(lambda: (SECRET,)).text)


def read(folder: Path, row: Any, name: str = "x") -> Look:
    (folder / ".mcp.json").write_text(json.dumps({"mcpServers": {name: row}}))
    return asyncio.run(project(folder, Allowing(everything=True)).look())


@given(data=st.binary(max_size=200) | st.builds(lambda row: json.dumps(row).encode(), ANY_JSON))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
def test_whatever_bytes_it_has_one_line_is_said_and_nothing_counts(
    tmp_path: Path, data: bytes
) -> None:
    (tmp_path / ".mcp.json").write_bytes(data)
    untrusted = asyncio.run(project(tmp_path, Allowing()).look())
    assert untrusted.endpoints == ()
    assert len(untrusted.notes) == 1
    step = "expected JSON as" if b"{" not in data else "does not count: "
    assert step in untrusted.notes[0]
    trusted = asyncio.run(project(tmp_path, Allowing(everything=True)).look())
    assert trusted.endpoints == ()
    assert all("\n" not in note and len(note) < 400 for note in trusted.notes)


@given(row=ROWS)
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=100)
def test_a_server_of_any_shape_is_used_or_named(tmp_path: Path, row: dict[str, Any]) -> None:
    look = read(tmp_path, row)
    assert len(look.endpoints) + len(look.notes) == 1
    for one in look.endpoints:
        assert bool(one.argv) != bool(one.url)
        assert all(isinstance(part, str) and "\0" not in part for part in one.argv)


@pytest.mark.parametrize("field", ["command", "args", "env", "url", "headers"])
@pytest.mark.parametrize("name", ["TOKEN", "OHMO_KEY", "home", "_"])
def test_a_variable_stands_for_what_it_is_given_and_never_for_the_daemons(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, field: str, name: str
) -> None:
    monkeypatch.setenv(name, SECRET)
    row: dict[str, Any] = {"url": "https://x.example/"}
    row = {"command": "run"} if field in ("command", "args", "env") else row

    def wanting(text: str) -> dict[str, Any]:
        text = f"https://{text}/" if field == "url" else text
        return row | {field: [text] if field == "args" else text if field in row else {"K": text}}

    refused = read(tmp_path, wanting(f"${{{name}}}"))
    assert refused.endpoints == ()
    assert f"the variable {name} is not given to projects" in refused.notes[0]
    (one,) = read(tmp_path, wanting(f"${{{name}:-plain}}-${{HOME}}")).endpoints
    assert "plain-/home/ada" in repr(one)
    assert SECRET not in repr(one)
    assert (one.env or {}).keys() <= {*ENVIRON, "K"}


def test_an_address_may_begin_with_a_variable_as_others_write_it(tmp_path: Path) -> None:
    row = {"type": "http", "url": "${BASE:-https://x.example}/mcp", "headers": {"X_KEY": "a"}}
    (one,) = read(tmp_path, row).endpoints
    assert (one.kind, one.url, one.headers) == ("http", "https://x.example/mcp", {"X_KEY": "a"})


def test_references_to_secrets_of_the_configuration_are_plain_words(tmp_path: Path) -> None:
    row = {"url": "https://x.example/", "headers": {"A": "env:TOKEN", "B": "file:/etc/passwd"}}
    (one,) = read(tmp_path, row).endpoints
    assert one.headers == {"A": "env:TOKEN", "B": "file:/etc/passwd"}


@pytest.mark.parametrize(
    ("name", "row", "why"),
    [
        ("mine", {"command": "a"}, "config.yaml has a server of that name"),
        ("a__b", {"command": "a"}, "a name has 1 to 32 letters"),
        ("x" * 33, {"command": "a"}, "a name has 1 to 32 letters"),
        ("x", {"command": "a", "url": "http://b/"}, "give either command"),
        ("x", {}, "give either command"),
        ("x", {"url": "file:///etc/passwd"}, "url: expected http:// or https://"),
        ("x", {"url": "${BASE:-file:///etc/passwd}"}, "url: expected http:// or https://"),
        ("x", {"url": "http://b/ c"}, "url: expected http:// or https://"),
        ("x", ["command"], "expected keys and values"),
        ("x", {"url": "http://b/", "headers": {"A": "b\r\nC: d"}}, "headers.A: "),
        ("x", {"command": "a", "args": "b"}, "args: "),
        ("x", {"type": "carrier-pigeon", "command": "a"}, "type: "),
    ],
)
def test_what_does_not_fit_is_one_line_with_its_place(
    tmp_path: Path, name: str, row: Any, why: str
) -> None:
    look = read(tmp_path, row, name)
    assert look.endpoints == ()
    (note,) = look.notes
    assert why in note
    assert note.startswith(f"{tmp_path}/.mcp.json: ")


@pytest.mark.parametrize("way", ["folder", "pipe", "loop", "huge", "closed"])
async def test_what_cannot_be_read_is_one_line(tmp_path: Path, way: str) -> None:
    path = tmp_path / ".mcp.json"
    if way == "folder":
        path.mkdir()
    elif way == "pipe":
        os.mkfifo(path)
    elif way == "loop":
        path.symlink_to(path)
    elif way == "huge":
        path.write_bytes(b" " * (2 << 20))
    else:
        path.symlink_to(tmp_path / "nothing")
    file = project(tmp_path, Allowing(everything=True))
    look = await file.look()
    assert look.endpoints == ()
    assert all("does not count" in note for note in look.notes)
    assert (way == "huge") == ("it is larger than 1 MiB" in str(look.notes))
    assert bool(look.notes) == (way not in ("loop", "closed"))
    found = await file.candidates()
    assert [bool(one.broken) and not one.digest for one in found] == [True] * len(look.notes)


async def test_what_it_starts_is_said_and_files_of_the_project_are_part_of_the_content(
    tmp_path: Path,
) -> None:
    folder = tmp_path / "work"
    folder.mkdir()
    (folder / "tools").mkdir()
    (tmp_path / "outside.sh").write_text("echo 1\n")
    script = folder / "tools" / "stock.sh"
    script.write_text("echo 1\n")
    args = ["--file=tools/stock.sh", "../outside.sh", "tools", "words"]
    path = folder / ".mcp.json"
    path.write_text(json.dumps({"mcpServers": {"x": {"command": "sh", "args": args}}}))
    file = project(folder, Allowing())
    (first,) = await file.candidates()
    assert f"for tools: x: sh {' '.join(args)}; tools/stock.sh of the project are" in first.may
    look = project(folder, Allowing(first.digest)).look
    assert [one.name for one in (await look()).endpoints] == ["x"]
    (tmp_path / "outside.sh").write_text("echo 2\n")
    assert (await file.candidates())[0].digest == first.digest
    before = await look()
    script.write_text("echo 2\n")
    (second,) = await file.candidates()
    assert second.digest != first.digest
    after = await project(folder, Allowing(second.digest)).look()
    assert after.endpoints == before.endpoints
    assert after != before, "who runs them starts them anew"
    assert (await look()).endpoints == ()
    path.write_text('{"mcpServers": {"x": {"command": "/bin/true"}}}')
    assert "no file of the project" in (await file.candidates())[0].may


async def test_files_of_variables_are_content_whatever_stamps_say(tmp_path: Path) -> None:
    """A mapping, mmap(2), writes without another stamp than its first."""
    env = {"BASH_ENV": "./x.sh", "NODE_OPTIONS": "--require ./y.js"}
    row = {"command": "node", "args": ["-r./z.js"], "env": env}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"x": row}}))
    file, digests = project(tmp_path, Allowing()), set[str]()
    paths = [tmp_path / name for name in ("x.sh", "y.js", "z.js")]
    assert [path.write_text("good") for path in paths] == [4, 4, 4]
    for path in paths:
        with path.open("r+b") as opened, mmap.mmap(opened.fileno(), 4) as mapped:
            for word in (b"good", b"evil"):
                mapped[:4] = word
                digests.add((await file.candidates())[0].digest)
    assert len(digests) == 4


@pytest.mark.parametrize("way", ["sparse", "together", "words"])
async def test_more_than_can_be_hashed_is_one_line_before_it_is_read(
    tmp_path: Path, way: str
) -> None:
    args = ["x"] * 2_001 if way == "words" else ["a.bin", "b.bin"]
    for name in ("a.bin", "b.bin"):
        with (tmp_path / name).open("wb") as file:
            file.truncate(1 << 42 if way == "sparse" else 40 << 20)
    (tmp_path / ".mcp.json").write_text(
        json.dumps({"mcpServers": {"x": {"command": "sh", "args": args}}})
    )
    file = project(tmp_path, Allowing(everything=True))
    async with asyncio.timeout(20):
        (found,) = await file.candidates()
    assert ("2000 words" if way == "words" else "64 MiB together") in found.broken
    assert found.digest == ""
    assert (await file.look()).endpoints == ()


async def test_values_of_variables_and_queries_are_not_told(tmp_path: Path) -> None:
    row: dict[str, Any] = {
        "command": "sh",
        "env": {"SHOP_PIN": "5521-swordfish", "HOME": "/home/ada"},
    }
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"x": row}}))
    (found,) = await project(tmp_path, Allowing()).candidates()
    assert "x: sh with SHOP_PIN=…;" in found.may
    assert "swordfish" not in found.may
    row = {"url": "https://x.example/mcp?pin=swordfish"}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"x": row}}))
    (found,) = await project(tmp_path, Allowing()).candidates()
    assert "x: https://x.example/mcp?…;" in found.may


@pytest.mark.parametrize(
    "name",
    [
        *("LD_PRELOAD", "LD_LIBRARY_PATH", "NODE_OPTIONS", "PYTHONPATH", "PYTHONSTARTUP", "PATH"),
        *("BASH_ENV", "ENV", "PERL5LIB", "PERL5OPT", "RUBYOPT", "GIT_SSH_COMMAND", "GIT_CONFIG"),
        *("GIT_CONFIG_VALUE_0", "npm_config_script_shell", "JAVA_TOOL_OPTIONS", "GOFLAGS"),
        *("SSH_ASKPASS", "EDITOR", "LESSOPEN_CMD", "CLASSPATH", "GCONV_PATH", "DOCKER_CONFIG"),
        *("UV_DEFAULT_INDEX", "PIP_EXTRA_INDEX_URL", "GOPROXY", "CARGO_REGISTRIES_X_INDEX"),
    ],
)
async def test_what_leads_a_program_to_code_is_told_with_its_value_but_no_secret(
    tmp_path: Path, name: str
) -> None:
    token = "ghp_" + "a1B2" * 9
    env = {"GIT_TOKEN": "swordfish", name: f"./a b.so {SECRET} {token}", "Z_PATH": "/z" * 200}
    row = {"command": "sh", "env": env}
    (tmp_path / ".mcp.json").write_text(json.dumps({"mcpServers": {"x": row}}))
    (found,) = await project(tmp_path, Allowing()).candidates()
    assert f"{name}='./a b.so ******** ********'" in found.may
    assert "GIT_TOKEN=…;" in found.may
    assert "Z_PATH=/z/z" in found.may
    assert "(400 characters)" in found.may


async def test_one_byte_more_is_another_content(tmp_path: Path) -> None:
    path = tmp_path / ".mcp.json"
    path.write_text('{"mcpServers": {"x": {"command": "a"}}}')
    (waiting,) = await project(tmp_path, Allowing()).candidates()
    trusting = project(tmp_path, Allowing(waiting.digest))
    assert [one.name for one in (await trusting.look()).endpoints] == ["x"]
    assert await trusting.candidates() == []
    path.write_text(path.read_text() + " ")
    assert (await trusting.look()).endpoints == ()
    assert len(await trusting.candidates()) == 1
