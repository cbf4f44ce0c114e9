"""Imports of an SDK that do not bring what we never use of it."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Mapping, Sequence
from types import ModuleType


class Closed(ModuleType):
    """A package whose modules can be imported one by one. Its own ``__init__`` runs at the first
    name that it does not have yet."""

    def __init__(self, name: str, blanks: Sequence[str]) -> None:
        """``blanks``: empty stand-ins, which make room for the real modules then. Raises
        ImportError when it is not installed."""
        super().__init__(name)
        spec = importlib.util.find_spec(name)
        if spec is None or spec.loader is None or not spec.submodule_search_locations:
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        self.__spec__ = spec
        self.__loader__ = spec.loader
        self.__file__ = spec.origin
        self.__package__ = name
        self.__path__ = list(spec.submodule_search_locations)
        self.__dict__["_blanks"] = tuple(blanks)

    def __getattr__(self, name: str) -> object:
        blanks = None
        if not name.startswith("__") or name == "__all__":
            blanks = self.__dict__.pop("_blanks", None)
        if blanks is None:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        for blank in blanks:
            sys.modules.pop(blank, None)
        spec = self.__spec__
        assert spec is not None
        assert spec.loader is not None
        spec.loader.exec_module(self)
        return getattr(self, name)


class PartialImport:
    """A context for imports of ``sdk`` that shall not bring all the rest.

    ``closed``: packages of it, outermost first, whose ``__init__`` waits until somebody asks for
    what only it gives. ``blanks``: modules that are not wanted at all, with the classes their
    importers ask for. Nothing happens when the SDK is there already. Raises ImportError when it is
    not installed."""

    def __init__(
        self, sdk: str, blanks: Mapping[str, Sequence[str]], *, closed: Sequence[str] = ()
    ) -> None:
        self._sdk = sdk
        self._closed = closed
        self._blanks = blanks
        self._loop: asyncio.AbstractEventLoop | None = None

    def __enter__(self) -> None:
        if self._sdk in sys.modules:
            return
        for name in self._closed:
            sys.modules[name] = closed = Closed(name, tuple(self._blanks))
            parent, _, own = name.rpartition(".")
            if parent:
                setattr(sys.modules[parent], own, closed)
        for name, wanted in self._blanks.items():
            sys.modules[name] = blank = ModuleType(name)
            blank.__dict__.update({each: type(each, (), {}) for each in wanted})
        # Modules that ask for an event loop while they are imported would make one and leave it
        # open.
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            self._loop = asyncio.new_event_loop()
            asyncio.set_event_loop(self._loop)

    def __exit__(self, *failure: object) -> None:
        for name in self._blanks:
            if name in sys.modules and sys.modules[name].__spec__ is None:
                del sys.modules[name]
        if self._loop is not None:
            asyncio.set_event_loop(None)
            self._loop.close()
            self._loop = None
