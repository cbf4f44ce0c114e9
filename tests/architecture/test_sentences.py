"""No sentence of ours is read back: what something means is a field, not its words."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator

from tests.architecture.house_report import ROOT, parsed

READS = {"startswith", "endswith", "removeprefix", "removesuffix", "partition", "rpartition"}
READS |= {"match", "fullmatch", "search", "finditer", "findall", "compile", "index", "find"}
WORDS = re.compile(r"[A-Za-z]{2,},? [A-Za-z]{2,}")
FOREIGN = {  # who said those words, where no field tells the same
    "ohmo/providers/wire_parts.py": "endpoints, in the text of their errors",
    "ohmo/providers/middleware/judgement.py": "weak models, which write calls as text",
    "ohmo/mcp/program.py": "programs, in what they say before they end",
    "ohmo/checkpoints/git.py": "git, in the text of its errors",
    "ohmo/context/carryover.py": "people, who say what they forbid and want",
    "ohmo/context/compaction.py": "models, in a summary",
    "ohmo/providers/offline.py": "it reads what a model is told, and a model is told words",
    "ohmo/database/postgres.py": "SQL",
    "ohmo/store/written_before.py": "an older ohmo: the one reader of its sentences",
    "ohmo/storefile/inspection.py": "SQLite",
    "ohmo/storefile/wal_check.py": "SQLite",
    "ohmo/triage/results.py": "test runners",
    "ohmo/triage/logs.py": "test runners and CI services",
    "ohmo/triage/outcomes.py": "test runners",
    "ohmo/tools/project_tests.py": "npm, in the script it writes where there are no tests",
    "ohmo/control/application.py": "the page's own HTML",
    "ohmo/cron/recipes.py": "a rule of the owner: the command it allows",
    "ohmo/cli/setup_checks.py": "lines of the configuration's reader, which has no codes yet",
    "channels/telegram/adapter.py": "Telegram",
}
SCRIPT = re.compile(  # a text or an expression that another text is compared with
    r"""\.(?:startsWith|endsWith|includes|indexOf|split|replace|match|search)\((["'`/])(.+?)\1"""
    r"""|[=(,]\s*(/)(?![/*\s])((?:[^/\\\n]|\\.)+)/"""
)


def sentence(node: ast.AST, named: dict[str, str]) -> str:
    """The first constant in ``node`` that holds two words in a row."""
    for inner in ast.walk(node):
        text = named.get(inner.id, "") if isinstance(inner, ast.Name) else ""
        if isinstance(inner, ast.Constant) and isinstance(inner.value, str):
            text = inner.value
        if WORDS.search(text):
            return text
    return ""


def read_back(tree: ast.Module) -> Iterator[tuple[int, str]]:
    """Lines that compare a text with a sentence."""
    named = {
        target.id: node.value.value
        for node in tree.body
        if isinstance(node, ast.Assign)
        and isinstance(node.value, ast.Constant)
        and isinstance(node.value.value, str)
        for target in node.targets
        if isinstance(target, ast.Name)
    }
    for node in ast.walk(tree):
        found = ""
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            if node.func.attr in READS:
                found = next(filter(None, (sentence(one, named) for one in node.args)), "")
        elif isinstance(node, ast.Compare) and isinstance(node.ops[0], ast.In | ast.NotIn):
            found = sentence(node, named)
        if found:
            yield node.lineno, found


def test_no_python_reads_a_sentence_of_ours_back() -> None:
    wrong: list[str] = []
    for room in ("ohmo", "channels"):
        for path in sorted((ROOT / room).rglob("*.py")):
            name = str(path.relative_to(ROOT))
            tree = parsed(path)
            wrong += [
                f"{name}:{line}: {text[:60]!r}"
                for line, text in read_back(tree)
                if name not in FOREIGN
            ]
    assert wrong == []


def script_reads(source: str) -> list[str]:
    found: list[str] = []
    for line in source.splitlines():
        code = line.split(" // ")[0]
        for match in SCRIPT.finditer(code):
            text = match[2] or match[4]
            if not code.lstrip().startswith(("/*", "*", "//")) and WORDS.search(text):
                found.append(text)
    return found


def test_no_script_of_the_page_reads_a_sentence_of_ours_back() -> None:
    wrong: list[str] = []
    for path in sorted((ROOT / "ohmo" / "control" / "assets").glob("*.js")):
        wrong += [f"{path.name}: {text[:60]}" for text in script_reads(path.read_text("utf-8"))]
    assert wrong == []


def test_the_list_of_foreign_words_names_what_is_there() -> None:
    assert [
        name for name in FOREIGN if not any(read_back(ast.parse((ROOT / name).read_text())))
    ] == []


def test_what_was_read_back_before_would_be_found() -> None:
    python = [
        'AGAIN = "Press the button."\ntext.rpartition(AGAIN)',
        'text.endswith((_DENY, "Answer with a button."))',
        '"nobody answered in time" in reason',
        're.compile(r"Not allowed \\(|There is no tool named ")',
    ]
    assert all(list(read_back(ast.parse(line))) for line in python)
    scripts = [
        "const NOT_RUN = /^(?:Not allowed \\(|There is no tool named )/;",
        'if (text.startsWith("Interrupted by a restart")) return;',
    ]
    assert all(script_reads(line) for line in scripts)
    assert not script_reads('made.append("How the results of calls begin");')
