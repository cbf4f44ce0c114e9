"""The rate limits of the scripted model server: really counted, told in headers, refused with
429."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

from tests.platforms.model.script import Turn


@dataclass
class Limits:
    """No more than ``requests`` and ``tokens`` (of what is asked) within any ``window`` of seconds;
    0: any number. ``told``: whether headers say what is left; a refusal says when to come again in
    any case."""

    requests: int = 0
    tokens: int = 0
    window: float = 60.0
    told: bool = True
    clock: Callable[[], float] = time.monotonic
    refused: int = 0
    taken: deque[tuple[float, int]] = field(default_factory=deque[tuple[float, int]])

    def over(self, size: int) -> Turn | None:
        """The refusal of a request of so many tokens; None: it is let through and counted."""
        now = self.clock()
        while self.taken and self.taken[0][0] <= now - self.window:
            self.taken.popleft()
        used = sum(tokens for _, tokens in self.taken)
        if (self.requests and len(self.taken) >= self.requests) or (
            self.tokens and self.taken and used + size > self.tokens
        ):
            self.refused += 1
            again = self.taken[0][0] + self.window - now
            return Turn(status=429, message="Rate limit reached", retry_after=again)
        self.taken.append((now, size))
        return None

    def headers(self, path: str) -> dict[str, str]:
        """In the words of the wire."""
        headers: dict[str, str] = {}
        until = max((at for at, _ in self.taken), default=self.clock()) + self.window
        resets = until - self.clock()
        used = {"requests": len(self.taken), "tokens": sum(tokens for _, tokens in self.taken)}
        for kind, limit in (("requests", self.requests), ("tokens", self.tokens)):
            if not (limit and self.told):
                continue
            left = str(max(0, limit - used[kind]))
            if path == "/v1/messages":
                at = (datetime.now(UTC) + timedelta(seconds=resets)).isoformat()
                words = {"limit": str(limit), "remaining": left, "reset": at}
                headers |= {f"anthropic-ratelimit-{kind}-{name}": words[name] for name in words}
            else:
                said = f"{int(resets // 60)}m{resets % 60:.3f}s"
                words = {"limit": str(limit), "remaining": left, "reset": said}
                headers |= {f"x-ratelimit-{name}-{kind}": words[name] for name in words}
        return headers
