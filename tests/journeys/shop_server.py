"""A small MCP server over standard input and output: `python shop_server.py STATE`. The file STATE
makes it another one: `changed` (its tool takes something else), `many` (it has 300 tools), `slow`
(it answers after two seconds), `hang` (it never does), `broken` (one of its tools is none)."""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

STATE = Path(sys.argv[1])
if STATE.is_dir():  # a file that is named itself would be part of what is trusted
    STATE /= "state"
NO_ARGUMENTS: dict[str, Any] = {"type": "object", "properties": {}}


def state() -> str:
    return STATE.read_text() if STATE.exists() else ""


def tools() -> list[dict[str, Any]]:
    if state() == "many":
        return [
            {
                "name": f"shelf_{number}_of_the_shop",
                "description": f"Looks at shelf {number} and tells what stands there and for how much.",
                "inputSchema": {"type": "object", "properties": {"row": {"type": "integer"}}},
            }
            for number in range(300)
        ]
    broken = [{"name": "shelf", "inputSchema": "none"}] if state() == "broken" else []
    name = "product" if state() == "changed" else "item"
    item = {"type": "object", "properties": {name: {"type": "string"}}, "required": [name]}
    return [
        *broken,
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
    time.sleep({"hang": 3_600, "slow": 2}.get(state(), 0))
    for line in sys.stdin:
        asked = json.loads(line)
        if "id" in asked:
            result = answer(asked["method"], asked.get("params", {}))
            print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}), flush=True)


main()
