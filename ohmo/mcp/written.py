"""What stands in a file of servers as others write it (``.mcp.json``), and which of them count."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Callable, Collection, Mapping
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Any, Literal, Protocol, cast

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from channels.record import record
from ohmo.content import Unfit, cut
from ohmo.contracts.sandbox import Terms
from ohmo.mcp.contract import Endpoint

_MOST = 32  # servers of one file
_LONGEST = 52  # characters of a name, so that those of its tools are what every endpoint takes
_NAME = re.compile(r"[A-Za-z0-9](?:_?[A-Za-z0-9-]){0,31}")
_VARIABLE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::-([^}$]*))?\}")
_ADDRESS = re.compile(r"https?://\S+")
#: Variables that say what a program loads, starts or is set up by: ld.so(8), bash(1), git(1), and
#: the manuals of Python and pip, uv, Node and npm, Perl, Ruby, Java, Go,
#: Cargo. What ends as a credential's does is none.
_LEADS = re.compile(
    r"(?!\w*(?:TOKEN|SECRET|PASSWORD|PASSWD|AUTH|KEY|PIN)$)"
    r"(?:(?:LD|DYLD|GIT|NODE|NPM_CONFIG|PIP|UV|CARGO)_\w+|PYTHON\w+|GOPROXY|\w*(?:PATH|LIB|HOME|DIR|PREFIX|PRELOAD|LOADER|STARTUP|OPTS?|OPTIONS|FLAGS|ENV"
    r"|CONFIG|FILE|RC|SHELL|COMMAND|CMD|PROGRAM|WRAPPER|EDITOR|PAGER|BROWSER|ASKPASS))",
    re.IGNORECASE,
)
_CUT, _LINE = 100, 200  # characters of the value of one, and of a command
_Line = Annotated[str, Field(max_length=8_192, pattern=r"^[^\x00\r\n]*$")]


@record
class Look:
    """``of``: what tells the servers of this file from those of another place. ``notes``: what of
    it does not count and why, a line each. ``digest``: of all that is trusted with them."""

    endpoints: tuple[Endpoint, ...] = ()
    of: str = ""
    notes: tuple[str, ...] = ()
    digest: str = ""


class Lender(Protocol):
    """Brings servers beside those of the configuration, as long as they may take part."""

    async def look(self) -> Look:
        """What counts now. Raises StoreError."""
        ...


@record
class Ground:
    """Where a file of servers stands. ``place``: how it is named to people; ``folder``: where its
    programs start; ``environ``: all that a program of it is given, and all that variables in it may
    stand for; ``taken``: names of the configuration's own servers; ``prefix``: of the others;
    ``plugin``: the folder of the one that brings it; ``data``: where that one keeps things."""

    place: str
    folder: Path
    environ: Mapping[str, str]
    taken: Collection[str] = ()
    prefix: str = ""
    plugin: str = ""
    data: str = ""


class _Written(BaseModel):
    model_config = ConfigDict(strict=True, extra="ignore")
    type: Literal["stdio", "http", "streamable-http", "sse"] | None = None
    command: _Line | None = None
    args: list[Annotated[str, Field(max_length=65_536, pattern=r"^[^\x00]*$")]] = []
    env: dict[Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_]*$")], _Line] = {}
    url: Annotated[_Line, Field(min_length=1)] | None = None
    headers: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9_-]+$")], _Line] = {}


class _Unset(Exception):
    """A variable that the file is not given."""


Servers = tuple[tuple[Endpoint, ...], tuple[str, ...]]
"""And a line for each that does not count."""


def servers_in(data: bytes | str, ground: Ground) -> Servers:
    """Never raises."""
    try:
        return read_servers(data, ground)
    except Unfit as error:
        return (), (f"{ground.place}: {error}",)


def read_servers(data: bytes | str, ground: Ground) -> Servers:
    """Raises Unfit: it is no such file."""
    try:
        whole: Any = json.loads(data)
        # a plugin's file may hold the servers themselves
        bare = bool(ground.prefix) and "mcpServers" not in whole
        servers = cast("dict[str, Any]", whole if bare else whole["mcpServers"])
        rows = list(servers.items())[:_MOST]
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
        why = " ".join(str(error).split())[:100] or type(error).__name__
        expected = '{"mcpServers": {NAME: {"command": …}}}'
        raise Unfit(f"expected JSON as {expected} ({why})") from None
    notes: list[str] = []
    if len(servers) > _MOST:
        notes.append(f"{ground.place}: it has {len(servers)} servers; the first {_MOST} are used")
    found: list[Endpoint] = []
    for name, row in rows:
        endpoint = _endpoint(name, row, ground)
        if isinstance(endpoint, Endpoint):
            found.append(endpoint)
        else:
            notes.append(f"{ground.place}: {name[:40]!r} {endpoint}")
    return tuple(found), tuple(notes)


def _endpoint(written_name: str, row: object, ground: Ground) -> Endpoint | str:
    """A line: why it is not used."""
    if len(written_name) > 32 or _NAME.fullmatch(written_name) is None:
        return "is left out: a name has 1 to 32 letters, digits, - and single _"
    if not ground.prefix and written_name.startswith("plugin_"):
        return "is left out: a name that begins with plugin_ is one of a plugin's"
    name = ground.prefix + written_name
    if len(name) > _LONGEST:
        return f"is left out: {name} is longer than {_LONGEST} characters"
    if name in ground.taken:
        return "is left out: config.yaml has a server of that name"
    if not isinstance(row, dict):
        return "is left out: expected keys and values"
    try:
        written = _Written.model_validate(row)
        if (written.command is None) == (written.url is None):
            return "is left out: give either command (a program) or url (a server)"
        argv = (written.command, *written.args) if written.command is not None else ()
        of = sha256(ground.place.encode()).hexdigest()[:16]  # whose servers share no cache
        remote = "sse" if written.type == "sse" else "http"
        url = _filled(written.url or "", ground.environ)
        if not argv and _ADDRESS.fullmatch(url) is None:
            return "is left out: url: expected http:// or https://"
        return Endpoint(
            name,
            "stdio" if argv else remote,
            ground.folder,
            argv=tuple(_filled(word, ground.environ) for word in argv),
            env={**ground.environ, **_all_filled(written.env, ground.environ)},
            url=url,
            headers=_all_filled(written.headers, ground.environ),
            terms=Terms(
                f"the MCP server {name}",
                network=True,
                plugin=ground.plugin,
                data=ground.data,
                cache=f"{of}-{name}",
            ),
        )
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        where = ".".join(map(str, first["loc"]))[:100] or "it"
        return f"is left out: {where}: {first['msg'][:200]}"
    except _Unset as error:
        return (
            f"is left out: the variable {error} is not given to projects and plugins;"
            " configure the server in config.yaml if it needs that"
        )


def shown(
    endpoint: Endpoint,
    given: Mapping[str, str],
    redact: Callable[[str], str],
    *,
    whole: bool = False,
) -> str:
    """What would run or be asked, for who allows it. ``given``: what every program is given; of
    other variables the value of those that lead it to code, else only the name, and no query of an
    address, for those often hold secrets."""
    own = {key: value for key, value in (endpoint.env or {}).items() if given.get(key) != value}
    leads = sorted(filter(_LEADS.fullmatch, own))
    most, line = (10**9, 10**9) if whole else (_CUT, _LINE)
    more = [f"{key}={cut(shlex.quote(redact(own[key])), most)}" for key in leads]
    more += [f"{key}=…" for key in own if key not in leads]
    told = [f"with the header {key}" for key in endpoint.headers or {}]
    address, asks, _ = endpoint.url.partition("?")
    url = f"{address}?…" if asks else address
    if not endpoint.argv:
        return redact(" ".join([url, *told]))
    # Neither is so long that the other does not stand on the card.
    program = cut(redact(" ".join(endpoint.argv)), line)
    return redact(" ".join([program, *(["with", *more] if more else [])]))


def _filled(text: str, environ: Mapping[str, str]) -> str:
    def value(match: re.Match[str]) -> str:
        default: str | None = match[2]
        known = environ.get(match[1], default)
        if known is None:
            raise _Unset(match[1][:80])
        return known

    return _VARIABLE.sub(value, text)


def _all_filled(table: Mapping[str, str], environ: Mapping[str, str]) -> dict[str, str]:
    return {key: _filled(value, environ) for key, value in table.items()}
