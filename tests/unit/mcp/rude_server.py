"""A program that misbehaves: `python rude_server.py WAY`. Plain JSON-RPC, no SDK."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

WAY = sys.argv[1]
ABLE: dict[str, Any] = {"resources": {}, "prompts": {}} if WAY == "pages" else {}


MODERN: dict[str, Any] = {}
if WAY == "modern":  # the revision of 2026-07-28, and no other
    MODERN = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}


def say(message: dict[str, Any]) -> None:
    sys.stdout.write(json.dumps({"jsonrpc": "2.0"} | message) + "\n")
    sys.stdout.flush()


def tools() -> list[dict[str, Any]]:
    plain = {"type": "object", "properties": {}}
    if WAY == "many":
        return [{"name": f"t{n}", "description": "d", "inputSchema": plain} for n in range(10_000)]
    if WAY == "circle":
        node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/n"}}}
        circle = {
            "type": "object",
            "properties": {"x": {"$ref": "#/$defs/n"}},
            "$defs": {"n": node},
        }
        return [
            {"name": "circle", "description": "d", "inputSchema": circle},
            {"name": "fine", "description": "d", "inputSchema": plain},
        ]
    one = {"name": "one", "description": "d", "inputSchema": plain}
    if WAY == "promises":
        slow = {"type": "object", "properties": {"x": {"type": "string", "pattern": "^(a+)+$"}}}
        return [one | {"outputSchema": slow}]
    if WAY in ("mixed", "modern"):
        listed = {"name": "list", "inputSchema": []}
        return [{"name": "o\x1b[31mdd"}, one, {"inputSchema": plain}, listed, 5, one | {"title": 7}]
    return [one]


def page(method: str, cursor: str | None) -> dict[str, Any]:
    """One entry on each of three pages."""
    at = int(cursor or 1)
    entry = {"name": f"e{at}"} | ({"uri": f"x://{at}"} if method == "resources/list" else {})
    more = {"nextCursor": str(at + 1)} if at < 3 else {}
    return {method.partition("/")[0]: [entry]} | more


def main() -> None:
    listed = 0
    if WAY == "hang":
        time.sleep(3_600)
    if WAY == "exit":
        sys.exit("npm error 404\nno such \x1b[31mpackage")
    if WAY == "garbage":
        for _ in range(1_000):
            print("}{ no message", flush=True)
        time.sleep(3_600)
    for line in sys.stdin:
        asked = json.loads(line)
        method, number = asked.get("method"), asked.get("id")
        if WAY == "modern" and method == "server/discover":
            able = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {}}}
            say({"id": number, "result": able | MODERN})
        elif WAY == "modern" and method == "initialize":
            say({"id": number, "error": {"code": -32601, "message": "no such method"}})
        elif method == "initialize":
            hello = {
                "protocolVersion": asked["params"]["protocolVersion"],
                "capabilities": {"tools": {}} | ABLE,
                "serverInfo": {"name": "rude", "version": "1"},
            }
            say({"id": number, "result": hello})
        elif method == "tools/list":
            listed += 1
            say({"id": number, "result": {"tools": 5 if WAY == "strange" else tools()} | MODERN})
            if WAY == "restless":
                say({"method": "notifications/tools/list_changed"})
        elif method in ("resources/list", "prompts/list") and WAY == "pages":
            say({"id": number, "result": page(method, asked.get("params", {}).get("cursor"))})
        elif WAY == "pages" and method == "resources/templates/list":
            say({"id": number, "error": {"code": -32601, "message": "no such method"}})
        elif method == "ping":
            say({"id": number, "result": {}})
        elif method == "tools/call":
            if WAY == "chatty":  # less garbage than would be too much, before each answer
                print("}{ no message\n" * 90, flush=True)
            if WAY == "silent":
                continue
            text = str(listed) if WAY == "restless" else "x" * (50 << 20 if WAY == "huge" else 10)
            result = {"content": [{"type": "text", "text": text}]} | MODERN
            if WAY == "promises":
                result["structuredContent"] = {"x": "a" * 40 + "!"}
            say({"id": number, "result": result})


main()
