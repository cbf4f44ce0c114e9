"""An endpoint's refusal to the class of the house that says what to do next. Pure."""

from __future__ import annotations

import email.utils
import re
from collections.abc import Mapping
from datetime import UTC, datetime

from ohmo.contracts.errors import (
    BadKey,
    NoMoney,
    NoSuchModel,
    NotAllowed,
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
