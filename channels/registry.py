"""The packages of channels: found by the MANIFEST they export, those of ``channels`` and the entry
points of others, and how an account is made, as their SETUP tells it; imports no SDK."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from importlib.metadata import EntryPoint
from pkgutil import iter_modules
from types import ModuleType
from typing import Any

import channels
from channels.contract import Manifest
from channels.entry_points import offered
from channels.record import record

# The entry point names a module that exports MANIFEST, or the Manifest itself.
GROUP = "ohmo.channels"


class DuplicateChannel(Exception):
    """Two packages claim one name; the daemon does not start before one of them is gone."""


@record
class Catalogue:
    """``manifests`` by channel name, in alphabetical order; ``broken``: one line for each package
    that was skipped."""

    manifests: dict[str, Manifest]
    broken: tuple[str, ...]


def discover(
    package: ModuleType = channels, strangers: Iterable[EntryPoint] | None = None
) -> Catalogue:
    """Every channel there is. A package that cannot be imported, or exports something else, is
    reported and skipped.

    Raises DuplicateChannel with one line that names both places. ``strangers``: None for the entry
    points that are installed."""
    folders = [each.name for each in iter_modules(package.__path__) if each.ispkg]
    names = [f"{package.__name__}.{folder}" for folder in sorted(folders)]
    sources: list[tuple[str, Callable[[], object]]] = []
    sources += [(name, partial(_export, name)) for name in names]
    points = offered(GROUP) if strangers is None else strangers
    sources += [(f"entry point {point.name} = {point.value}", point.load) for point in points]
    found: dict[str, tuple[Manifest, str]] = {}
    broken: list[str] = []
    for where, source in sources:
        try:
            manifest = source()
            if isinstance(manifest, ModuleType):
                manifest = getattr(manifest, "MANIFEST", None)
                if manifest is None:
                    raise TypeError("it exports no MANIFEST")
            if manifest is not None and not isinstance(manifest, Manifest):
                raise TypeError(
                    f"MANIFEST is a {type(manifest).__name__}, not a channels.contract.Manifest"
                )
        except Exception as error:  # noqa: BLE001 - a stranger's package may raise anything
            what = f"{type(error).__name__}: {error}"
            broken.append(
                f"{where}: {what}: the channel is skipped; repair or uninstall its package"
            )
            continue
        if manifest is None:
            continue
        if manifest.name in found:
            raise DuplicateChannel(
                f"two channels are called {manifest.name!r}: {found[manifest.name][1]} and {where};"
                " uninstall one of them"
            )
        found[manifest.name] = (manifest, where)
    return Catalogue({name: found[name][0] for name in sorted(found)}, tuple(broken))


def load(path: str) -> Any:
    """What ``module:Name`` names, its module imported now; for adapters this brings their SDK.

    Raises ImportError when the module is not there (its extra is not installed), and ValueError,
    AttributeError for a wrong path."""
    module, colon, name = path.partition(":")
    if not colon or not module or not name:
        raise ValueError(f"{path!r} is no path: write module:Name")
    loaded = importlib.import_module(module)
    try:
        return getattr(loaded, name)
    except AttributeError:
        raise AttributeError(f"{path}: module {module} has no {name}") from None


def _export(name: str) -> object:
    return getattr(importlib.import_module(name), "MANIFEST", None)


Known = Mapping[str, str]
"""What was answered so far, by key of the platform's settings; a secret is its value."""


@record
class Ask:
    """One key of the platform's settings. ``page``: where its value is found, exactly. ``default``
    None: it has to be given."""

    key: str
    question: str
    page: str
    secret: bool = False
    default: str | None = None


@record
class Document:
    """A text for the platform's own pages, kept in the home under ``setup/``. ``text`` is made from
    what is known."""

    name: str
    text: Callable[[Known], str]


@record
class Setup:
    """Exported as ``SETUP`` by ``channels.NAME.setup``. ``steps``: lines that may name
    ``{documents}``' files. ``after``: what is done once the keys are there, made from what is known
    (an invite link holds an id)."""

    steps: tuple[str, ...]
    asks: tuple[Ask, ...]
    documents: tuple[Document, ...] = ()
    after: Callable[[Known], tuple[str, ...]] = lambda _: ()
