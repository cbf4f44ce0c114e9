"""What names of Python mean: a corpus with its answers, Python's own symbol tables, and that a
reference means what it is said to refer to."""

from __future__ import annotations

import ast
import symtable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ohmo.codeintel.python_file import PythonFile
from ohmo.codeintel.reading import Unreadable
from tests.unit.codeintel.marked import Marked

CORPUS = {
    "scopes": {
        "a.py": """
<!x:x> = 1
def <!f:f>(<!p:p>, q=<x:x>, *<!r:rest>, **<!k:more>):
    <!y:y> = <p:p> + <x:x>
    def inner():
        nonlocal <y:y>
        <y:y> = 2
        return <y:y>, <r:rest>, <k:more>
    return [<!i:i> for <i:i> in <y:y> if <i:i>], <?:i>
class <!C:C>:
    <!cx:x> = <x:x>
    <!z:z> = [<x:x> for _ in <cx:x>]
    def m(self, <!mx:x>=<cx:x>):
        return <mx:x>, lambda <!lx:x>: <lx:x>
    def n(self):
        return <x:x>, <C:C>
try:
    pass
except ValueError as <!e:error>:
    print(<e:error>, <?:missing>)
with open(<f:f>) as <!w:w>: <w:w>
if (<!n:n> := <f:f>(q=1)): <n:n>
match <n:n>:
    case {"a": <!ma:ma>, **<!mr:mr>}: <ma:ma>, <mr:mr>
    case [<!mb:mb>, *<!mc:mc>] as <!md:md>: <mb:mb>, <mc:mc>, <md:md>
for <!v:v> in []: <v:v>
print(f"{<x:x>} {<f:f>(<v:v>)!r:>{<w:w>}}")
async def <!af:af>(): pass
def g():
    global <gl:gl>
    <!gl:gl> = <f:f>(<p:p>=1)
<gl:gl>
# x f C
"x f C"
"""
    },
    "imports": {
        "src/pkg/__init__.py": "from .<@src/pkg/b.py:b> import <f:f>, <f:f> as <f:g>\nfrom . import <@src/pkg/b.py:b>\n__all__ = ['f', 'b']\n",
        "src/pkg/b.py": "import <^:os>\nfrom <^:os> import <^:path>\ndef <!f:f>(): pass\n<^:os>.<^:sep>\n<^:path>.<^:join>\n",
        "src/pkg/sub/__init__.py": "from ..<@src/pkg/b.py:b> import <f:f> as <f:again>\n",
        "src/pkg/sub/c.py": "from .. import <f:f>\nfrom . import <f:again>\nimport pkg.<@src/pkg/b.py:b>\npkg.b.<f:f>\n<f:again>()\n",
        "src/pkg/circle.py": "from pkg.circle2 import <two:two>\ndef <!one:one>(): return <two:two>\n",
        "src/pkg/circle2.py": "from pkg.circle import <one:one>\ndef <!two:two>(): return <one:one>\n",
        "tests/test_it.py": """from pkg import <f:g>
import pkg.sub.c as <@src/pkg/sub/c.py:c>
import pkg
from pkg import *
<f:f>()
<@src/pkg/sub/c.py:c>.<f:again>
pkg.<@src/pkg/b.py:b>.<f:f>
try:
    from pkg import <f:f> as <f:h>
except ImportError:
    h = None
<f:h>
""",
    },
    "stars": {
        "m.py": "<!a:a> = 1\n_hidden = 2\n",
        "n.py": "from m import *\nfrom o import *\n<!b:b> = <a:a>\n",
        "o.py": "from n import *\n<!c:c> = <b:b>\n",
        "p.py": "from n import *\n<a:a>, <b:b>, <c:c>, <?:_hidden>\n",
    },
    "attributes": {
        "m.py": """
from dataclasses import dataclass
class <!A:A>:
    <!n:name>: str = ""
    def __init__(self, <!b:b>: "<B:B>"):
        self.<!ab:b> = <b:b>
        self.<!c:c> = <B:B>()
    def <!run:run>(self):
        return self.<n:name>, self.<ab:b>.<v:value>, self.<c:c>.<v:value>, self.<?:nothing>
    @property
    def <!other:other>(self) -> <B:B>: ...
    @classmethod
    def <!make:make>(cls): return cls.<run:run>
    @staticmethod
    def lone(self): return self.<?:run>
class <!B:B>(<^:Base>):
    def __init__(self): self.<!v:value> = 1
class <!S:S>(<A:A>):
    def <!srun:run>(self): return super().<run:run>, self.<srun:run>, self.<n:name>
@dataclass
class <!D:D>:
    <!d:d>: int
def take(<!t:t>: <A:A>, u: <A:A> | None, w, s: list[<A:A>]):
    <t:t>.<run:run>; u.<run:run>; w.<?:run>; s.<?:run>
    <A:A>.<make:make>; t.<other:other>.<v:value>; <D:D>(<d:d>=1)
    x = <S:S>(<b:b>=1); x.<srun:run>
    x2 = <A:A>(); x2 = w; x2.<?:run>
    B().<?:base_thing>
""".replace("<^:Base>", "__import__('x').Base")
    },
    "diamond": {
        "m.py": """
class <!A:A>:
    def <!am:m>(self): ...
class B(<A:A>): ...
class C(<A:A>):
    def <!cm:m>(self): ...
class D(B, C): ...
D().<cm:m>
B().<am:m>
"""
    },
}


@pytest.mark.parametrize("name", sorted(CORPUS))
def test_every_name_means_what_is_marked(name: str, tmp_path: Path) -> None:
    assert Marked(tmp_path, CORPUS[name]).wrong() == []


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("imports", "f"),
        ("scopes", "x"),
        ("scopes", "y"),
        ("attributes", "run"),
        ("attributes", "v"),
        ("stars", "a"),
    ],
)
def test_references_are_all_that_means_the_same_and_nothing_else(
    name: str, key: str, tmp_path: Path
) -> None:
    marked = Marked(tmp_path, CORPUS[name])
    missing = marked.uses(key) - marked.found_uses(key)
    assert missing == set()
    for path, line in marked.found_uses(key) - marked.uses(key):
        assert (
            "<" not in marked.files[str(Path(path).relative_to(tmp_path))].split("\n")[line - 1]
        ), (path, line)


def test_a_reference_means_the_definition_it_was_found_for(tmp_path: Path) -> None:
    for name, files in CORPUS.items():
        marked = Marked(tmp_path / name, files)
        for mark in marked.marks:
            workspace = marked.workspace()
            wanted = workspace.definition(mark.path, mark.line, mark.column, mark.name)
            if wanted is None:
                continue
            for use in workspace.references(wanted):
                line = (workspace.file(use.path).text.split("\n"))[use.line - 1]
                words = {one.name for one in wanted.symbols} | {mark.name, "g", "h", "again", "c"}
                keys = set()
                for word in words:
                    at = line.find(word)
                    while at >= 0:
                        found = workspace.definition(use.path, use.line, at, word)
                        keys |= {found.key} if found is not None else set()
                        at = line.find(word, at + 1)
                assert wanted.key in keys, (use, wanted)


NAMES = ("a", "b", "c")
_name = st.sampled_from(NAMES)
_expression = st.recursive(
    st.one_of(_name, st.just("1")),
    lambda inner: st.one_of(
        st.builds("({} + {})".format, inner, inner),
        st.builds("[{} for {} in {}]".format, inner, _name, inner),
        st.builds("(lambda {}={}: {})".format, _name, inner, inner),
        st.builds("{{{}: {} for {} in {} if {}}}".format, inner, inner, _name, inner, inner),
    ),
    max_leaves=4,
)


@st.composite
def _block(draw: st.DrawFn, depth: int, kind: str) -> list[str]:
    rows: list[str] = []
    for _ in range(draw(st.integers(1, 3))):
        choice = draw(st.integers(0, 9 if depth else 5))
        if choice <= 2:
            rows.append(f"{draw(_name)} = {draw(_expression)}")
        elif choice == 3:
            rows.append(draw(_expression))
        elif choice == 4:
            rows.append(f"for {draw(_name)} in {draw(_expression)}: {draw(_name)}")
        elif choice == 5:
            rows.append(
                f"if ({draw(_name)} := {draw(_expression)}): pass" if kind != "class" else "pass"
            )
        else:
            inner_kind = "def" if choice < 9 else "class"
            head = (
                f"def {draw(_name)}({draw(_name)}={draw(_expression)}):"
                if inner_kind == "def"
                else f"class {draw(_name)}:"
            )
            body = draw(_block(depth - 1, inner_kind))
            if inner_kind == "def" and draw(st.booleans()):
                body = [f"global {draw(_name)}", *body]
            rows += [head, *("    " + row for row in body)]
    return rows


def owners_by_python(text: str) -> dict[tuple[str, int, str], str]:
    """Scope (name, first line), name and the kind of scope Python finds the name in."""
    found: dict[tuple[str, int, str], str] = {}

    def walk(table: symtable.SymbolTable) -> None:
        for symbol in table.get_symbols():
            kind = "free" if symbol.is_free() else "global" if symbol.is_global() else "local"
            found[(table.get_name(), table.get_lineno(), symbol.get_name())] = kind
        for child in table.get_children():
            walk(child)

    walk(symtable.symtable(text, "x", "exec"))
    return found


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(_block(3, "module"))
def test_a_name_is_found_in_the_scope_in_which_python_finds_it(rows: list[str]) -> None:
    text = "\n".join(rows)
    try:
        expected = owners_by_python(text)
    except SyntaxError:
        return  # a parameter that is global too, for example
    file = PythonFile("x.py", text.encode())
    for node in ast.walk(file.tree):
        if not isinstance(node, ast.FunctionDef):
            continue
        chain = file.chain((node.body[0].lineno, node.body[0].col_offset))
        scope = file.innermost(chain)
        if scope.node is not node:  # its body begins with what opens a scope
            continue
        for name in NAMES:
            kind = expected.get((node.name, node.lineno, name))
            if kind is not None:
                assert owner_by_us(scope, name) == kind, (text, node.lineno, name)


def owner_by_us(scope: object, name: str) -> str:
    here = scope
    while True:
        if name in here.globals:
            return "global"
        if name in here.bindings and (here is scope or not here.is_class):
            return "local" if here is scope else "global" if here.outer is None else "free"
        if here.outer is None:
            return "global"
        here = here.outer


@pytest.mark.parametrize(
    ("text", "names", "word"),
    [
        (
            "def good(): pass\n\ndef bad(:\n    pass\n\nclass Also:\n    def ok(self): pass\n",
            ["good", "Also", "ok"],
            "line 3",
        ),
        (
            "class A:\n    def one(self): pass\n    def two(self):\n        x = = 1\n        return x\n    def three(self): pass\n",
            ["A", "one", "two", "three"],
            "line 4",
        ),
        ("x = (1,\n\ndef f(): pass\n", ["f"], "line 1"),
        ("def f():\n    '''never ends\n    x\n", ["f"], "line 2"),
    ],
)
def test_what_can_be_read_of_a_file_with_errors_is_read(
    text: str, names: list[str], word: str
) -> None:
    file = PythonFile("x.py", text.encode())
    assert [one.name for one in file.symbols if one.name in names] == names
    assert word in file.problem


def test_bytes_that_are_no_utf8_are_read_and_that_is_said() -> None:
    file = PythonFile("x.py", "caf\xe9 = 1\n".encode("latin-1"))
    assert [one.name for one in file.symbols] == ["café"]
    assert "not UTF-8" in file.problem
    declared = PythonFile("x.py", "# -*- coding: latin-1 -*-\ncaf\xe9 = 1\n".encode("latin-1"))
    assert [one.name for one in declared.symbols] == ["café"]
    assert declared.problem == ""


@pytest.mark.parametrize(
    "data",
    [
        b"x = " + b"(" * 5000 + b")" * 5000,
        b"x = " + b"-" * 200_000 + b"1",
        b"\0\1\2",
        b"x" + b".a" * 100_000,
    ],
)
def test_what_python_cannot_parse_is_said_in_one_line(data: bytes) -> None:
    problem = ""
    try:
        problem = PythonFile("x.py", data).problem
    except Unreadable as error:
        problem = str(error)
    assert "\n" not in problem
