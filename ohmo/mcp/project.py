"""``.mcp.json`` of the workspace, which anybody may have written: it is hashed first and read only
while somebody trusts exactly these bytes."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Collection, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from channels.record import record
from ohmo.content import Unfit, content_of
from ohmo.contracts.mcp import PROJECT_FILE
from ohmo.contracts.trust import Candidate, Trusts
from ohmo.mcp.contract import Endpoint

_MOST = 32  # servers of one file
_NAME = re.compile(r"[A-Za-z0-9](?:_?[A-Za-z0-9-]){0,31}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}]*))?\}")
_Line = Annotated[str, Field(max_length=8_192, pattern=r"^[^\x00\r\n]*$")]


@record
class Look:
    """``of``: what tells the servers of this file from those of another workspace. ``notes``: what
    of it does not count and why, a line each."""

    endpoints: tuple[Endpoint, ...] = ()
    of: str = ""
    notes: tuple[str, ...] = ()


class _Written(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")
    type: Literal["stdio", "http", "streamable-http", "sse"] | None = None
    command: _Line | None = None
    args: list[Annotated[str, Field(max_length=65_536, pattern=r"^[^\x00]*$")]] = []
    env: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], _Line] = {}
    url: Annotated[_Line, Field(pattern=r"^https?://[^\s]+$")] | None = None
    headers: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9-]+$")], _Line] = {}


class _Unset(Exception):
    """A variable that the file is not given."""


class ProjectFile:
    """``environ``: all that a program of it is given, and all that variables in it may stand for.
    ``taken``: names of the configuration's own servers."""

    def __init__(
        self, folder: Path, trusts: Trusts, environ: Mapping[str, str], taken: Collection[str]
    ) -> None:
        self._folder = folder
        self._trusts = trusts
        self._environ = environ
        self._taken = taken

    async def candidates(self) -> list[Candidate]:
        """What waits to be trusted. Raises StoreError."""
        found = await asyncio.to_thread(self._bytes)
        if not isinstance(found, tuple) or await self._trusted(found[0]):
            return []
        may = "starts programs and reaches servers for tools, as it says"
        where = str(self._folder)
        return [Candidate("mcp", where, found[0], f"{where}/{PROJECT_FILE}", may)]

    async def look(self) -> Look:
        """What counts now. Raises StoreError."""
        found = await asyncio.to_thread(self._bytes)
        if found is None:
            return Look()
        if isinstance(found, str):
            return Look(notes=(found,))
        digest, data = found
        if not await self._trusted(digest):
            word = f"ohmo trust allow mcp {self._folder} --digest {digest[:12]}"
            return Look(
                notes=(f"{self._folder / PROJECT_FILE} does not count: read it, then: {word}",)
            )
        return await asyncio.to_thread(self._read, data)

    async def _trusted(self, digest: str) -> bool:
        return await self._trusts.trusted("mcp", str(self._folder), digest)

    def _bytes(self) -> tuple[str, bytes] | str | None:
        """Its digest and itself; a line: it cannot be read; None: there is none."""
        path = self._folder / PROJECT_FILE
        try:
            if not path.exists():
                return None
            content = content_of(path)
        except (Unfit, OSError) as error:
            return f"{path} does not count: {error}"
        if PROJECT_FILE not in content.files:
            return f"{path} does not count: it is a folder"
        return content.digest, content.files[PROJECT_FILE].data

    def _read(self, data: bytes) -> Look:
        path = self._folder / PROJECT_FILE
        try:
            whole: Any = json.loads(data)
            servers = cast("dict[str, Any]", whole["mcpServers"])
            rows = list(servers.items())[:_MOST]
        except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
            why = " ".join(str(error).split())[:100] or type(error).__name__
            line = f'{path}: expected JSON as {{"mcpServers": {{NAME: {{"command": …}}}}}} ({why})'
            return Look(notes=(line,))
        notes: list[str] = []
        if len(servers) > _MOST:
            notes.append(f"{path}: it has {len(servers)} servers; the first {_MOST} are used")
        found: list[Endpoint] = []
        for name, row in rows:
            endpoint = self._endpoint(name, row)
            if isinstance(endpoint, Endpoint):
                found.append(endpoint)
            else:
                notes.append(f"{path}: {name[:40]!r} {endpoint}")
        return Look(tuple(found), sha256(str(self._folder).encode()).hexdigest()[:16], tuple(notes))

    def _endpoint(self, name: str, row: object) -> Endpoint | str:
        """A line: why it is not used."""
        if len(name) > 32 or _NAME.fullmatch(name) is None:
            return "is left out: a name has 1 to 32 letters, digits, - and single _"
        if name in self._taken:
            return "is left out: config.yaml has a server of that name"
        try:
            written = _Written.model_validate(row)
            if (written.command is None) == (written.url is None):
                return "is left out: give either command (a program) or url (a server)"
            argv = (written.command, *written.args) if written.command is not None else ()
            remote = "sse" if written.type == "sse" else "http"
            return Endpoint(
                name,
                "stdio" if argv else remote,
                self._folder,
                argv=tuple(map(self._filled, argv)),
                env={**self._environ, **self._all_filled(written.env)},
                url=self._filled(written.url or ""),
                headers=self._all_filled(written.headers),
            )
        except ValidationError as error:
            first = error.errors(include_url=False, include_input=False)[0]
            where = ".".join(map(str, first["loc"]))[:100] or "it"
            return f"is left out: {where}: {first['msg'][:200]}"
        except _Unset as error:
            return (
                f"is left out: the variable {error} is not given to projects; configure the server"
                " in config.yaml if it needs that"
            )

    def _filled(self, text: str) -> str:
        def value(match: re.Match[str]) -> str:
            default: str | None = match[2]
            known = self._environ.get(match[1], default)
            if known is None:
                raise _Unset(match[1][:80])
            return known

        return _VARIABLE.sub(value, text)

    def _all_filled(self, table: Mapping[str, str]) -> dict[str, str]:
        return {key: self._filled(value) for key, value in table.items()}
