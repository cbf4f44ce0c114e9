"""A plugin in the published layout of Claude Code on the real daemon: nothing of it takes part
before its owner trusts it, all of it does then, and nothing when one byte has changed."""

from __future__ import annotations

import json
import os
import shutil
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from tests.faults.daemon import until
from tests.journeys.at_keyboard import Keyboard, keyboard
from tests.journeys.test_journey_mcp import SERVER, becomes, calls, gone, program
from tests.platforms.model.script import Call, Turn
from tests.platforms.model.server import ModelServer

pytestmark = pytest.mark.timeout(240)
STOCK = "mcp__plugin_shop_stock__stock"
GUARD = '#!/bin/sh\ncase "$0" in "$CLAUDE_PLUGIN_ROOT"/*) echo not on a friday >&2; exit 2;; esac\n'


def plugin(home: Path, state: Path) -> Path:
    folder = home / "plugins" / "shop"
    files = {
        ".claude-plugin/plugin.json": json.dumps(
            {"name": "shop", "version": "1.2.0", "description": "Runs the shop.", "author": {}}
        ),
        "skills/tea/SKILL.md": "---\nname: tea\ndescription: How tea is sold.\n---\nWeigh it.\n",
        "commands/order.md": "---\ndescription: Orders.\n---\nOrder $ARGUMENTS from the mill.\n",
        "commands/tea.md": "No skill.",
        "commands/status.md": "Weigh the status.",
        "commands/weigh.md": "Weigh all.",
        "scripts/guard.sh": GUARD,
        "server.py": SERVER.read_text(),
        "hooks/hooks.json": json.dumps(
            {
                "description": "Guards the till.",
                "hooks": {
                    "PreToolUse": [
                        {
                            "matcher": "Bash",
                            "hooks": [
                                {
                                    "type": "command",
                                    "command": '"${CLAUDE_PLUGIN_ROOT}"/scripts/guard.sh',
                                }
                            ],
                        }
                    ]
                },
            }
        ),
        ".mcp.json": json.dumps(
            {
                "stock": {
                    "command": sys.executable,
                    "args": ["${CLAUDE_PLUGIN_ROOT}/server.py", str(state)],
                }
            }
        ),
    }
    for name, text in files.items():
        file = folder / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)
    (folder / "scripts" / "guard.sh").chmod(0o755)
    return folder


async def state_of(home: Keyboard, name: str) -> str:
    rows = json.loads((await home.ohmo("plugins", "list", "--json")).out)
    (row,) = [one for one in rows if one["name"] == name]
    return str(row["state"])


async def guarded(home: Keyboard, server: ModelServer) -> bool:
    """Whether its hook refused a command."""
    made = home.work / "made"
    made.unlink(missing_ok=True)
    server.next(Turn(calls=(Call("Bash", {"command": "touch made"}),)), Turn(text="so be it"))
    assert (await home.ohmo("-p", "make it", "--allow", "Bash")).out.strip() == "so be it"
    refused = "not on a friday" in server.asked[-1].raw.decode()
    assert made.exists() is not refused
    return refused


async def orders(home: Keyboard, server: ModelServer) -> bool:
    """Whether its command is the words the model reads."""
    before = len(server.asked)
    said = await home.ohmo("-p", "/plugin:shop:order ten bags")
    if len(server.asked) == before:
        assert "No trusted plugin has /plugin:shop:order" in said.err, said
        return False
    sent = server.asked[-1].raw.decode()
    assert "/plugin:shop" not in sent
    assert "description: Orders" not in sent
    return "Order ten bags from the mill." in sent


async def skilled(home: Keyboard, server: ModelServer) -> bool:
    """Whether its skill is there."""
    server.next(Turn(calls=(Call("Skill", {"name": "tea"}),)), Turn(text="done"))
    before = len(server.asked)
    assert (await home.ohmo("-p", "sell tea")).out.strip() == "done"
    read = "Weigh it." in server.asked[-1].raw.decode()
    assert not read or "- tea: How tea is sold." in server.asked[before].raw.decode()
    return read


async def off(home: Keyboard, server: ModelServer) -> None:
    await gone(home, "plugin_shop_stock")
    assert not await guarded(home, server)
    assert not await orders(home, server)
    assert not await skilled(home, server)


async def test_a_published_plugin_is_off_until_trusted_and_off_again_when_a_byte_changes(
    tmp_path: Path,
) -> None:
    server = ModelServer()
    async with keyboard(tmp_path, server, running=False) as home:
        folder = plugin(home.home, tmp_path / "state")
        await home.daemon.start()

        await off(home, server)
        assert "plugin shop" in (await home.ohmo("doctor")).out
        listed = await home.ohmo("plugins", "list")
        assert "nobody trusts it yet: ohmo trust allow plugin shop" in listed.out
        assert 'runs at pre_tool_use: "${CLAUDE_PLUGIN_ROOT}"/scripts/guard.sh' in listed.out
        assert f"server plugin_shop_stock: {sys.executable} {folder}/server.py" in listed.out
        assert await state_of(home, "shop") == "untrusted"

        allowed = await home.ohmo("trust", "allow", "plugin", "shop")
        assert allowed.code == 0, allowed.err
        assert "plugin shop: it runs at pre_tool_use:" in allowed.err
        assert "brings the commands /plugin:shop:order" in allowed.err
        assert await state_of(home, "shop") == "trusted"
        await becomes(home.daemon, "plugin_shop_stock", "connected")
        assert await guarded(home, server)
        assert await orders(home, server)
        for said, read in (
            ("/order ten bags", "Order ten bags from the mill."),
            ("/Shop:order ten bags", "Order ten bags from the mill."),
            ("/weigh it", "Weigh all."),
            ("/tea green", "/tea green"),
        ):
            server.next(Turn(text="done"))
            assert (await home.ohmo("-p", said)).out.strip() == "done"
            assert read in server.asked[-1].raw.decode()
        before = len(server.asked)
        assert "Weigh" not in (await home.ohmo("-p", "/status")).out
        assert len(server.asked) == before
        assert await skilled(home, server)
        skills = json.loads((await home.ohmo("skills", "list", "--json")).out)
        sources = [row["source"] for row in skills if row["state"] == "ready"]
        assert sources == ["plugin", "bundled", "bundled", "bundled"]
        server.next(calls(STOCK, item="tea"), Turn(text="Twelve."))
        said = await home.ohmo("-p", "how much tea?", "--allow", "mcp__plugin_shop_stock")
        assert said.out.strip() == "Twelve.", said.err
        assert "12 boxes of tea" in server.asked[-1].raw.decode()

        # what it needs later is what was trusted, not what lies there
        (folder / "scripts" / "guard.sh").write_text(GUARD.replace("friday", "monday"))

        async def changed() -> bool:
            return await state_of(home, "shop") == "changed"

        await until("the changed plugin is off", changed)
        await off(home, server)
        assert "It changed since it was trusted" in str(home.daemon.rows("SELECT body FROM outbox"))
        (folder / "scripts" / "guard.sh").write_text(GUARD)
        assert await state_of(home, "shop") == "trusted"
        assert await guarded(home, server)

        await home.daemon.stop()
        await home.daemon.start()
        await becomes(home.daemon, "plugin_shop_stock", "connected")
        assert await orders(home, server)
        assert (await home.ohmo("trust", "revoke", "plugin", "shop")).code == 0
        await off(home, server)


def processes(state: Path) -> set[str]:
    """Of the server that is told this file."""
    found: set[str] = set()
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            if str(state).encode() in entry.read_bytes().split(b"\0"):
                found.add(entry.parent.name)
    return found


@pytest.mark.needs("linux")
async def test_servers_of_plugins_that_come_later_start_and_the_others_go_on(
    tmp_path: Path,
) -> None:
    """In a house that began with a server of its own, and without a plugin."""
    mine, shops, mills = tmp_path / "mine", tmp_path / "shops", tmp_path / "mills"
    async with keyboard(tmp_path, ModelServer(), mcp={"own": program(mine)}) as home:
        await becomes(home.daemon, "own", "connected")
        folder = plugin(home.home, shops)
        assert (await home.ohmo("trust", "allow", "plugin", "shop")).code == 0
        await becomes(home.daemon, "plugin_shop_stock", "connected")
        before = (processes(mine), processes(shops))
        assert all(before)
        shutil.copytree(folder, folder.parent / "mill")
        manifest = folder.parent / "mill" / ".claude-plugin" / "plugin.json"
        manifest.write_text(json.dumps({"name": "mill"}))
        served = folder.parent / "mill" / ".mcp.json"
        served.write_text(served.read_text().replace(str(shops), str(mills)))
        assert (await home.ohmo("trust", "allow", "plugin", "mill")).code == 0
        await becomes(home.daemon, "plugin_mill_stock", "connected")
        assert processes(mills)
        assert (await home.ohmo("trust", "revoke", "plugin", "mill")).code == 0
        await gone(home, "plugin_mill_stock")
        assert (processes(mine), processes(shops)) == before


async def test_servers_that_come_with_the_next_start_are_said(tmp_path: Path) -> None:
    """In a house that began with neither a server nor a plugin."""
    async with keyboard(tmp_path, ModelServer()) as home:
        plugin(home.home, tmp_path / "state")
        assert "no MCP server is configured" in (await home.ohmo("mcp", "list")).out
        assert (await home.ohmo("trust", "allow", "plugin", "shop")).code == 0
        said = (await home.ohmo("mcp", "list")).out
        assert "come with the next start of ohmo: those of the plugins shop" in said
        await home.daemon.stop()
        await home.daemon.start()
        await becomes(home.daemon, "plugin_shop_stock", "connected")


async def test_what_is_wrong_with_a_plugin_is_one_line_and_stops_nobody(tmp_path: Path) -> None:
    server = ModelServer()
    async with keyboard(tmp_path, server) as home:
        good = plugin(home.home, tmp_path / "state")
        assert (await home.ohmo("trust", "allow", "plugin", "shop")).code == 0
        (good.parent / os.fsdecode(b"odd\xff\x1b")).mkdir()
        (good.parent / "away").symlink_to("/root/nothing")
        for name in ("taken", "half", "out", "huge", "newer", "str\u00e4nge", "event"):
            shutil.copytree(good, good.parent / name)
            manifest = good.parent / name / ".claude-plugin" / "plugin.json"
            manifest.write_text(json.dumps({"name": name}))
        shutil.copy(good / ".claude-plugin" / "plugin.json", good.parent / "taken/.claude-plugin")
        (good.parent / "half" / ".claude-plugin" / "plugin.json").write_text('{"name": ')
        (good.parent / "out" / "notes").symlink_to(home.home / "config.yaml")
        (good.parent / "huge" / "big").write_bytes(b" " * (10 << 20))
        (good.parent / "newer" / "plugin.yaml").write_text("name: newer\nrequires: ohmo>=99\n")

        shown = (await home.ohmo("plugins", "list")).out
        for why in (
            "it calls itself shop: that name is taken by",
            ".claude-plugin/plugin.json: not valid JSON",
            "notes: a link that leads out of the folder",
            "it is larger than 8 MiB",
            "it needs ohmo 99 or newer",
            "is not letters, digits and single - or _",
            "there is no plugin.yaml and no .claude-plugin/plugin.json",
            "it is a link; copy the folder",
        ):
            assert why in shown
        assert await state_of(home, "shop") == "trusted"
        assert await guarded(home, server)
        assert "plugins.sound" in (await home.ohmo("doctor", "--json")).out
        assert (await home.ohmo("trust", "allow", "plugin", "huge")).code != 0
