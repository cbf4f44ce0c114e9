"""Private names of other people's packages that the product leans on: one list, each with its
reason, each package held below a bound.

A name beginning with an underscore may change in any release of its package, so pyproject.toml ends
the range before the next one that may. Who raises a bound goes through that package's names here;
the conformance suite runs through all of them."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import sys
import textwrap
import tomllib
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import packages_distributions, version
from typing import NamedTuple

import pytest
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

from tests.architecture.house_report import parsed
from tests.architecture.test_floors import ROOT, SDKS, modules


class Leaning(NamedTuple):
    """On one package: the end of its range in pyproject.toml, and why each name is used."""

    below: str
    names: Mapping[str, str]


LEANS: Mapping[str, Leaning] = {
    "anthropic": Leaning(
        "2.13",
        {
            "_api_call": "spans of the SDK's own calls, which we do not make; 680 modules of types",
            "_error_classes": "errors of interfaces we do not speak to; 210 modules of types",
            "_tracing": "where _api_call stands",
        },
    ),
    "discord.py": Leaning(
        "2.8",
        {
            "_discord_parsers": (
                "events go to a line as they came, not into the SDK's model of guilds"
            ),
            "_keep_alive": "how often Discord wants a heartbeat",
            "_last_ack": (
                "the SDK counts any frame as an answer to its heartbeats, Discord does not"
            ),
            "_max_heartbeat_timeout": "a connection that went mute is given up in time",
        },
    ),
    "lark-oapi": Leaning(
        "1.8",
        {
            "_build_url": "the SDK's transport builds requests, but opens a client for each",
            "_cache": "the SDK joins parts of split frames without a bound",
            "_configure": "a ping interval of zero would ping without a pause",
            "_conn": "reading and closing it with a time limit",
            "_connect": "the handshake",
            "_cron": "the timer of the joined parts",
            "_get_conn_url": "the SDK asks for the address in a way that blocks the loop",
            "_handle_control_frame": "settings that Feishu sends",
            "_new_ping_frame": "the protocol's own ping",
            "_ping_interval": "as Feishu asked",
            "_receive_message_loop": (
                "frames are answered after the commit, not inside of the SDK's loop"
            ),
            "_service_id": "names the connection in a ping",
            "_write_message": "one writer at a time",
        },
    ),
    "mautrix": Leaning(
        "0.22",
        {
            "_log_request": "nothing that people write is logged",
            "_log_request_done": "the same",
            "_send": "a 429 keeps its waiting time",
        },
    ),
    "python-telegram-bot": Leaning(
        "22.9", {"_httpxrequest": "the SDK's own transport brings httpx; ours is on aiohttp"}
    ),
}

OWN = {"ohmo", "channels"}


def _private(name: str) -> bool:
    return name.startswith("_") and not name.endswith("__")


def _foreign(module: str) -> bool:
    return (top := module.partition(".")[0]) not in OWN and top not in sys.stdlib_module_names


def _distribution(module: str) -> str:
    """``discord.gateway`` → ``discord.py``."""
    (name,) = set(_distributions()[module.partition(".")[0]])
    return name


_distributions = cache(packages_distributions)


def _sdk_of(module: str) -> str:
    """The package that a module is there for; "" where it is for none."""
    return next(
        (
            sdk
            for sdk, home in SDKS.items()
            if module == home or module.startswith((home + ".", home + "_"))
        ),
        "",
    )


def _package(module: str) -> str:
    """That of the SDK it is there for, or its own name: who has no SDK needs nobody's private
    names."""
    return _distribution(_sdk_of(module)) if _sdk_of(module) else module


def _stored(tree: ast.AST) -> set[str]:
    """Names that this code gives to something itself."""
    found: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
                found.add(node.name)
            case ast.Attribute(ctx=ast.Store()):
                found.add(node.attr)
            case ast.Name(ctx=ast.Store()):
                found.add(node.id)
            case ast.arg():
                found.add(node.arg)
            case _:
                pass
    return found


def _on_self(tree: ast.AST) -> set[str]:
    """Names a class uses of itself, or gives itself."""
    used = {
        node.attr
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and _receiver(node) in {"self", "cls", "super()"}
    }
    return used | {
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }


def _receiver(node: ast.Attribute) -> str:
    return ast.unparse(node.value)


def _leans(module: str, tree: ast.Module) -> Iterator[tuple[str, str]]:
    """(package, private name)."""
    stdlib: set[str] = set()
    for node in ast.walk(tree):
        match node:
            case ast.Import():
                yield from _imported([alias.name for alias in node.names])
                stdlib.update(
                    alias.asname or alias.name for alias in node.names if not _foreign(alias.name)
                )
            case ast.ImportFrom(module=str(source)):
                yield from _imported([f"{source}.{alias.name}" for alias in node.names])
            case ast.Constant(value=str(words)) if re.fullmatch(r"\w+(\.\w+)+", words):
                yield from _imported([words] if words.partition(".")[0] in SDKS else [])
            case ast.ClassDef():
                yield from _inherited(module, node)
            case ast.Call(
                func=ast.Name(id="getattr" | "setattr" | "hasattr" | "delattr"),
                args=[_, ast.Constant(value=str(name)), *_],
            ):
                yield from ((_package(module), name) for name in [name] if _private(name))
            case _:
                pass
    ours, receivers = _stored(tree), {"self", "cls", "super()", *stdlib}
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and _private(node.attr)
            and node.attr not in ours
            and _receiver(node) not in receivers
        ):
            yield _package(module), node.attr


def _imported(names: list[str]) -> Iterator[tuple[str, str]]:
    for name in names:
        yield from (
            (_distribution(name), part)
            for part in name.split(".")
            if _private(part) and _foreign(name)
        )


def _inherited(module: str, node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    """What a class of ours uses or replaces of the private side of an SDK's class."""
    made = (
        getattr(importlib.import_module(module), node.name, None)
        if node.bases and _sdk_of(module)
        else None
    )
    for base in inspect.getmro(made)[1:] if inspect.isclass(made) else ():
        if _foreign(base.__module__) and base.__module__.partition(".")[0] in SDKS:
            theirs = _on_self(ast.parse(textwrap.dedent(inspect.getsource(base)))) | set(vars(base))
            yield from (
                (_distribution(base.__module__), name)
                for name in _on_self(node) & theirs
                if _private(name)
            )


def _found() -> set[tuple[str, str]]:
    trees = ((module, parsed(path)) for module, path in modules().items())
    return {lean for module, tree in trees for lean in _leans(module, tree)}


def test_every_private_name_of_an_sdk_stands_in_the_list_and_nothing_else_does() -> None:
    assert _found() == {(sdk, name) for sdk, leaning in LEANS.items() for name in leaning.names}


def _ranges() -> dict[str, list[Requirement]]:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = [
        words
        for name, part in project["optional-dependencies"].items()
        if name != "dev"
        for words in part
    ]
    found: dict[str, list[Requirement]] = {}
    for requirement in map(Requirement, [*project["dependencies"], *optional]):
        found.setdefault(canonicalize_name(requirement.name), []).append(requirement)
    return found


@pytest.mark.parametrize(
    "sdk", [*LEANS, "vodozemac"]
)  # of which even the public side is not all in its stubs
def test_an_sdk_whose_private_names_are_used_is_held_below_a_bound(sdk: str) -> None:
    below = LEANS[sdk].below if sdk in LEANS else "0.11"
    for requirement in _ranges()[canonicalize_name(sdk)]:
        assert f"<{below}" in {str(part) for part in requirement.specifier}, requirement
        assert version(sdk) in requirement.specifier


def test_a_new_use_of_a_private_name_is_seen() -> None:
    """Each way to lean on one, in the words of a room that has an SDK."""
    for words, name in (
        ("import mautrix._new", "_new"),
        ("from mautrix.api import _new", "_new"),
        ("from mautrix._new import x", "_new"),
        ("blanks = {'mautrix._new': ()}", "_new"),
        ("def f(client): return client.session._new", "_new"),
        ("def f(client): return getattr(client, '_new', None)", "_new"),
    ):
        assert set(_leans("channels.matrix.client_wire", ast.parse(words))) == {
            ("mautrix", name)
        }, words
    tree = ast.parse("class Wire(HTTPAPI):\n    def f(self): return self._full_path, self._own")
    assert set(_leans("channels.matrix.client_wire", tree)) == {("mautrix", "_full_path")}
