"""The hooks a project or a plugin brings along, and of a project one digest over all that is
trusted with them."""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path

from channels.record import Recent, record
from ohmo.content import Part, digest_of_files
from ohmo.contracts.hooks import PROJECT_FILES
from ohmo.hooks.hook import SHELL, Endpoint, Hook, HookFile, Program
from ohmo.hooks.matching import takes_its_time
from ohmo.hooks.shapes import read
from ohmo.regular_file import open_regular

LARGEST = 1 << 20  # bytes of the owner's file
_LARGEST_OF_PROJECT = 64 << 10  # bytes of one that a project brings
_MOST = 16 << 20  # bytes of all that is hashed
_MOST_FILES = 2_000
_MOST_WORDS = 2_000
_FOLDERS = (".ohmo/hooks", ".claude/hooks")  # whatever lies there is trusted with the hooks
#: How a line of the shell spells the folder it runs in; linear in time, for strangers write them.
_HERE = re.compile(
    r"\$\{CLAUDE_PROJECT_DIR(?::-(?:[^}$]|\$\{\w{1,64}\}|\$(?!\{)){0,200})?\}"
    r"|\$CLAUDE_PROJECT_DIR\b|\$\(pwd\)|`pwd`|\$\{PWD\}|\$PWD\b"
)
_WRITTEN = re.compile(r"\d{0,4}>>?\s*\S+")
_SLOW = "has look-around, a backreference or is too large; the hook is left out"
_KNOWN = 32  # contents that were read a moment ago


class _Unfit(Exception):
    """Why nothing of a project can be trusted: half a line."""


@record
class Project:
    """``digest``: SHA-256 over its files of hooks, all in their folders, and the files of the
    project that their commands name, each with its path; empty: it can be trusted by nobody.
    ``named``: those files."""

    root: Path
    file: HookFile
    digest: str
    named: tuple[str, ...] = ()


@record
class _Parsed:
    """Of certain bytes. ``words``: what may be a path of the project."""

    file: HookFile
    words: tuple[str, ...]


def _bytes_of(path: Path, name: str, most: int) -> bytes | None:
    """None: there is no such file. Raises _Unfit."""
    try:
        with open_regular(path, follow=True) as file:
            data = file.read(most + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        raise _Unfit(f"{name}: cannot be read ({error.strerror})") from error
    if len(data) > most:
        raise _Unfit(f"{name}: larger than {most >> 10} KiB")
    return data


def _parsed(data: bytes, name: str) -> HookFile:
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        return HookFile(broken=f"{name}: not UTF-8 text at byte {error.start}; save it as UTF-8")
    if not text.strip():
        return HookFile(broken=f"{name}: empty; write `hooks: []` for none, or delete it")
    return read(text, name)


def read_file(path: Path, name: str) -> HookFile | None:
    """The owner's own. None: there is no such file."""
    try:
        data = _bytes_of(path, name, LARGEST)
    except _Unfit as error:
        return HookFile(broken=str(error))
    if data is None:
        gone = f"{name}: a link to {_led(path)}, which is not there"
        return HookFile(broken=gone) if path.is_symlink() else None
    found = _parsed(data, name)
    return replace(found, hooks=tuple(map(_owners, found.hooks)))


def _led(path: Path) -> str:
    try:
        return str(path.readlink())
    except OSError:
        return "a place"


def _owners(hook: Hook) -> Hook:
    if not isinstance(hook.action, Program):
        return hook
    terms = replace(hook.action.terms, owners=True, network=True)
    return replace(hook, action=replace(hook.action, terms=terms))


class Projects:
    """Remembers what it parsed by its bytes, so that nobody's file is taken apart at every call."""

    def __init__(self) -> None:
        self._known = Recent[str, _Parsed](_KNOWN)

    def read(self, root: Path) -> Project | None:
        """Blocks: what stands there now, every byte read anew; None: no hooks. Never raises,
        whatever it holds."""
        try:
            return self._read(root)
        except _Unfit as error:
            line = f"{error}; no hook of {root} runs"
        except Exception as error:  # noqa: BLE001 - anybody may have written it; nothing of it runs
            line = f"the hooks of {root} cannot be read ({type(error).__name__}); none runs"
        return Project(root, HookFile(findings=(line,)), "")

    def _read(self, root: Path) -> Project | None:
        raw: dict[str, bytes] = {}
        for name in PROJECT_FILES:
            data = _bytes_of(root / name, name, _LARGEST_OF_PROJECT)
            if data is not None:
                raw[name] = data
        if not raw:
            return None
        written = _digest(raw)
        parsed = self._known.get(written)
        if parsed is None:
            parsed = self._known[written] = _all_of(raw)
        if not parsed.file.hooks and not parsed.file.findings and not parsed.file.broken:
            return None
        if parsed.file.broken:
            raise _Unfit(parsed.file.broken)
        named = dict.fromkeys(_named(root, parsed.words))
        contents = {"": written.encode()}
        left = _MOST
        for path in sorted({*_below(root), *named}):
            data = _bytes_of(root / path, path, left) or b""
            left -= len(data)
            contents[path] = data
        return Project(root, parsed.file, _digest(contents), tuple(sorted(named)))


def _digest(contents: Mapping[str, bytes]) -> str:
    """Whether a file may be run is no part of it: a shell runs it all the same."""
    return digest_of_files({path: Part(data, runs=False) for path, data in contents.items()})


def _all_of(raw: Mapping[str, bytes]) -> _Parsed:
    found = _together(_parsed(data, name) for name, data in raw.items())
    words = dict.fromkeys(word for hook in found.hooks for word in _words(hook))
    if len(words) > _MOST_WORDS:
        found = replace(found, broken=f"its commands have more than {_MOST_WORDS} words")
    return _Parsed(found, tuple(words))


def hooks_in(plugin: str, texts: Mapping[str, str], folder: str, data: str) -> HookFile:
    """All that a plugin brings. ``texts``: by the file they stand in; ``folder``: where the plugin
    is used from; ``data``: where it keeps things. What cannot be read is ``broken``."""
    found = _together(read(text, name) for name, text in texts.items())
    return replace(found, hooks=tuple(_placed(plugin, hook, folder, data) for hook in found.hooks))


def _placed(plugin: str, hook: Hook, folder: str, data: str) -> Hook:
    action = hook.action
    if isinstance(action, Program):
        action = replace(action, plugin=folder, data=data)
    return replace(hook, name=f"{plugin}: {hook.name}", file=f"{plugin}/{hook.file}", action=action)


def _together(files: Iterable[HookFile]) -> HookFile:
    """The house's own variables are lent to no address that others name, and no matcher of theirs
    holds it up."""
    every = tuple(files)
    hooks = tuple(_without_variables(hook) for file in every for hook in file.hooks)
    slow = [hook for hook in hooks if takes_its_time(hook.tools)]
    return HookFile(
        tuple(hook for hook in hooks if hook not in slow),
        (
            *(line for file in every for line in file.findings),
            *(f"{hook.file}: {hook.name}: {hook.tools[:80]!r} {_SLOW}" for hook in slow),
        ),
        next((file.broken for file in every if file.broken), ""),
    )


def _without_variables(hook: Hook) -> Hook:
    if not isinstance(hook.action, Endpoint):
        return hook
    return replace(hook, action=replace(hook.action, variables=()))


def _words(hook: Hook) -> Iterator[str]:
    """What of its command may name a file, but for what a shell writes to."""
    if not isinstance(hook.action, Program):
        return
    words = [_HERE.sub(".", word) for word in hook.action.argv]
    if hook.action.argv[: len(SHELL)] == SHELL:
        line = _WRITTEN.sub(" ", " ".join(words[len(SHELL) :]))
        try:
            words = list(shlex.shlex(line, posix=True, punctuation_chars=True))
        except ValueError:
            words = re.findall(r"[^\s\"'();|&<>=]+", line)
    folder = "."
    for before, word in zip(("", *words), words, strict=False):
        for piece in (word, *word.split(), word.partition("=")[2]):
            if piece:
                yield piece
                yield os.path.join(folder, piece)  # noqa: PTH118 - text, of anything
        if before == "cd":
            folder = word


def _named(root: Path, words: tuple[str, ...]) -> Iterator[str]:
    """Below the root, as far as there are such files."""
    for word in words:
        path = os.path.normpath(os.path.join(root, word))  # noqa: PTH118
        if path.startswith(f"{root}{os.sep}") and os.path.isfile(path):  # noqa: PTH113 - raises nothing
            yield os.path.relpath(path, root)


def _below(root: Path) -> Iterator[str]:
    """Raises _Unfit."""
    count = 0
    for folder in _FOLDERS:
        for top, folders, names in os.walk(root / folder):
            for name in folders:
                if os.path.islink(os.path.join(top, name)):  # noqa: PTH114, PTH118
                    raise _Unfit(f"{os.path.relpath(top, root)} holds a link to a folder")
            for name in names:
                count += 1
                if count > _MOST_FILES:
                    raise _Unfit(f"{folder} holds more than {_MOST_FILES} files")
                yield os.path.relpath(os.path.join(top, name), root)  # noqa: PTH118
