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
    keys: dict[str, Any] = config.written.model_dump(mode="json")
    permissions = config.permissions
    if permissions.caged:  # a mode that is written holds without a sandbox too
        del keys["permissions"]["mode"]
    else:
        keys["permissions"]["mode"] = permissions.mode
    keys["permissions"] |= {
        "allow": list(permissions.allow),
        "ask": list(permissions.ask),
        "deny": list(permissions.deny),
    }
    keys["store"]["url"] = _PASSWORD.sub(r"\1********\2", keys["store"]["url"])
    is_table = isinstance(config.source.data.get("channels"), dict)
    table: dict[str, Any] = {}
    for channel in config.channels:
        manifest = manifests.get(channel.name)
        hidden = manifest.secrets if manifest is not None else ()
        body: dict[str, Any] = channel.policy.model_dump(mode="json")
        for key, value in channel.settings.items():
            private = key in hidden or _PRIVATE.search(key) is not None
            body[key] = Secret(value).written() if private and isinstance(value, str) else value
        if is_table and isinstance(channel.path[-1], int):
            table.setdefault(channel.name, []).append(body)
        else:
            table[channel.name] = body
    keys["channels"] = table
    return keys


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
        definitions[f"channel_{name}"] = {
            "title": manifest.title,
            "type": ["object", "null"],
            "additionalProperties": False,
            "properties": {**own.get("properties", {}), **shared["properties"]},
        }
        reference = {"$ref": f"#/$defs/channel_{name}"}
        table[name] = {"anyOf": [reference, {"type": "array", "items": reference}]}
    whole["properties"]["channels"] = {"type": "object", "properties": table, "title": "Channels"}
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        **whole,
        "title": "ohmo config.yaml",
    }
