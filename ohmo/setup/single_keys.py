"""Single keys of ``config.yaml`` for the model: any is read with its secrets blotted out; few are
written, and none that lets more be done."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from ruamel.yaml import YAML
from ruamel.yaml.compat import StringIO
from ruamel.yaml.error import YAMLError

from channels.contract import Manifest
from ohmo.config.export import effective
from ohmo.config.load import Config
from ohmo.config.problems import nearest
from ohmo.config.rewriting import Keys
from ohmo.config.source import Plain
from ohmo.contracts.errors import ConfigError
from ohmo.setup.config_changes import Change
from ohmo.setup.config_editor import ConfigEditor

#: The whole list: * stands for one name. Nothing here touches who may speak, what may run, what is
#: sent where, what it may cost, or what is kept.
WRITABLE = (
    "channels.*.activity",
    "channels.*.streaming",
    "cron.timezone",
    "limits.bash_output",
    "limits.read_lines",
    "limits.web_output",
    "sessions.ask_after",
    "sessions.busy",
    "sessions.idle_reset",
)
_WHEN = "ohmo takes it over by itself within seconds; turns that run keep what they began with"


class SingleKeys:
    """Implements ``ohmo.tools.systems.Settings`` for the house that lives with ``running``."""

    def __init__(
        self, running: Config, outside: Mapping[str, str], manifests: Mapping[str, Manifest]
    ) -> None:
        self._running = running
        self._manifests = manifests
        self._editor = ConfigEditor(running, outside, manifests)

    def read(self, key: str) -> str:
        value: Any = effective(self._running, self._manifests)
        passed: list[str] = []
        for name in key.split("."):
            if not isinstance(value, dict) or name not in value:
                names = [str(each) for each in cast("Mapping[str, Any]", value or {})]
                if not isinstance(value, dict):
                    names = []
                close = nearest(name, names)
                hint = f"; did you mean {'.'.join([*passed, close])}?" if close else ""
                raise ConfigError(f"{key}: there is no such key{hint}")
            value = cast("Mapping[str, Any]", value)[name]
            passed.append(name)
        writer: Any = YAML(typ="safe", pure=True)
        writer.default_flow_style = False
        writer.sort_base_mapping_type_on_output = False
        text = StringIO()
        writer.dump(value, text)
        return text.getvalue().removesuffix("...\n")

    def refuse(self, key: str, value: str) -> None:
        self._editor.refuse_keys(self._wanted(key, value))

    def write(self, key: str, value: str) -> str:
        self._editor.set_keys(self._wanted(key, value))
        return f"{key} is {value} now in config.yaml; {_WHEN}"

    def _wanted(self, key: str, text: str) -> Change:
        keys: Keys = tuple(key.split("."))
        if not any(_fits(keys, tuple(each.split("."))) for each in WRITABLE):
            raise ConfigError(
                f"{key}: is the owner's to write, by hand; of the configuration you may change"
                f" {', '.join(WRITABLE)}"
            )
        reader: Any = YAML(typ="safe", pure=True)
        try:
            value: Plain = reader.load(text)
        except YAMLError as error:
            why = str(error).partition("\n")[0]
            raise ConfigError(f"{key}: the value is no YAML: {why}") from None
        return Change({keys: value}, {})


def _fits(keys: Keys, pattern: Keys) -> bool:
    return len(keys) == len(pattern) and all(
        one in ("*", name) for name, one in zip(keys, pattern, strict=True)
    )
