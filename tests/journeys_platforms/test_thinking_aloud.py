"""A local model that thinks aloud between <think> and </think>: a quote on every platform, on the
real daemon."""

from __future__ import annotations

import pytest

from tests.journeys_platforms.conftest import Stage


@pytest.mark.parametrize("on", ["telegram", "slack", "discord", "feishu", "matrix", "web"])
async def test_what_a_model_thinks_aloud_is_a_quote(stage: Stage, on: str) -> None:
    async with stage(on) as scene:
        await scene.daemon.start()
        marker = await scene.says("#think{the kettle first} #chunks{12} #pace{0.2}", on=on)
        draft = await scene.drafted(marker) if on in ("discord", "matrix") else None
        await scene.answered(marker)
        (answer,) = await scene.answers(marker)
        assert "the kettle first" in answer.text
        assert "think>" not in answer.text
        assert draft is None or "think>" not in draft.text
        await scene.quiet()
