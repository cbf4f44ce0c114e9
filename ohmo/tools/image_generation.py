"""ImageGeneration: a picture from words, by an endpoint of OpenAI's kind; written into a file and
shown to the person."""

from __future__ import annotations

import base64
import json
from contextlib import suppress
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from channels.contract import Outbound
from ohmo.contracts.messages import Json, ToolResult, Usage
from ohmo.contracts.tool import CallContext, Footprint, ToolOutput
from ohmo.tools.files import MOST, replace_file
from ohmo.tools.inputs import PathText, PydanticTool, SafeText
from ohmo.tools.read import image_type
from ohmo.tools.results import (
    ToolError,
    absolute_path,
    description,
    error_result,
    in_thread,
    os_message,
)
from ohmo.tools.systems import ServiceAnswer, call_service, refusal, table
from ohmo.tools.webfetch import Fetcher
from ohmo.tools.workbench import Workbench

_SECONDS = 180.0
_MOST = 20 << 20  # bytes of a picture
_ANSWER = 2 * _MOST  # of an answer that holds one in base64


class ImageGenerationInput(BaseModel):
    model_config = ConfigDict(extra="forbid", title="ImageGeneration", defer_build=True)
    prompt: SafeText = Field(max_length=8_000)
    path: PathText = Field(description="where the picture goes, such as logo.png")
    size: Literal["auto", "1024x1024", "1536x1024", "1024x1536"] = "auto"


class ImageGeneration(PydanticTool):
    name = "ImageGeneration"
    input = ImageGenerationInput
    wants = "images.model in config.yaml"

    @staticmethod
    def ready(workbench: Workbench) -> bool:
        return workbench.systems.images is not None

    def __init__(self, workbench: Workbench) -> None:
        assert workbench.systems.images is not None
        self._bench = workbench
        self._service = workbench.systems.images
        self._fetcher = Fetcher(
            workbench.resolver,
            workbench.reachable,
            seconds=workbench.limits.web_timeout,
            most=_MOST,
        )
        self.description = description("ImageGeneration")

    def footprint(self, arguments: ImageGenerationInput, cwd: Path) -> Footprint:
        return Footprint(writes=(absolute_path(arguments.path, cwd),), effect="once")

    async def run(self, arguments: ImageGenerationInput, context: CallContext) -> ToolOutput:
        path = absolute_path(arguments.path, context.cwd)
        usage: Usage | None = None
        try:
            answer = await self._asked(arguments)
            usage = self._usage(answer)
            data = await self._picture(answer)
            shown = await in_thread(lambda: self._kept(data, context))
        except ToolError as error:
            failed = error_result(context, f"{self._service.model}: {error}")
            return ToolOutput(failed.result, usage=usage)
        except OSError as error:
            failed = error_result(context, f"{os_message(error, path)}; nothing was written")
            return ToolOutput(failed.result, usage=usage)
        bench = self._bench
        place = await bench.place(context.thread) if bench.place is not None else None
        posts: tuple[Outbound, ...] = ()
        if place is not None and place.channel != "house":
            most = bench.largest(place)
            if most is None or len(data) <= most:
                posts = (Outbound(place, "", files=(shown,)),)
        told = " and shown to the person" if posts else ""
        result = ToolResult(context.call, f"{path}: {len(data)} bytes, written{told}")
        return ToolOutput(result, posts, usage=usage)

    async def _asked(self, arguments: ImageGenerationInput) -> ServiceAnswer:
        """As "Create image" of OpenAI's API reference says. Raises ToolError."""
        service = self._service
        body: dict[str, Json] = {"model": service.model, "prompt": arguments.prompt, "n": 1}
        if arguments.size != "auto":
            body["size"] = arguments.size
        headers = {"Content-Type": "application/json"}
        if service.key:
            headers["Authorization"] = f"Bearer {service.key}"
        answer = await call_service(
            "POST",
            f"{service.base_url.rstrip('/')}/images/generations",
            headers=headers,
            body=json.dumps(body).encode(),
            seconds=_SECONDS,
            most=_ANSWER,
        )
        if why := refusal(answer, "images.api_key"):
            with suppress(ToolError):
                said = table(table(answer.json()).get("error")).get("message")
                why = f"{why}: {' '.join(said.split())[:300]}" if isinstance(said, str) else why
            raise ToolError(why)
        return answer

    async def _picture(self, answer: ServiceAnswer) -> bytes:
        """From the answer, or from where it says: fetched as any page of the public web. Raises
        ToolError."""
        made = table(answer.json()).get("data")
        first = table(made[0] if isinstance(made, list) and made else None)
        coded = first.get("b64_json")
        url = first.get("url")
        if isinstance(coded, str):
            try:
                data = base64.b64decode(coded, validate=True)
            except ValueError:
                raise ToolError("the picture came in a broken form") from None
        elif isinstance(url, str):
            page = await self._fetcher.get(url)
            if page.status != 200 or page.cut or page.elsewhere:
                raise ToolError(f"the picture could not be fetched ({page.status})")
            data = page.body
        else:
            raise ToolError("the endpoint answered without a picture")
        if image_type(data[:16]) is None or len(data) > _MOST:
            raise ToolError("what came is no picture (PNG, JPEG, GIF, WebP) of at most 20 MiB")
        return data

    def _usage(self, answer: ServiceAnswer) -> Usage:
        """What it took; its price where the owner wrote one down."""
        counts = [0, 0]
        with suppress(ToolError):
            told = table(table(answer.json()).get("usage"))
            found = [told.get("input_tokens"), told.get("output_tokens")]
            counts = [count if isinstance(count, int) and count >= 0 else 0 for count in found]
        service = self._service
        return Usage(service.model, "image", counts[0], 0, 0, counts[1], service.micro_usd)

    def _kept(self, data: bytes, context: CallContext) -> Path:
        """Written as Write does, and a copy for the person, as it was then. Raises ToolError,
        OSError."""
        [target] = context.judged.writes
        bench = self._bench
        opening = bench.opening(context)
        try:
            _, known = opening.content(target, MOST)
        except FileNotFoundError:
            known = None
        if bench.stamps.changed(context.thread, target, known):
            raise ToolError(f"{target} changed since you last read it; Read it again first")
        status = replace_file(opening, target, data, known)
        bench.stamps.remember(context.thread, target, status)
        return bench.keep("shown", context.call, target.name, data)


TOOL = ImageGeneration
