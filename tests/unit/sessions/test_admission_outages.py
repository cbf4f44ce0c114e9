"""How long a turn waits for a model that does not answer."""

from __future__ import annotations

import pytest

from ohmo.contracts.agent import Failed
from ohmo.sessions.admission import ALONE, BESIDE_OTHERS, Outages

BROKEN = Failed("500: it broke", 0.0, served=True)
AWAY = Failed("cannot be reached", 0.0)


@pytest.mark.parametrize(("others", "rounds"), [(False, ALONE), (True, BESIDE_OTHERS)])
def test_what_the_server_always_breaks_on_is_given_up_after_bounded_tries(
    others: bool, rounds: int
) -> None:
    outages, waited = Outages(), 0.0
    for _ in range(rounds - 1):
        pause = outages.pause("t1", BROKEN)
        assert pause is not None
        waited += pause
        if others:
            outages.over("t2", answered=True)
    assert outages.pause("t1", BROKEN) is None
    assert waited < (60 if others else 3_700)
    assert outages.pause("t1", BROKEN) is not None, "tried again by a person it begins anew"


def test_a_model_that_is_away_is_waited_for_without_end_and_so_is_one_that_asks_for_time() -> None:
    outages = Outages()
    assert all(outages.pause("t1", AWAY) is not None for _ in range(1_000))
    assert outages.pause("t2", Failed("429", 700.0)) == 700.0


def test_an_outage_in_between_begins_the_count_anew() -> None:
    outages = Outages()
    pauses = [
        outages.pause("t1", failed) for _ in range(20) for failed in (*[BROKEN] * (ALONE - 1), AWAY)
    ]
    assert None not in pauses


def test_it_cannot_be_reached_only_as_long_as_it_answered_nobody() -> None:
    outages = Outages()
    outages.pause("t1", BROKEN)
    assert outages.why == "500: it broke"
    outages.over("t2", answered=True)
    assert outages.why == ""
    outages.pause("t1", BROKEN)
    assert outages.why == "", "others are answered: it is this request"
    outages.pause("t3", AWAY)
    assert outages.why == "cannot be reached"
    outages.over("t3", answered=False)
    outages.over("t1", answered=False)
    assert outages.why == ""
