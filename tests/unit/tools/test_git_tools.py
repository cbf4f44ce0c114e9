"""GitStatus, GitDiff and GitLog on real repositories: what they tell, and that nothing of a
repository makes them run a program, write, or show what no tool may read."""

from __future__ import annotations

import asyncio
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tool_calls import Call, judged

from ohmo.contracts.tool import CallContext
from ohmo.tools.catalogue import load_tools, tool_specs
from ohmo.tools.workbench import Workbench

SIGNER = """#!/bin/sh
case " $* " in *" --verify "*) touch "{ran}/{name}";; esac
cat > /dev/null
printf '\\n[GNUPG:] SIG_CREATED \\n' >&2
printf -- '-----BEGIN PGP SIGNATURE-----\\nx\\n-----END PGP SIGNATURE-----\\n'
"""
KEYS = """
core.fsmonitor core.editor core.pager core.sshCommand core.askPass core.gitProxy
core.alternateRefsCommand alias.status alias.diff alias.log alias.config alias.rev-parse
pager.status pager.diff pager.log sequence.editor interactive.diffFilter credential.helper
diff.external diff.evil.command diff.evil.textconv filter.evil.clean filter.evil.smudge
filter.evil.process merge.evil.driver mergetool.evil.cmd difftool.evil.cmd diff.tool
gpg.openpgp.program gpg.x509.program gpg.ssh.program gpg.ssh.defaultKeyCommand
trailer.evil.command trailer.evil.cmd uploadpack.packObjectsHook remote.origin.uploadpack
remote.origin.receivepack remote.origin.vcs man.evil.cmd browser.evil.cmd web.browser
instaweb.httpd sendemail.sendmailCmd submodule.sub.update init.templateDir guitool.evil.cmd
""".split()
HOOKS = (
    "post-index-change",
    "fsmonitor-watchman",
    "reference-transaction",
    "post-checkout",
    "pre-commit",
)
ENVIRON = {
    "PATH": os.environ["PATH"],
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "Ada",
    "GIT_AUTHOR_EMAIL": "ada@example.org",
    "GIT_COMMITTER_NAME": "Ada",
    "GIT_COMMITTER_EMAIL": "ada@example.org",
    "GIT_AUTHOR_DATE": "2026-01-02T03:04:05+0000",
    "GIT_COMMITTER_DATE": "2026-01-02T03:04:05+0000",
    "TZ": "UTC",
}
Git = Callable[..., str]


@pytest.fixture
def git(work: Path, tmp_path: Path) -> Git:
    """The person's own git, in the working directory."""

    def run(*words: str, cwd: Path = work, check: bool = True) -> str:
        environ = ENVIRON | {"HOME": str(tmp_path / "home")}
        done = subprocess.run(
            ["git", *words], cwd=cwd, env=environ, capture_output=True, text=True, check=check
        )
        return done.stdout

    return run


@pytest.fixture
def repository(work: Path, git: Git) -> Path:
    """Two commits, a file that was changed, one that is staged, one that is new."""
    git("init", "-qb", "main", "--template=")
    (work / "a.py").write_text("one\n")
    (work / "ünï x.py").write_text("one\n")
    git("add", ".")
    git("commit", "-qm", "first\n\nwhy")
    (work / "a.py").write_text("two\n")
    git("commit", "-qam", "second")
    git("tag", "v2")
    (work / "a.py").write_text("three\n")
    (work / "b.py").write_text("b\n")
    git("add", "b.py")
    (work / "new.py").write_text("new\n")
    return work


def script(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(0o755)
    return path


def state(folder: Path) -> dict[str, tuple[int, bytes]]:
    """Every file below, when it was written, and its bytes."""
    paths = (path for path in folder.rglob("*") if path.is_file() and not path.is_symlink())
    return {str(path): (path.stat().st_mtime_ns, path.read_bytes()) for path in paths}


async def test_the_state_of_a_repository_is_told(call: Call, repository: Path) -> None:
    status = await call("GitStatus")
    assert status.text == "## main\n M a.py\nA  b.py\n?? new.py"
    assert not status.error
    assert (await call("GitStatus", paths=["new.py"])).text == "## main\n?? new.py"
    diff = (await call("GitDiff")).text
    assert "\n-two\n+three" in diff
    assert "b.py" not in diff
    staged = (await call("GitDiff", staged=True)).text
    assert "+++ b/b.py" in staged
    assert "a.py" not in staged
    assert "+three" in (await call("GitDiff", revision="HEAD~1", paths=["a.py"])).text
    between = (await call("GitDiff", revision="HEAD~1..v2")).text
    assert "\n-one\n+two" in between
    assert (await call("GitDiff", revision="v2...HEAD~1")).text.startswith("no difference")
    assert "1 insertion(+), 1 deletion(-)" in (await call("GitDiff", stat=True)).text
    log = (await call("GitLog")).text.splitlines()
    assert [line.partition(" ")[2] for line in log] == [
        "2026-01-02 03:04 Ada (HEAD -> main, tag: v2): second",
        "2026-01-02 03:04 Ada: first",
    ]
    assert len((await call("GitLog", limit=1)).text.splitlines()) == 1
    assert (await call("GitLog", revision="v2..main")).text == "no commit"
    full = (await call("GitLog", full=True, paths=["ünï x.py"])).text
    assert "    why\n" in full
    assert "A\tünï x.py" in full


async def test_another_folder_and_a_worktree_are_repositories_too(
    call: Call, repository: Path, git: Git
) -> None:
    (repository / "sub").mkdir()
    git("worktree", "add", "-q", "../tree", "-b", "other")
    told = await call("GitStatus", repository="../tree")
    assert told.text == f"[repository {repository.parent}/tree]\n## other"
    below = await call("GitStatus", repository="sub", paths=["a.py"])
    assert below.text == "## main\n M a.py"


@pytest.mark.parametrize("content", ["", "refs/heads/main\n", "\0\0\0\0"])
async def test_a_broken_head_is_one_clear_line(call: Call, repository: Path, content: str) -> None:
    head = repository / ".git" / "HEAD"
    head.write_text(content)
    for name in ("GitStatus", "GitDiff", "GitLog"):
        told = await call(name)
        assert told.error
        assert told.text.startswith(f"{head} is broken: it names neither a branch nor a commit")
        assert "\n" not in told.text
        assert "fatal" not in told.text


async def test_what_git_is_in_the_middle_of_is_told(call: Call, repository: Path, git: Git) -> None:
    git("commit", "-qam", "third")
    git("checkout", "-qb", "side", "v2")
    (repository / "a.py").write_text("other\n")
    git("commit", "-qam", "side")
    git("merge", "main", check=False)
    status = (await call("GitStatus")).text
    assert "UU a.py" in status
    assert status.endswith("[in the middle of a merge]")
    assert "++<<<<<<< HEAD" in (await call("GitDiff")).text


async def test_branches_follow_what_they_followed(
    call: Call, repository: Path, git: Git, tmp_path: Path
) -> None:
    git("clone", "-q", str(repository), str(tmp_path / "clone"))
    clone = tmp_path / "clone"
    (clone / "c.py").write_text("c\n")
    git("add", ".", cwd=clone)
    git("commit", "-qm", "ahead", cwd=clone)
    told = (await call("GitStatus", repository=str(clone))).text
    assert told.endswith("## main...origin/main [ahead 1]")


async def test_nothing_of_the_repository_is_written(
    call: Call, repository: Path, context: CallContext
) -> None:
    """Neither its index, which every ordinary look refreshes, nor anything beside it."""
    os.utime(repository / "ünï x.py", (1, 1))
    before = state(repository)
    for name, arguments in EVERY:
        assert not (await call(name, **arguments)).error
    assert state(repository) == before
    assert (await call("GitDiff")).text.count("diff --git") == 1, "the time alone is no change"


async def test_a_change_within_the_moment_of_the_index_is_seen(
    call: Call, repository: Path, git: Git
) -> None:
    """Same size, same times: only the index's own age says that the file has to be read."""
    git("config", "core.trustctime", "false")
    path = repository / "a.py"
    path.write_text("same\n")
    os.utime(path, (1e9, 1e9))
    git("add", "a.py")
    path.write_text("emas\n")
    os.utime(path, (1e9, 1e9))
    os.utime(repository / ".git/index", (1e9, 1e9))
    assert "-same\n+emas" in (await call("GitDiff")).text


EVERY: tuple[tuple[str, dict[str, Any]], ...] = (
    ("GitStatus", {}),
    ("GitDiff", {}),
    ("GitDiff", {"staged": True}),
    ("GitDiff", {"revision": "HEAD~1"}),
    ("GitDiff", {"revision": "HEAD~1..HEAD", "stat": True}),
    ("GitLog", {"full": True}),
)


@pytest.fixture
def hostile(repository: Path, git: Git, tmp_path: Path) -> Path:
    """Every setting and place of git's documentation that names a program, set to one that leaves
    its name in ``ran``. Returns that folder."""
    ran = tmp_path / "ran"
    ran.mkdir()
    evil = tmp_path / "evil"

    def canary(name: str) -> str:
        text = f'#!/bin/sh\ntouch "{ran}/{name}"\n'
        return str(script(evil / name, text))

    signer = script(evil / "gpg.program", SIGNER.format(ran=ran, name="gpg.program"))
    git("config", "gpg.program", str(signer))
    git("commit", "-qS", "--allow-empty", "-m", "signed")
    sub = repository / "sub"
    git("init", "-q", "--template=", str(sub))
    (sub / "x").write_text("x\n")
    git("add", ".", cwd=sub)
    git("commit", "-qm", "sub", cwd=sub)
    (repository / ".gitattributes").write_text("* diff=evil filter=evil merge=evil\n")
    (repository / ".gitmodules").write_text(
        '[submodule "sub"]\n\tpath = sub\n\turl = ./sub\n\tignore = none\n'
    )
    git("add", ".gitattributes", ".gitmodules", "sub")
    git("commit", "-qm", "attributes")
    git("config", "core.fsmonitor", canary("submodule-fsmonitor"), cwd=sub)
    (sub / "x").write_text("y\n")
    for name in KEYS:
        value = canary(name)
        git("config", name, f"!{value}" if name.startswith("alias.") else value)
    for name, value in {
        "log.showSignature": "true",
        "core.hooksPath": str(evil / "hooks"),
        "status.submoduleSummary": "true",
        "diff.submodule": "log",
        "diff.ignoreSubmodules": "none",
        "core.untrackedCache": "true",
        "protocol.ext.allow": "always",
        "remote.origin.url": f"ext::{canary('remote-url')}",
        "remote.origin.promisor": "true",
        "extensions.partialClone": "origin",
        "core.repositoryFormatVersion": "1",
        "extensions.worktreeConfig": "true",
        "color.ui": "always",
        "core.attributesFile": str(evil / "attributes"),
    }.items():
        git("config", name, value)
    for name in HOOKS:
        script(evil / "hooks" / name, f'#!/bin/sh\ntouch "{ran}/hook-{name}"\n')
        script(repository / ".git/hooks" / name, f'#!/bin/sh\ntouch "{ran}/hook-{name}"\n')
    (evil / "attributes").write_text("* diff=evil filter=evil\n")
    info = repository / ".git/info"
    info.mkdir(exist_ok=True)
    (info / "attributes").write_text("* diff=evil filter=evil\n")
    (repository / "a.py").write_text("four\n")
    return ran


def test_the_traps_of_these_tests_snap(hostile: Path, repository: Path, git: Git) -> None:
    """Ordinary git runs into them; else what the next tests say would be worth nothing."""
    for unset in ("filter.evil.process", "diff.evil.command", "diff.external"):
        for words in (["status"], ["diff"], ["log"]):
            git(*words, check=False)
        git("config", "--unset-all", unset)
        os.utime(repository / "a.py", (1, 1))
    git("diff", check=False)
    assert {path.name for path in hostile.iterdir()} >= {
        "core.fsmonitor",
        "diff.external",
        "diff.evil.textconv",
        "filter.evil.clean",
        "filter.evil.process",
        "gpg.openpgp.program",
        "hook-post-index-change",
        "submodule-fsmonitor",
    }


async def test_no_setting_of_a_repository_runs_a_program(
    call: Call, hostile: Path, repository: Path, bench: Workbench
) -> None:
    before = state(repository)
    for name, arguments in EVERY:
        result = await call(name, **arguments)
        assert not result.error, result.text
        assert "\x1b" not in result.text
    assert list(hostile.iterdir()) == []
    assert state(repository) == before
    status = (await call("GitStatus")).text
    assert " M a.py" in status
    assert "+four" in (await call("GitDiff", paths=["a.py"])).text


@pytest.mark.parametrize("how", ["include.path", "includeIf.gitdir:**.path", "config.worktree"])
async def test_no_setting_that_lies_elsewhere_runs_a_program(
    call: Call, repository: Path, git: Git, tmp_path: Path, how: str
) -> None:
    ran = tmp_path / "ran"
    evil = script(tmp_path / "evil", f'#!/bin/sh\ntouch "{ran}"\n')
    text = f"[core]\n\tfsmonitor = {evil}\n[diff]\n\texternal = {evil}\n"
    if how == "config.worktree":
        git("config", "extensions.worktreeConfig", "true")
        (repository / ".git/config.worktree").write_text(text)
    else:
        (tmp_path / "more").write_text(text)
        git("config", how, str(tmp_path / "more"))
    for name, arguments in EVERY:
        assert not (await call(name, **arguments)).error
    assert not ran.exists()
    git("diff")
    assert ran.exists(), "the trap does not snap"


async def test_a_missing_object_is_not_fetched(
    call: Call, repository: Path, git: Git, tmp_path: Path
) -> None:
    ran = tmp_path / "ran"
    evil = script(tmp_path / "evil", f'#!/bin/sh\ntouch "{ran}"\n')
    for name, value in {
        "core.repositoryFormatVersion": "1",
        "extensions.partialClone": "origin",
        "remote.origin.promisor": "true",
        "remote.origin.url": f"ext::{evil}",
        "protocol.ext.allow": "always",
    }.items():
        git("config", name, value)
    blob = git("rev-parse", "HEAD~1:a.py").strip()
    (repository / ".git/objects" / blob[:2] / blob[2:]).unlink()
    told = await call("GitDiff", revision="HEAD~1..HEAD")
    assert told.error
    assert blob in told.text
    assert not ran.exists()
    git("diff", "HEAD~1..HEAD", check=False)
    assert ran.exists(), "the trap does not snap"


async def test_another_working_tree_is_not_looked_at(
    call: Call, repository: Path, git: Git, tmp_path: Path
) -> None:
    (tmp_path / "home/.netrc").write_text("secret\n")
    git("config", "core.worktree", str(tmp_path / "home"))
    assert (await call("GitStatus")).text == "## main\n M a.py\nA  b.py\n?? new.py"


async def test_what_no_tool_may_read_is_left_out(
    call: Call, repository: Path, git: Git, context: CallContext, bench: Workbench, tmp_path: Path
) -> None:
    (repository / ".npmrc").write_text("token=secret-1\n")
    (repository / "kept.py").write_text("kept\n")
    git("add", "-f", ".npmrc", "kept.py")
    assert "secret-1" in git("diff", "--cached"), "it would be shown"
    staged = (await call("GitDiff", staged=True)).text
    assert "secret" not in staged
    assert "+kept" in staged
    assert staged.endswith("[1 file that no tool may read is left out]")
    git("commit", "-qm", "by mistake")
    git("mv", ".npmrc", "plain")
    git("commit", "-qm", "renamed")
    past = (await call("GitDiff", revision="v2..HEAD~1")).text
    assert "secret" not in past
    assert "left out" in past
    (tmp_path / "home/.netrc").write_text("secret-2\n")
    (repository / "kept.py").unlink()
    (repository / "kept.py").hardlink_to(tmp_path / "home/.netrc")
    (repository / "a.py").unlink()
    (repository / "a.py").symlink_to(tmp_path / "home/.netrc")
    assert "secret-2" in git("diff"), "it would be shown"
    now = (await call("GitDiff")).text
    assert "secret" not in now
    assert f"+{tmp_path}/home/.netrc" in now, "where a link leads is told"
    tool = load_tools(bench)["GitDiff"]
    given = tool.parse({"revision": "HEAD~3..HEAD"})
    ready = judged(tool, given, context)

    def forbidden(path: str) -> bool:
        return path.endswith("/b.py")

    denied = replace(ready.judged, forbidden=forbidden)
    output = await tool.run(given, replace(ready, judged=denied, deadline=time.monotonic() + 60))
    assert "b/b.py" not in output.result.text
    assert "left out" in output.result.text


@pytest.mark.parametrize(
    "revision",
    ["--output=x", "-O/x", "HEAD:a.py", ":/first", "HEAD..--all", "a b", "^HEAD", "{blob}", "x;y"],
)
async def test_only_commits_can_be_named(
    call: Call, repository: Path, git: Git, revision: str
) -> None:
    revision = revision.format(blob=git("rev-parse", "HEAD:a.py").strip())
    for name in ("GitDiff", "GitLog"):
        told = await call(name, revision=revision)
        assert told.error
        assert "names no commits" in told.text or "fatal: " in told.text
    assert not (repository / "x").exists()


async def test_paths_are_letters_and_lie_in_the_repository(call: Call, repository: Path) -> None:
    for path in ("*", ":(top)", ":!a.py", "--output=x"):
        assert (await call("GitDiff", paths=[path])).text.startswith("no difference")
    told = await call("GitDiff", paths=["../elsewhere"])
    assert told.error
    assert "does not lie in the repository" in told.text


async def test_without_a_repository_it_is_told(call: Call, work: Path) -> None:
    for name in ("GitStatus", "GitDiff", "GitLog"):
        told = await call(name)
        assert told.error
        assert told.text == f"{work} is in no repository"


async def test_an_empty_repository_has_a_state(call: Call, work: Path, git: Git) -> None:
    git("init", "-qb", "main")
    assert (await call("GitStatus")).text == "## No commits yet on main"
    log = await call("GitLog")
    assert log.error
    assert "does not have any commits yet" in log.text


def _packed(work: Path, home: Path) -> None:
    (work / ".git/packed-refs").symlink_to(home / ".netrc")


def _lent(work: Path, home: Path) -> None:
    (work / ".git/objects/info/alternates").write_text(f"{home}/objects\n")


def _led_elsewhere(work: Path, home: Path) -> None:
    (work / ".git/index").unlink()
    (work / ".git/index").symlink_to(home / ".netrc")


async def test_how_a_repository_is_kept_is_heeded(call: Call, work: Path, git: Git) -> None:
    """Its object format and line ends; and a submodule is a repository of its own."""
    git("init", "-qb", "main", "--object-format=sha256")
    git("config", "core.autocrlf", "true")
    git("config", 'remote.odd "\\ name].fetch', "+refs/heads/*:refs/remotes/odd/*")
    (work / "a.txt").write_bytes(b"one\r\ntwo\r\n")
    git("add", ".")
    git("commit", "-qm", "first")
    (work / "a.txt").write_bytes(b"one\r\ntwo\r\nthree\r\n")
    diff = (await call("GitDiff")).text
    assert diff.endswith("\n one\n two\n+three")
    assert len((await call("GitLog", full=True)).text.split()[1]) == 64
    (work / "other").mkdir()
    git("init", "-qb", "main", cwd=work / "other")
    (work / "other/x").write_text("x\n")
    git("add", ".", cwd=work / "other")
    git("commit", "-qm", "theirs", cwd=work / "other")
    (work / "top").mkdir()
    git("init", "-qb", "main", cwd=work / "top")
    add = ("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", str(work / "other"))
    git(*add, "sub", cwd=work / "top")
    told = await call("GitLog", repository="top/sub")
    assert told.text.startswith(f"[repository {work}/top/sub]\n")
    assert told.text.endswith(": theirs")
    (work / "top/sub/x").write_text("y\n")
    git("commit", "-qam", "more", cwd=work / "top/sub")
    assert " M sub" not in (await call("GitStatus", repository="top", paths=["top/x"])).text
    assert "AM sub" in (await call("GitStatus", repository="top")).text


@pytest.mark.parametrize("prepare", [_packed, _lent, _led_elsewhere])
async def test_what_belongs_to_somebody_else_is_not_followed(
    call: Call, repository: Path, tmp_path: Path, prepare: Callable[[Path, Path], None]
) -> None:
    (tmp_path / "home/.netrc").write_text("secret\n")
    prepare(repository, tmp_path / "home")
    for name, arguments in EVERY:
        told = await call(name, **arguments)
        assert told.error
        assert "is not followed; look with git in Bash" in told.text
        assert "secret" not in told.text


async def test_a_repository_that_was_exchanged_is_not_opened(
    repository: Path, bench: Workbench, context: CallContext, tmp_path: Path
) -> None:
    tool = load_tools(bench)["GitLog"]
    given = tool.parse({})
    ready = judged(tool, given, context)
    assert list(ready.judged.reads) == [repository, repository, repository / ".git"]
    shutil.move(repository / ".git", tmp_path / "private")
    (repository / ".git").write_text(f"gitdir: {tmp_path}/private\n")
    output = await tool.run(given, replace(ready, deadline=time.monotonic() + 60))
    assert output.result.error
    assert "was exchanged after the call was judged" in output.result.text


def test_what_is_kept_elsewhere_is_judged_too(
    repository: Path, bench: Workbench, tmp_path: Path
) -> None:
    shutil.move(repository / ".git", tmp_path / "private")
    (repository / ".git").write_text(f"gitdir: {tmp_path}/private\n")
    tool = load_tools(bench)["GitStatus"]
    footprint = tool.footprint(tool.parse({}), repository)
    assert footprint.reads == (repository, repository, tmp_path / "private")
    assert footprint.effect == "none"


async def test_a_long_diff_is_cut_and_kept(call: Call, repository: Path) -> None:
    (repository / "a.py").write_text("".join(f"{number}\n" for number in range(9000)))
    told = await call("GitDiff", paths=["a.py"])
    assert len(told.text) < 14_000
    assert "bytes left out; whole output: " in told.text
    assert told.spill is not None
    assert told.spill.read_text().endswith("+8999\n")


async def test_a_call_that_is_cancelled_leaves_nothing(
    call: Call, repository: Path, bench: Workbench
) -> None:
    for pause in (0.0, 0.01, 0.05):
        running = asyncio.ensure_future(call("GitDiff"))
        await asyncio.sleep(pause)
        running.cancel()
        await asyncio.wait({running}, timeout=30)
        assert running.done()
    assert list(bench.spill.glob("git-*")) == []


async def test_whoever_is_asked_about_a_commit_is_told_what_it_runs(
    call: Call, hostile: Path, repository: Path, git: Git, bench: Workbench
) -> None:
    script(repository / ".git/hooks/post-commit", "#!/bin/sh\n")
    (repository / ".git/hooks/commit-msg").write_text("no program\n")
    tool = load_tools(bench)["GitCommit"]
    footprint = tool.footprint(
        tool.parse({"message": "it's\ndone", "paths": ["a b", "-x"]}), repository
    )
    assert footprint.command == (
        "git add -- 'a b' -x && git commit -m 'it'\"'\"'s\ndone' -- 'a b' -x"
    )
    assert footprint.effect == "once"
    runs, hooks, settings = footprint.note.rsplit("\n", 2)
    assert runs == f"runs:\n```\n{footprint.command}\n```"
    assert hooks == (
        "which runs the hooks pre-commit, post-commit, post-index-change, reference-transaction of"
        f" `{repository}/.git`"
    )
    assert settings.startswith("which obeys settings of the repository that may run something: `")
    assert settings.endswith(" and more")
    assert list(hostile.iterdir()) == []


async def test_paths_or_what_is_staged_is_committed(call: Call, repository: Path, git: Git) -> None:
    git("config", "user.name", "Ada")
    git("config", "user.email", "ada@example.org")
    (repository / "ünï x.py").unlink()
    done = await call("GitCommit", message="# third", paths=["ünï x.py", "new.py"])
    assert not done.error, done.text
    assert git("show", "--format=%s", "--name-status", "HEAD").splitlines() == [
        "# third",
        "",
        "A\tnew.py",
        'D\t"\\303\\274n\\303\\257 x.py"',
    ]
    assert (await call("GitStatus")).text == "## main\n M a.py\nA  b.py"
    assert not (await call("GitCommit", message="staged")).error
    assert git("show", "--format=%s", "--name-only", "HEAD").split() == ["staged", "b.py"]
    nothing = await call("GitCommit", message="none")
    assert nothing.error
    assert "no changes added to commit" in nothing.text


def test_without_git_there_is_no_tool_of_it(bench: Workbench, tmp_path: Path) -> None:
    here = set(load_tools(bench))
    without = replace(bench, environ={**bench.environ, "PATH": str(tmp_path)})
    assert here - set(load_tools(without)) == {"GitStatus", "GitDiff", "GitLog", "GitCommit"}
    deferred = {spec.name for spec in tool_specs(load_tools(bench)) if spec.deferred}
    assert deferred >= {"GitStatus", "GitDiff", "GitLog", "GitCommit"}
