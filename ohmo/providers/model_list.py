"""Which models there are: those an endpoint offers (OpenAI API reference, "List models"; Anthropic
API reference, "List Models"), and for ``provider: auto`` which endpoint there is."""

from __future__ import annotations

import asyncio
import difflib
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, cast

import aiohttp

from channels.record import record
from ohmo.providers.models import Endpoint, Manifest, plain_name

_MAKERS = {"anthropic": "https://api.anthropic.com", "openai": "https://api.openai.com/v1"}
_WINDOW_KEYS = ("max_model_len", "loaded_context_length", "context_length", "n_ctx")
_NO_CHAT = ("embed", "rerank", "whisper", "tts", "moderation")
_SHOWN = 12  # names in one line


@record
class Listed:
    """A model an endpoint offers."""

    name: str
    window: int | None  # tokens, when it says (vLLM's max_model_len)


async def offered(endpoint: Endpoint, *, limit: float = 10.0) -> tuple[str, ...]:
    """The names of its models; empty when it does not say within ``limit`` seconds."""
    base = (endpoint.base_url or _MAKERS.get(endpoint.provider, "")).rstrip("/")
    if not base:
        return ()
    headers = dict(endpoint.headers)
    if endpoint.provider == "anthropic":
        base = f"{base.removesuffix('/v1')}/v1"
        headers["anthropic-version"] = "2023-06-01"
        headers |= {"x-api-key": endpoint.api_key} if endpoint.api_key else {}
    elif endpoint.api_key:
        headers["Authorization"] = f"Bearer {endpoint.api_key}"
    models = await listed(f"{base}/models", headers, limit=limit)
    if models is None and base.count("/") == 2:  # an address without a path: its API begins at /v1
        models = await listed(f"{base}/v1/models", headers, limit=limit)
    return tuple(model.name for model in models or ())


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
    models: list[Listed] = []
    for entry in cast("list[object]", entries):
        if not isinstance(entry, dict):
            continue
        model = cast("dict[str, Any]", entry)
        name = str(model.get("id") or "")
        if name and not any(word in name.lower() for word in _NO_CHAT):
            meta = model.get("meta")  # llama.cpp: n_ctx of what is loaded
            told = model | cast("dict[str, Any]", meta) if isinstance(meta, dict) else model
            windows = (told.get(key) for key in _WINDOW_KEYS)
            window = next((value for value in windows if isinstance(value, int)), None)
            models.append(Listed(name, window))
    return models


def has(models: Sequence[str], wanted: str) -> bool:
    """Whether an endpoint that lists ``models`` knows this one: by its name, with or without its
    maker, or by the short form of a dated or tagged one (``claude-haiku-4-5``, ``qwen3`` of
    ``qwen3:latest``)."""
    short = wanted.removesuffix("-latest")
    known = {*models, *map(plain_name, models)}
    for name in (short, plain_name(short)):
        if name in known or any(model.startswith((f"{name}-", f"{name}:")) for model in known):
            return True
    return False


def in_words(models: Sequence[str], wanted: str = "") -> str:
    """Some of them in one line, those first whose names are nearest to ``wanted``."""
    names: list[str] = []
    if wanted:
        names = difflib.get_close_matches(plain_name(wanted), models, n=3, cutoff=0.5)
    names += [model for model in sorted(models) if model not in names]
    more = len(names) - _SHOWN
    words = ", ".join(names[:_SHOWN])
    return f"{words} and {more} more" if more > 0 else words


# title and where it listens unless told otherwise (lmstudio.ai "Local server", docs.ollama.com
# "OpenAI compatibility", docs.vllm.ai, llama.cpp's tools/server/README.md)
LOCAL = (
    ("LM Studio", "http://127.0.0.1:1234"),
    ("Ollama", "http://127.0.0.1:11434"),
    ("vLLM", "http://127.0.0.1:8000"),
    ("llama.cpp", "http://127.0.0.1:8080"),
)


@record
class Detected:
    """The endpoint that ``auto`` takes."""

    endpoint: Endpoint
    explanation: str  # one line for status: what was found and why


Probe = Callable[[str], Awaitable[Sequence[Listed] | None]]


async def probe(base_url: str, *, limit: float = 1.0) -> Sequence[Listed] | None:
    """GET /v1/models; None when nobody answers like a model server within ``limit`` seconds."""
    return await listed(f"{base_url}/v1/models", {}, limit=limit)


async def detect(
    wanted: Endpoint,
    manifests: Mapping[str, Manifest],
    environ: Mapping[str, str],
    *,
    ask: Probe = probe,
    local: Sequence[tuple[str, str]] = LOCAL,
) -> Detected:
    """``wanted``: the profile with ``provider: auto``; its models, window and key, where given, are
    kept. A profile with a base_url is taken as OpenAI-compatible unless its models are Claude's; a
    key without base_url goes to the maker it is of. No key and no header ever goes to a
    server that was merely found."""
    if wanted.base_url is not None:
        maker = "openai"
        if any("claude" in model for model in wanted.models):
            maker = "anthropic"
        manifest = manifests[maker]
        key = wanted.api_key or environ.get(manifest.key_environment or "")
        return Detected(
            _endpoint(wanted, manifest, key),
            f"{manifest.name}: the profile names {wanted.base_url}",
        )
    if wanted.api_key:
        manifest = manifests["anthropic" if wanted.api_key.startswith("sk-ant-") else "openai"]
        return Detected(
            _endpoint(wanted, manifest, wanted.api_key),
            f"{manifest.name}: the profile has a key of its kind",
        )
    for manifest in manifests.values():
        key = environ.get(manifest.key_environment or "")
        if key:
            return Detected(
                _endpoint(wanted, manifest, key),
                f"{manifest.name}: {manifest.key_environment} is set",
            )
    answers = await asyncio.gather(*(ask(url) for _, url in local))
    for (title, url), models in zip(local, answers, strict=True):
        if models:
            chosen = wanted.models or (models[0].name,)
            windows = {model.name: model.window for model in reversed(models)}
            endpoint = Endpoint(
                provider="openai",
                models=chosen,
                base_url=url,
                profile=wanted.profile,
                window=wanted.window or windows.get(chosen[-1]),
                silence=wanted.silence,
                wire=wanted.wire,
                hints=wanted.hints,
            )
            return Detected(endpoint, f"openai: {title} answers at {url} with {endpoint.model}")
    variables = [
        manifest.key_environment for manifest in manifests.values() if manifest.key_environment
    ]
    servers = [title for title, _ in local]
    return Detected(
        _endpoint(wanted, manifests["offline"], None),
        f"offline: no {_or(variables)} in the environment, no {_or(servers)} on this machine",
    )


def _endpoint(wanted: Endpoint, manifest: Manifest, key: str | None) -> Endpoint:
    models = manifest.models
    if wanted.models and manifest.name != "offline":
        models = wanted.models
    return replace(wanted, provider=manifest.name, models=models, api_key=key)


def _or(names: Sequence[str]) -> str:
    if len(names) < 2:
        return "".join(names)
    return f"{', '.join(names[:-1])} or {names[-1]}"
