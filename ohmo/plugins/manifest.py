"""One plugin as it stands in its folder: a manifest, ``plugin.yaml`` or the published layout of
Claude Code (code.claude.com/docs/en/plugins-reference), where it is left out too, and what it says
belongs to it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from pathlib import Path, PurePosixPath
from typing import Any, cast

from pydantic import AliasChoices, BaseModel, ConfigDict, Field, ValidationError, model_validator

import ohmo
from channels.record import record
from ohmo.config.source import parse
from ohmo.content import FRONT_MATTER, NEEDED, Content, Unfit, content_of, newer, one_line, text_in

MANIFESTS = ("plugin.yaml", ".claude-plugin/plugin.json")  # the first that is there counts
_HOOKS = ("hooks/hooks.json", "hooks.yaml")  # read where the manifest names none
_SERVERS = (".mcp.json",)
_USUAL = (*_HOOKS, *_SERVERS, "skills/", "commands/", "SKILL.md")
LONGEST_NAME, LONGEST_LINE = 40, 500  # characters
_NAME = re.compile(r"[A-Za-z0-9](?:[_-]?[A-Za-z0-9])*")
_COMMAND = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]*(?::[A-Za-z0-9][A-Za-z0-9_.-]*)*")


_IDLE = {  # by where it stands, what it is called and its key
    "agents/": ("agents", "agents"),
    "output-styles/": ("output styles", "outputStyles"),
    ".lsp.json": ("LSP servers", "lspServers"),
}


class BadPlugin(Exception):
    """What is wrong with it, and what to do: one line."""


@record
class Rest:
    """What else is told of one. ``size``: in words; ``idle``: kinds of parts that it brings and
    that mean nothing here."""

    size: str
    idle: tuple[str, ...]


@record
class Plugin:
    """``digest``: of its whole content. ``skills``: folders of skill folders, below its own.
    ``hooks`` and ``servers``: what is written of them, by where that stands. ``commands``: the
    words of each, by name."""

    name: str
    version: str
    description: str
    folder: Path
    digest: str
    skills: tuple[str, ...]
    hooks: Mapping[str, str]
    servers: Mapping[str, str]
    commands: Mapping[str, str]
    rest: Rest


_Paths = str | list[str]
_Inline = str | dict[str, Any] | list[str | dict[str, Any]]


class _Written(BaseModel):
    """Keys of either manifest; what else it holds means nothing here."""

    model_config = ConfigDict(strict=True, extra="allow")
    name: str
    version: str | int | float = ""
    description: str = ""
    requires: str | list[str] = []
    skills: _Paths = Field(default=[], validation_alias=AliasChoices("skills", "skills_dir"))
    commands: _Paths = Field(default=[], validation_alias=AliasChoices("commands", "commands_dir"))
    hooks: _Inline = Field(default=[], validation_alias=AliasChoices("hooks", "hooks_file"))
    servers: _Inline = Field(default=[], validation_alias=AliasChoices("mcpServers", "mcp_file"))

    @model_validator(mode="before")
    @classmethod
    def _once(cls, data: object) -> object:
        """Of two spellings of one key the second would be passed over in silence."""
        whole: Any = data
        there = cast("dict[str, Any]", whole) if isinstance(whole, dict) else {}
        for field in cls.model_fields.values():
            names = field.validation_alias
            choices = names.choices if isinstance(names, AliasChoices) else []
            given = [str(name) for name in choices if name in there]
            if len(given) > 1:
                raise ValueError(f"{' and '.join(given)} are one key; write one of them")
        return data


def read_plugin(folder: Path) -> tuple[Plugin, Content]:
    """Blocks: reads the folder whole, and once. Raises BadPlugin."""
    if folder.is_symlink():
        raise BadPlugin("it is a link; copy the folder")
    try:
        content = content_of(folder)
    except Unfit as error:
        raise BadPlugin(f"{error}; mend it or take the folder away") from None
    written = _manifest(content, folder.name)
    name = written.name
    if len(name) > LONGEST_NAME or _NAME.fullmatch(name) is None:
        raise BadPlugin(
            f"its name {name[:80]!a} is not letters, digits and single - or _, at most"
            f" {LONGEST_NAME} of them; rename it"
        )
    if missing := _missing(written.requires):
        raise BadPlugin(missing)
    size = sum(len(part.data) for part in content.files.values())
    plugin = Plugin(
        name=name,
        version=_line(str(written.version))[:50],
        description=_line(written.description),
        folder=folder,
        digest=content.digest,
        skills=tuple(_skills(content, written.skills)),
        hooks=dict(_parts(content, "hooks", written.hooks, _HOOKS)),
        servers=dict(_parts(content, "mcpServers", written.servers, _SERVERS)),
        commands=dict(_commands(content, written.commands)),
        rest=Rest(
            f"{len(content.files)} files, {max(1, size >> 10)} KiB", tuple(_idle(content, written))
        ),
    )
    return plugin, content


def _manifest(content: Content, folder: str) -> _Written:
    """Without one a plugin is called as its folder, and what stands at the usual places belongs to
    it. Raises BadPlugin."""
    file = next((name for name in MANIFESTS if name in content.files), None)
    if file is None:
        if not any(name.startswith(_USUAL) for name in content.files):
            none = f"there is no {' and no '.join(MANIFESTS)}"
            raise BadPlugin(f"{none}, and nothing of a plugin at its usual place; write one")
        return _Written(name=folder)
    text = _text(content, file)
    if file.endswith(".json"):
        try:
            data: object = json.loads(text)
        except (ValueError, RecursionError) as error:
            raise BadPlugin(f"{file}: not valid JSON: {_line(str(error))}") from None
    else:
        source = parse(text, file)
        if source.problems:
            raise BadPlugin(_line(str(source.problems[0])))
        data = source.data
    if not isinstance(data, dict):
        raise BadPlugin(f"{file}: expected keys and values, as name: x")
    try:
        return _Written.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = f"{file}: {'.'.join(map(str, first['loc']))[:100]}".rstrip(": ")
        raise BadPlugin(f"{where}: {_line(first['msg'])}") from None


def _text(content: Content, name: str) -> str:
    """Raises BadPlugin."""
    try:
        return text_in(content, name)
    except Unfit as error:
        raise BadPlugin(str(error)) from None


def _missing(requires: str | list[str]) -> str:
    """What of it is not there: one line; empty: nothing."""
    for entry in [requires] if isinstance(requires, str) else requires:
        found = NEEDED.fullmatch(entry.strip())
        if found is None:
            return f"requires: {_line(entry)[:80]!a}: expected ohmo>=VERSION"
        if newer(found[1]):
            return f"it needs ohmo {found[1]} or newer (this is {ohmo.__version__}); upgrade"
    return ""


def _below(key: str, path: str) -> str:
    """As files are named; "" for the whole of a plugin that is one skill. Raises BadPlugin."""
    parts = PurePosixPath(path).parts
    whole = key == "skills" and path.startswith(".")
    if not (parts or whole) or parts[:1] == ("/",) or ".." in parts:
        raise BadPlugin(f"{key}: {_line(path)[:100]!a} is no place in its folder; name one")
    return "/".join(parts)


def _places(content: Content, key: str, written: _Paths) -> Iterator[str]:
    """The usual folder, if it is there, and those that are named. Raises BadPlugin."""
    named = [written] if isinstance(written, str) else written
    for place in dict.fromkeys((key, *(_below(key, path) for path in named))):
        below = f"{place}/" if place else ""
        if place in content.files or any(name.startswith(below) for name in content.files):
            yield place
        elif place != key:
            raise BadPlugin(f"{key}: there is no {_line(place)[:100]!a} in it; mend the manifest")


def _skills(content: Content, written: _Paths) -> Iterator[str]:
    """Folders of skills, and skills that are named themselves. Raises BadPlugin."""
    places = list(_places(content, "skills", written))
    if not places and not written and "SKILL.md" in content.files:
        yield ""
    for place in places:
        if place in content.files:
            raise BadPlugin(f"skills: {_line(place)[:100]!a}: name the folder of the skill")
        own = f"{place}/SKILL.md" in content.files
        if not (place and own and place.rpartition("/")[0] in places):
            yield place


def _idle(content: Content, written: _Written) -> Iterator[str]:
    named = written.model_extra or {}
    for place, (kind, key) in _IDLE.items():
        if named.get(key) or any(name.startswith(place) for name in content.files):
            yield kind


def _commands(content: Content, written: _Paths) -> Iterator[tuple[str, str]]:
    """Raises BadPlugin."""
    seen = set[str]()
    for place in _places(content, "commands", written):
        for file in content.files:
            if not file.endswith(".md") or not (file == place or file.startswith(f"{place}/")):
                continue
            path = PurePosixPath(file)
            below = path.name if file == place else str(path.relative_to(place))
            name = below.removesuffix(".md").replace("/", ":")
            if _COMMAND.fullmatch(name) is None:
                raise BadPlugin(
                    f"{_line(file)[:100]!a}: a command's name is letters, digits and . - _; rename"
                    " the file"
                )
            if name.lower() in seen:
                raise BadPlugin(f"{_line(file)[:100]!a}: there are two commands {name}; rename one")
            seen.add(name.lower())
            text = _text(content, file)
            head = FRONT_MATTER.match(text)
            yield name, (text if head is None else text[head.end() :]).strip()


def _parts(
    content: Content, key: str, written: _Inline, usual: tuple[str, ...]
) -> Iterator[tuple[str, str]]:
    """By the file they stand in, or the place in the manifest where it holds them itself, which is
    JSON then (``ohmo.hooks.shapes``). Raises BadPlugin."""
    manifest = next((name for name in MANIFESTS if name in content.files), "")
    for file in usual:
        if file in content.files:
            yield file, _text(content, file)
    entries = written if isinstance(written, list) else [written]
    for number, entry in enumerate(entries, 1):
        if isinstance(entry, str):
            file = _below(key, entry)
            if file not in content.files:
                raise BadPlugin(
                    f"{key}: there is no {_line(file)[:100]!a} in it; mend the manifest"
                )
            yield file, _text(content, file)
        elif entry:
            inline = entry if key in entry else cast("dict[str, Any]", {key: entry})
            place = f"entry {number} of {key}" if len(entries) > 1 else key
            yield f"{manifest}: {place}", json.dumps(inline)


def _line(text: str) -> str:
    return one_line(text)[:LONGEST_LINE]
