"""YAML 1.2 as plain values, with the line of every key: what an error needs to point at."""

# pyright: reportUnknownMemberType=false, reportUnknownVariableType=false
# pyright: reportUnknownArgumentType=false
# ruamel.yaml leaves its nodes, marks and errors untyped

from __future__ import annotations

import pathlib
import stat
from collections.abc import Mapping
from copy import deepcopy
from dataclasses import field, replace
from typing import Any, cast

from ruamel.yaml import YAML
from ruamel.yaml.error import MarkedYAMLError, YAMLError
from ruamel.yaml.nodes import MappingNode, Node, ScalarNode, SequenceNode
from ruamel.yaml.reader import ReaderError
from ruamel.yaml.scanner import Scanner

from channels.record import record
from ohmo.contracts.errors import ConfigError

Plain = None | bool | int | float | str | list["Plain"] | dict[str, "Plain"]
Path = tuple[str | int, ...]
OVERRIDE = "OHMO__"  # OHMO__CONTROL__LISTEN=0.0.0.0:7717 sets control.listen
_TAG = "tag:yaml.org,2002:"
# A file beyond these is an accident or an attack (aliases multiply).
_DEEPEST = 40  # levels
_MOST = 50_000  # values
_BRACKETS = 100  # open at once


@record
class Problem:
    """One thing that is wrong: where, which key, what to do."""

    place: str  # "config.yaml:12", or the name of an environment variable
    key: str  # "channels.slack.bot_token"; empty for the file as a whole
    text: str

    def __str__(self) -> str:
        if not self.key:
            return f"{self.place}: {self.text}"
        return f"{self.place}: {self.key}: {self.text}"


def dotted(path: Path) -> str:
    """``("channels", "slack", 1, "dm")`` → ``channels.slack[1].dm``."""
    text = ""
    for part in path:
        if isinstance(part, int):
            text += f"[{part}]"
        else:
            text += f".{part}" if text else part
    return text


@record
class Source:
    """What the file says."""

    name: str
    data: dict[str, Plain] = field(default_factory=dict[str, Plain])
    places: Mapping[Path, str] = field(default_factory=dict[Path, str])  # where each key stands
    problems: tuple[Problem, ...] = ()
    #: Nobody but the owner can read the file, so literal secrets may stand in it.
    private: bool = True

    def place(self, path: Path) -> str:
        """The place of a key, or of the nearest key above it that was written."""
        while path:
            if path in self.places:
                return self.places[path]
            path = path[:-1]
        return self.name

    def problem(self, path: Path, text: str) -> Problem:
        return Problem(self.place(path), dotted(path), text)

    def overridden(self, environ: Mapping[str, str]) -> Source:
        """With the ``OHMO__SECTION__KEY`` variables, which win over the file."""
        variables = sorted(name for name in environ if name.startswith(OVERRIDE))
        if not variables:
            return self
        data = deepcopy(self.data)
        places = dict(self.places)
        for name in variables:
            path: Path = tuple(name.removeprefix(OVERRIDE).lower().split("__"))
            table = data
            for depth, part in enumerate(path[:-1], start=1):
                inner = table.get(str(part))
                if not isinstance(inner, dict):
                    inner = table[str(part)] = {}
                    places[path[:depth]] = name  # nothing of the file stands there any more
                table = inner
            table[str(path[-1])] = scalar(environ[name])
            places[path] = name
        return replace(self, data=data, places=places)


def read(file: pathlib.Path | None, text: str | None = None) -> Source:
    """``text``: what the file would say, instead of what it says; None for ``file``: there is none.
    Raises ConfigError: it cannot be read."""
    if file is None:
        return Source("defaults")
    if text is not None and not file.exists():
        return parse(text, file.name)
    try:
        text = file.read_text(encoding="utf-8-sig") if text is None else text
        mode = stat.S_IMODE(file.stat().st_mode)
    except UnicodeDecodeError as error:
        raise ConfigError(
            f"{file}: not UTF-8 text at byte {error.start}; save it as UTF-8"
        ) from error
    except OSError as error:
        raise ConfigError(
            f"{file}: cannot be read ({error.strerror}); ohmo init writes one, --config names"
            " another"
        ) from error
    return parse(text, file.name, private=not mode & (stat.S_IRGRP | stat.S_IROTH))


def parse(text: str, name: str, *, private: bool = True) -> Source:
    """Never raises: what cannot be read is in ``problems``."""
    root: Node | None = None
    place, wrong = name, ""
    try:
        root = cast("Node | None", safe_yaml().compose(text))
    except MarkedYAMLError as error:
        line = error.problem_mark.line + 1 if error.problem_mark is not None else 1
        place, wrong = f"{name}:{line}", str(error.problem or error.context or "not YAML")
    except ReaderError as error:
        line = text.count("\n", 0, error.position) + 1
        place, wrong = f"{name}:{line}", str(error.reason)
    except RecursionError:
        wrong = "brackets within brackets without end"
    except (YAMLError, ValueError) as error:
        wrong = next(iter(str(error).strip().splitlines()), type(error).__name__)
    if wrong:
        problem = Problem(place, "", f"not valid YAML: {wrong}")
        return Source(name, problems=(problem,), private=private)
    if root is None:
        return Source(name, private=private)
    reader = _Reader(name)
    data = reader.value(root, ())
    if not isinstance(data, dict):
        if data is not None:
            reader.problems.append(
                Problem(
                    f"{name}:{root.start_mark.line + 1}",
                    "",
                    "expected keys and values, as in config.example.yaml",
                )
            )
        data = {}
    return Source(name, data, reader.places, tuple(reader.problems), private)


class _Shallow(Scanner):
    """Takes seconds, or all of the stack, for no brackets within brackets."""

    def fetch_flow_collection_start(self, TokenClass: Any, to_push: str) -> None:  # noqa: N803 - its name there
        if len(self.flow_context) == _BRACKETS:
            raise RecursionError
        super().fetch_flow_collection_start(TokenClass, to_push)


def safe_yaml() -> YAML:
    """For what others wrote; raises what ruamel.yaml does, and RecursionError."""
    reader = YAML(typ="safe", pure=True)
    reader.Scanner = _Shallow
    return reader


def scalar(text: str) -> Plain:
    """One value as YAML reads it (for environment variables); text that is not YAML stays text."""
    source = parse(f"value: {text}", "value")
    return text if source.problems or "value" not in source.data else source.data["value"]


class _Reader:
    """Turns YAML nodes into plain values and remembers lines."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0
        self.places: dict[Path, str] = {}
        self.problems: list[Problem] = []

    def value(self, node: Node, path: Path) -> Plain:
        self._count += 1
        if len(path) > _DEEPEST or self._count > _MOST:
            if self._count <= _MOST + 1:
                self._wrong(node, path[:4], "too deep or too large; does an alias contain itself?")
            self._count = _MOST + 2
            return None
        if isinstance(node, MappingNode):
            table: dict[str, Plain] = {}
            for key_node, value_node in cast("list[tuple[Node, Node]]", node.value):
                key = str(key_node.value) if isinstance(key_node, ScalarNode) else ""
                here = (*path, key)
                if not key or key == "<<":
                    self._wrong(key_node, path, "a key must be a plain word")
                elif key in table:
                    first = self.places[here]
                    self._wrong(key_node, here, f"written twice, first at {first}; keep one")
                else:
                    self._remember(here, key_node)
                    table[key] = self.value(value_node, here)
            return table
        if isinstance(node, SequenceNode):
            items = cast("list[Node]", node.value)
            values: list[Plain] = []
            for number, item in enumerate(items):
                self._remember((*path, number), item)
                values.append(self.value(item, (*path, number)))
            return values
        return self._scalar(cast("ScalarNode", node), path)

    def _scalar(self, node: ScalarNode, path: Path) -> Plain:
        text, tag = str(node.value), str(node.tag).removeprefix(_TAG)
        if tag == "null":
            return None
        if tag == "bool" and text.lower() in ("true", "false"):
            return text.lower() == "true"
        try:
            if tag == "int":
                digits = text.replace("_", "").lower()
                sign = -1 if digits.startswith("-") else 1
                digits = digits.removeprefix("-").removeprefix("+")
                base = {"0x": 16, "0o": 8, "0b": 2}.get(digits[:2], 10)
                if base != 10:
                    digits = digits[2:]
                return sign * int(digits, base)
            if tag == "float":
                plain = text.replace("_", "")
                for infinite in ("inf", "nan", "Inf", "NaN"):
                    plain = plain.replace(f".{infinite}", infinite.lower())
                return float(plain)
        except ValueError:
            return text
        if tag.startswith("!") or tag not in ("str", "timestamp", "bool", "value"):
            self._wrong(node, path, f"YAML tag {tag} has no meaning here; remove it")
        return text

    def _remember(self, path: Path, node: Node) -> None:
        self.places[path] = f"{self._name}:{node.start_mark.line + 1}"

    def _wrong(self, node: Node, path: Path, text: str) -> None:
        self.problems.append(
            Problem(f"{self._name}:{node.start_mark.line + 1}", dotted(path), text)
        )
