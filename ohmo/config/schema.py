"""JSON Schema of ``config.yaml``, for editors and for ``ohmo config schema``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pydantic import TypeAdapter

from channels.contract import Manifest
from ohmo.config.models import ChannelPolicy, Written


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
