"""Where ``import a.b`` leads inside a workspace."""

from __future__ import annotations

import sys
from collections.abc import Collection
from functools import cached_property


class PythonModules:
    """``paths``: the files of the workspace that may be read."""

    def __init__(self, root: str, paths: Collection[str]) -> None:
        self._root = root.rstrip("/")
        self._paths = paths

    @cached_property
    def _folders(self) -> frozenset[str]:
        """That hold Python, directly or below."""
        found: set[str] = set()
        for path in self._paths:
            folder = path.rpartition("/")[0]
            while path.endswith((".py", ".pyi")) and folder not in found and len(folder) > 1:
                found.add(folder)
                folder = folder.rpartition("/")[0]
        return frozenset(found)

    @cached_property
    def _sources(self) -> list[str]:
        """Folders of the workspace that projects keep their packages in (src layouts)."""
        named = {one for one in self._folders if one.rpartition("/")[2] in ("src", "lib")}
        return sorted(one for one in named if not self._package(one))

    def _package(self, folder: str) -> bool:
        return f"{folder}/__init__.py" in self._paths or f"{folder}/__init__.pyi" in self._paths

    def find(self, dotted: str, path: str) -> str | None:
        """The file of a module, or the folder of a package without one, as the file at ``path``
        imports it."""
        name = dotted.lstrip(".")
        level = len(dotted) - len(name)
        parts = name.split(".") if name else []
        folder = path.rpartition("/")[0]
        if level:
            for _ in range(level - 1):
                folder = folder.rpartition("/")[0]
            return self._below(folder, parts)
        if not parts or parts[0] in sys.builtin_module_names:
            return None
        while self._package(folder):
            folder = folder.rpartition("/")[0]
        above = [folder]
        while folder.startswith(f"{self._root}/"):
            folder = folder.rpartition("/")[0]
            above.append(folder)
        found = [self._below(start, parts) for start in (*above, *self._sources)]
        inside = [one for one in found if one is not None]
        files = [one for one in inside if one in self._paths]  # before folders without a module
        return next(iter([*files, *inside]), None)

    def below(self, path: str, name: str) -> str | None:
        """The module of this name in a package."""
        folder, _, file = path.rpartition("/")
        if file in ("__init__.py", "__init__.pyi"):
            return self._below(folder, [name])
        return self._below(path, [name]) if path in self._folders else None

    def _below(self, folder: str, parts: list[str]) -> str | None:
        whole = "/".join((folder, *parts))
        endings = ("/__init__.py", ".py", "/__init__.pyi", ".pyi")
        for ending in endings if parts else ("/__init__.py", "/__init__.pyi"):
            if f"{whole}{ending}" in self._paths:
                return f"{whole}{ending}"
        return whole if whole in self._folders else None
