"""Config: a key of config.yaml as it holds; and, when the owner allows it, another value for one of
a few keys that let nothing more be done."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from channels.contract import Choice
from ohmo.contracts.errors import ConfigError
from ohmo.contracts.tool import CallContext, Footprint, Question, ToolOutput
from ohmo.permissions.wording import argument
from ohmo.tools.inputs import PydanticTool, SafeText
from ohmo.tools.results import description, error_result, head_cut, in_thread, text_result
from ohmo.tools.workbench import Workbench

_ROOM = 8 * 1024  # bytes
_CHOICES = (Choice("once", "Change it", "good"), Choice("deny", "Leave it", "danger"))


class ConfigInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="Config", defer_build=True)
    key: SafeText = Field(max_length=200, description="such as sessions.busy")
    value: SafeText | None = Field(
        default=None, max_length=2_000, description="to change it: as written in config.yaml"
    )


class Config(PydanticTool):
    name = "Config"
    input = ConfigInput

    @staticmethod
    def ready(workbench: Workbench) -> bool:
        return workbench.systems.settings is not None

    def __init__(self, workbench: Workbench) -> None:
        assert workbench.systems.settings is not None
        self._settings = workbench.systems.settings
        self.description = description("Config")

    def footprint(self, arguments: ConfigInput, cwd: Path) -> Footprint:  # noqa: ARG002
        """Raises ConfigError: nobody is asked about what would be refused."""
        key, value = arguments.key, arguments.value
        if value is None:
            return Footprint(effect="none", standing="admin")
        settings = self._settings()
        settings.refuse(key, value)
        before = argument("now", settings.read(key).strip())
        detail = f"In config.yaml, `{key}`:\n\n{before}\n{argument('then', value)}"
        question = Question("permission", f"Config: {key}", detail, _CHOICES, "", by="owner")
        return Footprint(effect="once", standing="owner", question=question)

    async def run(self, arguments: ConfigInput, context: CallContext) -> ToolOutput:
        key, value = arguments.key, arguments.value
        settings = self._settings()
        try:
            if value is None:
                text = await in_thread(lambda: settings.read(key))
                return text_result(context, head_cut(text, _ROOM))
            return text_result(context, await in_thread(lambda: settings.write(key, value)))
        except ConfigError as error:
            return error_result(context, str(error))


TOOL = Config
