"""Notebooks: Read shows cells, NotebookEdit changes one of them and no other byte."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tool_calls import Call

from ohmo.tools.notebook_edit import Notebook
from ohmo.tools.results import ToolError

CELLS: list[dict[str, Any]] = [
    {"cell_type": "markdown", "id": "top", "metadata": {}, "source": ["# Tiêu đề\n", "hello"]},
    {
        "cell_type": "code",
        "execution_count": 3,
        "id": "sum",
        "metadata": {"z": 1, "a": 1.50},
        "outputs": [
            {"name": "stdout", "output_type": "stream", "text": ["3\n"]},
            {
                "data": {"image/png": "iVBO", "text/plain": ["<Figure>"]},
                "metadata": {},
                "output_type": "display_data",
            },
            {"output_type": "error", "ename": "E", "evalue": "bad", "traceback": ["x"]},
        ],
        "source": ["1 + 2"],
    },
]


def notebook(indent: int | None = 1, minor: int = 5, cells: Any = CELLS) -> str:
    data = {"cells": cells, "metadata": {"k": {}}, "nbformat": 4, "nbformat_minor": minor}
    return json.dumps(data, indent=indent, ensure_ascii=False) + "\n"


async def test_read_shows_cells_with_what_they_printed(call: Call, work: Path) -> None:
    (work / "a.ipynb").write_text(notebook())
    text = (await call("Read", file_path="a.ipynb")).text
    lines = [line.partition("\t")[2] for line in text.splitlines()]
    assert lines == [
        "# cell 0 (markdown) id=top",
        "# Tiêu đề",
        "hello",
        "# cell 1 (code) id=sum",
        "1 + 2",
        "# output of cell 1",
        "3",
        "<Figure>",
        "[image/png]",
        "E: bad",
    ]
    assert "more lines follow" in (await call("Read", file_path="a.ipynb", limit=2)).text


async def test_a_file_that_is_no_notebook_is_shown_as_the_text_it_is(
    call: Call, work: Path
) -> None:
    for text in ("{", "[]", '{"nbformat": 3, "worksheets": []}', "[" * 100_000, ""):
        (work / "a.ipynb").write_text(text)
        shown = await call("Read", file_path="a.ipynb")
        assert not shown.error
        assert text[:20] in shown.text
        edited = await call("NotebookEdit", notebook_path="a.ipynb", cell_number=0, new_source="x")
        assert edited.error
        assert (work / "a.ipynb").read_text() == text


@pytest.mark.parametrize("indent", [None, 1, 2, 4])
async def test_a_code_cell_is_replaced_with_its_outputs_and_every_other_byte_stays(
    call: Call, work: Path, indent: int | None
) -> None:
    before = notebook(indent).replace('"a": 1.5', '"a": 1.50')
    (work / "a.ipynb").write_text(before)
    result = await call("NotebookEdit", notebook_path="a.ipynb", cell_id="sum", new_source="a\nb")
    assert result.text.endswith("replaced cell 1")
    after = (work / "a.ipynb").read_text()
    cell = CELLS[1] | {"source": ["a\n", "b"], "outputs": [], "execution_count": None}
    assert after == notebook(indent, cells=[CELLS[0], cell]).replace('"a": 1.5', '"a": 1.50')
    assert '"a": 1.50' in after


async def test_cells_are_inserted_deleted_and_change_their_kind(call: Call, work: Path) -> None:
    path = work / "a.ipynb"
    path.write_text(notebook())

    async def edit(**arguments: Any) -> list[dict[str, Any]]:
        result = await call("NotebookEdit", notebook_path="a.ipynb", **arguments)
        assert not result.error, result.text
        text = path.read_text()
        assert text == json.dumps(json.loads(text), indent=1, ensure_ascii=False) + "\n"
        return json.loads(text)["cells"]

    cells = await edit(edit_mode="insert", new_source="first")
    assert cells[0].keys() == {
        "cell_type",
        "execution_count",
        "id",
        "metadata",
        "outputs",
        "source",
    }
    assert cells[1:] == CELLS
    cells = await edit(edit_mode="insert", cell_id="sum", new_source="last", cell_type="markdown")
    assert cells[-1] | {"id": ""} == {
        "cell_type": "markdown",
        "id": "",
        "metadata": {},
        "source": ["last"],
    }
    cells = await edit(cell_number=2, new_source="words", cell_type="markdown")
    assert cells[2].keys() == {"cell_type", "id", "metadata", "source"}
    cells = await edit(cell_id="top", new_source="x = 1", cell_type="code")
    assert (cells[1]["outputs"], cells[1]["execution_count"]) == ([], None)
    for left in (3, 2, 1, 0):
        cells = await edit(edit_mode="delete", cell_number=left // 2)
        assert len(cells) == left
    assert len(await edit(edit_mode="insert", new_source="again")) == 1


async def test_cells_of_an_older_format_get_no_id_and_a_source_in_one_piece_stays_one(
    call: Call, work: Path
) -> None:
    path = work / "a.ipynb"
    path.write_text(
        notebook(minor=4, cells=[{"cell_type": "raw", "metadata": {}, "source": "one"}])
    )
    await call("NotebookEdit", notebook_path="a.ipynb", cell_number=0, new_source="a\nb")
    await call("NotebookEdit", notebook_path="a.ipynb", edit_mode="insert", new_source="x")
    new, old = json.loads(path.read_text())["cells"]
    assert old["source"] == "a\nb"
    assert "id" not in new


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"cell_id": "none", "new_source": "x"}, "no cell with the id"),
        ({"cell_number": 2, "new_source": "x"}, "there are 2, counted from 0"),
        ({"cell_number": 0}, "`new_source` is missing"),
        ({"new_source": "x"}, "name the cell"),
        ({"edit_mode": "delete"}, "name the cell"),
    ],
)
async def test_what_is_missing_is_named_and_nothing_is_changed(
    call: Call, work: Path, arguments: dict[str, Any], words: str
) -> None:
    (work / "a.ipynb").write_text(notebook())
    result = await call("NotebookEdit", notebook_path="a.ipynb", **arguments)
    assert result.error
    assert words in result.text
    assert (work / "a.ipynb").read_text() == notebook()


async def test_a_notebook_that_changed_since_it_was_read_is_not_written(
    call: Call, work: Path
) -> None:
    path = work / "a.ipynb"
    path.write_text(notebook())
    await call("Read", file_path="a.ipynb")
    path.write_text(notebook(2))
    result = await call("NotebookEdit", notebook_path="a.ipynb", cell_number=0, new_source="x")
    assert "changed since you last read it" in result.text
    assert path.read_text() == notebook(2)


CELL = st.fixed_dictionaries(
    {"cell_type": st.sampled_from(["code", "markdown"]), "source": st.text(max_size=8)},
    optional={"metadata": st.dictionaries(st.text(max_size=3), st.text(max_size=3), max_size=2)},
)


@given(
    cells=st.lists(CELL, max_size=4),
    indent=st.sampled_from([None, 0, 1, 3]),
    at=st.integers(0, 3),
    source=st.text(max_size=12),
)
def test_any_notebook_is_one_afterwards_and_only_the_cell_that_was_meant_is_another(
    cells: list[dict[str, Any]], indent: int | None, at: int, source: str
) -> None:
    one = Notebook(notebook(indent, cells=cells))
    if at < len(cells):
        left = json.loads(one.deleted(at))["cells"]
        assert left == cells[:at] + cells[at + 1 :]
        after = json.loads(one.replaced(at, source, None))["cells"]
        assert after[:at] + after[at + 1 :] == left
        assert "".join(after[at]["source"]) == source
    if at <= len(cells):
        more = json.loads(one.inserted(at, source, "markdown", "id"))["cells"]
        assert more[:at] + more[at + 1 :] == cells
        assert "".join(more[at]["source"]) == source


@given(st.text(max_size=40))
def test_any_other_text_is_refused(text: str) -> None:
    with pytest.raises(ToolError):
        Notebook(text)
