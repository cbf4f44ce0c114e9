"""A small MCP server over standard input and output: `python shop_server.py STATE`. The file STATE
makes it another one: `changed` (its tool takes something else), `hang` (it never answers)."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

STATE = Path(sys.argv[1])
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}


def state() -> str:
    return STATE.read_text() if STATE.exists() else ""


def tools() -> list[dict[str, Any]]:
    name = "product" if state() == "changed" else "item"
    item = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
    return [
        {"name": "stock", "description": "How much of an item is in stock.", "inputSchema": item},
        {"name": "crash", "description": "Breaks the till.", "inputSchema": NO_ARGUMENTS},
    ]


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    if method == "initialize":
        return {
            "protocolVersion": params["protocolVersion"],
            "capabilities": {"tools": {}},
            "serverInfo": {"name": "shop", "version": "1"},
        }
    if method == "tools/list":
        return {"tools": tools()}
    if method == "tools/call":
        if params["name"] == "crash":
            os._exit(3)
        (what,) = params["arguments"].values()
        return {"content": [{"type": "text", "text": f"12 boxes of {what}"}]}
    return {}


def main() -> None:
    if state() == "hang":
        time.sleep(3_600)
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            result = answer(asked["method"], asked.get("params", {}))
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)


main()
