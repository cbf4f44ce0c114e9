"""The hooks a plugin brings along."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from ohmo.hooks.hook import Endpoint, Hook, HookFile, Program
from ohmo.hooks.shapes import read


def hooks_in(plugin: str, texts: Mapping[str, str], folder: str) -> HookFile:
    """All of them. ``texts``: by the file they stand in; ``folder``: where the plugin is used from.
    What cannot be read is ``broken``."""
    files = [read(text, name) for name, text in texts.items()]
    return HookFile(
        tuple(_placed(plugin, hook, folder) for file in files for hook in file.hooks),
        tuple(line for file in files for line in file.findings),
        next((file.broken for file in files if file.broken), ""),
    )


def _placed(plugin: str, hook: Hook, folder: str) -> Hook:
    action = hook.action
    if isinstance(action, Program):
        action = replace(action, plugin=folder)
    if isinstance(action, Endpoint):  # the house's own variables are lent to nobody's address
        action = replace(action, variables=())
    return replace(hook, name=f"{plugin}: {hook.name}", file=f"{plugin}/{hook.file}", action=action)
