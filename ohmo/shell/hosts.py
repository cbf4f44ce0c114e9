"""Which hosts the words of a command name, and the one spelling in which names are compared."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ohmo.discovery import load
from ohmo.regular_file import open_regular
from ohmo.shell.git_repository import located
from ohmo.shell.network import networked, program_and_verb
from ohmo.shell.patterns import known, real, word_set
from ohmo.shell.script import Script, Simple

if TYPE_CHECKING:
    from yarl import URL

_MOST = 32  # hosts of one command
_MOST_SETTINGS = 256 * 1024  # bytes
_URL = re.compile(r"(?i)\b(https?|ftp|wss?)://([^\s/?#'\"\\<>]+)(?=[\s/?#'\"<>]|$)")
_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443, "ftp": 21}
_AUTHORITY = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\[\]:@]+)(?::([0-9]{1,5}))?")
_NAME = re.compile(r"(?=.{1,253}$)(?:(?!-)[a-z0-9_-]{1,63}(?<!-)\.)*(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
_REMOTE = re.compile(r"(?im)^\s*(?:push)?url\s*=\s*(\S+)\s*$")
#: Programs that take a URL without its scheme, as plain http.
_BARE = word_set("curl wget http xh")
#: Where programs go by themselves. Registries of packages are none of them: every machine has its
#: own mirror, which ``hosts`` or a rule names.
_HOMES: Mapping[str, tuple[str, ...]] = {
    "gh": ("api.github.com", "github.com"),
    "glab": ("gitlab.com",),
}
#: Of git, the verbs that go where the repository's settings say.
_REMOTES = word_set("fetch pull push ls-remote")


def spelled(host: str) -> str:
    """A host as it is compared: small ASCII letters without the last dot, an address (RFC 4291,
    RFC 5952) in its one short spelling; "" for what is neither. Numbers that some programs take for
    addresses, inet_aton(3), are none."""
    bare = host.removeprefix("[").removesuffix("]") if host.startswith("[") else host
    try:
        return str(ipaddress.ip_address(bare)) if "%" not in bare else ""
    except ValueError:
        pass
    if not host.isascii():
        url = cast("type[URL]", load("yarl:URL"))  # it knows IDNA (RFC 5891), and is seldom needed
        try:
            host = url.build(scheme="http", host=host).raw_host or ""
        except ValueError:
            return ""
    name = host.casefold().removesuffix(".")
    if _NAME.fullmatch(name) is None or _NUMBER.fullmatch(name.rpartition(".")[2]):
        return ""
    return name


def endpoint(text: str, port: int | None = None) -> tuple[str, int | None] | None:
    """Host and port of ``host``, ``host:port`` or ``[address]:port``; ``port`` where it says none.
    None: it is no such thing."""
    found = _AUTHORITY.fullmatch(text)
    if found is None and text.count(":") > 1:  # an address of version 6 without its brackets
        return (bare, port) if (bare := spelled(text)) else None
    if found is None or not (host := spelled(found[1])):
        return None
    number = int(found[2]) if found[2] else port
    return (host, number) if number is None or 0 < number < 65536 else None


def written(host: str, port: int | None) -> str:
    """The same as text."""
    if port is None:
        return host
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


def is_local(host: str) -> bool:
    """Whether a host, ``spelled``, is no name of the public internet whatever it leads to: then
    only its port that was named is meant, and only a person's word is enough."""
    try:
        return not ipaddress.ip_address(host).is_global
    except ValueError:
        return "." not in host or host.rpartition(".")[2] in _LOCAL


_LOCAL = word_set("localhost local internal lan home corp intranet localdomain private test")


def hosts_of(script: Script) -> tuple[str, ...]:
    """``host:port`` of URLs, and ``host`` of where programs go by themselves; looks at the remotes
    of repositories. Empty: nobody can say."""
    found: dict[str, None] = {}
    for simple in script.commands:
        needs = networked(simple)
        found |= dict.fromkeys(_of_words(simple.words, bare=simple.name in _BARE and needs))
        if needs:
            found |= dict.fromkeys(_of_program(simple))
    return tuple(found)[:_MOST]


def _of_words(words: tuple[str, ...], *, bare: bool) -> Iterator[str]:
    some = False
    for word in words[1:]:
        for scheme, authority in _URL.findall(word):
            whole = authority.rpartition("@")[2]
            if known(authority) and (host := endpoint(whole, _PORTS[scheme.lower()])):
                yield written(*host)
                some = True
    if bare and not some:
        for word in reversed(words[1:]):
            if known(word) and not word.startswith("-") and "." in word:
                if host := endpoint(re.split(r"[/?#]", word, maxsplit=1)[0], 80):
                    yield written(*host)
                return


def _of_program(simple: Simple) -> Iterator[str]:
    name, verb = program_and_verb(simple)
    yield from _HOMES.get(name, ())
    if name == "git" and verb in _REMOTES and known(simple.cwds[-1]):
        words = simple.words
        folder = words[words.index("-C") + 1] if "-C" in words[:-1] else "."
        if known(folder):
            yield from _remotes(real(Path(simple.cwds[-1], folder)))


def _remotes(folder: str) -> Iterator[str]:
    repository = located(folder)
    if repository is None:
        return
    try:
        with open_regular(Path(repository.folders[-1], "config")) as file:
            text = file.read(_MOST_SETTINGS).decode("utf-8", "replace")
    except OSError:
        return
    for url in _REMOTE.findall(text):
        yield from _of_words(("git", url), bare=False)
