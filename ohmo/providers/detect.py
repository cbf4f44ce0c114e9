"""``provider: auto``: which model there is. Keys in the environment, then model servers on this
machine, then none."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence

from channels.record import record
from ohmo.providers.cover import Cover, Endpoint
from ohmo.providers.offered import Listed, listed

# title and where it listens unless told otherwise (lmstudio.ai "Local server", docs.ollama.com
# "OpenAI compatibility", docs.vllm.ai)
LOCAL = (
    ("LM Studio", "http://127.0.0.1:1234"),
    ("Ollama", "http://127.0.0.1:11434"),
    ("vLLM", "http://127.0.0.1:8000"),
)


@record
class Detected:
    """``explanation``: one line for status, what was found and why."""

    endpoint: Endpoint
    explanation: str


Probe = Callable[[str], Awaitable[Sequence[Listed] | None]]


async def probe(base_url: str, *, limit: float = 1.0) -> Sequence[Listed] | None:
    """GET /v1/models; None when nobody answers like a model server within ``limit`` seconds."""
    return await listed(f"{base_url}/v1/models", {}, limit=limit)


async def detect(
    wanted: Endpoint,
    covers: Mapping[str, Cover],
    environ: Mapping[str, str],
    *,
    ask: Probe = probe,
    local: Sequence[tuple[str, str]] = LOCAL,
) -> Detected:
    """``wanted``: the profile with ``provider: auto``; its models, window and key, where given, are
    kept. A profile with a base_url is taken as OpenAI-compatible unless its models are Claude's; a
    key without base_url goes to the maker it is of. No key ever goes to a server that was merely
    found."""
    if wanted.base_url is not None:
        cover = covers[
            "anthropic" if any("claude" in model for model in wanted.models) else "openai"
        ]
        key = wanted.api_key or environ.get(cover.key_environment or "")
        return Detected(
            _endpoint(wanted, cover, key), f"{cover.name}: the profile names {wanted.base_url}"
        )
    if wanted.api_key:
        cover = covers["anthropic" if wanted.api_key.startswith("sk-ant-") else "openai"]
        return Detected(
            _endpoint(wanted, cover, wanted.api_key),
            f"{cover.name}: the profile has a key of its kind",
        )
    for cover in covers.values():
        key = environ.get(cover.key_environment or "")
        if key:
            return Detected(
                _endpoint(wanted, cover, key), f"{cover.name}: {cover.key_environment} is set"
            )
    answers = await asyncio.gather(*(ask(url) for _, url in local))
    for (title, url), models in zip(local, answers, strict=True):
        if models:
            chosen = wanted.models or (models[0].name,)
            window = wanted.window or next(
                (each.window for each in models if each.name == chosen[-1]), None
            )
            found = Endpoint("openai", chosen, url, None, wanted.profile, window, wanted.silence)
            return Detected(found, f"openai: {title} answers at {url} with {found.model}")
    names = _or([cover.key_environment for cover in covers.values() if cover.key_environment])
    tried = _or([title for title, _ in local])
    return Detected(
        _endpoint(wanted, covers["offline"], None),
        f"offline: no {names} in the environment, no {tried} on this machine",
    )


def _endpoint(wanted: Endpoint, cover: Cover, key: str | None) -> Endpoint:
    models = wanted.models if wanted.models and cover.name != "offline" else cover.models
    return Endpoint(
        cover.name, models, wanted.base_url, key, wanted.profile, wanted.window, wanted.silence
    )


def _or(names: Sequence[str]) -> str:
    return " or ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))
