"""What every platform's test server offers to the conformance suite, the journeys and the fault
tests."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from typing import Any, Protocol

from channels.contract import Channel


@dataclass(frozen=True, slots=True)
class Visible:
    """A message a person sees in a chat, newest text, in platform order. ``by_bot``: said by the
    agent."""

    id: str
    text: str
    by_bot: bool
    topic: str | None = None
    edits: int = 0
    choices: tuple[str, ...] = ()  # values of the buttons that can be pressed
    files: tuple[str, ...] = ()


class Rig(Protocol):
    """One platform with two people ("ada" and "bob"), one private chat each with the bot ("dm:ada",
    "dm:bob") and one group ("group"). The server is in this process or a subprocess; the adapter
    under test speaks to it through the real SDK."""

    name: str

    def settings(self) -> dict[str, Any]:
        """What stands under ``channels.<name>`` in config.yaml to reach this rig (literal secrets
        allowed), usable by a daemon in a subprocess."""
        ...

    def channel(self) -> Channel:
        """A fresh, unconnected adapter."""
        ...

    async def says(
        self,
        text: str,
        *,
        chat: str = "dm:ada",
        person: str = "ada",
        topic: str | None = None,
        mention: bool = True,
    ) -> str:
        """A person says something; returns the message's platform id. Works while the bot is
        away."""
        ...

    async def edits(self, message: str, text: str, *, chat: str = "dm:ada") -> None: ...
    async def presses(
        self, message: str, choice: str, *, chat: str = "dm:ada", person: str = "ada"
    ) -> None: ...
    async def visible(self, chat: str = "dm:ada") -> Sequence[Visible]: ...
    async def redeliver(self, message: str, *, chat: str = "dm:ada") -> None:
        """The platform delivers a known event once more (retry, twin event, or history)."""
        ...

    async def cut(self) -> None:
        """The live connection is dropped; the platform accepts new ones at once."""
        ...

    def down(self, away: bool) -> None:
        """The platform refuses connections while ``away``."""
        ...

    def lose_next_response(self) -> None:
        """The next send is carried out, its answer is lost."""
        ...

    def limit_next(self, seconds: float) -> None:
        """The next send is answered with the platform's rate limit."""
        ...

    def reject_next(self) -> None:
        """The next send is refused for its content."""
        ...

    def revoke(self, revoked: bool = True) -> None:
        """The bot's credentials stop (or start again) to be accepted."""
        ...


class RigFactory(Protocol):
    """Each ``tests/platforms/<name>/rig.py`` exports ``rig`` of this shape."""

    def __call__(self) -> AbstractAsyncContextManager[Rig]: ...
