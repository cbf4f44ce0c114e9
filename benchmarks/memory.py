"""How long a search in many notes takes, one right after the other and seconds apart, when a look for
files that were edited in place is due; and how long one note takes to be written, alone and with the
search after it: ``python -m benchmarks.memory [--notes N]``."""

from __future__ import annotations

import argparse
import random
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from itertools import count
from pathlib import Path

from ohmo.memory.notes import Note
from tests.unit.memory.memories import memory, viewer, written
from tests.unit.memory.questions import QUESTIONS

_WORDS = [
    "deploy",
    "release",
    "thursday",
    "staging",
    "database",
    "backup",
    "printer",
    "invoice",
    "meeting",
    "lunch",
    "birthday",
    "password-manager",
    "garden",
    "bicycle",
    "train",
    "ticket",
    "hotel",
    "vienna",
    "budget",
    "report",
    "customer",
    "contract",
    "máy",
    "in",
    "họp",
    "khách",
    "hàng",
    "hợp",
    "đồng",
    "ngân",
    "sách",
    "báo",
    "cáo",
    "sinh",
    "nhật",
    "vé",
    "tàu",
    "khách",
    "sạn",
    "会议",
    "发票",
    "打印机",
    "合同",
    "预算",
    "报告",
    "客户",
    "生日",
    "酒店",
    "火车票",
    "会議",
    "請求書",
    "契約",
    "予算",
    "報告",
    "顧客",
    "誕生日",
    "회의",
    "영수증",
    "계약",
    "예산",
    "보고서",
]


def many(folder: Path, count: int) -> None:
    """Files as the tools write them, without waiting for the disk each time."""
    dice = random.Random(7)
    for number in range(count):
        text = " ".join(dice.choices(_WORDS, k=60))
        title = f"{dice.choice(_WORDS)} {number}"
        note = Note("", f"n{number}", title, text, said_by="slack:U1", at="2026-11-24T12:00:00")
        (folder / f"n{number}.md").write_text(note.file())


def measured(work: Callable[[str], object], before: Callable[[], object]) -> str:
    """In time that passed, and in time of the processor: the former says little where others work
    on the same machine."""
    passed: list[float] = []
    worked: list[float] = []
    for question, _ in QUESTIONS * 2:
        before()
        start, begun = time.perf_counter(), time.process_time()
        work(question)
        passed.append((time.perf_counter() - start) * 1_000)
        worked.append((time.process_time() - begun) * 1_000)
    return f"{spread(passed)}; of the processor {spread(worked)}"


def spread(times: list[float]) -> str:
    times.sort()
    p50, p95 = times[len(times) // 2], times[int(len(times) * 0.95)]
    return f"p50 {p50:.1f} ms, p95 {p95:.1f} ms, most {times[-1]:.1f} ms"


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--notes", type=int, default=10_000)
    wanted = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        one = memory(root)
        [mine, *_] = one.scopes(viewer(root))
        written(one, mine, "first")
        many(root / "memory" / mine.folder, wanted.notes)
        start = time.perf_counter()
        one.search([mine], "deploy")
        print(f"{wanted.notes} notes, index made in {time.perf_counter() - start:.1f} s")
        index = one._index  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]

        def search(question: str) -> object:
            return one.search([mine], question)

        print("in a row:     ", measured(search, lambda: None))

        def later() -> None:
            """As if seconds had gone by: a look at the files is due again."""
            one.refresh()
            looks = index._looked  # noqa: SLF001 # pyright: ignore[reportPrivateUsage]
            looks[mine.folder] = replace(looks[mine.folder], again=0.0)

        print("seconds apart:", measured(search, later))
        titles = count()

        def write(question: str) -> None:
            written(one, mine, f"written {next(titles)}", question)

        def both(question: str) -> None:
            write(question)
            search(question)

        one.refresh()
        print("a write:      ", measured(write, lambda: None))
        print("with a search:", measured(both, lambda: None))


if __name__ == "__main__":
    main()
