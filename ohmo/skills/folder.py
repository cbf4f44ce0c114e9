"""One skill as it stands in its folder: ``SKILL.md``, YAML front matter and then instructions
(agentskills.io/specification). What published skills leave out is filled in."""

from __future__ import annotations

import json
import re
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, cast

from ruamel.yaml.error import MarkedYAMLError, YAMLError

import ohmo
from channels.record import record
from ohmo.config.source import safe_yaml
from ohmo.content import FRONT_MATTER, NEEDED, Content, Unfit, content_of, newer, one_line, text_in
from ohmo.lifecycle import outcome

FILE = "SKILL.md"
LONGEST_NAME, LONGEST_DESCRIPTION, FIRST_PARAGRAPH = 64, 1_024, 200  # characters
_MOST_HEAD = 16 << 10  # characters
_NAME = re.compile(rf"[^\W_][\w .:-]{{0,{LONGEST_NAME - 1}}}")
#: A line of a front matter whose words have a colon in them.
_PLAIN = re.compile(r"^([A-Za-z][\w-]*: +)([^\s'\"\[{|>&*!%@`#].*: .*)$", re.MULTILINE)
_TOOL = re.compile(r"(?:[^\s,()]|\([^)]*\)?)+")  # one of a list, as Bash(git add *)
_MOST_NEEDS = 50
_PROGRAMS = (".py", ".sh", ".js", ".mjs", ".ts", ".rb", ".pl", ".ps1")


class BadSkill(Exception):
    """What is wrong with it, and what to do: one line."""


@record
class Needs:
    """What must be there before a skill is of use. ``programs``: all of them; ``one_of``: at least
    one."""

    programs: tuple[str, ...] = ()
    one_of: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    version: str = ""  # of ohmo, at least

    def missing(self, environ: Mapping[str, str]) -> str:
        """One line; empty: nothing. ``environ``: what commands are given."""
        path = environ.get("PATH", "")
        lines = [
            f"the program {name}" for name in self.programs if shutil.which(name, path=path) is None
        ]
        if self.one_of and not any(shutil.which(name, path=path) for name in self.one_of):
            lines.append(f"one of the programs {', '.join(self.one_of)}")
        lines += [f"the variable {name}" for name in self.variables if not environ.get(name)]
        if self.version and newer(self.version):
            lines.append(f"ohmo {self.version} or newer (this is {ohmo.__version__})")
        return f"it needs {', '.join(lines)}" if lines else ""


@record
class Skill:
    """``digest``: of its whole content. ``files``: those beside ``SKILL.md``; ``programs``: what of
    them can be run. ``size``: bytes of all. ``tools``: those it says it works with, which allows it
    nothing."""

    name: str
    description: str
    body: str
    digest: str
    files: tuple[str, ...] = ()
    programs: tuple[str, ...] = ()
    size: int = 0
    version: str = ""
    tools: tuple[str, ...] = ()
    needs: Needs = Needs()


def read_skill(folder: Path) -> tuple[Skill, Content]:
    """Blocks: reads the folder whole. Raises BadSkill."""
    if folder.is_symlink():
        raise BadSkill("it is a link; copy the folder, or name its place in skills.folders")
    try:
        content = content_of(folder)
    except Unfit as error:
        raise BadSkill(f"{error}; mend it or take the folder away") from None
    if FILE not in content.files:
        raise BadSkill(f"there is no {FILE}; write one")
    try:
        text = text_in(content, FILE)
    except Unfit as error:
        raise BadSkill(str(error)) from None
    head, body = _parted(text)
    name = _line(head.get("name")) or folder.name
    if _NAME.fullmatch(name) is None:
        raise BadSkill(
            f"its name {name[:80]!a} is not letters, digits, spaces and . : - _, at most"
            f" {LONGEST_NAME} of them; rename it"
        )
    described = _line(head.get("description")) or _first_paragraph(body)
    if not (body.strip() or described):
        raise BadSkill(f"{FILE} is empty; write what it is for")
    allowed = head.get("allowed-tools")
    if isinstance(allowed, str):
        allowed = _TOOL.findall(allowed)
    skill = Skill(
        name,
        described[:LONGEST_DESCRIPTION],
        body.strip(),
        content.digest,
        files=tuple(file for file in content.files if file != FILE),
        programs=tuple(
            file
            for file, each in content.files.items()
            if file != FILE and (each.runs or file.endswith(_PROGRAMS))
        ),
        size=sum(len(each.data) for each in content.files.values()),
        version=_line(head.get("version"))[:50],
        tools=_words(allowed),
        needs=_needs(head),
    )
    return skill, content


# What the parser raises for words that are no value of the tag before them (``!!bool foo``) too.
_UNREADABLE = (
    YAMLError,
    ValueError,
    LookupError,
    TypeError,
    AttributeError,
    ArithmeticError,
    RecursionError,
)


def _parted(text: str) -> tuple[Mapping[str, Any], str]:
    """Front matter, and what follows it. Raises BadSkill."""
    match = FRONT_MATTER.match(text)
    if match is None:
        if re.match(r"---[ \t]*\r?\n", text):
            raise BadSkill(f"the front matter of {FILE} has no end; close it with a line ---")
        return {}, text
    if len(match[1]) > _MOST_HEAD:
        raise BadSkill(f"the front matter of {FILE} is longer than {_MOST_HEAD} characters")
    try:
        loaded = _loaded(match[1])
    except _UNREADABLE as error:
        mark: Any = cast("Any", error).problem_mark if isinstance(error, MarkedYAMLError) else None
        where = FILE if mark is None else f"{FILE}:{mark.line + 2}"
        raise BadSkill(f"{where}: its front matter is no YAML; quote text with colons") from None
    if loaded is None:
        return {}, text[match.end() :]
    if not isinstance(loaded, dict):
        raise BadSkill(f"the front matter of {FILE} must be keys and values, as name: x")
    named = cast("dict[Any, Any]", loaded)
    return {str(key): value for key, value in named.items()}, text[match.end() :]


def _loaded(head: str) -> Any:
    """Also where words with a colon are not quoted, as in many that are published. Raises what YAML
    does."""
    load = cast("Any", safe_yaml()).load
    try:
        return load(head)
    except _UNREADABLE:
        quoted = _PLAIN.sub(
            lambda line: f"{line[1]}{json.dumps(line[2].rstrip(), ensure_ascii=False)}", head
        )
        read = outcome(lambda: load(quoted))
        if isinstance(read, Exception):
            raise
        return read


def _needs(head: Mapping[str, Any]) -> Needs:
    """``requires``, and what published skills write below ``metadata`` for other agents: a mapping
    with ``bins``, ``anyBins`` and ``env``."""
    programs: list[str] = []
    one_of: list[str] = []
    variables: list[str] = []
    version = ""
    for written in _requirements(head):
        if isinstance(written, Mapping):
            asked = cast("Mapping[str, Any]", written)
            programs += _words(asked.get("bins"))
            one_of += _words(asked.get("anyBins"))
            variables += _words(asked.get("env"))
            entries = tuple(f"ohmo{each}" for each in _words(asked.get("ohmo")))
        else:
            entries = _words(written)
        for entry in entries:
            if found := NEEDED.fullmatch(entry):
                version = found[1]
            else:
                programs.append(entry)
    return Needs(tuple(programs), tuple(one_of), tuple(variables), version)


def _requirements(head: Mapping[str, Any]) -> Iterator[Any]:
    yield head.get("requires")
    metadata = head.get("metadata")
    if isinstance(metadata, str):
        try:
            metadata = json.loads(metadata)
        except (ValueError, RecursionError):
            return
    if isinstance(metadata, Mapping):
        for below in cast("Mapping[str, Any]", metadata).values():
            if isinstance(below, Mapping):
                yield cast("Mapping[str, Any]", below).get("requires")


def _words(value: Any) -> tuple[str, ...]:
    items = cast("list[Any]", value) if isinstance(value, list) else [value]
    words = (_line(item)[:200] for item in items[:_MOST_NEEDS])
    return tuple(word for word in words if word)


def _line(value: Any) -> str:
    """A plain value on one line, without what could pass for something else on a screen."""
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        return ""
    return one_line(str(value))


def _first_paragraph(body: str) -> str:
    for paragraph in re.split(r"\n\s*\n", body):
        lines = [line for line in paragraph.strip().splitlines() if not line.startswith("#")]
        if words := _line(" ".join(lines)):
            return words[:FIRST_PARAGRAPH]
    return ""


def folders_in(place: Path) -> list[Path]:
    """Folders of skills, by name, also where a link stands for one; none when the place is not
    there."""
    try:
        return sorted(
            path for path in place.iterdir() if path.is_dir() and not path.name.startswith(".")
        )
    except OSError:
        return []
