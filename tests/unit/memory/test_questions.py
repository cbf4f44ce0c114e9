"""A hundred questions in English, Vietnamese with and without marks, Chinese, Japanese and Korean
find the notes that are meant, among ten times as many others."""

from __future__ import annotations

from pathlib import Path

from ohmo.memory.notes import Note
from tests.unit.memory.memories import memory, viewer, written
from tests.unit.memory.questions import ALIASES, NOTES, QUESTIONS

NOISE = (
    "The meeting about the budget is on Tuesday, and the report goes to the customer in Vienna.",
    "Cuộc họp về ngân sách vào thứ Ba, báo cáo gửi cho khách ở Cần Thơ.",
    "关于预算的会在周二开,报告发给广州的客户。",
    "予算の会議は火曜日で、報告書は名古屋の顧客に送る。",
    "예산 회의는 화요일이고 보고서는 대구 고객에게 보낸다.",
)


def test_a_hundred_questions_find_what_is_meant(tmp_path: Path) -> None:
    one = memory(tmp_path)
    mine = one.scopes(viewer(tmp_path))[0]
    for title, text in NOTES.items():
        written(one, mine, title, text, ALIASES.get(title, ()))
    folder = one.root / mine.folder
    for number in range(500):
        text = NOISE[number % len(NOISE)]
        note = Note(mine.folder, f"noise-{number}", f"{text[:8]} {number}", f"{text} {number}")
        (folder / f"{note.name}.md").write_text(note.file())
    assert len(QUESTIONS) == 100
    missed = [
        f"{question} → {title}"
        for question, title in QUESTIONS
        if title not in [found.note.title for found in one.search([mine], question, 5)]
    ]
    assert len(missed) <= 5, missed
    print("missed:", missed)
