"""G8: however a turn is interrupted, its transcript stays valid and nothing with an effect runs
twice; ``make torture`` interrupts 100 000."""

from __future__ import annotations

import asyncio

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from interrupted import BUSY, ENDS, TOOLS, Story, told

STORIES = st.builds(
    Story,
    st.lists(st.lists(st.sampled_from(TOOLS), min_size=1, max_size=4), min_size=1, max_size=3),
    st.lists(st.tuples(st.sampled_from(ENDS), st.integers(0, 90)), max_size=4),
    st.sampled_from(BUSY),
)


@given(STORIES)
@settings(max_examples=500, deadline=None, suppress_health_check=list(HealthCheck))
def test_a_turn_interrupted_anywhere_leaves_a_valid_transcript(story: Story) -> None:
    asyncio.run(told(story))
