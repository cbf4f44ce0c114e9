"""A token that somebody pastes, a file holds or the model says reaches neither the model, nor a
chat, nor the transcript."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from datetime import timedelta

import pytest

from ohmo.logs.redaction import REDACTED
from ohmo_testing.channels import EVERYTHING
from ohmo_testing.house import house
from ohmo_testing.scripted import Says
from tests.journeys.conftest import MakeWorld
from tests.unit.logs.test_assigned_secrets import SECRETS as ASSIGNED
from tests.unit.logs.test_logs import SHAPES

LIKE_SLACK = replace(EVERYTHING, preview=False, revise=timedelta(seconds=0.1))
SHAPED = [secret.replace("\n", " ") for secret in SHAPES]  # a command and a message are lines
SAID = [*SHAPED, *(text for text, _ in ASSIGNED)]
SECRETS = [*SHAPED, *(secret for _, secret in ASSIGNED)]
DIVIDER = " and "
TOKEN = "ghp_abcdefghijklmnopqrst0123456789abcdef"


def plain(text: str) -> str:
    return re.sub(r"\\(?=\W)", "", text)


@pytest.mark.parametrize("activity", ["live", "keep"])
async def test_no_token_comes_through(world: MakeWorld, activity: str) -> None:
    life = world(
        Says(
            "",
            calls=(
                ("Read", {"file_path": "keys.txt"}),
                ("Grep", {"pattern": f"x{'y' * 95}|{TOKEN}", "path": "."}),
            ),
        ),
        f"They are {DIVIDER.join(SAID)}.",
        activity=activity,
        capabilities=LIKE_SLACK,
    )
    async with house(life) as built:
        (life.work / "keys.txt").write_text("\n".join(SAID))
        await life.platform.says(f"keep {DIVIDER.join(SAID)}")
        await life.hears("They are")
        [thread] = await built.store.threads()
        history = await built.store.history(thread.thread)
    asked = "\n".join(repr(request.steps) for request in life.model.requests[1:])
    assert REDACTED in asked
    told = [repr(item) for item in history if "CallResult" in repr(item)]
    assert told
    for secret in SECRETS:
        where = {
            "model": plain(life.model.requests[0].steps.__repr__()),
            "chat": plain("\n".join(life.texts())),
            "transcript": "\n".join(told),
        }
        assert [
            name
            for name, text in where.items()
            if secret in text or json.dumps(secret)[1:-1] in text
        ] == []
    assert life.texts()[-1].count(REDACTED) >= len(SAID)
    assert "ghp_" not in life.texts()[-1]  # the line of the activity was cleaned before it was cut
