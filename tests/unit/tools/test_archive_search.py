"""What was summed up or left out is found again by its words: in any language, of this conversation
only, a slice at a time."""

from __future__ import annotations

from pathlib import Path

from ohmo.context.archive import Search
from ohmo.contracts.messages import CallResult, ModelStep, Step, Text, ToolResult, UserStep
from ohmo.permissions.sensitive_paths import SensitivePaths
from ohmo.tools.archive_search import SLICE, ArchiveSearch
from ohmo.tools.workbench import Workbench
from tests.makers import call_context


def said(text: str) -> UserStep:
    return UserStep((Text(text),), "ada", "message")


class Log:
    """``asked``: how many steps were wanted at once, by thread."""

    def __init__(self, **threads: list[Step]) -> None:
        self._threads = threads
        self.asked: list[tuple[str, int | None]] = []

    async def __call__(
        self, thread: str, since: int, *, limit: int | None = None
    ) -> list[tuple[int, Step]]:
        self.asked.append((thread, limit))
        steps = list(enumerate(self._threads[thread]))
        return [row for row in steps if row[0] >= since][:limit]


async def found(log: Log, query: str, archived: int = 10_000, limit: int = 5) -> ToolResult:
    bench = Workbench(Path("/spill"), SensitivePaths(Path("/home")), steps=log)
    tool = ArchiveSearch(bench)
    arguments = tool.input(query=query, limit=limit)
    context = call_context(Path("/"), thread="own", archived=archived)
    return (await tool.run(arguments, context)).result


async def test_words_are_found_without_marks_in_any_language_and_the_rare_ones_count() -> None:
    noise = [said(f"we talked about the depot and the weather {n}") for n in range(30)]
    log = Log(
        own=[
            said("Mã cổng của kho Đồng Hới là 48213."),
            *noise,
            said("仓库的密码是 7781。"),
            ModelStep((Text("The CI of the UI is green"),), "m", "end"),
        ]
    )
    assert (await found(log, "ma cong kho dong hoi")).text.startswith("#0 ada: Mã cổng")
    assert (await found(log, "仓库密码")).text.startswith("#31 ada: 仓库的密码")
    assert (await found(log, "UI")).text.startswith("#32 you: The CI of the UI")
    both = await found(log, "depot weather")
    assert [line[:4] for line in both.text.splitlines()] == ["#30 ", "#29 ", "#28 ", "#27 ", "#26 "]
    assert "Nothing" in (await found(log, "zebra")).text


async def test_only_what_is_not_sent_any_more_of_its_own_thread_is_looked_at() -> None:
    log = Log(own=[said("secret one"), said("secret two")], other=[said("secret three")])
    assert (await found(log, "secret", archived=1)).text == "#0 ada: secret one"
    assert {thread for thread, _ in log.asked} == {"own"}
    assert "Nothing" in (await found(log, "secret", archived=0)).text


async def test_a_long_log_is_read_in_slices_and_one_long_step_is_shown_in_part() -> None:
    steps: list[Step] = [said(f"line {n}") for n in range(3 * SLICE)]
    steps[700] = said("x " * 2_000 + "needle " + "y " * 2_000)
    log = Log(own=steps)
    text = (await found(log, "needle")).text
    assert text.startswith("#700 ada: …")
    assert "needle" in text
    assert len(text) < 400
    assert {limit for _, limit in log.asked} == {SLICE}


async def test_whose_words_are_found_is_known_of_the_result() -> None:
    result = CallResult(ToolResult("c", "the page says buy", taint=("web:evil.example",)))
    assert (await found(Log(own=[result]), "buy")).taint == ("web:evil.example",)


def test_what_is_kept_while_it_looks_is_bounded() -> None:
    words = [f"w{n}" for n in range(20)]
    search = Search(" ".join(words), 5)
    for number in range(1 << 11):
        some = " ".join(word for bit, word in enumerate(words) if number >> bit & 1)
        search.look([(number, said(some))])
    assert len(search.best()) == 5
