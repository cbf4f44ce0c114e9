"""What a command reaches otherwise than by a word that names it: a protected file by a redirection, an
option or a wildcard; a secret by a hard link, or by a link below a folder; git's programs by its
settings. Judged in ``full_auto``, where nothing else asks, and held against what bash and the disk do."""

from __future__ import annotations

import random
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ohmo.permissions.sensitive_paths import SensitivePaths
from ohmo.shell.git_repository import runs_nothing
from ohmo.shell.parsing import DEFAULT_PATH, Shell
from tests.unit.permissions.permission_house import House, Mode

MODES: tuple[Mode, ...] = ("default", "plan", "full_auto")
PROTECTED = ("AGENTS.md", ".git/config", ".git/hooks/pre-commit", "src/CLAUDE.md", ".envrc")
WRITERS = (
    "echo x > {}",
    "echo x >> {}",
    "cat a.py >| {}",
    "printf x &> {}",
    "ls nothing 2> {}",
    "cat a.py | tee {}",
    "cp a.py {}",
    "dd if=a.py of={}",
    "sort a.py -o {}",
    "sort -o{} a.py",
    "sort --output={} a.py",
    "sed -i s/x/y/ {}",
    "touch -r a.py {}",
    "ls; head -1 a.py > {}",
    "cd src && cat b.py > ../{}",
    "git diff --output={}",
    "tail a.py > {} | wc -l",
)


def spelled(path: str, draw: random.Random) -> str:
    """The path as bash may be told of it: a wildcard, quotes, a detour."""
    letters = ["?" if letter.isalnum() and draw.random() < 0.08 else letter for letter in path]
    at = draw.randint(0, len(letters))
    middle = draw.choice(("", "", "''", '""'))
    return draw.choice(("", "./", "src/../")) + "".join([*letters[:at], middle, *letters[at:]])


def state(work: Path) -> dict[str, str]:
    return {name: (work / name).read_text() if (work / name).exists() else "" for name in PROTECTED}


@pytest.fixture
def work(house: House) -> Path:
    for name in PROTECTED:
        (house.work / name).parent.mkdir(parents=True, exist_ok=True)
        (house.work / name).write_text("as it was\n")
    (house.work / ".git" / "config").write_text("[core]\n")
    return house.work


@pytest.mark.parametrize("seed", range(4))
def test_what_runs_unasked_leaves_protected_files_as_they_are(
    house: House, work: Path, seed: int
) -> None:
    draw = random.Random(seed)
    before, allowed = state(work), list[str]()
    for _ in range(150):
        target = draw.choice((*PROTECTED, "new.txt", "src/new.txt"))
        line = draw.choice(WRITERS).format(spelled(target, draw))
        if house.bash(line, "full_auto").verdict != "allow":
            continue
        allowed.append(line)
        subprocess.run(
            ["bash", "-c", line],
            check=False,
            cwd=work,
            capture_output=True,
            env={"PATH": DEFAULT_PATH},
        )
        assert state(work) == before, line
    assert len(allowed) >= 20


@pytest.mark.parametrize("name", PROTECTED)
@pytest.mark.parametrize("form", WRITERS)
def test_no_rule_covers_a_protected_file_however_it_is_written(
    house: House, work: Path, name: str, form: str
) -> None:
    line = form.format(name)
    rules = ["Bash", "Edit", "Write", f"Edit({work}/**)"]
    assert house.bash(line, "full_auto").verdict == "ask", line
    if "&>" not in form:  # a rule for every command also covers the line as a whole
        assert house.bash(line, allow=rules).verdict == "ask", line
    assert house.bash(form.format("new.txt"), "full_auto").verdict == "allow"


FOLLOWING = (
    "grep -R x {}",
    "grep -nR --include=*.py x {}",
    "rg -L x {}",
    "rg --follow x {}",
    "zip -r /tmp/x.zip {}",
    "tar chf /tmp/x.tar {}",
    "tar -chf /tmp/x.tar {}",
    "cp -rL {} /tmp/x",
    "rsync -aL {} /tmp/x",
    "diff -r {} /tmp/x",
    "scp -r {} host:",
    "unheard-of --all {}",
)
GOALS = ("@/.ssh", "@/.ssh/id_rsa", "@", "@/.aws", "@/fine", "@/work/other", "@/nothing")


def leaks(folder: Path, secrets: frozenset[tuple[int, int]]) -> bool:
    """Whether a walk that follows links comes to one of these files."""
    seen: set[tuple[int, int]] = set()
    queue = [folder]
    while queue:
        for path in queue.pop().iterdir():
            if not path.exists():
                continue
            status = path.stat()
            inode = status.st_dev, status.st_ino
            if inode in secrets:
                return True
            if path.is_dir() and inode not in seen:
                seen.add(inode)
                queue.append(path)
    return False


@pytest.fixture(scope="module")
def bare() -> Iterator[House]:
    """A house whose workspace holds no link yet."""
    root = Path(tempfile.mkdtemp())
    home, work = root / "ada", root / "ada" / "work"
    for name in (".ssh/id_rsa", ".aws/credentials", ".ohmo/config.yaml", "fine/a.txt"):
        (home / name).parent.mkdir(parents=True, exist_ok=True)
        (home / name).write_text("secret\n")
    work.mkdir()
    sensitive = SensitivePaths(home, home / ".ohmo")
    yield House(home, work, sensitive, Shell(home, DEFAULT_PATH))
    shutil.rmtree(root)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    links=st.lists(
        st.tuples(st.sampled_from(("", "a", "a/b", "other", "other/c")), st.sampled_from(GOALS)),
        max_size=3,
    ),
    command=st.sampled_from(FOLLOWING),
    folder=st.sampled_from(("tree/", "./tree/a", "tree/other")),
    hard=st.booleans(),
)
def test_what_a_link_below_a_folder_leads_to_is_judged_with_it(
    bare: House, links: list[tuple[str, str]], command: str, folder: str, hard: bool
) -> None:
    tree = bare.work / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    for name in ("a/b", "other/c"):
        (tree / name).mkdir(parents=True)
        (tree / name / "x.py").write_text("x\n")
    for at, (where, goal) in enumerate(links):
        (tree / where / f"link{at}").symlink_to(goal.replace("@", str(bare.home)))
    if hard:
        (tree / "a" / "twin").hardlink_to(bare.home / ".ssh" / "id_rsa")
    kept = (bare.home / name for name in (".ssh/id_rsa", ".aws/credentials", ".ohmo/config.yaml"))
    secrets = frozenset((path.stat().st_dev, path.stat().st_ino) for path in kept)
    ruling = bare.bash(command.format(folder), "full_auto")
    assert (ruling.verdict != "allow") == leaks(bare.work / folder, secrets), ruling


@pytest.mark.parametrize("program", ["base64", "cp", "unheard-of", "dd if=a.py", "xz -k", "./run"])
@pytest.mark.parametrize("mode", MODES)
def test_a_hard_link_to_a_secret_is_the_secret_whatever_opens_it(
    house: House, program: str, mode: Mode
) -> None:
    (house.work / "twin.txt").hardlink_to(house.home / ".netrc")
    for line in (f"{program} twin.txt", f"x=1; {program} twin.txt", f"{program} < twin.txt"):
        assert house.bash(line, mode).verdict == "deny", line
    (house.work / "other.txt").hardlink_to(house.work / "a.py")
    assert house.bash("base64 other.txt", "full_auto").verdict == "allow"


SECTION = st.sampled_from(
    ("core", "alias", "user", "pull", "url.x", "remote.origin", "filter.x", "color", "http")
)
KEY = st.sampled_from(
    "name email pager editor hooksPath fsmonitor url st clean ui rebase autocrlf vcs proxy".split()
)


@given(SECTION, KEY, st.sampled_from(("", "--global ", "--add ", "set ", "--replace-all ")))
def test_git_sets_unasked_only_what_is_known_to_run_nothing(
    section: str, key: str, how: str
) -> None:
    root = Path("/nonexistent/ada")
    house = House(root, root / "work", SensitivePaths(root), Shell(root, DEFAULT_PATH))
    name = f"{section}.{key}"
    known = runs_nothing(name)
    for line in (f"git config {how}{name} x", f"git -c {name}=x commit -m y"):
        assert (house.bash(line, "full_auto").verdict == "allow") == known, line


@pytest.mark.parametrize(
    ("line", "verdict"),
    [
        ("git init --template=x y", "ask"),
        ("git init --templ x y", "ask"),
        ("git clone --template=x https://example.org/a b", "ask"),
        ("git clone -c core.hooksPath=x https://example.org/a b", "ask"),
        ("git clone -u ./x https://example.org/a b", "ask"),
        ("git config -f .git/config user.name x", "ask"),
        ("git config --edit", "ask"),
        ("git config --rename-section user alias", "ask"),
        ("git init -b main y", "allow"),
        ("git clone --depth 1 https://example.org/a b", "allow"),
        ("git config user.email ada@example.org", "allow"),
        ("git config --get-all alias.x", "allow"),
        ("git config --unset user.name", "allow"),
        ("git switch -c feature/v1.2", "allow"),
        ("git commit -c HEAD~1", "allow"),
        ("git add config x.y", "allow"),
    ],
)
def test_git_that_makes_repositories_and_settings(house: House, line: str, verdict: str) -> None:
    assert house.bash(line, "full_auto").verdict == verdict, shlex.split(line)
