"""Anthropic Messages, and everything that speaks it."""

from __future__ import annotations

from ohmo.providers.models import Manifest

MANIFEST = Manifest(
    name="anthropic",
    title="Anthropic",
    models=("claude-haiku-5-5", "claude-sonnet-5-5"),
    key_environment="ANTHROPIC_API_KEY",
    client="ohmo.providers.anthropic.client:AnthropicClient",
    renderings="ohmo.providers.anthropic.wire:renderings",
    sdk="anthropic",
    # errors of the administration's API and spans of its own: 890 modules of types, 8 MB
    late=("anthropic._error_classes", "anthropic.lib._tracing._api_call"),
)
