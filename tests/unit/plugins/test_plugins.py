"""Plugins: what of a folder is read, what is off whenever anything in it is another, and that what
is used is what was trusted; bad ones are one line each and nothing else suffers."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import tempfile
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ohmo.approvals.trusting import NothingToTrust, TrustDesk
from ohmo.commands.contract import is_order, of_plugin, unknown
from ohmo.plugins.commands import named, spelled
from ohmo.plugins.manifest import MANIFESTS, BadPlugin, read_plugin
from ohmo.plugins.shelf import MOST, Entry, Judged, Plugins
from ohmo.skills.shelf import Skills
from tests.store_model.store import MemoryStore

NOW = datetime(2026, 7, 1, tzinfo=UTC)
FILES = {
    "skills/tea/SKILL.md": "Weigh it.\n",
    "commands/order.md": "---\ndescription: d\n---\nOrder $ARGUMENTS now.\n",
    "commands/stock/count.md": "Count.",
    "hooks/hooks.json": '{"hooks": {}}',
    ".mcp.json": '{"till": {"command": "${CLAUDE_PLUGIN_ROOT}/till"}}',
    "till": "#!/bin/sh\n",
}


def plugin(root: Path, name: str = "shop", manifest: str | None = None, **more: str) -> Path:
    folder = root / name
    published = {".claude-plugin/plugin.json": json.dumps({"name": name, "version": "1.0"})}
    written = published if manifest is None else {"plugin.yaml": manifest}
    for file, text in (written | FILES | more).items():
        path = folder / file
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    (folder / "till").chmod(0o755)
    return folder


class Rig:
    def __init__(self, root: Path) -> None:
        self.root, self.copies = root / "plugins", root / "copies"
        self.store = MemoryStore(clock=lambda: NOW)
        self.told: list[str] = []
        self.plugins = Plugins(
            self.root,
            self.copies,
            root / "kept",
            self.store,
            lambda _: Judged(("runs x",)),
            self._tell,
        )
        lent = Skills((), self.store, lambda _: None, {})
        self.desk = TrustDesk(self.store, lent, root, (self.plugins.candidates,), self.plugins)

    async def _tell(self, about: str, text: str) -> None:
        del about
        self.told.append(text)

    async def states(self) -> dict[str, str]:
        return {entry.name: entry.state for entry in await self.desk.plugins()}

    async def only(self) -> Entry:
        (entry,) = await self.desk.plugins()
        return entry


@pytest.fixture
def rig(tmp_path: Path) -> Rig:
    return Rig(tmp_path)


def test_a_published_plugin_is_read_unchanged(tmp_path: Path) -> None:
    found, _ = read_plugin(plugin(tmp_path))
    assert (found.name, found.version, found.skills) == ("shop", "1.0", ("skills",))
    assert found.commands == {"order": "Order $ARGUMENTS now.", "stock:count": "Count."}
    assert (list(found.hooks), list(found.servers)) == (["hooks/hooks.json"], [".mcp.json"])


async def test_without_a_manifest_it_is_called_as_its_folder_and_trusted_like_any(rig: Rig) -> None:
    folder = plugin(rig.root)
    whole = read_plugin(folder)[0]
    shutil.rmtree(folder / ".claude-plugin")
    found = read_plugin(folder)[0]
    assert (found.name, found.version, found.description) == ("shop", "", "")
    for part in ("skills", "hooks", "servers", "commands"):
        assert getattr(found, part) == getattr(whole, part)
    assert await rig.states() == {"shop": "untrusted"}
    assert not (rig.root.parent / "kept").exists()
    await rig.desk.allow("plugin", "shop", "ada")
    assert await rig.states() == {"shop": "trusted"}
    assert (rig.root.parent / "kept/shop").stat().st_mode & 0o777 == 0o700
    (folder / "till").write_text("#!/bin/sh\nexit\n")
    assert await rig.states() == {"shop": "changed"}
    folder.rename(rig.root / "a shop")
    assert "is not letters, digits" in (await rig.only()).why


def test_a_manifest_of_ours_names_other_places_and_a_published_one_holds_them(
    tmp_path: Path,
) -> None:
    text = (
        "name: shop\ndescription: Tea\nrequires: [ohmo>=0.1]\nskills_dir: more\n"
        "commands_dir: says\nhooks_file: own.yaml\nmcp_file: servers.json\n"
    )
    there = {"more/x/SKILL.md": "x", "says/hi.md": "Hi.", "own.yaml": "hooks: []"}
    found, _ = read_plugin(plugin(tmp_path, manifest=text, **there, **{"servers.json": "{}"}))
    assert found.skills == ("skills", "more")
    assert found.commands["hi"] == "Hi."
    assert list(found.hooks) == ["hooks/hooks.json", "own.yaml"]
    assert list(found.servers) == [".mcp.json", "servers.json"]
    inline = {
        "name": "inline",
        "commands": ["./says/hi.md"],
        "hooks": {"Stop": []},
        "mcpServers": {"x": {"command": "a"}},
    }
    folder = plugin(
        tmp_path, "inline", **there, **{".claude-plugin/plugin.json": json.dumps(inline)}
    )
    found, _ = read_plugin(folder)
    assert json.loads(found.hooks[f"{MANIFESTS[1]}: hooks"]) == {"hooks": {"Stop": []}}
    servers = json.loads(found.servers[f"{MANIFESTS[1]}: mcpServers"])["mcpServers"]
    assert servers == inline["mcpServers"]
    assert found.commands["hi"] == "Hi."


@pytest.mark.parametrize(
    ("named", "found"),
    [
        (["./skills/tea"], ("skills",)),  # it is in the usual folder anyway
        (["./own/brew", "own/pour/"], ("skills", "own/brew", "own/pour")),
        (["./own"], ("skills", "own")),
        (["./skills/more"], ("skills", "skills/more")),  # a folder of skills in it
    ],
)
def test_a_skill_may_be_named_itself(
    tmp_path: Path, named: list[str], found: tuple[str, ...]
) -> None:
    manifest = json.dumps({"name": "shop", "skills": named})
    there = {
        ".claude-plugin/plugin.json": manifest,
        "own/brew/SKILL.md": "x",
        "own/pour/SKILL.md": "x",
        "skills/more/cake/SKILL.md": "x",
    }
    assert read_plugin(plugin(tmp_path, **there))[0].skills == found


@pytest.mark.parametrize("more", [{}, {"skills": ["./"]}, {"skills": "."}])
def test_a_plugin_may_be_one_skill(tmp_path: Path, more: dict[str, Any]) -> None:
    folder = tmp_path / "shop"
    (folder / ".claude-plugin").mkdir(parents=True)
    (folder / ".claude-plugin/plugin.json").write_text(json.dumps({"name": "shop"} | more))
    (folder / "SKILL.md").write_text("x")
    assert read_plugin(folder)[0].skills == ("",)


def _link(folder: Path) -> None:
    (folder / "out").symlink_to("/etc/hostname")


def _no_part(folder: Path) -> None:
    for name in (".claude-plugin", "skills", "commands", "hooks"):
        shutil.rmtree(folder / name)
    (folder / ".mcp.json").unlink()


BAD: dict[str, tuple[dict[str, str] | Callable[[Path], Any], str]] = {
    "none": (_no_part, "nothing of a plugin at its usual place"),
    "half": ({"plugin.yaml": "name: ["}, "plugin.yaml:1: not valid YAML"),
    "list": ({".claude-plugin/plugin.json": "[]"}, "plugin.json: expected keys and values"),
    "deep": ({".claude-plugin/plugin.json": "[" * 100_000}, "not valid JSON"),
    "nameless": ({"plugin.yaml": "version: 1"}, "plugin.yaml: name: Field required"),
    "strange": ({"plugin.yaml": "name: '../x'"}, "is not letters, digits"),
    "escape": ({"plugin.yaml": "name: '\\e[31m'"}, "is not letters, digits"),
    "long": ({"plugin.yaml": f"name: {'x' * 41}"}, "is not letters, digits"),
    "newer": ({"plugin.yaml": "name: shop\nrequires: ohmo>=99"}, "it needs ohmo 99 or newer"),
    "asks": ({"plugin.yaml": "name: shop\nrequires: node"}, "expected ohmo>=VERSION"),
    "above": ({"plugin.yaml": "name: shop\nskills: ../x"}, "is no place in its folder"),
    "root": ({"plugin.yaml": "name: shop\nhooks_file: /etc/x"}, "is no place in its folder"),
    "gone": ({"plugin.yaml": "name: shop\nhooks_file: x.json"}, "there is no 'x.json'"),
    "file": ({"plugin.yaml": "name: shop\nskills: till"}, "name the folder of the skill"),
    "named": ({"commands/a b.md": "x"}, "a command's name is"),
    "binary": (lambda folder: (folder / "commands/x.md").write_bytes(b"\xff"), "is not UTF-8"),
    "null": ({".mcp.json": "\0"}, "is no text"),
    "fat": ({"commands/x.md": "x" * (257 << 10)}, "is larger than 256 KiB"),
    "huge": (lambda folder: (folder / "x").write_bytes(b" " * (10 << 20)), "larger than 8 MiB"),
    "link": (_link, "out: a link that leads out of the folder"),
    "twice": ({"commands/Order.md": "x"}, "there are two commands"),
    "pipe": (lambda folder: os.mkfifo(folder / "x"), "neither a file nor a folder"),
}


@pytest.mark.parametrize("way", BAD)
async def test_what_is_wrong_is_one_line_and_stops_no_other(rig: Rig, way: str) -> None:
    plugin(rig.root, "good")
    await rig.desk.allow("plugin", "good", "ada") if await rig.states() else None
    change, why = BAD[way]
    folder = plugin(rig.root, **(change if isinstance(change, dict) else {}))
    if not isinstance(change, dict):
        change(folder)
    with pytest.raises(BadPlugin) as error:
        read_plugin(folder)
    assert why in str(error.value)
    assert str(error.value).isprintable()
    assert await rig.states() == {"good": "trusted", "shop": "broken"}
    with pytest.raises(NothingToTrust):
        await rig.desk.allow("plugin", "shop", "ada")


async def test_a_name_is_its_folders_and_nobody_takes_anothers(rig: Rig) -> None:
    plugin(rig.root)
    shutil.copytree(rig.root / "shop", rig.root / "a-shop")
    (rig.root / "linked").symlink_to(rig.root / "shop")
    await rig.desk.allow("plugin", "shop", "ada")
    entries = {entry.name: entry for entry in await rig.desk.plugins()}
    assert entries["shop"].state == "trusted"
    assert "it calls itself shop: that name is taken by" in entries["a-shop"].why
    assert "it is a link" in entries["linked"].why
    shutil.rmtree(rig.root / "shop")
    entries = {entry.name: entry for entry in await rig.desk.plugins()}
    assert "the folder is to be called so too" in entries["a-shop"].why


async def test_only_so_many_are_read(rig: Rig) -> None:
    for number in range(MOST + 1):
        plugin(rig.root, f"p{number:03}")
    entries = await rig.desk.plugins()
    assert len(entries) == MOST + 1
    assert entries[-1].why == f"{MOST + 1} plugins: only the first {MOST} are read"


CHANGES = st.sampled_from(["byte", "shorter", "longer", "added", "removed", "renamed", "mode"])


@settings(max_examples=60, deadline=None)
@given(CHANGES, st.data())
def test_whatever_changes_in_it_it_is_off_and_as_it_was_it_is_on(
    change: str, data: st.DataObject
) -> None:
    with tempfile.TemporaryDirectory() as place:
        asyncio.run(_changed(Rig(Path(place)), change, data))


async def _changed(rig: Rig, change: str, data: st.DataObject) -> None:
    folder = plugin(rig.root)
    await rig.desk.allow("plugin", "shop", "ada")
    assert (await rig.only()).state == "trusted"
    names = sorted(str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file())
    file = folder / data.draw(st.sampled_from(names))
    was, mode = file.read_bytes(), file.stat().st_mode
    other = file.with_name(f"{file.name}.{data.draw(st.text('abc', min_size=1, max_size=3))}")
    match change:
        case "byte":
            at = data.draw(st.integers(0, len(was) - 1))
            bit = 1 << data.draw(st.integers(0, 7))
            file.write_bytes(was[:at] + bytes([was[at] ^ bit]) + was[at + 1 :])
        case "shorter":
            file.write_bytes(was[:-1])
        case "longer":
            file.write_bytes(was + b"\n")
        case "added":
            other.write_bytes(data.draw(st.sampled_from([b"", was])))
        case "removed":
            file.unlink()
        case "renamed":
            file.rename(other)
        case _:
            file.chmod(mode ^ 0o100)
    entry = await rig.only()
    assert entry.state in ("changed", "broken")
    assert rig.plugins.trusted == ()
    assert rig.plugins.spelled("/plugin:shop:order tea") is None
    other.unlink(missing_ok=True)
    file.write_bytes(was)
    file.chmod(mode)
    assert (await rig.only()).state == "trusted"
    assert rig.plugins.spelled("/plugin:shop:order tea") == "Order tea now."


async def test_what_is_used_is_a_copy_of_what_was_trusted(rig: Rig) -> None:
    folder = plugin(rig.root)
    rig.copies.mkdir()
    (rig.copies / "left").write_text("from an earlier life")
    assert (await rig.only()).copy is None
    assert (rig.copies / "left").exists()
    await rig.desk.allow("plugin", "shop", "ada")
    copy = (await rig.only()).copy
    assert copy is not None
    assert not (rig.copies / "left").exists()
    assert read_plugin(copy)[0].digest == read_plugin(folder)[0].digest
    (copy / "till").write_text("#!/bin/sh\necho mine\n")
    (copy / "more").write_text("x")
    await rig.desk.plugins()
    assert read_plugin(copy)[0].digest == read_plugin(folder)[0].digest
    (folder / "till").write_text("#!/bin/sh\necho other\n")
    assert (await rig.only()).state == "changed"
    assert "echo other" not in (copy / "till").read_text()
    await rig.desk.allow("plugin", "shop", "ada")
    assert (await rig.only()).copy != copy  # so that programs of the old one are ended


async def test_a_copy_that_is_laid_anew_leaves_what_is_in_use_as_it_is(rig: Rig) -> None:
    """A program of it reads on what it began with, and keeps the folder it works in."""
    plugin(rig.root)
    await rig.only()
    await rig.desk.allow("plugin", "shop", "ada")
    copy = (await rig.only()).copy
    assert copy is not None
    till, text = copy / "till", (copy / "till").read_text()
    with till.open() as reading:
        inside = os.open(copy, os.O_RDONLY)
        try:
            (copy / "left.pid").write_text("1")
            till.chmod(0o600)
            await rig.desk.plugins()
            assert (till.read_text(), till.stat().st_mode & 0o777) == (text, 0o700)
            assert not (copy / "left.pid").exists()
            assert os.fstat(inside).st_ino != copy.stat().st_ino
            assert reading.read() == text
        finally:
            os.close(inside)
    assert [path.name for path in rig.copies.iterdir()] == [copy.name]


async def test_what_one_may_do_is_said_before_and_a_change_waits_anew(rig: Rig) -> None:
    folder = plugin(rig.root)
    (waiting,) = await rig.desk.waiting()
    assert (waiting.kind, waiting.name, waiting.where) == ("plugin", "shop", str(folder))
    assert waiting.may.startswith(
        "runs x; in the sandbox, with the workspace: programs of hooks without network, MCP servers with the network;"
        " brings skills, which instruct the model; brings the"
    )
    assert "/plugin:shop:order, /plugin:shop:stock:count (7 files, 1 KiB)" in waiting.may
    await rig.desk.allow("plugin", "shop", "ada", digest=waiting.digest)
    assert rig.told == []
    (folder / "till").write_text("x")
    assert (await rig.only()).state == "changed"
    assert rig.told == []  # a card asks (ohmo.approvals.trust_cards)
    with pytest.raises(NothingToTrust):
        await rig.desk.allow("plugin", "shop", "ada", digest=waiting.digest)
    assert await rig.desk.revoke("plugin", "shop") == 1
    assert (await rig.only()).state == "untrusted"


async def test_the_owner_is_told_whatever_puts_a_trusted_one_off(rig: Rig) -> None:
    folder = plugin(rig.root)
    await rig.desk.allow("plugin", "shop", "ada")
    (folder / "plugin.yaml").write_text("name: [")
    assert (await rig.only()).state == "broken"
    assert "The plugin shop is off: plugin.yaml:1" in rig.told[0]
    shutil.rmtree(folder)
    assert await rig.states() == {}
    assert "its folder is gone" in rig.told[1]
    await rig.states()
    assert len(rig.told) == 2


async def test_what_a_broken_one_lacks_is_said_to_whoever_allows_it(rig: Rig) -> None:
    folder = plugin(rig.root)
    (folder / "plugin.yaml").write_text("name: shop\nskills: more\nskills_dir: less\n")
    (one,) = await rig.desk.waiting()
    assert "skills and skills_dir are one key; write one of them" in one.broken
    with pytest.raises(NothingToTrust, match="skills and skills_dir are one key"):
        await rig.desk.allow("plugin", "shop", "ada")


async def test_of_two_names_that_are_alike_none_counts(rig: Rig) -> None:
    plugin(rig.root, "my_shop")
    plugin(rig.root, "My-Shop")
    entries = await rig.desk.plugins()
    assert {entry.state for entry in entries} == {"broken"}
    assert all("too much like that of" in entry.why for entry in entries)


def test_only_what_a_command_begins_with_is_no_word_of_it(tmp_path: Path) -> None:
    text = "Do A.\n\n---\nNever do B.\n---\nDo C."
    slow = "a---\n" * 50_000  # read at once, whatever stands in it
    folder = plugin(tmp_path, **{"commands/a.md": text, "commands/b.md": slow})
    found, _ = read_plugin(folder)
    assert found.commands["a"] == text
    assert found.commands["b"] == slow.strip()


def test_a_command_is_the_words_of_its_file() -> None:
    files = {"order": "Order $ARGUMENTS, $ARGUMENTS!", "count": "Count."}
    words = named({"shop": files}, ())
    assert spelled("/plugin:shop:order tea\nnow", words) == "Order tea\nnow, tea\nnow!"
    assert spelled(" /Plugin:Shop:Order@ohmo_bot", words) == "Order , !"
    assert spelled("/plugin:shop:count the tea", words) == "Count.\n\nthe tea"
    for text in ("/plugin:shop:other", "say /plugin:shop:count", "/plugin:", "/plugin shop:count"):
        assert spelled(text, words) is None
    for short in ("/order tea", "/Shop:order@ohmo_bot tea"):
        assert spelled(short, words) == "Order tea, tea!"
    for before in ("", "/plan ", "/steer ", "/PLAN@ohmo_bot  "):
        assert is_order(f"{before}/plugin:shop:other words", ())
        assert of_plugin(f"{before}/Plugin:shop:other words") == "plugin:shop:other"
    assert of_plugin("/plan say /plugin:shop:other") is None
    assert "`ohmo plugins list`" in unknown("plugin:shop:other", ())


async def test_parts_that_mean_nothing_here_are_said(rig: Rig) -> None:
    plugin(rig.root, **{"agents/reviewer.md": "Review.", ".lsp.json": "{}"})
    assert (await rig.only()).idle == ("its agents and LSP servers do nothing here yet",)
    (waiting,) = await rig.desk.waiting()
    assert waiting.may.endswith("; its agents and LSP servers do nothing here yet")
    plugin(rig.root, manifest="name: shop\noutputStyles: ./styles\n")
    (line,) = (await rig.only()).idle
    assert line.startswith("its agents and output styles and LSP servers")


@pytest.mark.parametrize(
    ("words", "said", "read"),
    [
        ("PR $1, $2: $ARGUMENTS", "456 'very high' it", "PR 456, very high: 456 'very high' it"),
        ("From $0 to $1.", 'Vue "React 19"', "From Vue to React 19."),
        ("$ARGUMENTS[1] before $ARGUMENTS[0]", "a b", "b before a"),
        ("$1 and $2", "one", "one and $2"),
        ("It costs $1.50 or $100.", "tea", "It costs $1.50 or $100.\n\ntea"),
        ("Say $1.", "$ARGUMENTS $2", "Say $ARGUMENTS."),
        ("Say $1.", "it's", "Say it's."),
        ("Say $1", "", "Say $1"),
        ("$1" * 30, "x", "x" * 20 + "$1" * 10),
    ],
)
def test_places_of_single_words_are_filled(words: str, said: str, read: str) -> None:
    assert spelled(f"/order {said}", {"order": words}) == read


def test_a_short_name_means_one_command_and_goes_before_nothing() -> None:
    """Nor does one that looks like the whole name of another."""
    brought = {
        "Shop": {
            "order": "a",
            "stop": "b",
            "mill:grind": "c",
            "Tea": "d",
            "plugin:mill:weigh": "h",
        },
        "plugin": {"mill:order": "i"},
        "mill": {"Order": "e", "grind": "f", "weigh": "g"},
    }
    words = named(brought, {"stop", "tea"})
    short = {name: said for name, said in words.items() if not name.startswith("plugin:")}
    assert short == {
        "shop:order": "a",
        "shop:stop": "b",
        "shop:mill:grind": "c",
        "shop:tea": "d",
        "shop:plugin:mill:weigh": "h",
        "grind": "f",
        "weigh": "g",
        "mill:weigh": "g",
    }
    for plugin, files in brought.items():
        for name, said in files.items():
            assert words[f"plugin:{plugin}:{name}".lower()] == said
