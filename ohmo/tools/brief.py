"""Brief: a message and files for the person, while the turn goes on."""

from __future__ import annotations

import os
import shutil
from contextlib import ExitStack
from pathlib import Path

from pydantic import BaseModel, ConfigDict, Field

from channels.contract import Outbound
from channels.durable import replacing
from ohmo.contracts.messages import ToolResult
from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.tools.inputs import PathText, PydanticTool
from ohmo.tools.results import (
    ToolError,
    absolute_path,
    description,
    error_result,
    in_thread,
    os_message,
)
from ohmo.tools.workbench import Workbench

MOST_FILES = 10
MOST_BYTES = 100 << 20  # of all files of one message


class BriefInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="Brief", defer_build=True)
    message: str = Field(default="", max_length=20_000)
    attachments: list[PathText] = Field(default_factory=list[PathText], max_length=MOST_FILES)


class Brief(PydanticTool):
    """The files are copied when they are shown: what the person gets is what they were then,
    however long the platform is away."""

    name = "Brief"
    input = BriefInput

    @staticmethod
    def ready(workbench: Workbench) -> bool:
        return workbench.place is not None

    def __init__(self, workbench: Workbench) -> None:
        assert workbench.place is not None
        self._bench = workbench
        self._place = workbench.place
        self._largest = workbench.largest
        self.description = description("Brief")

    def footprint(self, arguments: BriefInput, cwd: Path) -> Footprint:
        return Footprint(
            reads=tuple(absolute_path(path, cwd) for path in arguments.attachments), effect="house"
        )

    async def run(self, arguments: BriefInput, context: CallContext) -> ToolOutput:
        if not arguments.message.strip() and not arguments.attachments:
            return error_result(context, "give `message`, `attachments` or both")
        place = await self._place(context.thread)
        if place is None or place.channel == "house":
            return error_result(
                context,
                "nobody sits in front of this turn; say it in the final answer, which is delivered",
            )
        paths = [absolute_path(path, context.cwd) for path in arguments.attachments]
        try:
            most = self._largest(place)
            files = await in_thread(lambda: self._copies(paths, context, place.channel, most))
        except ToolError as error:
            return error_result(context, str(error))
        except OSError as error:
            return error_result(
                context, os_message(error, Path(error.filename or self._bench.spill))
            )
        shown = f"Shown: {', '.join(path.name for path in paths)}" if paths else "Shown."
        return ToolOutput(
            ToolResult(context.call, shown),
            (Outbound(place, arguments.message.strip(), files=files),),
        )

    def _copies(
        self, paths: list[Path], context: CallContext, channel: str, most: int | None
    ) -> tuple[Path, ...]:
        """Copies, each under its own name. ``most``: bytes of one file that ``channel`` takes.
        Raises ToolError, OSError."""
        opening = self._bench.opening(context)
        with ExitStack() as stack:
            opened = [stack.enter_context(opening.file(path)) for path in context.judged.reads]
            sizes = [os.fstat(file.fileno()).st_size for file in opened]
            for path, size in zip(paths, sizes, strict=True):
                if most is not None and size > most:
                    raise ToolError(
                        f"{path} has {size} bytes, {channel} takes at most {most}: show a smaller"
                        " one, or a part, or say where it is"
                    )
            if sum(sizes) > MOST_BYTES:
                raise ToolError(
                    f"the files have {sum(sizes)} bytes, at most {MOST_BYTES} can be shown at once;"
                    " show fewer or smaller ones"
                )
            folder = self._bench.spill / "shown" / context.call.replace("/", "_")
            copies: list[Path] = []
            for number, (path, file) in enumerate(zip(paths, opened, strict=True)):
                copied = folder / str(number) / path.name
                copied.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
                with replacing(copied) as copy:
                    shutil.copyfileobj(file, copy)
                copies.append(copied)
            return tuple(copies)


TOOL = Brief
