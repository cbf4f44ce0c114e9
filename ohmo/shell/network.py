"""Which commands are there to reach another machine: by their program, or by its first word. What
is not listed gets the network too, when a call says that it needs it."""

from __future__ import annotations

from collections.abc import Mapping

from ohmo.shell.patterns import known, word_set
from ohmo.shell.script import Simple

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
