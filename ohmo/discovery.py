"""Finds what rooms export: one object by ``"module:Class"``, one constant in every module of a
package, or what other installed packages offer as entry points."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Iterable
from importlib.metadata import EntryPoint
from types import ModuleType

from channels.entry_points import offered
from channels.record import record
from ohmo.contracts.errors import ConfigError


def load(spec: str) -> object:
    """The object named by ``"package.module:Name"``. Imports the module; raises ConfigError with
    one line when it is not there."""
    module, colon, name = spec.partition(":")
    if not (module and colon and name):
        raise ConfigError(f"{spec!r} is not of the form package.module:Name")
    try:
        found: object = getattr(importlib.import_module(module), name)
    except ImportError as error:
        raise ConfigError(
            f"{spec}: cannot be imported ({error}); is the package installed?"
        ) from error
    except AttributeError as error:
        raise ConfigError(f"{spec}: the module has no {name}") from error
    return found


def scan(package: str, constant: str) -> dict[str, object]:
    """The constant of every direct child module of ``package`` that exports one, by the ``name`` it
    carries, sorted by name. Two with the same name stop the start: ConfigError naming both
    modules."""
    found: dict[str, object] = {}
    home: dict[str, str] = {}
    root = importlib.import_module(package)
    for info in sorted(pkgutil.iter_modules(root.__path__), key=lambda each: each.name):
        module = f"{package}.{info.name}"
        value: object = getattr(importlib.import_module(module), constant, None)
        if value is None:
            continue
        name = str(getattr(value, "name", info.name))
        if name in found:
            raise ConfigError(
                f"{package}: {home[name]} and {module} both call themselves {name!r}; remove one"
            )
        found[name], home[name] = value, module
    return dict(sorted(found.items()))


@record
class Offered:
    """``found``: by the name of its entry point. ``broken``: one line for each that was skipped."""

    found: dict[str, object]
    broken: tuple[str, ...]


def from_packages(
    group: str,
    constant: str,
    kind: type[object],
    *,
    taken: Iterable[str] = (),
    points: Iterable[EntryPoint] | None = None,
) -> Offered:
    """What other packages offer under a group: the entry point names a module that exports the
    constant, or the object itself, and is called as that calls itself. What cannot be imported,
    calls itself otherwise, or by a name that is ``taken``, is skipped. ``points``: None for those
    that are installed."""
    found: dict[str, object] = {}
    broken: list[str] = []
    for point in offered(group) if points is None else points:
        try:
            if point.name in taken or point.name in found:
                raise TypeError(f"the name {point.name!r} is taken")
            found[point.name] = _loaded(point, constant, kind)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # noqa: BLE001 - a stranger's package may raise anything, also what ends an interpreter
            line = " ".join(f"{type(error).__name__}: {error}".split())
            where = f"{group}: entry point {point.name} = {point.value}"
            broken.append(f"{where}: {line}: it is skipped; repair or uninstall its package")
    return Offered(dict(sorted(found.items())), tuple(broken))


def _loaded(point: EntryPoint, constant: str, kind: type[object]) -> object:
    """Raises whatever the package does."""
    value: object = point.load()
    if isinstance(value, ModuleType):
        value = getattr(value, constant)
    if not isinstance(value, kind):
        raise TypeError(f"{constant} is a {type(value).__name__}, not a {kind.__name__}")
    name = getattr(value, "name", None)
    if name != point.name:
        raise TypeError(f"it calls itself {name!r}, its entry point {point.name!r}")
    return value
