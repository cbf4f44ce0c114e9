"""An answer that one model could not give is asked of the next larger one, once and for this answer
only; summaries and notes are the smallest one's affair."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime

import pytest

from ohmo.ambient import Ambient, IdSource
from ohmo.contracts.errors import Empty, OverBudget, Overloaded, ProviderError
from ohmo.contracts.messages import Json, ModelStep, Text, ToolCall, Usage
from ohmo.contracts.provider import (
    Delta,
    ModelEvent,
    ModelRequest,
    Notice,
    Payer,
    Reply,
    Restarted,
    ToolSpec,
)
from ohmo.contracts.spending import Limit, Told, Total
from ohmo.providers.middleware.budget import Counting, Prices, Till
from ohmo.providers.middleware.link import linked
from ohmo.providers.middleware.priced import priced
from ohmo.providers.middleware.repair import Repair
from ohmo.providers.middleware.tiers import tiers
from ohmo.providers.models import Price
from tests.unit.providers.test_budget_link import Books

SCHEMA: dict[str, Json] = {
    "type": "object",
    "properties": {"file_path": {"type": "string"}},
    "required": ["file_path"],
    "additionalProperties": False,
}
READ = ToolSpec("Read", "", SCHEMA)
REQUEST = ModelRequest("small", (), (READ,), (), 100, None, "turn")
BROKEN = ToolCall("x", "Read", {"wrong": 1}, "x")
GOOD = ToolCall("y", "Read", {"file_path": "a"}, "y")
Said = Text | ToolCall | ProviderError
#: Nothing is said of why a model failed.
Script = dict[str, Sequence[tuple[Said, ...]]]


class Models:
    """What each says, in turn; the last of it again and again."""

    def __init__(self, script: Script) -> None:
        self.script = {model: list(answers) for model, answers in script.items()}
        self.asked: list[ModelRequest] = []

    async def __call__(self, request: ModelRequest) -> AsyncIterator[ModelEvent]:
        self.asked.append(request)
        answers = self.script[request.model]
        blocks = answers.pop(0) if len(answers) > 1 else answers[0]
        for block in blocks:
            if isinstance(block, ProviderError):
                raise block
            if isinstance(block, Text):
                yield Delta(block.text)
        said = tuple(block for block in blocks if not isinstance(block, ProviderError))
        step = ModelStep(said, request.model, "end", f"digest of {request.model}")
        yield Reply(step, Usage(request.model, request.purpose, 1, 0, 0, 1, None))

    @property
    def names(self) -> list[str]:
        return [request.model for request in self.asked]


async def events(
    models: Models, request: ModelRequest = REQUEST, *, listed: Sequence[str] = ("small", "large")
) -> list[ModelEvent]:
    chain = linked([tiers(listed), Repair(IdSource(), lambda _: True)], models)
    found = [event async for event in chain(request)]
    assert [event for event in found if isinstance(event, Reply)] == found[-1:]
    return found


def shown(found: list[ModelEvent]) -> str:
    """What stands before the person in the end."""
    text = ""
    for event in found:
        if isinstance(event, Restarted):
            text = ""
        elif isinstance(event, Delta):
            text += event.text
    return text


def last(found: list[ModelEvent]) -> Reply:
    assert isinstance(found[-1], Reply)
    return found[-1]


async def test_after_two_failed_repairs_the_larger_model_is_asked_what_the_first_was() -> None:
    models = Models({"small": [(Text("Well."), BROKEN)], "large": [(Text("Sure."), GOOD)]})
    found = await events(models)
    assert models.names == ["small", "small", "small", "large"]
    assert models.asked[-1] == replace(REQUEST, model="large")
    assert shown(found) == "Sure."
    reply = last(found)
    assert (reply.step.model, reply.usage.model) == ("large", "large")
    assert (reply.step.request, reply.fault) == ("digest of large", "")
    lines = [event.line for event in found if isinstance(event, Notice)]
    assert lines[-1] == "small: wrong arguments; large is asked for this answer."
    assert len(lines) == 3
    # the next answer is the small one's again
    models.script["small"] = [(GOOD,)]
    assert last(await events(models)).step.model == "small"


async def test_what_a_repair_mends_is_not_asked_of_another() -> None:
    models = Models({"small": [(BROKEN,), (BROKEN,), (GOOD,)]})
    reply = last(await events(models))
    assert models.names == ["small"] * 3
    assert (reply.step.model, reply.fault) == ("small", "")


@pytest.mark.parametrize("listed", [(), ("small",), ("large", "small"), ("a", "b")])
async def test_without_a_larger_one_nothing_changes(listed: Sequence[str]) -> None:
    models = Models({"small": [(Text("Well."), BROKEN)]})
    found = await events(models, listed=listed)
    assert models.names == ["small"] * 3
    assert shown(found) == "Well."
    assert (last(found).step.model, last(found).fault) == ("small", "")


async def test_it_goes_up_tier_by_tier() -> None:
    bad = [(BROKEN,)]
    models = Models({"small": bad, "medium": bad, "large": [(GOOD,)]})
    reply = last(await events(models, listed=("small", "medium", "large")))
    assert models.names == ["small"] * 3 + ["medium"] * 3 + ["large"]
    assert reply.step.model == "large"


async def test_the_last_tiers_answer_is_what_there_is() -> None:
    models = Models({"small": [(BROKEN,)], "large": [(Text("Hm."), BROKEN)]})
    found = await events(models)
    assert (last(found).step.model, shown(found)) == ("large", "Hm.")


@pytest.mark.parametrize("error", [Overloaded("busy"), OverBudget("no more"), Empty("nothing")])
@pytest.mark.parametrize("said", ["", "half"])
async def test_when_the_larger_one_fails_the_first_answer_stays(
    error: ProviderError, said: str
) -> None:
    failing: tuple[Said, ...] = (Text(said), error) if said else (error,)
    models = Models({"small": [(Text("Well."), BROKEN)], "large": [failing]})
    found = await events(models)
    assert shown(found) == "Well."
    assert last(found).step.model == "small"
    assert last(found).usage.model == "small"


@pytest.mark.parametrize(("micro_usd", "answers"), [(60_000, "large"), (40_000, "small")])
async def test_a_budget_counts_the_larger_model_at_its_own_price(
    micro_usd: int, answers: str
) -> None:
    """Each may take 100 tokens in and 100 out at most, and took one of each."""
    prices = {"small": Price(1, 1, 1, 1), "large": Price(250, 250, 250, 250)}
    books = Books()
    till = Till(
        {"turn": Limit(None, micro_usd)},
        Counting(books, nobody),
        Prices(lambda _: 100, prices.get),
        Ambient(IdSource(), lambda: datetime(2026, 1, 5, tzinfo=UTC)),
    )
    models = Models({"small": [(BROKEN,)], "large": [(GOOD,)]})
    links = [till.opened, tiers(("small", "large")), Repair(IdSource(), lambda _: True)]
    chain = linked([*links, till.charged, priced(prices)], models)
    request = replace(REQUEST, payer=Payer("t1", "th1"))
    reply = last([event async for event in chain(request)])
    await books.spend(request.payer, reply.usage)
    assert reply.step.model == answers
    assert models.names.count("large") == (answers == "large")
    total = (await books.spent(request.payer))["turn"]
    larger = 500 if answers == "large" else 0
    assert total == Total(2 * len(models.names), 3 * 2 + larger)


async def nobody(_: Told) -> None:
    return


async def test_an_answer_that_stays_empty_is_asked_of_the_larger_one() -> None:
    models = Models({"small": [()], "large": [(Text("Here."),)]})
    found = await events(models)
    assert models.names == ["small", "large"]
    assert (last(found).step.model, shown(found)) == ("large", "Here.")
    with pytest.raises(Empty):
        await events(Models({"small": [()]}), listed=("small",))
    with pytest.raises(Empty):
        await events(Models({"small": [()], "large": [()]}))


async def test_an_error_of_the_endpoint_is_no_fault_of_the_model() -> None:
    models = Models({"small": [(Overloaded("busy"),)], "large": [(GOOD,)]})
    with pytest.raises(Overloaded):
        await events(models)
    assert models.names == ["small"]


async def test_a_repair_that_could_not_be_asked_for_is_no_failed_one() -> None:
    models = Models({"small": [(BROKEN,), (Overloaded("busy"),)], "large": [(GOOD,)]})
    assert last(await events(models)).step.model == "small"
    assert models.names == ["small", "small"]


@pytest.mark.parametrize(
    ("purpose", "asked", "answers"),
    [
        ("compaction", "large", "small"),
        ("memory", "large", "small"),
        ("turn", "large", "large"),
        ("image", "large", "large"),
        ("memory", "other", "other"),
    ],
)
async def test_summaries_and_notes_are_the_smallest_ones_affair(
    purpose: str, asked: str, answers: str
) -> None:
    models = Models({name: [(Text("done"),)] for name in ("small", "large", "other")})
    request = replace(REQUEST, model=asked, purpose=purpose, tools=())  # type: ignore[arg-type]
    await events(models, request)
    assert models.names == [answers]
