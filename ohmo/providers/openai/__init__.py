"""OpenAI Responses and chat completions, and everything that speaks one of them: LM Studio, Ollama,
vLLM, gateways."""

from __future__ import annotations

from ohmo.providers.models import Manifest

MANIFEST = Manifest(
    name="openai",
    title="OpenAI-compatible",
    models=("gpt-6-luna", "gpt-6-sol"),
    key_environment="OPENAI_API_KEY",
    client="ohmo.providers.openai.client:OpenAIClient",
    renderings="ohmo.providers.openai.responses_wire:renderings",
    sdk="openai",
)
