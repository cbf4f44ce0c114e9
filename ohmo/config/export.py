"""The configuration for others to read: what holds (file, environment and defaults together, with
secrets blotted out), and the JSON Schema of ``config.yaml`` for editors."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from channels.contract import Manifest
from ohmo.config.load import Config
from ohmo.config.models import ChannelPolicy, Written
from ohmo.config.values import Secret

_PASSWORD = re.compile(r"(://[^/\s:@]*:)[^\s@/]+(@)")
_PRIVATE = re.compile(r"token|secret|password|key", re.IGNORECASE)


def effective(config: Config, manifests: Mapping[str, Manifest]) -> dict[str, Any]:
    """The keys of ``config.yaml`` with the values in use. Durations and sizes as one writes
    them."""
    found: dict[str, Any] = config.written.model_dump(mode="json")
    found["permissions"] |= {
        name: list(getattr(config.permissions, name)) for name in ("allow", "ask", "deny")
    }
    found["permissions"]["mode"] = config.permissions.mode
    found["store"]["url"] = _PASSWORD.sub(r"\1********\2", found["store"]["url"])
    table: dict[str, Any] = {}
    for channel in config.channels:
        manifest = manifests.get(channel.name)
        hidden = manifest.secrets if manifest is not None else ()
        body: dict[str, Any] = channel.policy.model_dump(mode="json")
        for key, value in channel.settings.items():
            private = key in hidden or _PRIVATE.search(key) is not None
            body[key] = Secret(value).written() if private and isinstance(value, str) else value
        if isinstance(config.source.data.get("channels"), dict) and isinstance(
            channel.path[-1], int
        ):
            table.setdefault(channel.name, []).append(body)
        else:
            table[channel.name] = body
    found["channels"] = table
    return found


def schema(manifests: Mapping[str, Manifest]) -> dict[str, Any]:
    """The whole file, with each platform's own keys beside the shared ones."""
    whole = Written.model_json_schema()
    definitions: dict[str, Any] = whole.setdefault("$defs", {})
    shared = ChannelPolicy.model_json_schema(ref_template="#/$defs/{model}")
    definitions |= shared.pop("$defs", {})
    table: dict[str, Any] = {}
    for name, manifest in sorted(manifests.items()):
        own = TypeAdapter(manifest.settings).json_schema(ref_template="#/$defs/{model}")
        definitions |= own.pop("$defs", {})
        one = {
            "title": manifest.title,
            "type": ["object", "null"],
            "additionalProperties": False,
            "properties": {**own.get("properties", {}), **shared["properties"]},
        }
        definitions[f"channel_{name}"] = one
        reference = {"$ref": f"#/$defs/channel_{name}"}
        table[name] = {"anyOf": [reference, {"type": "array", "items": reference}]}
    whole["properties"]["channels"] = {"type": "object", "properties": table, "title": "Channels"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **whole,
        "title": "ohmo config.yaml",
    }
