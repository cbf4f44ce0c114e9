"""What one endpoint accepts beside the messages; learnt from its own refusals. Pure."""

from __future__ import annotations

import re
from dataclasses import replace
from typing import Literal

from channels.record import record
from ohmo.contracts.messages import Json
from ohmo.contracts.provider import ModelRequest
from ohmo.providers.models import known, plain_name


@record
class Dialect:
    """``effort`` none: send reasoning_effort "none" when there are tools. OpenAI's models since 5.4
    refuse tools with any other effort on this endpoint, and since 5.6 also when none is named
    (openai/openai-openapi#541, BerriAI/litellm#34569)."""

    usage: bool = True  # stream_options.include_usage
    limit: Literal["max_tokens", "max_completion_tokens"] = "max_tokens"
    effort: Literal["asked", "none", "never"] = "asked"

    def keys(self, request: ModelRequest) -> dict[str, Json]:
        found: dict[str, Json] = {"stream": True}
        if self.usage:
            found["stream_options"] = {"include_usage": True}
        found[self.limit] = min(request.max_output, known(request.model).max_output)
        if self.effort == "none" and request.tools:
            found["reasoning_effort"] = "none"
        elif self.effort == "asked" and request.effort is not None:
            found["reasoning_effort"] = request.effort
        return found


def first_dialect(model: str, base_url: str | None) -> Dialect:
    """``base_url`` None: OpenAI itself, which wants max_completion_tokens; others know max_tokens
    for certain."""
    name = plain_name(model)
    version = re.match(r"gpt-(\d+)(?:\.(\d+))?", name)
    picky = version is not None and (int(version[1]), int(version[2] or 0)) >= (5, 4)
    reasons = (version is not None and int(version[1]) >= 5) or re.match(r"o\d", name) is not None
    effort: Literal["asked", "none", "never"] = (
        "none" if picky else "asked" if reasons or base_url is not None else "never"
    )
    return Dialect(
        limit="max_completion_tokens" if base_url is None else "max_tokens", effort=effort
    )


def learnt(dialect: Dialect, message: str) -> Dialect | None:
    """The dialect without what the endpoint's refusal complains of; None when it complains of
    something else."""
    text = message.lower()
    if "stream_options" in text and dialect.usage:
        return replace(dialect, usage=False)
    if "max_completion_tokens" in text and dialect.limit == "max_tokens":
        return replace(dialect, limit="max_completion_tokens")
    if "max_completion_tokens" in text and dialect.limit == "max_completion_tokens":
        return replace(dialect, limit="max_tokens")
    if "reasoning_effort" in text and dialect.effort == "asked":
        return replace(
            dialect,
            effort="none" if "'none'" in text or '"none"' in text or "tools" in text else "never",
        )
    if "reasoning_effort" in text and dialect.effort == "none":
        return replace(dialect, effort="never")
    return None
