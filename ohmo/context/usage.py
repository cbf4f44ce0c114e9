"""What a request is made of, and how much of it: for `/context` and whoever asks."""

from __future__ import annotations

from typing import Literal

from channels.record import record
from channels.text import some


@record
class ContextPart:
    """What takes place in a request. ``tokens``: estimated, rather too many."""

    kind: Literal["section", "tools", "conversation"]
    name: str
    tokens: int
    source: str = ""


@record
class ContextUsage:
    """What the next request of a thread would be made of. ``window``: tokens the model takes;
    ``budget``: those of them that the conversation may take; ``left_out``: steps of the session
    that are not sent any more; ``shortened``: tokens before and after, each time it was made
    shorter; ``too_big``: why it does not fit, and what to do."""

    thread: str
    model: str
    window: int
    budget: int
    parts: tuple[ContextPart, ...]
    left_out: int
    shortened: tuple[tuple[int, ...], ...] = ()
    too_big: str = ""

    @property
    def tokens(self) -> int:
        return sum(part.tokens for part in self.parts)

    def lines(self) -> list[str]:
        """For people, a part each."""
        room = f"{self.budget} are for the conversation"
        if self.too_big:
            room = f"it does not fit: {self.too_big}"
        lines = [f"{self.tokens} of {self.window} tokens ({self.model}); {room}"]
        for part in self.parts:
            source = f", {part.source}" if part.source else ""
            lines.append(f"{part.kind} {part.name}: {part.tokens}{source}")
        if self.shortened:
            before, after = self.shortened[-1]
            times = some(len(self.shortened), "time")
            lines.append(f"made shorter {times}, last from about {before} to {after} tokens")
        if self.left_out:
            lines.append(f"{self.left_out} older steps are not sent any more")
        return lines
