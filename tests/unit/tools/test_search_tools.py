"""Glob and Grep: ripgrep and the search in process give the same, and both stay out of what nobody
may read."""

from __future__ import annotations

import string
import tempfile
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from tool_calls import SENSITIVE, Call, judged, opening

from ohmo.contracts.tool import Judged
from ohmo.permissions.rules import parse_rule, path_matches
from ohmo.tools.catalogue import load_tools
from ohmo.tools.files import Opening
from ohmo.tools.results import ToolError
from ohmo.tools.search import inprocess
from ohmo.tools.search.engine import SearchEngine, find_ripgrep
from ohmo.tools.search.inprocess import walk
from ohmo.tools.search.request import Hit, Search, glob_regex, portable
from ohmo.tools.workbench import Limits, Workbench
from tests.programs import run_process

NAMES = st.sampled_from(
    ["a.py", "b.txt", ".hidden", "c d.md", "Übung.py", "x.log", "build", "src", ".git2", "id_rsa"]
)
FOLDERS = st.lists(
    st.sampled_from(["src", "build", ".dot", "deep", "Ümlaut", ".ssh"]), max_size=3
).map("/".join)
TEXTS = st.lists(
    st.sampled_from(
        ["foo", "bar foo", "FOO", "x = 1", "", "naïve café", "a\tb", "foo\r", "日本 foo"]
    ),
    max_size=6,
).map("\n".join)
BODIES = st.one_of(
    TEXTS.map(lambda text: text.encode()),
    TEXTS.map(lambda text: text.encode() + b"\n"),
    st.just(b"foo\0bar\nfoo\n"),
    st.just(b"foo \xff\xfe\n"),
)
IGNORED = st.lists(
    st.sampled_from(
        [
            "*.log",
            "build/",
            "/src",
            "!*.py",
            "**/deep",
            "src/*.txt",
            "*.py",
            "# note",
            "",
            "b.txt",
            "deep/**",
            "!b.txt",
            ".hidden",
            "c d.md",
            "[ab].*",
            "\\",
        ]
    ),
    max_size=4,
).map("\n".join)
TREES = st.fixed_dictionaries(
    {
        "files": st.dictionaries(
            st.tuples(FOLDERS, NAMES).map(lambda pair: "/".join(filter(None, pair))),
            BODIES,
            max_size=12,
        ),
        "ignores": st.dictionaries(FOLDERS, IGNORED, max_size=3),
        "repositories": st.lists(FOLDERS, max_size=2),
        "root": st.sampled_from(["", "src", "src/deep"]),
    }
)
PATTERNS = st.sampled_from(
    [
        "foo",
        "^foo",
        "foo$",
        r"\bfoo\b",
        "f(o|a)o",
        "[a-f]oo",
        "x = \\d",
        "o{2}",
        "é",
        "^$",
        ".",
        r"\s",
        "(?i)foo",
        "foo|bar",
        r"b\w+",
    ]
)


def plant(root: Path, tree: dict[str, object]) -> Path:
    """Makes the tree; names that are folder and file at once stay folders."""
    files, ignores, repositories = tree["files"], tree["ignores"], tree["repositories"]
    assert isinstance(files, dict)
    assert isinstance(ignores, dict)
    assert isinstance(repositories, list)
    start = root / str(tree["root"])
    start.mkdir(parents=True, exist_ok=True)
    for name, body in files.items():
        try:
            (root / name).parent.mkdir(parents=True, exist_ok=True)
            (root / name).write_bytes(body)
        except (FileExistsError, NotADirectoryError, IsADirectoryError):
            continue
    for folder, text in ignores.items():
        if (root / folder).is_dir():
            (root / folder / ".gitignore").write_text(text + "\n")
    for folder in repositories:
        if (root / folder).is_dir():
            (root / folder / ".git" / "objects").mkdir(parents=True, exist_ok=True)
            (root / folder / ".git" / "config").write_text("foo\n")
    return start


def test_a_line_that_is_no_pattern_spoils_no_other_line(tmp_path: Path) -> None:
    """Of a lone ``!`` ripgrep takes everything back, git (gitignore(5)) nothing."""
    plant(
        tmp_path,
        {
            "files": {"a.log": b"", "b.py": b""},
            "ignores": {"": "!\n*.log\n\\\n["},
            "repositories": [""],
            "root": "",
        },
    )
    assert list(walk(tmp_path, opening())) == [".gitignore", "b.py"]


DENIED = st.lists(
    st.sampled_from(
        """
            ./src/** ./src/*.py **/deep/** *.log b.txt ./**/*.md ./build ./?.py ./[ab].* Übung.py
            ./.dot/** .
        """.split()
    ),
    max_size=3,
)


def forbidding(root: Path, denied: list[str]) -> Opening:
    """How a search opens its files when rules deny some of them."""
    rules = [parse_rule(f"Read({pattern})", {"WORKSPACE": str(root)}) for pattern in denied]
    return opening(
        judged=Judged(
            forbidden=lambda path: any(path_matches(rule, "read", "Grep", path) for rule in rules)
        )
    )


def with_ripgrep() -> SearchEngine:
    """Never in process, however small the tree is."""
    program = find_ripgrep(None)
    assert program is not None
    return SearchEngine(program, SENSITIVE, 0)


@pytest.mark.needs("rg")
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(tree=TREES, denied=DENIED)
@example(  # asked for by name
    tree={
        "files": {"src/a.py": b"foo"},
        "ignores": {"": "/src", "src": ""},
        "repositories": [""],
        "root": "src",
    },
    denied=[],
)
@example(
    tree={
        "files": {"src/deep/a.py": b"foo"},
        "ignores": {"": "deep/**"},
        "repositories": [""],
        "root": "src/deep",
    },
    denied=[],
)
@example(
    tree={
        "files": {"src/deep/a.log": b""},
        "ignores": {"": "build/\n*.log\n!a.log"},
        "repositories": [""],
        "root": "src",
    },
    denied=[],
)
async def test_both_engines_list_the_same_files(tree: dict[str, object], denied: list[str]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        root = plant(Path(folder).resolve(), tree)
        allowed = forbidding(root, denied)
        here = list(walk(root, allowed))
        there, _ = await with_ripgrep().files(root, lambda _: True, 1000, allowed)
        assert here == there
        assert not [path for path in here if allowed.hides(f"{root}/{path}")]


@pytest.mark.needs("rg")
@settings(
    max_examples=60,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
@given(
    tree=TREES,
    pattern=PATTERNS,
    mode=st.sampled_from(["content", "files_with_matches", "count"]),
    ignore_case=st.booleans(),
    multiline=st.booleans(),
    before=st.integers(0, 2),
    after=st.integers(0, 2),
    glob=st.sampled_from(["*", "*.py", "src/**", "**/deep/*", "{a,b}.*", "!*.py"]),
    denied=DENIED,
)
async def test_both_engines_find_the_same_lines(
    tree, pattern, mode, ignore_case, multiline, before, after, glob, denied
) -> None:
    if multiline and pattern in (r"\s", "^$", "."):
        return  # where a match is only a line end, the engines count the touched lines differently
    with tempfile.TemporaryDirectory() as folder:
        root = plant(Path(folder).resolve(), tree)
        allowed = forbidding(root, denied)
        regex = glob_regex(glob.removeprefix("!"))
        request = Search(
            root,
            portable(pattern),
            lambda path: (regex.fullmatch(path) is not None) is not glob.startswith("!"),
            mode,
            ignore_case,
            multiline,
            before,
            after,
        )
        here = list(inprocess.search(request, allowed, lambda: False))
        there, _ = await with_ripgrep().search(request, 100_000, allowed)
        assert not [hit for hit in here if allowed.hides(f"{root}/{hit.path}")]
        assert [clean(hit) for hit in here] == [clean(hit) for hit in there]


def clean(hit: Hit) -> tuple[object, ...]:
    return (
        hit.path,
        hit.count,
        tuple((line.number, line.text.replace("\r", ""), line.match) for line in hit.lines),
    )


@pytest.mark.parametrize(
    "pattern",
    [
        "(?=x)",
        "(?<!x)y",
        r"(a)\1",
        "(?P=x)",
        "a++",
        "a{",
        "a{,2}",
        r"\Q",
        r"\pL",
        "[[:alpha:]]",
        "[a&&b]",
        r"\<x",
        "a**",
        "(?#x)",
        "[",
        "(",
        "*a",
        r"\z",
        "[]a]",
        "(?x) a",
    ],
)
async def test_a_pattern_one_engine_cannot_do_is_refused_by_both_in_the_same_words(
    bench: Workbench, context, work: Path, pattern: str
) -> None:
    (work / "a.txt").write_text("x\n")
    said: set[str] = set()
    for program, small in ((None, 200), (bench.ripgrep, 0)):
        tool = load_tools(replace(bench, ripgrep=program, limits=Limits(small_tree=small)))["Grep"]
        given = tool.input.model_validate({"pattern": pattern})
        result = (await tool.run(given, judged(tool, given, context))).result
        assert result.error
        said.add(result.text)
    assert len(said) == 1
    assert "`pattern`" in said.pop()


@pytest.mark.parametrize(
    "pattern",
    [
        "a b",
        "a-b",
        "a/b",
        "x#y",
        "\\.",
        "\\/",
        "é",
        '"',
        "a\\{2",
        "[\\]]",
        "[^\\n]",
        "(?:a|b)+?",
        "(?P<n>a)",
        "^a.*b$",
        "\\x41",
        "a{2,3}?",
    ],
)
async def test_a_portable_pattern_is_accepted_by_ripgrep(pattern: str, tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("x\n")
    request = Search(tmp_path, portable(pattern), lambda _: True, "count")
    found, _ = await with_ripgrep().search(request, 10, opening())
    assert found == list(inprocess.search(request, opening(), lambda: False))


@given(st.text(alphabet=string.ascii_lowercase + "*?[]{},/.!\\", max_size=12))
def test_a_file_pattern_is_understood_or_refused_never_anything_else(pattern: str) -> None:
    try:
        glob_regex(pattern)
    except ToolError:
        return


@pytest.mark.parametrize(
    ("pattern", "path", "matches"),
    [
        ("*.py", "a.py", True),
        ("*.py", "src/deep/a.py", True),
        ("src/*.py", "src/a.py", True),
        ("src/*.py", "src/deep/a.py", False),
        ("src/**/*.py", "src/a.py", True),
        ("src/**/*.py", "src/x/y/a.py", True),
        ("**/*.py", "a.py", True),
        ("**", "x/y", True),
        ("/a.py", "a.py", True),
        ("/a.py", "x/a.py", False),
        ("*.{ts,tsx}", "x/a.tsx", True),
        ("[ab].txt", "b.txt", True),
        ("[!ab].txt", "b.txt", False),
        ("a?.txt", "ab.txt", True),
        ("a?b", "a/b", False),
        ("./x.txt", "x.txt", True),
        ("src/", "src", False),
    ],
)
def test_file_patterns_mean_what_people_know(pattern: str, path: str, matches: bool) -> None:
    assert (glob_regex(pattern).fullmatch(path) is not None) is matches


async def test_results_name_whole_paths_and_say_when_there_are_more(call: Call, work: Path) -> None:
    for number in range(300):
        (work / f"f{number:03d}.txt").write_text("match here\nother\n")
    files = (await call("Glob", pattern="*.txt")).text.splitlines()
    assert files[0] == str(work / "f000.txt")
    assert len(files) == 251
    assert "more files" in files[-1]
    grep = (await call("Grep", pattern="match", head_limit=3)).text.splitlines()
    assert grep[:3] == [str(work / f"f00{number}.txt") for number in range(3)]
    assert "more matches" in grep[3]
    content = await call(
        "Grep", pattern="match", output_mode="content", glob="f00?.txt", head_limit=2, **{"-A": 1}
    )
    assert content.text.splitlines()[:2] == [
        f"{work}/f000.txt:1:match here",
        f"{work}/f000.txt-2-other",
    ]
    count = await call("Grep", pattern="o", path="f000.txt", output_mode="count")
    assert count.text == f"{work}/f000.txt:1"
    assert "no match" in (await call("Grep", pattern="nowhere")).text
    assert (await call("Grep", pattern="x", path="gone")).error
    assert "py" in (await call("Grep", pattern="x", type="klingon")).text


@pytest.mark.parametrize("small", [0, 200])
async def test_a_search_above_secrets_leaves_them_out(
    bench: Workbench, context, work: Path, small: int
) -> None:
    for name in (".ssh/id_rsa", ".aws/credentials", "deep/.netrc", "plain.txt"):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text("needle\n")
    tools = load_tools(replace(bench, limits=Limits(small_tree=small)))
    for name, arguments in (("Grep", {"pattern": "needle"}), ("Glob", {"pattern": "**"})):
        given = tools[name].input.model_validate(arguments)
        result = (await tools[name].run(given, judged(tools[name], given, context))).result
        assert result.text == str(work / "plain.txt")


@pytest.mark.parametrize("small", [0, 200])
async def test_the_agents_home_is_left_out_of_a_search(
    bench: Workbench, context, work: Path, tmp_path: Path, small: int
) -> None:
    home = tmp_path / "home" / ".ohmo"
    (home / "run").mkdir(parents=True)
    (home / "spill" / "thread").mkdir(parents=True)
    (home / "spill" / "another").mkdir()
    for name in (
        *("config.yaml", "ohmo.db", "run/token", "SOUL.md", "spill/t.1.txt"),
        *("spill/thread/t.1.txt", "spill/another/t.1.txt"),
    ):
        (home / name).write_text("needle\n")
    (work / "disguise.md").hardlink_to(home / "run" / "token")
    tool = load_tools(replace(bench, limits=Limits(small_tree=small)))["Grep"]
    found = list[str]()
    for folder in (home, home / "spill" / "thread", home / "spill" / "another", work):
        given = tool.input.model_validate({"pattern": "needle", "path": str(folder)})
        found.append((await tool.run(given, judged(tool, given, context))).result.text)
    own = str(home / "spill" / "thread" / "t.1.txt")
    another = f"no match below {home / 'spill' / 'another'}"
    assert found == [f"no match below {home}", own, another, f"no match below {work}"]


@pytest.mark.needs("rg")
async def test_a_cancelled_search_leaves_no_ripgrep(bench: Workbench, work: Path) -> None:
    engine = SearchEngine(bench.ripgrep, bench.sensitive, 0)
    (work / "a.txt").write_text("x\n" * 100_000)
    hits, more = await engine.search(Search(work, "x", lambda _: True, "content"), 5, opening())
    assert more
    assert len(hits) == 1
    listing = run_process("ps", "-eo", "args", code=0).stdout
    assert str(work) not in listing
