"""A provider whose SDK is imported at first need, in a thread, and lean: packages whose
``__init__`` only re-exports are not run (docs/decisions/0005)."""

from __future__ import annotations

import ast
import asyncio
import gc
import importlib
import sys
import threading
from collections.abc import AsyncIterator, Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType
from typing import cast

from ohmo.contracts.errors import OhmoError, Refused
from ohmo.contracts.provider import ModelEvent, ModelRequest
from ohmo.providers.models import Client, Endpoint, Load, Manifest, known
from ohmo.providers.wire_parts import streaming


class LazyProvider:
    """Implements ``Provider``. ``warm`` may be called as soon as nothing more urgent is left to do,
    so that the first turn need not wait. ``whole``: import every module of the SDK, as Python does
    by itself."""

    def __init__(
        self, manifest: Manifest, endpoint: Endpoint, load: Load, *, whole: bool = False
    ) -> None:
        self._manifest = manifest
        self._whole = whole or not manifest.sdk
        self._endpoint = endpoint
        self._load = load
        self._coming: asyncio.Future[Client] | None = None

    @property
    def name(self) -> str:
        return self._manifest.name

    def window(self, model: str) -> int:
        """Tokens: the profile's word, else what the endpoint told us in an overflow error, else the
        table's."""
        if self._endpoint.window is not None:
            return self._endpoint.window
        coming = self._coming
        if coming is None or not coming.done() or coming.cancelled() or coming.exception():
            return known(model).window
        learnt = coming.result().learnt_window(model)
        return known(model).window if learnt is None else learnt

    async def warm(self) -> None:
        """Import and build the client. Raises Refused with one line when its package is broken."""
        await self.client()

    async def client(self) -> Client:
        coming = self._coming
        if coming is None or (coming.done() and coming.exception() is not None):
            coming = asyncio.ensure_future(self._built())
            self._coming = coming
        try:
            # A turn that is stopped meanwhile must not stop the import for the others.
            return await asyncio.shield(coming)
        except OhmoError as error:
            raise Refused(f"{self._manifest.name}: {error}") from error

    async def stream(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        client = await self.client()
        async with streaming(client.stream, request) as events:
            async for event in events:
                yield event

    async def aclose(self) -> None:
        coming = self._coming
        if coming is not None and (not coming.done() or coming.exception() is None):
            client = await coming
            await client.aclose()

    async def _built(self) -> Client:
        spec = self._manifest.client
        if self._manifest.heavy:
            client = await asyncio.to_thread(self._import_quietly, spec)
        else:
            client = self._load(spec)
        return cast("Callable[[Endpoint], Client]", client)(self._endpoint)

    def _import_quietly(self, spec: str) -> object:
        """With the collector off an SDK's thousands of classes import a fifth faster; frozen, they
        never cost a collection again."""
        running = gc.isenabled()
        gc.disable()
        try:
            with lean(self._manifest.sdk, off=self._whole, late=self._manifest.late):
                return self._load(spec)
        finally:
            if running:
                gc.enable()
            gc.freeze()


Names = Mapping[str, tuple[str, str]]
"""Of a package: a name it shows, and the module and the name in there that it stands for."""


class LeanPackage(ModuleType):
    """A package whose ``__init__`` has not run, and perhaps never will."""

    def __getattr__(self, name: str) -> object:
        # `import *` asks for __all__, and takes everything when there is none.
        hidden = name.startswith("__") and name != "__all__"
        if "__file__" not in self.__dict__ or (hidden and name not in names_of(self)):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        found = names_of(self).get(name)
        if found is not None:
            value = getattr(importlib.import_module(found[0]), found[1])
            setattr(self, name, value)
            return value
        if PathFinder.find_spec(f"{self.__name__}.{name}", self.__path__) is not None:
            return importlib.import_module(f"{self.__name__}.{name}")  # `from . import name`
        # The whole ``__init__``, in this very module.
        object.__setattr__(self, "__class__", ModuleType)
        assert self.__spec__ is not None
        assert isinstance(self.__spec__.loader, _Loader)
        SourceFileLoader.exec_module(self.__spec__.loader, self)
        return getattr(self, name)


def names_of(package: LeanPackage) -> Names:
    """What the package's ``__init__`` imports by name from its own relatives."""
    known = package.__dict__.get("_ohmo_names")
    if known is None:
        known = re_exports(
            Path(str(package.__file__)).read_text(encoding="utf-8"), package.__name__
        )
        package.__dict__["_ohmo_names"] = known
    return known


def re_exports(source: str, package: str) -> Names:
    """``from .model import Model as Model`` at the top of ``source`` gives ``{"Model":
    ("package.model", "Model")}``."""
    found: dict[str, tuple[str, str]] = {}
    for node in ast.parse(source).body:
        if isinstance(node, ast.ImportFrom) and node.level == 1 and node.module:
            for alias in (each for each in node.names if each.name != "*"):
                found[alias.asname or alias.name] = (f"{package}.{node.module}", alias.name)
        elif isinstance(node, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
            found.pop(node.name, None)
        elif isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            for target in targets:
                if isinstance(target, ast.Name):
                    found.pop(target.id, None)
    return found


class LateModule(ModuleType):
    """Stands for a module of which only functions are wanted: each imports it when it is called,
    which for most never happens."""

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

        def function(*args: object, **named: object) -> object:
            return getattr(importlib.import_module(self.__name__), name)(*args, **named)

        return function


class _Loader(SourceFileLoader):
    def create_module(self, spec: ModuleSpec) -> ModuleType:
        return LeanPackage(spec.name)

    def exec_module(self, module: ModuleType) -> None:
        """Nothing yet."""


class _Finder(MetaPathFinder):
    """Packages of one SDK come lean, its modules as always."""

    def __init__(self, sdk: str) -> None:
        self._sdk = sdk
        self._inside = f"{sdk}."

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname != self._sdk and not fullname.startswith(self._inside):
            return None
        spec = PathFinder.find_spec(fullname, path, target)
        if (
            spec is not None
            and spec.submodule_search_locations is not None
            and isinstance(spec.loader, SourceFileLoader)
        ):
            spec.loader = _Loader(spec.loader.name, spec.loader.path)
        return spec


_one_at_a_time = threading.RLock()


@contextmanager
def lean(sdk: str, *, off: bool, late: Sequence[str] = ()) -> Generator[None]:
    """Inside it the packages of ``sdk`` (its import name) come lean, and modules of ``late`` not at
    all (``LateModule``). ``off``: nothing changes."""
    if off or sdk in sys.modules:
        yield
        return
    finder = _Finder(sdk)
    with _one_at_a_time:
        sys.meta_path.insert(0, finder)
        sys.modules.update({name: LateModule(name) for name in late})
        try:
            yield
        finally:
            sys.meta_path.remove(finder)
            for name in late:
                del sys.modules[name]
