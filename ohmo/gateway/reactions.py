"""What a reaction to a card means. Pure."""

from __future__ import annotations

import re
from typing import Literal

# Slack names emoji, with "::skin-tone-2" behind; Feishu has names of its own; the others send the
# character.
_YES = frozenset(
    {"👍", "✅", "✔", "☑", "+1", "thumbsup", "white_check_mark", "heavy_check_mark", "checkmark"}
)
_NO = frozenset(
    {
        "👎",
        "❌",
        "✖",
        "🚫",
        "-1",
        "thumbsdown",
        "x",
        "heavy_multiplication_x",
        "crossmark",
        "cross_mark",
        "no_entry_sign",
    }
)
_TONE = re.compile("[\U0001f3fb-\U0001f3ff\ufe0e\ufe0f]|::skin-tone-[2-6]")


def verdict_of(emoji: str) -> Literal["allowed", "denied"] | None:
    """Allow once, deny, or nothing."""
    name = _TONE.sub("", emoji).strip(": ").casefold()
    return "allowed" if name in _YES else "denied" if name in _NO else None
