"""Notices a model that does the same thing again and again."""

from __future__ import annotations

import json
from collections import Counter

from ohmo.contracts.messages import ToolCall, ToolResult

HINT_AT = 3
STOP_AT = 5


class LoopGuard:
    """Counts equal calls with equal results within one run of a turn."""

    def __init__(self) -> None:
        self._seen: Counter[tuple[str, str, str]] = Counter()
        self.stuck: str | None = None  # the tool of a call that was made ``STOP_AT`` times

    def note(self, call: ToolCall, result: ToolResult) -> str | None:
        """A hint to add to the result, or None."""
        key = (
            call.name,
            json.dumps(dict(call.arguments), sort_keys=True, default=str),
            result.text,
        )
        self._seen[key] += 1
        if self._seen[key] >= STOP_AT:
            self.stuck = call.name
        if self._seen[key] >= HINT_AT:
            return (
                f"(This same call has now given this same result {self._seen[key]} times. Do"
                " something else, or say what stops you.)"
            )
        return None
