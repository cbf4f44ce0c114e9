"""What Discord's answers and close codes mean for whoever asked. Pure."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Iterator, Mapping
from typing import Any, TypeVar, cast

from channels.errors import Ambiguous, AuthFailed, ChannelError, NotReady, RateLimited, Rejected

Result = TypeVar("Result")
_CONSOLE = "discord.com/developers/applications, your app, Bot"

# Opcodes and status codes, "Gateway close event codes": those with "Reconnect: false", each with
# what to do about it.
_FATAL = {
    4004: (
        f"the bot token is not valid: put the one from {_CONSOLE}, Reset Token, into"
        " channels.discord.token"
    ),
    4010: (
        "the gateway refuses the shard (4010); ohmo asks for none: a proxy in between must not"
        " add one"
    ),
    4011: (
        "the bot is in so many guilds that Discord wants it sharded (4011); ohmo serves bots of"
        " fewer than 2500 guilds"
    ),
    4012: "the gateway does not speak API version 10 (4012): update ohmo",
    4013: "the gateway does not know an intent that ohmo asks for (4013): update ohmo",
    4014: (
        f"an intent is not allowed (4014): switch on Message Content Intent at {_CONSOLE},"
        " Privileged Gateway Intents"
    ),
}
_NEW_SESSION = frozenset(
    {4003, 4007, 4009}
)  # not identified, invalid number, session timed out: only IDENTIFY helps


class Refused(Rejected):
    """Discord said no. ``code``: its JSON error code, 0 without one; ``status``: of HTTP."""

    def __init__(self, text: str, status: int, code: int) -> None:
        super().__init__(text)
        self.status = status
        self.code = code


class Lost(ChannelError):
    """The call was made; nobody knows whether it was carried out."""


class Unreachable(NotReady):
    """A gateway address where nobody answers."""


class Over(NotReady):
    """The gateway connection ended. ``resume``: whether its session may be resumed."""

    def __init__(self, text: str, *, resume: bool) -> None:
        super().__init__(text)
        self.resume = resume


def closed(code: int | None, text: str) -> ChannelError:
    """Why a gateway connection ended: AuthFailed for the codes after which Discord wants no new
    try."""
    if code in _FATAL:
        return AuthFailed(f"Discord: {_FATAL[code]}")
    return Over(f"{text} ({code})" if code else text, resume=code not in _NEW_SESSION)


async def settled(call: Awaitable[Result], *, once: bool) -> Result:
    """``once``: the call may have shown something, and a second one might show it twice."""
    try:
        return await call
    except Lost as lost:
        raise (Ambiguous if once else NotReady)(str(lost)) from lost


def answered(call: str, status: int, headers: Mapping[str, str], content: bytes) -> Any:
    """The decoded body of a success. Raises AuthFailed, RateLimited, Refused; Lost for a failure of
    Discord's own, and for a success that cannot be read.

    The SDK waits for a 429 only when it carries a ``Via`` header, repeats 500, 502, 504 by itself
    but not 503, and looks into a body only when its type is spelled the usual way; here each answer
    is judged by what it is."""
    body = _decoded(content)
    if 200 <= status < 300:
        if body is _NOTHING and content.strip():
            raise Lost(f"Discord: {call}: an answer that cannot be read")
        return None if body is _NOTHING else body
    said = cast("dict[str, Any]", body) if isinstance(body, dict) else {}
    if status == 429:
        raise RateLimited(
            _retry_after(said, {name.lower(): value for name, value in headers.items()})
        )
    if status >= 500:
        raise Lost(f"Discord: {call}: HTTP {status}")
    code = said.get("code")
    code = code if isinstance(code, int) else 0
    text = f"Discord: {call}: HTTP {status}: {said.get('message') or 'no reason given'}" + (
        f" ({code})" if code else ""
    )
    if status == 401:
        raise AuthFailed(
            f"{text}: put the token from {_CONSOLE}, Reset Token, into channels.discord.token"
        )
    details = "; ".join(_details(said.get("errors"), ()))
    raise Refused(f"{text}: {details}" if details else text + _advice(code), status, code)


def _advice(code: int) -> str:
    """JSON error codes that a person can do something about."""
    return {
        50001: ": the bot may not see this channel: give its role View Channel",
        50007: ": this person takes no direct messages from the bot",
        50013: (
            ": give the bot's role the permissions Send Messages, Send Messages in Threads, Attach"
            " Files and Read Message History"
        ),
        40005: ": the file is larger than this place takes",
    }.get(code, "")


_NOTHING = object()


def _decoded(content: bytes) -> object:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return _NOTHING


def _retry_after(body: Mapping[str, Any], headers: Mapping[str, str]) -> float:
    """Rate limits, "Exceeding a rate limit": retry_after in the body is finer than the header; an
    answer of Cloudflare has no body of Discord's."""
    for value in (
        body.get("retry_after"),
        headers.get("retry-after"),
        headers.get("x-ratelimit-reset-after"),
    ):
        try:
            if value is not None:
                return max(0.0, float(value))
        except (TypeError, ValueError):
            continue
    return 60.0


def _details(errors: object, path: tuple[str, ...]) -> Iterator[str]:
    """Reference, "Error messages": a tree whose leaves are lists under _errors."""
    if not isinstance(errors, dict) or len(path) > 10:
        return
    for name, below in cast("dict[str, Any]", errors).items():
        if name == "_errors" and isinstance(below, list):
            for one in cast("list[Any]", below)[:5]:
                told = cast("dict[str, Any]", one).get("message") if isinstance(one, dict) else one
                yield f"{'.'.join(path) or 'body'}: {told}"
        else:
            yield from _details(below, (*path, name))


def object_of(value: object) -> dict[str, Any]:
    """For answers: whatever is no object is an empty one."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else {}


def seconds(headers: Mapping[str, str], name: str) -> float | None:
    """A header's number of seconds."""
    try:
        return max(0.0, float(headers[name]))
    except (KeyError, ValueError):
        return None
