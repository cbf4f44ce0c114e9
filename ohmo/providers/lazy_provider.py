"""A provider whose heavy half is imported at first need, in a thread."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import AsyncIterator, Callable
from typing import cast

from ohmo.contracts.errors import OhmoError, Refused
from ohmo.contracts.provider import ModelEvent, ModelRequest
from ohmo.providers.lean_imports import lean
from ohmo.providers.manifest import Client, Endpoint, Load, Manifest
from ohmo.providers.models import known
from ohmo.providers.streams import streaming


class LazyProvider:
    """Implements ``Provider``. ``warm`` may be called as soon as nothing more urgent is left to do,
    so that the first turn need not wait. ``whole``: import every module of the SDK, as Python does
    by itself."""

    def __init__(
        self, manifest: Manifest, endpoint: Endpoint, load: Load, *, whole: bool = False
    ) -> None:
        self._cover = manifest
        self._whole = whole or not manifest.sdk
        self._endpoint = endpoint
        self._load = load
        self._coming: asyncio.Future[Client] | None = None

    @property
    def name(self) -> str:
        return self._cover.name

    def window(self, model: str) -> int:
        """Tokens: the profile's word, else what the endpoint told us in an overflow error, else the
        table's."""
        if self._endpoint.window is not None:
            return self._endpoint.window
        coming = self._coming
        ready = (
            coming is not None
            and coming.done()
            and not coming.cancelled()
            and coming.exception() is None
        )
        told = coming.result().learnt_window(model) if ready and coming is not None else None
        return told if told is not None else known(model).window

    async def warm(self) -> None:
        """Import and build the client. Raises Refused with one line when its package is broken."""
        await self.client()

    async def client(self) -> Client:
        if self._coming is None or (self._coming.done() and self._coming.exception() is not None):
            self._coming = asyncio.ensure_future(self._built())
        try:
            # A turn that is stopped meanwhile must not stop the import for the others.
            return await asyncio.shield(self._coming)
        except OhmoError as error:
            raise Refused(f"{self._cover.name}: {error}") from error

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        client = await self.client()
        async with streaming(client.stream, request) as events:
            async for event in events:
                yield event

    async def aclose(self) -> None:
        if self._coming is not None and (
            not self._coming.done() or self._coming.exception() is None
        ):
            await (await self._coming).aclose()

    async def _built(self) -> Client:
        spec = self._cover.client
        found = (
            await asyncio.to_thread(self._import_quietly, spec)
            if self._cover.heavy
            else self._load(spec)
        )
        return cast("Callable[[Endpoint], Client]", found)(self._endpoint)

    def _import_quietly(self, spec: str) -> object:
        """With the collector off an SDK's thousands of classes import a fifth faster; frozen, they
        never cost a collection again."""
        running = gc.isenabled()
        gc.disable()
        try:
            with lean(self._cover.sdk, off=self._whole):
                return self._load(spec)
        finally:
            if running:
                gc.enable()
            gc.freeze()
