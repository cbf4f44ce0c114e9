"""What holds: the file, the environment and the defaults together, with secrets blotted out."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from channels.contract import Manifest
from ohmo.config.load import Config
from ohmo.config.secrets import Secret

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
        own = {
            key: _hide(value) if key in hidden or _PRIVATE.search(key) else value
            for key, value in channel.settings.items()
        }
        body = {**channel.policy.model_dump(mode="json"), **own}
        if isinstance(config.source.data.get("channels"), dict) and isinstance(
            channel.path[-1], int
        ):
            table.setdefault(channel.name, []).append(body)
        else:
            table[channel.name] = body
    found["channels"] = table
    return found


def _hide(value: object) -> object:
    return Secret(value).written() if isinstance(value, str) else value
