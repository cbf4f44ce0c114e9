"""Imports an SDK without the thousands of modules that its packages only re-export: each name
brings its own module when it is first asked for.

A package whose ``__init__`` says ``from .model import Model`` is made without running it; asked for
``Model`` it imports ``.model`` alone. Asked for anything that its ``__init__`` does not plainly
import, it runs the whole ``__init__``, as Python always does. Nothing is left out, and nobody who
imports the SDK elsewhere can tell the difference but by the time it takes.
``OHMO_LEAN_IMPORTS=off`` switches it off."""

from __future__ import annotations

import ast
import importlib
import sys
import threading
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import ModuleType

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
        self._run()
        return getattr(self, name)

    def _run(self) -> None:
        """The whole ``__init__``, in this very module."""
        object.__setattr__(self, "__class__", ModuleType)
        assert self.__spec__ is not None
        assert isinstance(self.__spec__.loader, _Loader)
        SourceFileLoader.exec_module(self.__spec__.loader, self)


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
        elif isinstance(
            node, ast.Assign | ast.AnnAssign | ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef
        ):
            for name in _bound(node):
                found.pop(name, None)
    return found


def _bound(
    node: ast.Assign | ast.AnnAssign | ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef,
) -> list[str]:
    if isinstance(node, ast.Assign):
        return [target.id for target in node.targets if isinstance(target, ast.Name)]
    if isinstance(node, ast.AnnAssign):
        return [node.target.id] if isinstance(node.target, ast.Name) else []
    return [node.name]


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
def lean(sdk: str, *, off: bool) -> Generator[None]:
    """Inside it the packages of ``sdk`` (its import name) come lean. ``off``: nothing changes."""
    if off or sdk in sys.modules:
        yield
        return
    finder = _Finder(sdk)
    with _one_at_a_time:
        sys.meta_path.insert(0, finder)
        try:
            yield
        finally:
            sys.meta_path.remove(finder)
