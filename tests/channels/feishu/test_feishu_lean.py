"""The SDK is imported in part and costs what was decided; our answers are its own client's, byte
for byte."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from channels.feishu import client_line as sdk
from channels.feishu.client_line import answered
from tests.platforms.feishu.frames import Frame, parse
from tests.programs import python

ROOT = Path(__file__).parents[3]
MOST = 60  # MiB, decided in docs/decisions: "Feishu's SDK, the lean way"
COST = """
def pss():
    return next(int(line.split()[1]) for line in open("/proc/self/smaps_rollup") if line.startswith("Pss:")) / 1024
before = pss()
import channels.feishu.adapter
import sys
print(pss() - before, len([name for name in sys.modules if name.startswith("lark_oapi")]))
"""
TOAST = {"toast": {"type": "info", "content": "好的"}}


class Handler:
    """What the SDK's dispatcher does to its client: returns, or raises."""

    def _do_without_validation(self, payload: bytes) -> dict[str, Any] | None:
        if b"a.bad" in payload:
            raise RuntimeError("not stored")
        return TOAST if b"card.action.trigger" in payload else None


def event(kind: str) -> Frame:
    payload = f'{{"schema": "2.0", "header": {{"event_type": "{kind}", "event_id": "e"}}, "event": {{}}}}'.encode()
    head = [("type", "event"), ("message_id", "m-1"), ("trace_id", "t"), ("sum", "1"), ("seq", "0")]
    return Frame(1, head, payload, 33554678, 3, 4)


@pytest.mark.needs("linux")
def test_the_import_stays_under_sixty_mebibytes_and_brings_no_models() -> None:
    printed = python(COST, cwd=ROOT)
    cost, modules = printed.split()
    assert float(cost) <= MOST
    assert int(modules) < 150


@pytest.mark.parametrize(
    ("kind", "code", "result"),
    [("a.good", 200, None), ("a.bad", 500, None), ("card.action.trigger", 200, TOAST)],
)
async def test_our_answers_are_those_of_the_sdks_own_client_byte_for_byte(
    kind: str, code: int, result: dict[str, Any] | None
) -> None:
    written: list[bytes] = []

    class Client(sdk.Client):
        async def _write_message(self, data: bytes) -> None:
            written.append(data)

    client = Client("cli_1", "secret", event_handler=Handler())  # pyright: ignore[reportArgumentType]
    await client._handle_message(event(kind).bytes())
    client._cache._cron.cancel()
    await asyncio.sleep(0)
    spent = int(parse(written[0]).get("biz_rt") or 0)
    assert answered(sdk.Frame.FromString(event(kind).bytes()), code, spent, result) == written[0]


def test_the_loopback_servers_frames_are_the_sdks() -> None:
    frame = event("a.good")
    theirs = sdk.Frame.FromString(frame.bytes())
    assert theirs.SerializeToString() == frame.bytes()
    assert parse(theirs.SerializeToString()) == frame
    ping = parse(sdk.new_ping_frame(7).SerializeToString())
    assert (ping.method, ping.service, ping.get("type")) == (0, 7, "ping")


def test_a_package_whose_init_was_held_back_runs_it_for_whoever_needs_it(tmp_path: Path) -> None:
    package = tmp_path / "heavy"
    (package / "inner").mkdir(parents=True)
    (package / "__init__.py").write_text(
        "from .costly import Costly\nfrom . import inner\nWHOLE = True\n"
    )
    (package / "costly.py").write_text("class Costly: pass\n")
    (package / "inner" / "__init__.py").write_text("from .light import Light\n")
    (package / "inner" / "light.py").write_text(
        "from heavy.costly import Costly\nclass Light:\n    needs = Costly\n"
    )
    program = """
import sys
from channels.platform_calls import PartialImport
with PartialImport("heavy", {"heavy.costly": ("Costly",)}, closed=("heavy", "heavy.inner")):
    from heavy.inner.light import Light
print(Light.needs.__module__, "heavy.costly" in sys.modules)
import heavy
print(heavy.WHOLE, heavy.Costly.__name__, heavy.inner.Light is Light, hasattr(heavy, "nothing"))
"""
    printed = python(program, cwd=ROOT, env={"PYTHONPATH": f"{tmp_path}:{ROOT}"})
    assert printed.split("\n")[:2] == ["channels.platform_calls False", "True Costly True False"]
