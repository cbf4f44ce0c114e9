"""Data structures: frozen data classes that are cheap to make, and a dictionary of bounded size.

``@record`` is ``@dataclass(frozen=True, slots=True)`` in a third of its time. The standard library
writes and compiles six methods for each class, half a millisecond of every start for each of three
hundred classes. Here only ``__init__`` is compiled; the others are shared. ``fields``, ``replace``,
``asdict`` and ``match`` work as ever (docs/decisions/0013)."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Iterable
from dataclasses import MISSING, Field, FrozenInstanceError, dataclass, field, fields
from functools import partial
from operator import attrgetter
from types import FunctionType
from typing import Any, TypeVar, dataclass_transform, overload

T = TypeVar("T")
_NOT_GIVEN = object()  # a default that is made afresh for each instance


@overload
def record(cls: type[T], /) -> type[T]: ...
@overload
def record(*, kw_only: bool = False) -> Callable[[type[T]], type[T]]: ...
@dataclass_transform(frozen_default=True, field_specifiers=(field,))
def record(cls: type[Any] | None = None, /, *, kw_only: bool = False) -> Any:
    """A class whose instances are compared, hashed and shown by their fields and never change
    (FrozenInstanceError, as in ``dataclasses``)."""
    return partial(_made, kw_only=kw_only) if cls is None else _made(cls, kw_only=kw_only)


def _made(plain: type[Any], *, kw_only: bool) -> type[Any]:
    own = set(vars(plain))
    # Else the standard library spends a tenth of a millisecond on a signature.
    plain.__doc__ = plain.__doc__ or plain.__name__
    made: Any = dataclass(init=False, repr=False, eq=False, slots=True, kw_only=kw_only)(plain)
    every = fields(made)
    compared = [each.name for each in every if each.compare]
    made.__compared__ = staticmethod(attrgetter(*compared) if compared else lambda _: ())
    made.__init__ = _init(made, every)
    for name, method in vars(_Shared).items():
        if isinstance(method, FunctionType) and name not in own:
            setattr(made, name, method)
    return made


def _init(made: type[Any], every: tuple[Field[Any], ...]) -> Callable[..., None]:
    """Sets each slot by its descriptor, which no ``__setattr__`` guards."""
    scope: dict[str, Any] = {"_not_given": _NOT_GIVEN}
    given: list[str] = []
    named: list[str] = []
    lines: list[str] = []
    for each in every:
        name = each.name
        scope[f"_set_{name}"] = getattr(made, name).__set__
        value = name
        default = ""
        if each.default_factory is not MISSING:
            scope[f"_make_{name}"] = each.default_factory
            value = f"_make_{name}() if {name} is _not_given else {name}"
            default = "=_not_given"
        elif each.default is not MISSING:
            scope[f"_default_{name}"] = each.default
            default = f"=_default_{name}"
        (named if each.kw_only else given).append(name + default)
        lines.append(f" _set_{name}(self, {value})")
    if hasattr(made, "__post_init__"):
        lines.append(" self.__post_init__()")
    if named:
        given += ["*", *named]
    signature = ", ".join(["self", *given])
    exec(f"def __init__({signature}):\n" + ("\n".join(lines) or " pass"), scope)  # noqa: S102 - names of the class's own fields
    scope["__init__"].__qualname__ = f"{made.__qualname__}.__init__"
    return scope["__init__"]


class _Shared:
    """The methods of every record, copied into its class."""

    def __eq__(self: Any, other: object) -> Any:
        if other.__class__ is not self.__class__:
            return NotImplemented
        compared = self.__compared__
        return compared(self) == compared(other)

    def __hash__(self: Any) -> int:
        return hash(self.__compared__(self))

    def __repr__(self: Any) -> str:
        names = [each.name for each in fields(self) if each.repr]
        inside = ", ".join(f"{name}={getattr(self, name)!r}" for name in names)
        return f"{type(self).__qualname__}({inside})"

    def __setattr__(self: Any, name: str, value: object) -> None:
        raise FrozenInstanceError(f"cannot assign to field {name!r}")

    def __delattr__(self: Any, name: str) -> None:
        raise FrozenInstanceError(f"cannot delete field {name!r}")

    def __getstate__(self: Any) -> list[object]:
        return [getattr(self, each.name) for each in fields(self)]

    def __setstate__(self: Any, state: list[object]) -> None:
        for each, value in zip(fields(self), state, strict=True):
            object.__setattr__(self, each.name, value)


K = TypeVar("K")
V = TypeVar("V")


class Recent(OrderedDict[K, V]):
    """The ``most`` entries that were set last, oldest first. Reading an entry does not make it
    newer; setting it again does."""

    def __init__(self, most: int, entries: Iterable[tuple[K, V]] = ()) -> None:
        super().__init__()
        self.most = most
        self.update(entries)

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        while len(self) > self.most:
            self.popitem(last=False)
