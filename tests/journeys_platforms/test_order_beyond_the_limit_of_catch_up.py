"""What lies beyond the limit of catch-up and the platform brings by itself meanwhile is told before
what was said after it."""

from __future__ import annotations

import json

from tests.faults.daemon import until
from tests.journeys_platforms.conftest import Stage
from tests.platforms.slack.server import Fault

HISTORY = frozenset({"conversations.history"})


async def test_what_slack_brings_itself_of_an_absence_is_heard_in_its_place(stage: Stage) -> None:
    async with stage("slack", slack={"catch_up": {"max_messages": 2}}) as scene:
        rig = scene.rigs["slack"]
        await scene.daemon.start()
        await scene.says("hello", on="slack")
        await scene.answered()
        await scene.daemon.stop()
        missed = [await scene.says(f"number {number}", on="slack") for number in range(4)]
        # of the direct message and the channel
        rig.server.faults += [Fault("limit", 3, HISTORY)] * 2
        await scene.daemon.start(ready=False)

        async def reading() -> bool:
            return not rig.server.faults

        await until("history is asked for, and has to wait", reading, every=0.05)
        for marker in missed[:2]:
            await rig.redeliver(scene.messages[marker])
        await scene.answered(*missed)
        await scene.quiet()
        asked = [json.dumps(one.body["messages"][-1]) for one in scene.model.asked]
        order = [
            next(marker for marker in missed if marker in one)
            for one in asked
            if any(marker in one for marker in missed)
        ]
        assert order == missed
        said = [one.text for one in await rig.visible() if one.by_bot]
        assert not [text for text in said if text.startswith("Not read")], "nothing was left out"
        await scene.check()
