"""Which models an endpoint offers. OpenAI API reference, "List models"; Anthropic API reference,
"List Models"."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, cast

import aiohttp

from channels.record import record
from ohmo.providers.cover import Endpoint
from ohmo.providers.models import plain_name

_MAKERS = {"anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com/v1"}
_NO_CHAT = ("embed", "rerank", "whisper", "tts", "moderation")
_SHOWN = 12  # names in one line


@record
class Listed:
    """A model an endpoint offers. ``window``: tokens, when it says (vLLM's max_model_len)."""

    name: str
    window: int | None


async def offered(endpoint: Endpoint, *, limit: float = 10.0) -> tuple[str, ...]:
    """The names of its models; empty when it does not say within ``limit`` seconds."""
    base = (endpoint.base_url or _MAKERS.get(endpoint.provider, "")).rstrip("/")
    if not base:
        return ()
    headers: dict[str, str] = {}
    if endpoint.provider == "anthropic":
        base = f"{base.removesuffix('/v1')}/v1"
        headers["anthropic-version"] = "2023-06-01"
        headers |= {"x-api-key": endpoint.api_key} if endpoint.api_key else {}
    elif endpoint.api_key:
        headers["Authorization"] = f"Bearer {endpoint.api_key}"
    found = await listed(f"{base}/models", headers, limit=limit)
    if found is None and base.count("/") == 2:  # an address without a path: its API begins at /v1
        found = await listed(f"{base}/v1/models", headers, limit=limit)
    return tuple(each.name for each in found or ())


async def listed(url: str, headers: Mapping[str, str], *, limit: float) -> list[Listed] | None:
    """None when nobody answers like a model server."""
    try:
        timeout = aiohttp.ClientTimeout(total=limit)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(url, headers=headers) as answer,
        ):
            if answer.status != 200:
                return None
            data = cast("dict[str, Any]", await answer.json(content_type=None))
    except (aiohttp.ClientError, TimeoutError, ValueError, OSError):
        return None
    entries = data.get("data") if isinstance(data, dict) else None
    if not isinstance(entries, list):
        return None
    found = [
        _listed(cast("dict[str, Any]", entry))
        for entry in cast("list[object]", entries)
        if isinstance(entry, dict)
    ]
    return [
        each
        for each in found
        if each.name and not any(word in each.name.lower() for word in _NO_CHAT)
    ]


def _listed(entry: Mapping[str, Any]) -> Listed:
    keys = ("max_model_len", "loaded_context_length", "context_length")
    window = next((entry[key] for key in keys if isinstance(entry.get(key), int)), None)
    return Listed(str(entry.get("id") or ""), window)


def has(models: Sequence[str], wanted: str) -> bool:
    """Whether an endpoint that lists ``models`` knows this one: by its name, with or without its
    maker, or by the short form of a dated or tagged one (``claude-haiku-4-5``, ``qwen3`` of
    ``qwen3:latest``)."""
    short = wanted.removesuffix("-latest")
    known = {name for one in models for name in (one, plain_name(one))}
    return any(
        one == name or one.startswith((f"{name}-", f"{name}:"))
        for name in (short, plain_name(short))
        for one in known
    )


def in_words(models: Sequence[str], wanted: str = "") -> str:
    """Some of them in one line, those first whose names are nearest to ``wanted``."""
    close = difflib.get_close_matches(plain_name(wanted), models, n=3, cutoff=0.5) if wanted else []
    first = [*close, *(one for one in sorted(models) if one not in close)]
    rest = len(first) - _SHOWN
    return ", ".join(first[:_SHOWN]) + (f" and {rest} more" if rest > 0 else "")
