"""What people decide about a turn while it runs: what their later messages do, and words it shall
read now."""

from __future__ import annotations

from ohmo.sessions.parts import Busy


class Helm:
    """Of one claim. What was decided before it began stands in the thread's settings."""

    def __init__(self) -> None:
        self.busy: Busy | None = None  # chosen while it ran
        self._called = False

    def call(self) -> None:
        """Words wait that were said to be read now (``/steer WORDS``)."""
        self._called = True

    def called(self) -> bool:
        """Once for each call."""
        called, self._called = self._called, False
        return called
