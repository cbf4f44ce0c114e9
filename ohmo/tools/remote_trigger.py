"""RemoteTrigger: a signed request to a webhook of another ohmo that the owner wrote down. Its key
is the call's own, so that it has its effect there once, however often it is sent."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, Field
from yarl import URL

from ohmo.ambient import derived
from ohmo.contracts.signing import KEY, SIGNATURE, TIMESTAMP, sign
from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.tools.inputs import PydanticTool, SafeText
from ohmo.tools.results import ToolError, description, error_result, text_result
from ohmo.tools.systems import OtherHouse, ServiceAnswer, call_service, refusal, table
from ohmo.tools.workbench import Workbench

_MOST = 256 << 10  # bytes of a payload
_TRIES = 3
_PAUSE = 1.0  # seconds, twice as long each time


class RemoteTriggerInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="RemoteTrigger", defer_build=True)
    name: SafeText = Field(max_length=64)
    payload: dict[str, Any] = Field(description="fields that its webhook knows")


class RemoteTrigger(PydanticTool):
    name = "RemoteTrigger"
    input = RemoteTriggerInput
    wants = "remotes in config.yaml"

    @staticmethod
    def ready(workbench: Workbench) -> bool:
        return bool(workbench.systems.remotes)

    def __init__(self, workbench: Workbench) -> None:
        self._remotes = workbench.systems.remotes
        self.description = description("RemoteTrigger", names=", ".join(sorted(self._remotes)))

    def footprint(self, arguments: RemoteTriggerInput, cwd: Path) -> Footprint:  # noqa: ARG002
        """Repeatable: the other house takes the same key once. Raises ToolError."""
        house = self._house(arguments.name)
        note = f"Goes to `{house.url}`."
        return Footprint(effect="repeatable", note=note, lasting="orders to another house")

    def _house(self, name: str) -> OtherHouse:
        house = self._remotes.get(name)
        if house is None:
            raise ToolError(f"there is no remote {name!r}; there are {', '.join(self._remotes)}")
        return house

    async def run(self, arguments: RemoteTriggerInput, context: CallContext) -> ToolOutput:
        try:
            body = json.dumps(arguments.payload, ensure_ascii=False).encode()
            if len(body) > _MOST:
                raise ToolError(f"`payload` has {len(body)} bytes, at most {_MOST} are sent")
            house = self._house(arguments.name)
            answer = await _sent(house, body, derived("remote", context.turn, context.call))
            if why := refusal(answer, f"remotes.{arguments.name}.secret"):
                raise ToolError(why)
            if answer.status != 202:  # what every webhook of ohmo says when it has taken something
                raise ToolError(f"no webhook of ohmo answers there ({answer.status})")
            taken = answer.json()
        except (ToolError, UnicodeEncodeError) as error:
            return error_result(context, f"{arguments.name}: {error}")
        if table(taken).get("duplicate") is True:
            return text_result(context, f"{arguments.name} had taken this before")
        return text_result(context, f"{arguments.name} has taken it; it answers nothing by itself")


async def _sent(house: OtherHouse, body: bytes, key: str) -> ServiceAnswer:
    """Again while nobody answers or it is not able to (5xx). Raises ToolError."""
    name = URL(house.url).name
    for left in reversed(range(_TRIES)):
        stamp = int(time.time())
        headers = {
            "Content-Type": "application/json",
            TIMESTAMP: str(stamp),
            SIGNATURE: sign(house.secret, name, stamp, body, key),
            KEY: key,
        }
        try:
            answer = await call_service("POST", house.url, headers=headers, body=body)
        except ToolError:
            if not left:
                raise
        else:
            if answer.status < 500 or not left:
                return answer
        await asyncio.sleep(_PAUSE * 2 ** (_TRIES - left - 1))
    raise AssertionError  # the last try returns or raises


TOOL = RemoteTrigger
