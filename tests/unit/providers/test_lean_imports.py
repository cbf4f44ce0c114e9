"""An SDK that came lean is the same SDK: every name it shows is there, and is the one that a whole
import gives."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pytest

from ohmo.providers.lazy_provider import re_exports
from tests.programs import run_process

ROOT = Path(__file__).parents[3]
LOOK = """
import importlib, json, sys
from ohmo.providers.lazy_provider import lean
sdk, off, wanted = sys.argv[1], sys.argv[2] == "off", json.load(sys.stdin)
late = importlib.import_module(f"ohmo.providers.{sdk}").MANIFEST.late
with lean(sdk, off=off, late=late):
    importlib.import_module(f"ohmo.providers.{sdk}.client")
early = sum(name.startswith(sdk) for name in sys.modules)
packages = [importlib.import_module(name) for name in (sdk, f"{sdk}.types")]
shown = {}
for package in packages:
    for name in wanted.get(package.__name__) or [name for name in vars(package) if not name.startswith("_")]:
        value = getattr(package, name)
        shown.setdefault(package.__name__, {})[name] = f"{type(value).__name__.replace('LeanPackage', 'module')} {getattr(value, '__qualname__', '')}"
star = {}
exec(f"from {sdk} import *", star)
print(json.dumps({"early": early, "shown": shown, "star": sorted(star), "version": packages[0].__version__}))
"""


def look(sdk: str, how: str, wanted: dict[str, list[str]]) -> dict[str, Any]:
    command = [sys.executable, "-c", LOOK, sdk, how]
    done = run_process(*command, input=json.dumps(wanted), cwd=ROOT, code=0)
    return json.loads(done.stdout)


@pytest.mark.parametrize("sdk", ["anthropic", "openai"])
def test_every_name_of_a_lean_sdk_is_the_one_of_the_whole_sdk(sdk: str) -> None:
    whole = look(sdk, "off", {})
    lean = look(sdk, "lean", {package: list(names) for package, names in whole["shown"].items()})
    assert lean["early"] * 1.8 < whole["early"]
    assert lean["shown"] == whole["shown"]
    assert (lean["star"], lean["version"]) == (whole["star"], whole["version"])


def test_modules_that_come_late_are_the_same_when_they_come() -> None:
    """Also for who asks the SDK for more than we do."""
    code = """
import inspect, importlib, sys
from ohmo.providers.anthropic import MANIFEST
from ohmo.providers.lazy_provider import lean
with lean("anthropic", off=False, late=MANIFEST.late):
    import ohmo.providers.anthropic.client
import anthropic, anthropic._base_client as base, httpx2
assert MANIFEST.late and not {*MANIFEST.late, "anthropic.types.message"} & set(sys.modules)
answer = httpx2.Response(404, request=httpx2.Request("POST", "http://x"))
error = base.make_status_error("gone", body=None, response=answer)
assert type(error) is anthropic.NotFoundError
ours = [name for name, value in vars(base).items() if inspect.isfunction(value) and getattr(value, "__module__", "") == "ohmo.providers.lazy_provider"]
theirs = [importlib.import_module(name) for name in MANIFEST.late]
real = {name: getattr(module, name) for name in ours for module in theirs if hasattr(module, name)}
assert len(real) == len(ours) >= len(theirs) and all(map(inspect.isfunction, real.values())), real
assert anthropic.types.Message is importlib.import_module("anthropic.types.message").Message
"""
    assert run_process(sys.executable, "-c", code, cwd=ROOT, code=0).stderr == ""


def test_only_plain_imports_from_relatives_are_taken_over() -> None:
    source = """
from __future__ import annotations
import os
from .model import Model as Model, Other
from .inner.deep import (
    Deep as Renamed,
)
from . import types
from elsewhere import Foreign
from .star import *
from .model import Hidden
Hidden = None
"""
    assert re_exports(source, "sdk") == {
        "Model": ("sdk.model", "Model"),
        "Other": ("sdk.model", "Other"),
        "Renamed": ("sdk.inner.deep", "Deep"),
    }
