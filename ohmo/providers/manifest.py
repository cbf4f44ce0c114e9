"""What a provider says about itself before anything heavy is imported, and what a profile says
about one endpoint."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import field
from typing import Protocol

from channels.record import record
from ohmo.contracts.provider import ModelEvent, ModelRequest

Call = Callable[[ModelRequest], AsyncIterator[ModelEvent]]
Load = Callable[[str], object]  # ohmo.discovery.load


@record
class Manifest:
    """Exported as ``MANIFEST`` by every provider's package."""

    name: str
    title: str
    models: tuple[str, ...]  # small to large; the last is the default
    key_environment: str | None  # where the key is looked for when the profile names none
    client: str  # "module:Class", built as Class(Endpoint); imports the SDK
    heavy: bool = True  # import it late, in a thread
    renderings: str = (
        ""  # "module:function" of an Endpoint: the ways its requests become bytes, without the SDK
    )
    sdk: str = (
        ""  # import name of an SDK whose packages may come lean (``ohmo.providers.lean_imports``)
    )


@record
class Endpoint:
    """One profile, its secrets resolved."""

    provider: str
    models: tuple[str, ...] = ()
    base_url: str | None = None
    api_key: str | None = field(default=None, repr=False)
    profile: str = "default"
    window: int | None = None  # tokens; overrides the table
    silence: float = 120.0  # seconds without a byte before TimedOut

    @property
    def model(self) -> str:
        """The default model: the last of the tiers."""
        return self.models[-1] if self.models else ""


class Client(Protocol):
    """The heavy half of a provider."""

    def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]: ...
    def learnt_window(self, model: str) -> int | None:
        """A window smaller than the table's that the endpoint has told us in an error."""
        ...

    async def aclose(self) -> None: ...
