"""Finds what rooms export: one object by ``"module:Class"``, or one constant in every module of a
package."""

from __future__ import annotations

import importlib
import pkgutil

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
