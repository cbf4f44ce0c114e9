"""A tool: says what the weather is."""

from __future__ import annotations

from pathlib import Path

from pydantic import BaseModel

from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.tools.inputs import PydanticTool
from ohmo.tools.results import text_result
from ohmo.tools.workbench import Workbench


class WeatherInput(BaseModel):
    city: str


class Weather(PydanticTool):
    name = "Weather"
    input = WeatherInput
    description = "What the weather is like in a city."

    def __init__(self, workbench: Workbench) -> None:
        del workbench

    def footprint(self, arguments: WeatherInput, cwd: Path) -> Footprint:
        del arguments, cwd
        return Footprint(effect="none")

    async def run(self, arguments: WeatherInput, context: CallContext) -> ToolOutput:
        return text_result(context, f"It is raining in {arguments.city}.")


TOOL = Weather
