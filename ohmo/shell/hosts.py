"""Which commands are there to reach another machine, which hosts their words name, and the one
spelling in which names are compared."""

from __future__ import annotations

import ipaddress
import os
import re
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, cast

from ohmo.discovery import load
from ohmo.regular_file import open_regular
from ohmo.shell.git_repository import located
from ohmo.shell.patterns import known, real, word_set
from ohmo.shell.script import Script, Simple

if TYPE_CHECKING:
    from yarl import URL

_MOST = 32  # hosts of one command
_MOST_SETTINGS = 16 * 1024  # bytes; of longer ones nothing is known
_MOST_REPOSITORIES = 4  # of one command that are looked at: this runs on the event loop
_LONGEST = 253  # characters of a name, RFC 1035
_URL = re.compile(r"(?i)\b(https?|ftp|wss?)://([^\s/?#'\"\\<>]+)(?=[\s/?#'\"<>]|$)")
_PORTS = {"http": 80, "ws": 80, "https": 443, "wss": 443, "ftp": 21}
_AUTHORITY = re.compile(r"(\[[0-9a-fA-F:.]+\]|[^\[\]:@]+)(?::([0-9]{1,5}))?")
_NAME = re.compile(r"(?=.{1,253}$)(?:(?!-)[a-z0-9_-]{1,63}(?<!-)\.)*(?!-)[a-z0-9_-]{1,63}(?<!-)")
_NUMBER = re.compile(r"0x[0-9a-f]*|[0-9]+")
_REMOTE = re.compile(r"(?im)^[ \t]*(?:push)?url[ \t]*=[ \t]*(\S+)[ \t]*$")
#: Programs that take a URL without its scheme, as plain http, and options of theirs without a value
#: (curl(1), wget(1)). Beside any other word a bare one may be a file or a value.
_BARE = {
    "curl": re.compile(r"-[fgiIJkLNOqsSv#046]+"),
    "wget": re.compile(r"-(?:[46cNqSvx]+|n[vdc])"),
    "http": re.compile(r"(?!)"),
    "xh": re.compile(r"(?!)"),
}
#: Programs that go where their own settings say: no word of theirs is an address, but for what has
#: one of these letters.
_OWN_WAY = word_set(
    """pip uv poetry npm pnpm yarn bun npx pnpx bunx uvx pipx cargo gem bundle composer apt apt-get
        brew"""
)
_OF_ADDRESSES = frozenset(":%@/")
#: Words of git that lead to no other place than its remotes.
_OF_GIT = re.compile(
    r"[A-Za-z0-9][A-Za-z0-9._/-]*|-[fnquv]|--(?:all|atomic|delete|dry-run|ff-only|follow-tags|force"
    r"|force-with-lease|no-rebase|no-verify|prune|quiet|rebase|set-upstream|tags|verbose)"
)
#: Where programs go by themselves. Registries of packages are none of them: every machine has its
#: own mirror, which ``hosts`` or a rule names.
_HOMES: Mapping[str, tuple[str, ...]] = {
    "gh": ("api.github.com", "github.com"),
    "glab": ("gitlab.com",),
}
#: Of git, the verbs that go where the repository's settings say.
_REMOTES = word_set("fetch pull push ls-remote")
PRIVATE_NAMES = (
    "localhost",  # RFC 6761
    "local",  # RFC 6762
    "internal",  # ICANN's choice for private use; metadata.google.internal, host.docker.internal
    "home.arpa",  # RFC 8375
    "intranet",
    "home",
    "lan",
    "corp",
    "localdomain",
    "private",
    "onion",
    "test",
    "invalid",
    "svc",  # Kubernetes
    "metadata.goog",
    "metadata.packet.net",  # answers by who asks, on a public address
    "metadata.platformequinix.com",
    "api.metadata.cloud.ibm.com",
    "metadata.tencentyun.com",
)


def spelled(host: str) -> str:
    """A host as it is compared: small ASCII letters without the last dot, an address (RFC 4291,
    RFC 5952) in its one short spelling; "" for what is neither. Numbers that some programs take for
    addresses, inet_aton(3), are none."""
    if len(host) > _LONGEST + 1:  # with its last dot
        return ""
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
        return "." not in host or f".{host}".endswith(_PRIVATE_ENDS)


_PRIVATE_ENDS = tuple(f".{name}" for name in PRIVATE_NAMES)


def hosts_of(script: Script) -> tuple[str, ...]:
    """``host:port`` of URLs, and ``host`` of where programs go by themselves; looks at the remotes
    of a few repositories, short files. Empty: nobody can say."""
    return _read(script)[0]


def understood(script: Script) -> bool:
    """Whether all that needs the network is known to go nowhere but where ``hosts_of`` says, or
    where the settings of its own program say. What is not known to be so is not."""
    return _read(script)[1]


def _read(script: Script) -> tuple[tuple[str, ...], bool]:
    found: dict[str, None] = {}
    whole = True
    folders: dict[str, tuple[str, ...]] = {}
    for simple in script.commands:
        needs = networked(simple)
        if len(found) > _MOST:
            break
        names = tuple(_of_words(simple.words))
        if needs:
            more, known_all = _of_program(simple, names, folders)
            names, whole = (*names, *more), whole and known_all
        found |= dict.fromkeys(names)
    return tuple(found)[:_MOST], whole and len(found) <= _MOST


def _of_words(words: tuple[str, ...]) -> Iterator[str]:
    for word in words[1:]:
        for scheme, authority in _URL.findall(word):
            whole = authority.rpartition("@")[2]
            if known(authority) and (host := endpoint(whole, _PORTS[scheme.lower()])):
                yield written(*host)


def _of_program(
    simple: Simple, names: tuple[str, ...], folders: dict[str, tuple[str, ...]]
) -> tuple[tuple[str, ...], bool]:
    """Where a program goes beside the ``names`` of its URLs, and whether that is all."""
    name, verb = program_and_verb(simple)
    words = simple.words[1:]
    if name in _OWN_WAY:
        plain = (known(word) and not _OF_ADDRESSES & set(word) for word in words)
        return (), all(plain) and not simple.assigned
    if simple.name in _BARE:
        rest = [word for word in words if not _BARE[simple.name].fullmatch(word)]
        if names or len(rest) != 1 or not known(rest[0]):
            return (), False
        host = endpoint(re.split(r"[/?#]", rest[0], maxsplit=1)[0], 80)
        return ((written(*host),) if host else ()), False  # who answers may send it elsewhere
    if name in _HOMES:
        return _HOMES[name], False
    if name == "git" and verb in _REMOTES and known(simple.cwds[-1]):
        folder = words[words.index("-C") + 1] if "-C" in words[:-1] else "."
        if known(folder):
            at = os.path.normpath(os.path.join(simple.cwds[-1], folder))  # noqa: PTH118
            if at not in folders and len(folders) < _MOST_REPOSITORIES:
                folders[at] = tuple(_remotes(real(Path(at))))
            remotes = folders.get(at, ())
            rest = [word for word in words if word not in ("-C", folder)]
            plain = not simple.assigned and all(map(_OF_GIT.fullmatch, rest))
            return remotes, bool(remotes) and plain and not names
    return (), False


def _remotes(folder: str) -> Iterator[str]:
    repository = located(folder)
    if repository is None:
        return
    try:
        with open_regular(Path(repository.folders[-1], "config")) as file:
            text = file.read(_MOST_SETTINGS + 1)
    except OSError:
        return
    if len(text) <= _MOST_SETTINGS:
        for url in _REMOTE.findall(text.decode("utf-8", "replace")):
            yield from _of_words(("git", url))


# Programs that are there to reach another machine, by themselves or by their first word. What is
# not listed gets the network too, when a call says that it needs it.
_ALWAYS = word_set(
    """curl wget http https xh gh glab ssh scp sftp ftp lftp nc ncat netcat telnet ping ping6
        traceroute mtr dig host nslookup whois npx pnpx bunx uvx pipx aws gcloud az kubectl helm
        terraform"""
)
_PACKAGES = word_set("install i ci add update upgrade up publish view info audit outdated")
_VERBS: Mapping[str, frozenset[str]] = {
    "git": word_set("clone fetch pull push ls-remote submodule"),
    "pip": word_set("install download wheel index"),
    "uv": word_set("pip sync add lock run tool python publish"),
    "poetry": word_set("install add update lock publish"),
    "npm": _PACKAGES | word_set("exec login"),
    "pnpm": _PACKAGES | word_set("dlx"),
    "yarn": _PACKAGES | word_set("dlx"),
    "bun": _PACKAGES | word_set("x create"),
    "cargo": word_set("install fetch add update publish search"),
    "go": word_set("get install mod"),
    "gem": word_set("install update push fetch"),
    "bundle": word_set("install update add"),
    "composer": word_set("install update require"),
    "apt": word_set("install update upgrade"),
    "apt-get": word_set("install update upgrade"),
    "brew": word_set("install update upgrade fetch"),
}
# Options with a value of their own, which may stand before the verb: ``git -C FOLDER push``.
_VALUED = word_set(
    """-C -c --git-dir --work-tree --namespace --prefix --dir --cwd -w --workspace --config
        --manifest-path -Z --directory --project --python --proxy --cache-dir --loglevel"""
)
_SAME = {"pip3": "pip"}


def networked(command: Simple) -> bool:
    """Whether this command is of no use without a network."""
    name, verb = program_and_verb(command)
    if name in _ALWAYS:
        return True
    if name == "rsync":
        return any(":" in word for word in command.words[1:])
    if (name, verb) == ("git", "submodule"):
        return any(word in ("add", "update") for word in command.words[2:])
    return known(verb) and verb in _VERBS.get(name, ())


def program_and_verb(command: Simple) -> tuple[str, str]:
    """The program, by its usual name, and the first word that is no option."""
    name, words = command.name, command.words[1:]
    if name.startswith("python") and words[:2] == ("-m", "pip"):
        name, words = "pip", words[2:]
    before = iter(words)
    for word in before:
        if word in _VALUED:
            next(before, "")
        elif not word.startswith(("-", "+")):
            return _SAME.get(name, name), word
    return _SAME.get(name, name), ""
