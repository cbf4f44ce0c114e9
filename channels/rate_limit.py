"""Revisions of drafts rest after a rate limit, so that final texts get through; one that is refused
is dropped, because a newer one follows."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager

from channels.errors import RateLimited, Rejected


class DraftPause:
    """Of one account."""

    def __init__(self) -> None:
        self._until = 0.0  # monotonic

    @property
    def active(self) -> bool:
        return time.monotonic() < self._until

    @contextmanager
    def observe(self) -> Generator[None]:
        """Around one revision. Rejected is swallowed, and so is RateLimited, whose wait begins
        now."""
        try:
            yield
        except RateLimited as limited:
            self._until = time.monotonic() + limited.retry_after
        except Rejected:
            return
