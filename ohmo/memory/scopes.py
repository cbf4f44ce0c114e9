"""Whose notes a turn sees: one positive rule. Who is not named here sees nothing."""

from __future__ import annotations

import re
from collections.abc import Callable
from hashlib import sha1
from pathlib import Path
from typing import Literal

from channels.contract import Address
from channels.record import record
from ohmo.contracts.outbox import OWN_CHANNELS
from ohmo.contracts.tool import Standing

OWNER = ""  # folder of the owner's own notes: the memory itself
PEOPLE, CHATS = "people", "chats"
DIGEST = 12  # signs of a folder's name


@record
class Viewer:
    """For whom a turn or a command looks. ``person``: ``CHANNEL:PERSON``; ``private``: nobody else
    reads what is said in this place; ``place`` None: nowhere."""

    person: str
    role: Standing
    private: bool
    place: Address | None
    cwd: Path


@record
class Scope:
    """``folder``: below the memory; made when something is first written. ``about``: what it is
    for, as its index says it (a project's path and first commit)."""

    label: str
    folder: str
    about: tuple[tuple[str, str], ...] = ()


def visible(viewer: Viewer, project: Callable[[Path], Scope], *, opaque: bool) -> tuple[Scope, ...]:
    """A guest sees nothing. Everybody else: their own notes where only they read, those of the chat
    they are in, and those of the folder they work in. The first is where a note goes that names
    none. ``project``: of a folder; ``opaque``: folders bear no names."""
    if viewer.role == "guest":
        return ()
    scopes: list[Scope] = []
    place = viewer.place
    if viewer.private and viewer.role == "owner":
        scopes.append(Scope("person", OWNER, (("person", "owner"),)))
    elif viewer.private:
        scopes.append(_named("person", PEOPLE, viewer.person, opaque=opaque))
    if place is not None and place.channel not in OWN_CHANNELS:
        # a topic belongs to its chat: who reads the one reads the other
        chat = f"{place.channel}:{place.account}/{place.chat}"
        scopes.append(_named("chat", CHATS, chat, opaque=opaque))
    return (*scopes, project(viewer.cwd))


def _named(label: Literal["person", "chat"], folder: str, who: str, *, opaque: bool) -> Scope:
    name = folder_name(who, digest_of(who)[:DIGEST], opaque=opaque)
    return Scope(label, f"{folder}/{name}", ((label, who),))


def digest_of(text: str) -> str:
    """Hexadecimal, 40 signs; it names, it protects nothing."""
    return sha1(text.encode("utf-8", "surrogatepass"), usedforsecurity=False).hexdigest()


def folder_name(text: str, digest: str, *, opaque: bool) -> str:
    """``NAME-DIGEST``."""
    name = "" if opaque else re.sub(r"[^\w.]+", "-", text)[:40].strip("-._")
    return f"{name}-{digest}" if name else digest
