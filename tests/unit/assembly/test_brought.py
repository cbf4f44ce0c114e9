"""What trusted plugins bring, as hooks, servers and skills are handed on; and what is said of one
that nobody trusts."""

from __future__ import annotations

import asyncio
import json
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import yaml

from ohmo.assembly.plugins import SERVERS, Brought, build_plugins
from ohmo.assembly.servers import build_servers
from ohmo.config.load import load
from ohmo.hooks.acting import Acting
from ohmo.hooks.hook import Hook, Program
from ohmo.mcp.written import Look
from tests.store_model.store import MemoryStore
from tests.unit.hooks.test_hook_desk import Room

NOW = datetime(2026, 7, 1, tzinfo=UTC)
SHOWS = {"type": "command", "command": "printenv", "args": ["CLAUDE_PLUGIN_ROOT"]}
SHELL = {"type": "command", "command": "echo ${CLAUDE_PLUGIN_ROOT} ${SECRET_KEY}"}


def handlers(*written: dict[str, Any]) -> str:
    return json.dumps({"hooks": {"PreToolUse": [{"matcher": "*", "hooks": list(written)}]}})


class House:
    def __init__(self, root: Path, **configuration: Any) -> None:
        self.home = root / "home"
        self.home.mkdir()
        file = self.home / "config.yaml"
        file.write_text(yaml.safe_dump({"workspace": str(root / "work")} | configuration))
        file.chmod(0o600)
        environ = {"PATH": "/usr/bin:/bin", "HOME": str(root), "SECRET_KEY": "no"}
        config = load(environ={"OHMO_HOME": str(self.home), **environ})
        store = MemoryStore(clock=lambda: NOW)

        async def tell(about: str, text: str) -> None:
            raise AssertionError((about, text))

        self.store = store
        self.environ = environ
        self.found = asyncio.run(build_plugins(config, environ, store, tell, ()))
        safe = replace(config, safe=True)
        self.safe = asyncio.run(build_plugins(safe, environ, store, tell, ()))

    @property
    def brought(self) -> Brought:
        assert self.found is not None
        return self.found

    def plugin(self, name: str, **files: str) -> None:
        written = {"plugin.yaml": f"name: {name}\n", "skills/x/SKILL.md": "x"}
        for file, text in (written | files).items():
            path = self.home / "plugins" / name / file
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)

    async def allow(self, name: str) -> None:
        (waiting,) = await self.brought.candidates(self.home, servers=None)
        await self.store.allow("plugin", name, waiting.digest, "ada")
        await self.brought.plugins.refresh()


@pytest.fixture
def house(tmp_path: Path) -> House:
    return House(tmp_path, mcp={"plugin_till_mine": {"command": "true"}})


def test_secrets_of_servers_are_known_before_one_of_them_is_reached(tmp_path: Path) -> None:
    file = tmp_path / "config.yaml"
    headers = {"A": "env:SHOP_KEY", "B": "env:NOT_SET", "C": "plain-words"}
    file.write_text(yaml.safe_dump({"mcp": {"x": {"url": "http://x.example", "headers": headers}}}))
    file.chmod(0o600)
    config = load(environ={"OHMO_HOME": str(tmp_path), "HOME": "/", "SHOP_KEY": "of-the-shop"})
    safe: Any = replace(config, safe=True)
    nobody: Any = None
    assert build_servers(safe, nobody, nobody, None, nobody) is None
    assert {"of-the-shop", "plain-words"} <= config.vault.values


async def test_hooks_say_whose_they_are_and_find_their_files(house: House, tmp_path: Path) -> None:
    house.plugin("till", **{"hooks/hooks.json": handlers(SHOWS, SHELL)})
    assert await house.brought.hooks() == ()
    await house.allow("till")
    hooks: tuple[Hook, ...] = await house.brought.hooks()
    assert [one.name for one in hooks] == ["till: PreToolUse[1].1", "till: PreToolUse[1].2"]
    (_, copy), *_ = house.brought.plugins.trusted
    assert {one.action.plugin for one in hooks if isinstance(one.action, Program)} == {str(copy)}
    (tmp_path / "room").mkdir()
    acting = Acting(tmp_path / "spill", house.environ, None)
    what = Room(tmp_path / "room").what()
    said = [(await acting.act(one, what)).out.strip() for one in hooks]
    assert said == [str(copy), str(copy)]


async def test_servers_have_names_of_their_plugin_and_no_secret(house: House) -> None:
    rows = {
        "stock": {"command": "${CLAUDE_PLUGIN_ROOT}/stock", "args": ["${HOME}"]},
        "secret": {"command": "x", "env": {"K": "${SECRET_KEY}"}},
        "mine": {"command": "x"},
        "n" * 32: {"url": "https://example.org/mcp"},
        "a__b": {"command": "x"},
    }
    house.plugin("till", **{".mcp.json": json.dumps(rows)})
    assert (await house.brought.look()) == Look((), "plugins")
    await house.allow("till")
    look: Look = await house.brought.look()
    (_, copy), *_ = house.brought.plugins.trusted
    stock, _ = look.endpoints
    assert (stock.name, stock.argv[0]) == ("plugin_till_stock", f"{copy}/stock")
    assert stock.env is not None
    assert stock.env["CLAUDE_PLUGIN_ROOT"] == str(copy)
    assert "SECRET_KEY" not in stock.env
    assert [note.partition("is left out: ")[2][:20] for note in look.notes] == [
        "the variable SECRET_",
        "config.yaml has a se",
        "a name has 1 to 32 l",
    ]
    assert stock.cwd.is_dir()


async def test_only_so_many_servers_of_one_plugin_count_and_a_line_says_so(house: House) -> None:
    def rows(first: str) -> str:
        return json.dumps({f"{first}{number}": {"command": "x"} for number in range(20)})

    more = {"plugin.yaml": "name: till\nmcp_file: more.json\n", "more.json": rows("b")}
    house.plugin("till", **{".mcp.json": rows("a")}, **more)
    house.plugin("tiny", **{".mcp.json": json.dumps({"one": {"command": "x"}})})
    await house.brought.plugins.refresh()
    for name in ("till", "tiny"):
        (entry,) = [each for each in house.brought.plugins.entries if each.name == name]
        assert entry.plugin is not None
        await house.store.allow("plugin", name, entry.plugin.digest, "ada")
    await house.brought.plugins.refresh()
    look: Look = await house.brought.look()
    assert len(look.endpoints) == SERVERS + 1
    assert look.notes == (f"plugin till: it brings 40 MCP servers; the first {SERVERS} count",)


async def test_what_is_said_of_one_that_waits_names_all_that_it_runs(house: House) -> None:
    server = {"mcpServers": {"stock": {"url": "https://example.org/mcp"}}}
    hooks = handlers(*({"type": "command", "command": f"run {n}"} for n in range(9)))
    more = {".mcp.json": json.dumps(server), "hooks/hooks.json": hooks}
    house.plugin("till", **more)
    (waiting,) = await house.brought.candidates(house.home, servers=None)
    assert "runs at pre_tool_use: run 0; runs at pre_tool_use: run 1" in waiting.may
    assert "and 2 more, which ohmo plugins list --json shows" in waiting.may
    assert waiting.may.endswith("; its MCP servers from the next start on")
    (entry,) = house.brought.plugins.entries
    assert entry.judged.runs[-1] == "server plugin_till_stock: https://example.org/mcp"
    assert len(entry.judged.runs) == 10
    assert house.brought.serves


async def test_what_a_manifest_holds_itself_is_named_as_what_stands_there(house: House) -> None:
    row = {"type": "command", "command": "run"}
    events = {"PreToolUse": [{"hooks": [row]}], "Notification": [{"hooks": [row]}]}
    for hooks, where in ((events, "hooks"), ([events, {}], "entry 1 of hooks")):
        written = json.dumps({"name": "till", "hooks": hooks})
        house.plugin("till", **{"plugin.yaml": written})
        await house.brought.plugins.refresh()
        (entry,) = house.brought.plugins.entries
        assert entry.judged.runs == ("runs at pre_tool_use: run",)
        assert entry.judged.notes[0].startswith(f"plugin.yaml: {where}: hooks.Notification"), entry


async def test_the_end_of_a_long_line_is_said_and_all_of_it_in_json(house: House) -> None:
    line = f"echo {'x' * 5_000}; curl evil"
    server = {"mcpServers": {"stock": {"command": "sh", "args": ["-c", f"{line} too"]}}}
    hooks = handlers({"type": "command", "command": line})
    house.plugin("till", **{".mcp.json": json.dumps(server), "hooks/hooks.json": hooks})
    (waiting,) = await house.brought.candidates(house.home, servers=None)
    for told in (
        "runs at pre_tool_use: echo xxx",
        "xxx; curl evil;",
        "sh -c echo xxx",
        "evil too;",
    ):
        assert told in waiting.may
    assert waiting.may.count(" characters) …") == 2
    assert len(waiting.may) < 1_200
    (entry,) = house.brought.plugins.entries
    assert [line in each for each in entry.judged.whole] == [True, True]


async def test_hooks_that_cannot_be_read_take_the_whole_plugin_out(house: House) -> None:
    house.plugin("till", **{"hooks/hooks.json": "{"})
    await house.brought.plugins.refresh()
    (entry,) = house.brought.plugins.entries
    assert entry.state == "broken"
    assert "hooks/hooks.json: not valid JSON" in entry.why


async def test_one_without_hooks_and_servers_brings_its_skills(house: House) -> None:
    assert house.safe is None  # nobody looks there then
    house.plugin("till")
    assert await house.brought.places() == []
    await house.allow("till")
    (place,) = await house.brought.places()
    assert (place.source, place.owned) == ("plugin", True)
    assert (place.folder / "x" / "SKILL.md").read_text() == "x"
    assert await house.brought.hooks() == ()
    assert not house.brought.serves
