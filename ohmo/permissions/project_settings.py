"""``.ohmo/settings.yaml`` of a project, which anybody may have written: it can only tighten what
the configuration says. What holds is the version that a person allowed last; a file that was
changed, spoilt or taken away since loosens nothing."""

from __future__ import annotations

import asyncio
import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import structlog
from pydantic import ValidationError

from channels.record import record
from ohmo.config.problems import from_pydantic
from ohmo.config.rules import Rule
from ohmo.config.section import Section
from ohmo.config.source import parse
from ohmo.config.values import Many
from ohmo.content import Unfit, content_of
from ohmo.contracts.tool import Mode
from ohmo.contracts.trust import SETTINGS as FILE
from ohmo.contracts.trust import Candidate, Trusts
from ohmo.permissions.rules import parse_rule

log = structlog.get_logger("ohmo.permissions")
_NAME = "settings.yaml"
_LARGEST = 64 << 10  # bytes
_MOST_RULES = 500  # each is held against every call
_NETWORK = ("WebFetch", "WebSearch")
_SHOWN = 8  # rules in the line that says what it would do


@record
class Tightening:
    """Of the folder ``root`` and all below it. ``mode``: the freest that it leaves. ``offline``:
    commands have no network. ``lost``: why nobody knows what was allowed; nothing is changed
    then."""

    root: Path
    ask: tuple[str, ...] = ()
    deny: tuple[str, ...] = ()
    mode: Mode = "full_auto"
    read_outside: Literal["ask", "allow"] = "allow"
    offline: bool = False
    lost: str = ""

    @property
    def file(self) -> Path:
        return self.root / FILE


class _Permissions(Section):
    mode: Literal["default", "plan"] | None = None
    preset: Literal["safe", "balanced"] | None = None
    ask: Many[Rule] = ()
    deny: Many[Rule] = ()
    read_outside: Literal["ask"] | None = None


class _Sandbox(Section):
    network: Literal["off"] | None = None


class _Settings(Section):
    permissions: _Permissions = _Permissions()
    sandbox: _Sandbox = _Sandbox()


def read(data: bytes, root: Path) -> Tightening:
    """Raises ValueError with one line, which names the file and what to do."""
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(
            f"{FILE}: not UTF-8 text at byte {error.start}; save it as UTF-8"
        ) from None
    source = parse(text, FILE)
    if source.problems:
        raise ValueError(_one_line(source.problems[0]))
    rules = source.data.get("permissions")
    if isinstance(rules, dict) and "allow" in rules:
        why = "a project can only tighten; what may be done unasked stands in config.yaml"
        raise ValueError(_one_line(source.problem(("permissions", "allow"), why)))
    try:
        written = _Settings.model_validate(source.data)
    except ValidationError as error:
        raise ValueError(_one_line(from_pydantic(error, _Settings, source)[0])) from None
    return _tightening(written, root)


def _one_line(problem: object) -> str:
    return " ".join(str(problem).split())


def _tightening(written: _Settings, root: Path) -> Tightening:
    """Raises ValueError."""
    rules, offline = written.permissions, written.sandbox.network == "off"
    ask, deny = rules.ask, rules.deny
    if len(ask) + len(deny) > _MOST_RULES:
        raise ValueError(f"{FILE}: more than {_MOST_RULES} rules; leave some out")
    for text in (*ask, *deny):
        try:
            parse_rule(text)
        except ValueError as error:
            raise ValueError(f"{FILE}: {_one_line(error)}") from None
    if rules.preset == "safe":
        ask = (*ask, *_NETWORK, "MemoryWrite")
    if offline:
        deny = (*deny, *_NETWORK)
    # each preset but ``full`` is ``default``
    mode: Mode = "full_auto" if rules.preset is None else "default"
    return Tightening(
        root,
        tuple(dict.fromkeys(ask)),
        tuple(dict.fromkeys(deny)),
        rules.mode or mode,
        rules.read_outside or "allow",
        offline,
    )


class ProjectSettings:
    """``kept``: a folder of ohmo's home for what was shown to people, by its digest, so that what
    they allowed is there whatever becomes of the file."""

    def __init__(self, kept: Path, trusts: Trusts) -> None:
        self._kept = kept
        self._trusts = trusts
        self._holding: tuple[tuple[str, Tightening], ...] = ()

    def over(self, cwd: Path) -> Sequence[Tightening]:
        """What was allowed for this folder or one above it: by the names as they lead now, and as
        they led when it was taken up, whatever a link is turned to since."""
        if not self._holding:
            return ()
        here = f"{os.path.realpath(cwd)}/"
        return [
            each for root, each in self._holding if here.startswith((root, _resolved(each.root)))
        ]

    async def refresh(self) -> None:
        """With the start, and after something was allowed or revoked. Raises StoreError."""
        self._holding = await asyncio.to_thread(self._all_held, await self._allowed())

    async def candidates(self, folder: Path) -> list[Candidate]:
        """The file of this folder, unless it is what was allowed last. Raises StoreError."""
        allowed = (await self._allowed()).get(str(folder / FILE))
        found = await asyncio.to_thread(self._look, folder, allowed)
        return [] if found is None else [found]

    async def _allowed(self) -> dict[str, str]:
        """By its path the digest that was allowed last."""
        found: dict[str, str] = {}
        for row in await self._trusts.trusts():
            if row.kind == "project" and row.name.endswith(f"/{FILE}") and not row.revoked_at:
                found.setdefault(row.name, row.digest)
        return found

    def _look(self, folder: Path, allowed: str | None) -> Candidate | None:
        path = folder / FILE
        name = str(path)
        try:
            if not os.path.lexists(path):
                return None
            digest, data = _content(path)
        except (Unfit, OSError) as error:
            broken = f"{FILE}: {error}"
            return Candidate("project", name, "", str(folder), "", broken)
        if digest == allowed:
            return None
        try:
            says = read(data, folder)
            self._keep(digest, data)
        except ValueError as error:
            return Candidate("project", name, digest, str(folder), "", str(error))
        except OSError as error:
            broken = f"{FILE}: no copy of it can be kept ({error.strerror})"
            return Candidate("project", name, digest, str(folder), "", broken)
        until = "; until then the version that was allowed before holds" if allowed else ""
        return Candidate("project", name, digest, str(folder), f"tightens: {_words(says)}{until}")

    def _all_held(self, allowed: Mapping[str, str]) -> tuple[tuple[str, Tightening], ...]:
        """With the folder as it is resolved. Copies that nobody allowed go."""
        found = [self._held(name, digest) for name, digest in allowed.items()]
        for folder in self._kept.glob("*/"):
            if folder.name not in allowed.values():
                shutil.rmtree(folder, ignore_errors=True)
        return tuple((_resolved(each.root), each) for each in found)

    def _held(self, name: str, digest: str) -> Tightening:
        root = Path(name.removesuffix(f"/{FILE}"))
        try:
            try:
                data = _kept_as(digest, self._kept / digest / _NAME)
            except (Unfit, OSError):
                data = _kept_as(digest, root / FILE)
                self._keep(digest, data)
            return read(data, root)
        except (Unfit, OSError, ValueError) as error:
            log.warning("project_settings_lost", project=name, problem=str(error))
            why = (
                "what was allowed of it is not known any more, so nothing is changed here: ohmo"
                f" trust allow project {name}, or revoke it"
            )
            return Tightening(root, mode="plan", lost=why)

    def _keep(self, digest: str, data: bytes) -> None:
        """Raises OSError."""
        folder = self._kept / digest
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        fresh = folder / f"{_NAME}.new"
        fresh.write_bytes(data)
        fresh.replace(folder / _NAME)
        for mode in (0o600, 0o700):  # whether it may be run is part of what was allowed
            (folder / _NAME).chmod(mode)
            if _content(folder / _NAME)[0] == digest:
                return


def _resolved(root: Path) -> str:
    return os.path.realpath(root).rstrip("/") + "/"


def _content(path: Path) -> tuple[str, bytes]:
    """Raises Unfit, OSError."""
    content = content_of(path, most_bytes=_LARGEST)
    (name, part), *more = content.files.items() or [("", None)]
    if more or name != _NAME or part is None:
        raise Unfit("not a file of this name")
    return content.digest, part.data


def _kept_as(digest: str, path: Path) -> bytes:
    """Raises Unfit, OSError."""
    found, data = _content(path)
    if found != digest:
        raise Unfit("other content")
    return data


def _words(says: Tightening) -> str:
    """What it does, in one line."""
    parts: list[str] = []
    if says.mode != "full_auto":
        parts.append(f"at most mode {says.mode}")
    for verb, rules in (("refuses", says.deny), ("asks before", says.ask)):
        if rules:
            more = f" and {len(rules) - _SHOWN} more" if len(rules) > _SHOWN else ""
            parts.append(f"{verb} {', '.join(_one_line(each) for each in rules[:_SHOWN])}{more}")
    if says.read_outside == "ask":
        parts.append("asks before reading outside")
    if says.offline:
        parts.append("commands have no network")
    return "; ".join(parts) or "nothing"


def places_of(says: Tightening, places: Mapping[str, str]) -> dict[str, str]:
    """What names of folders stand for in its rules: the workspace is its own."""
    return {**places, "WORKSPACE": str(says.root)}
