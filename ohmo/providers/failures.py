"""An endpoint's refusal, or what else went wrong with it, as the class of error that says what to
do next. Pure."""

from __future__ import annotations

import email.utils
import re
import socket
from collections.abc import Mapping
from datetime import UTC, datetime

from ohmo.contracts.errors import (
    BadKey,
    CutOff,
    NoMoney,
    NoSuchModel,
    NotAllowed,
    OutOfReach,
    Overloaded,
    ProviderError,
    Refused,
    TimedOut,
    TooLong,
)

# Overflow as it is said by Anthropic, OpenAI, vLLM (old, new), LM Studio, llama.cpp (LM Studio,
# Ollama), Ollama, Gemini-compatible endpoints
_TOO_LONG = re.compile(
    r"prompt is too long"
    r"|exceed[a-z]* (?:the )?(?:model'?s? )?(?:maximum |available )?context"
    r"|input length and `?max_tokens`? exceed"
    r"|context[_ ]length[_ ]exceeded"
    r"|maximum context length"
    r"|maximum (?:input|prompt|model) length"
    r"|context (?:length|window|size) (?:is|of) only"
    r"|context the overflows|context overflow"
    r"|greater than the context length|larger than the context"
    r"|exceeds? (?:the )?context (?:size|window|length|limit)|exceed_context_size_error"
    r"|longer than the (?:model'?s? )?context"
    r"|input (?:is|was) too long|request_too_large|input token count .{0,40}exceeds"
    r"|please reduce the length of the (?:messages|input|prompt)",
    re.IGNORECASE,
)
_WINDOW = re.compile(
    r"(?:maximum context length|context length|context size|context"
    r" window)[^0-9]{0,24}?(\d[\d,]{2,})|> (\d[\d,]{3,}) maximum",
    re.IGNORECASE,
)
_NO_MONEY = re.compile(
    r"insufficient_quota|credit balance is too low|exceeded your current"
    r" quota|billing_error|billing_hard_limit",
    re.IGNORECASE,
)
_NO_MODEL = re.compile(
    r"model.{0,80}(?:not found|does not exist|not exist|is not available|not loaded)|invalid model"
    r" name|no models? loaded|model_not_found",
    re.IGNORECASE,
)


def classify(
    where: str,
    model: str,
    status: int | None,
    kind: str,
    message: str,
    retry_after: float | None = None,
) -> ProviderError:
    """``kind``: the endpoint's own word (error.type or error.code). ``where``: what the line begins
    with, e.g. ``anthropic``."""
    short = " ".join(message.split())[:300]
    text = f"{kind} {message}"
    if status == 401 or kind in ("authentication_error", "invalid_api_key"):
        return BadKey(f"{where}: the key is not accepted ({short}); set the profile's api_key")
    if status == 402 or _NO_MONEY.search(text):
        return NoMoney(f"{where}: the account cannot pay for this request ({short})")
    if status == 403 or kind == "permission_error":
        return NotAllowed(f"{where}: the key may not do this ({short})")
    if (
        status == 413
        or kind in ("request_too_large", "context_length_exceeded")
        or _TOO_LONG.search(text)
    ):
        return TooLong(f"{where}: the prompt does not fit {model} ({short})")
    if (
        status == 404
        or kind in ("not_found_error", "model_not_found")
        or (status is not None and status < 500 and _NO_MODEL.search(text))
    ):
        return NoSuchModel(f"{where}: there is no model {model} at this endpoint ({short})")
    if status == 408 or kind == "timeout_error":
        return TimedOut(f"{where}: {short}")
    if (
        status in (409, 425, 429)
        or (status is not None and status >= 500)
        or kind in ("overloaded_error", "rate_limit_error", "api_error", "server_error")
    ):
        served = (status or 0) >= 500 or kind in ("overloaded_error", "api_error", "server_error")
        return Overloaded(
            f"{where}: {status or kind}: {short}", retry_after=retry_after, served=served
        )
    if status is None and not kind:
        return Overloaded(f"{where}: {short}", retry_after=retry_after)
    return Refused(f"{where}: {model} refuses this request ({short})")


def told_window(message: str) -> int | None:
    """The window the endpoint names in its overflow error, in tokens."""
    match = _WINDOW.search(message)
    return int((match[1] or match[2]).replace(",", "")) if match else None


def retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds from ``retry-after-ms`` or ``retry-after`` (a number or an HTTP date, RFC 9110
    10.2.3)."""
    for name, factor in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            return max(0.0, float(headers[name]) * factor)
        except (KeyError, ValueError):
            continue
    try:
        at = email.utils.parsedate_to_datetime(headers["retry-after"])
    except (KeyError, ValueError):
        return None
    return max(0.0, (at - (now or datetime.now(UTC))).total_seconds())


BROKEN = (ValueError, TypeError, KeyError, AttributeError, IndexError, RecursionError)
"""What reading an answer raises when it is not of the documented form; an SDK hands on whatever
JSON it was sent."""


def no_answer(where: str, error: Exception) -> ProviderError:
    """One of BROKEN in the model's own words. ``where``: what the line begins with. A key that no
    header can carry fails before anything is sent."""
    if isinstance(error, UnicodeEncodeError) and error.encoding == "ascii":
        return BadKey(
            f"{where}: the key holds a character that no key has; set the profile's api_key"
        )
    return CutOff(
        f"{where}: what it sent is no answer ({type(error).__name__}: {str(error)[:200]})"
    )


def out_of_reach(where: str, error: BaseException) -> OutOfReach:
    """What kept a connection from being made, by the first cause that says it."""
    causes: list[BaseException] = []
    cause: BaseException | None = error
    while cause is not None and cause not in causes:
        causes.append(cause)
        cause = cause.__cause__ or cause.__context__
    why = str(error.__cause__ or error)
    if any(isinstance(one, ConnectionRefusedError) for one in causes):
        why = "the connection is refused: nothing listens there"
    elif any(isinstance(one, socket.gaierror) for one in causes):
        why = "its name is not known"
    return OutOfReach(f"{where}: cannot be reached ({why})")
