"""Where ``import a.b`` leads inside a workspace."""

from __future__ import annotations

import sys
from collections.abc import Collection
from functools import cached_property


class PythonModules:
    """``paths``: the files of the workspace that may be read."""

    def __init__(self, root: str, paths: Collection[str]) -> None:
        self._depth = root.rstrip("/").count("/") + 1
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

    def find(self, dotted: str, path: str) -> str | None:
        """The file of a module, or the folder of a package without one, as the file at ``path``
        imports it."""
        name = dotted.lstrip(".")
        above = path.split("/")[:-1]
        if dotted.startswith("."):
            return self._below("/".join(above[: len(above) + 1 - len(dotted) + len(name)]), name)
        if name.partition(".")[0] in sys.builtin_module_names:
            return None
        while self._inside("/".join(above), "/__init__") is not None:
            above.pop()
        starts = ["/".join(above[:length]) for length in range(len(above), self._depth - 1, -1)]
        # Folders of the workspace that projects keep their packages in (src layouts).
        sources = [one for one in self._folders if one.endswith(("/src", "/lib"))]
        starts += sorted(one for one in sources if self._inside(one, "/__init__") is None)
        found = [one for one in (self._below(start, name) for start in starts) if one is not None]
        files = [one for one in found if one in self._paths]  # before folders without a module
        return next(iter([*files, *found]), None)

    def below(self, path: str, name: str) -> str | None:
        """The module of this name in a package."""
        package = path.removesuffix("/__init__.py").removesuffix("/__init__.pyi")
        return self._below(package, name) if package != path or path in self._folders else None

    def _below(self, folder: str, name: str) -> str | None:
        whole = f"{folder}/{name.replace('.', '/')}" if name else folder
        found = self._inside(whole, "/__init__") or (self._inside(whole, "") if name else None)
        return found or (whole if whole in self._folders else None)

    def _inside(self, folder: str, module: str) -> str | None:
        names = (f"{folder}{module}.py", f"{folder}{module}.pyi")
        return next((one for one in names if one in self._paths), None)
