"""Takes secrets out of what is written down, shown to people or told to the model: values that are
known, and whatever looks like a credential."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection
from typing import Any

from ohmo.logs.assigned import without_assigned

BLOT = "********"
REDACTED = "[redacted]"  # the same in words that are rendered: asterisks are markup there
# what a credential looks like, whoever wrote it into the line; the source is each issuer's page on
# token formats
_SHAPES = (
    r"-----BEGIN [A-Z0-9 ]*PRIVATE KEY-----.*?(?:-----END [A-Z0-9 ]*PRIVATE KEY-----|\Z)",  # PEM
    r"sk-ant-[\w-]{8,}",  # Anthropic
    r"\bsk-[A-Za-z0-9][\w-]{15,}",  # OpenAI and those who follow it
    r"\b(?:sk|rk|whsec)_(?:live_|test_)?[A-Za-z0-9]{16,}",  # Stripe
    r"\bxox[a-z]-[\w-]{8,}",  # Slack bot, user, refresh
    r"\bxapp-\d-[\w-]{8,}",  # Slack app level
    r"https://hooks\.slack\.com/services/[\w/]+",  # Slack webhook
    r"(?<!\d)\d{6,12}:[A-Za-z0-9_-]{30,}",  # Telegram bot
    r"\b(?:syt|syl|syr|mct|mcr)_[\w=+/-]{8,}",  # Matrix
    r"\b[MNO][\w-]{23,27}\.[\w-]{6}\.[\w-]{27,}",  # Discord
    r"\bgh[pousr]_[A-Za-z0-9]{16,}",  # GitHub
    r"\bgithub_pat_\w{20,}",
    r"\bglpat-[\w-]{16,}",  # GitLab
    # AWS, with the secret part that stands behind it in a table
    r"\b(?:AKIA|ASIA)[0-9A-Z]{16}\b(?:[ \t,;:|]{1,3}[A-Za-z0-9/+]{40}(?![A-Za-z0-9/+]))?",
    r"\bAIza[\w-]{30,}",  # Google API key
    r"\bya29\.[\w-]{16,}",  # Google OAuth
    r"\bhf_[A-Za-z0-9]{16,}",  # Hugging Face
    r"\bnpm_[A-Za-z0-9]{30,}",
    r"\bpypi-[\w-]{16,}",
    r"\b(?:gsk_|xai-)[A-Za-z0-9]{16,}",  # Groq, xAI
    r"\bSG\.[\w-]{16,}\.[\w-]{16,}",  # SendGrid
    r"\bohmo_[\w-]{32,}",  # ours: run/token
    r"\b\d{10}\.[0-9a-f]{16}\.[0-9a-f]{64}\b",  # ours: the cookie of a browser
    r"(?<![\w-])eyJ[\w-]{8,}\.eyJ[\w-]{8,}\.[\w-]*",  # JWT
)
_SHAPE = re.compile("|".join(_SHAPES), re.DOTALL)
_IN_CONTEXT = re.compile(  # the word before it gives it away; that word stays
    r"(?P<before>\b(?:Bearer|Basic)\s+(?!Info)|[?&](?:access_token|token|api_?key|key|code|secret|password)=)[^\s&@\"']{4,}|(?P<user>://[^/\s:@]*:)[^/\s@]+(?=@)",
    re.IGNORECASE,
)
_PRIVATE_FIELD = re.compile(
    r"(?:^|_)(?:token|password|secret|api_?key|authorization|cookie)$", re.IGNORECASE
)
# bidirectional controls reorder what a person reads; control characters command terminals; lone
# surrogates cannot be written
_UNSAFE = re.compile(
    "[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ufeff\ud800-\udfff]"
)
_SHORTEST_SECRET = 6
_SHORTEST_IN_WORDS = 8  # what is shorter may be a word that people use


class Redactor:
    """Blots out secrets. ``secrets``: the values known at this moment."""

    def __init__(self, secrets: Callable[[], Collection[str]] = frozenset) -> None:
        self._secrets = secrets
        self._known: frozenset[str] = frozenset()
        self._literal: re.Pattern[str] | None = None

    def text(self, text: str) -> str:
        """The text without secrets, control and bidirectional characters (tab and line feed
        stay)."""
        known = frozenset(value for value in self._secrets() if len(value) >= _SHORTEST_SECRET)
        if known != self._known:
            self._known = known
            self._literal = (
                re.compile(
                    "|".join(re.escape(value) for value in sorted(known, key=len, reverse=True))
                )
                if known
                else None
            )
        if self._literal is not None:
            text = self._literal.sub(BLOT, text)
        text = _SHAPE.sub(BLOT, _UNSAFE.sub("\N{REPLACEMENT CHARACTER}", text))
        text = _IN_CONTEXT.sub(lambda match: f"{match['before'] or match['user']}{BLOT}", text)
        return without_assigned(text, BLOT)

    def words(self, text: str) -> str:
        """What people or the model will read: known values, the shapes of tokens
        and what is assigned to a secret's name are taken out, everything else stays as it is."""
        for value in sorted(self._secrets(), key=len, reverse=True):
            if len(value) >= _SHORTEST_IN_WORDS and value in text:
                text = text.replace(value, REDACTED)
        return without_assigned(_SHAPE.sub(REDACTED, text), REDACTED)

    def value(self, value: Any, field: str = "") -> Any:
        """The same for everything inside lists and mappings."""
        if isinstance(value, str):
            return BLOT if value and _PRIVATE_FIELD.search(field) else self.text(value)
        if isinstance(value, dict):
            return {self.text(str(key)): self.value(item, str(key)) for key, item in value.items()}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        if isinstance(value, list):
            return [self.value(item, field) for item in value]  # pyright: ignore[reportUnknownVariableType]
        return value
