"""Between the servers of the configuration and the SDK that speaks to them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AbstractAsyncContextManager
from dataclasses import field
from pathlib import Path
from typing import Literal, Protocol

from channels.record import record
from ohmo.contracts.messages import Json
from ohmo.contracts.sandbox import Programs, Terms


class ServerFailed(Exception):
    """One line for people and models: what the server did, or did not."""


@record
class Endpoint:
    """How a server is reached, with its secrets revealed: a program (``argv`` and its whole
    environment) or an address. ``terms``: what a program may; ``programs``: None: no walls."""

    name: str
    kind: Literal["stdio", "http", "sse"]
    cwd: Path
    argv: tuple[str, ...] = ()
    env: Mapping[str, str] | None = None
    url: str = ""
    headers: Mapping[str, str] | None = None
    login: Path | None = None  # where a login at it is kept, when there was one
    terms: Terms = Terms()
    programs: Programs | None = field(default=None, compare=False, repr=False)


def login_of(home: Path, server: str) -> Path:
    """Where a login at a server of the configuration is kept."""
    return home / "state" / "mcp" / "logins" / f"{server}.json"


Of = Literal["tool", "resources", "resource", "prompts", "prompt"]


@record
class Definition:
    """A tool as its server tells of it: foreign words, all of them. ``reads_only``: the server's
    claim. ``of``: what of the server it asks."""

    name: str
    description: str
    schema: Mapping[str, Json]
    reads_only: bool = False
    of: Of = "tool"

    @property
    def digest(self) -> str:
        """SHA-256 over all that may instruct a model or mislead a person, in hex."""
        whole = [self.name, self.description, self.schema, self.reads_only]
        text = json.dumps(whole, sort_keys=True, ensure_ascii=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()


@record
class Offer:
    """What a server tells of its tools. ``left_out``: what of its list is no tool, each with the
    reason in one line."""

    tools: tuple[Definition, ...]
    left_out: Mapping[str, str]


@record
class Answer:
    """``images``: media type and bytes."""

    text: str
    error: bool = False
    images: tuple[tuple[str, bytes], ...] = ()


class Session(Protocol):
    """Only for the task that opened it and its children."""

    async def definitions(self) -> Offer:
        """Raises ServerFailed."""
        ...

    async def call(self, tool: Definition, arguments: Mapping[str, Json], seconds: float) -> Answer:
        """Raises ServerFailed, TimeoutError."""
        ...

    async def alive(self) -> bool:
        """Whether it answers at all."""
        ...

    async def ended(self) -> str:
        """Returns when the connection is over: why, in one line."""
        ...


Changed = Callable[[], None]  # the server says that its tools are others now
Connect = Callable[[Endpoint, Changed], AbstractAsyncContextManager[Session]]
Ask = Callable[[Definition, Mapping[str, Json]], Awaitable[Answer]]
"""Raises ServerFailed, TimeoutError."""
