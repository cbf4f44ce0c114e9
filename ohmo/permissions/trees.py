"""Whether sensitive files lie below a folder whose whole content would be read."""

from __future__ import annotations

import os

from ohmo.permissions.looked import real
from ohmo.permissions.paths import SensitivePaths, Touch
from ohmo.permissions.twins import Twins

_MOST = 50_000  # entries of one tree


def first_sensitive(
    path: str, sensitive: SensitivePaths | None, twins: Twins, *, linked: bool = False
) -> str:
    """``path`` absolute and resolved: the first sensitive file below it, or "more than ..." for a
    tree too large to be looked through; "" when there is none. What begins with a dot counts: rules
    of what to leave out, which may lie in the tree, bring it in. A file or folder that is sensitive
    under another name counts too; with ``linked`` a link that leads out of the tree, which git
    follows where it once knew a folder. ``sensitive`` None: for what reads the files of a
    repository, whose names it keeps anyway: other names only, beside ``.git``, and any tree is
    small enough."""
    left = _MOST
    queue = [path]
    while queue:
        try:
            with os.scandir(queue.pop()) as entries:
                for entry in entries:
                    left -= 1
                    if left < 0:
                        return f"more than {_MOST} files" if sensitive is not None else ""
                    if sensitive is None and entry.name == ".git":
                        continue
                    hidden = sensitive is not None and sensitive.hides(entry.path)
                    if hidden or twins.at(entry.path) is Touch.INSIDE:
                        return entry.path
                    if entry.is_dir(follow_symlinks=False):
                        queue.append(entry.path)
                    elif (
                        linked
                        and entry.is_dir()
                        and not f"{real(entry.path)}/".startswith(f"{path}/")
                    ):
                        return entry.path
        except OSError:
            continue  # what cannot be listed cannot be read through either
    return ""
