"""A hook: no weather of Atlantis, that of Saigon is asked under its other name, and Limbo takes for ever; writes what
turns said into a file."""

from __future__ import annotations

import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ohmo.contracts.hooks import PythonHook


def run(event: dict[str, Any]) -> Mapping[str, Any] | None:
    if event["event"] == "turn_end":
        Path(event["cwd"], "said").write_text(event["text"])
        return None
    match event["arguments"]["city"]:
        case "Atlantis":
            return {"decision": "block", "reason": "it sank"}
        case "Saigon":
            event["arguments"]["city"] = "nothing: this is a copy"
            return {"arguments": {"city": "Ho Chi Minh City"}}
        case "Limbo":
            time.sleep(600)
        case "Babel":
            raise LookupError("nobody understands it")
    return None


HOOK = PythonHook("umbrella", ("pre_tool_use", "turn_end"), run, match="Weather", timeout=1)
LOST = PythonHook("lost", ("pre_tool_use",), run, match="Weather", timeout=600)
