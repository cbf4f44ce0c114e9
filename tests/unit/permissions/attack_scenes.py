"""Houses to be attacked: a home with secrets, and a workspace with everything an attacker may have
put there."""

from __future__ import annotations

import os
import shutil
import subprocess
import sysconfig
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from ohmo.permissions.sensitive_paths import SensitivePaths
from ohmo.processes.job import child_environment
from ohmo.shell.parsing import Shell
from ohmo.shell.reading import environment_of
from tests.unit.permissions.permission_house import House

CANARY = "k4n4ry-0f-0hm0"  # in every secret; whoever prints it has told one
SYSTEM_PATH = "/usr/local/bin:/usr/bin:/bin"
SECRETS = """.ssh/id_rsa .ssh/config .aws/credentials .kube/config .netrc .npmrc .pypirc .git-credentials .bash_history
    .gnupg/secring.gpg .docker/config.json .config/gh/hosts.yml .ohmo/config.yaml .ohmo/ohmo.db .ohmo/.env .ohmo/run/token
    .ohmo/memory/notes.md .ohmo/skills/x.md .ohmo/logs/ohmo.log .kaggle/kaggle.json .claude.json .bitcoin/wallet.dat
    .config/github-copilot/hosts.json .local/share/opencode/auth.json .config/of-no-list/token"""
PROGRAMS = """ls cat git grep rg head tail wc sort find sed awk jq date file stat diff tree du which env uniq cut tr
    printf echo helper"""
OPTIONS = """-o -ox -f -i -r -R -e -x -s -delete -exec touch ; --output=x --pre=evil --pre --files0-from=evil.args
    --compress-program=evil --in-place -fprint -fevil.sed --from-file=evil.jq --ext-diff --no-index --hostname-bin=evil
    --checkpoint=1 sx"""
GIT = {
    "GIT_CONFIG_GLOBAL": "/dev/null",
    "GIT_CONFIG_NOSYSTEM": "1",
    "GIT_AUTHOR_NAME": "ada",
    "GIT_AUTHOR_EMAIL": "ada@example.com",
    "GIT_COMMITTER_NAME": "ada",
    "GIT_COMMITTER_EMAIL": "ada@example.com",
}


@dataclass(frozen=True)
class Scene:
    """``root`` holds all of it, and what runs may write there only. ``path``: the PATH of the
    daemon."""

    root: Path
    home: Path
    work: Path
    path: str

    @cached_property
    def house(self) -> House:
        sensitive = SensitivePaths(self.home, self.home / ".ohmo")
        return House(self.home, self.work, sensitive, Shell(self.home, self.path))

    def env(self, command: str) -> dict[str, str]:
        """Of a command, as ohmo.tools.bash gives it; with a secret, as a job may have been given
        one."""
        around = {"HOME": str(self.home), "PATH": self.path, "LANG": "C.UTF-8"}
        quiet = environment_of(self.house.shell.parse(command, self.work))
        return child_environment(around, {"PWD": str(self.work), "OHMO_CANARY": CANARY, **quiet})

    @property
    def evil(self) -> Path:
        """A program of the attacker's, which leaves a trace whatever it is started with."""
        return self.work / "evil"


def write(path: Path, text: str, mode: int = 0o644) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text)
    path.chmod(mode)


def git(folder: Path, *words: str) -> None:
    path = {"PATH": SYSTEM_PATH, "HOME": str(folder)}
    subprocess.run(
        ["git", "-C", str(folder), *words], check=True, capture_output=True, env={**GIT, **path}
    )


def repository(folder: Path) -> None:
    """Two commits, and a change that is not committed."""
    git(folder, "init", "-q", "-b", "main")
    git(folder, "add", "a.py")
    git(folder, "commit", "-qm", "first")
    (folder / "a.py").write_text("x = 1\ny = 2\n")
    git(folder, "commit", "-qam", "second")
    (folder / "a.py").write_text("x = 1\ny = 2\nz = 3\n")


def tools(root: Path) -> str:
    """PATH with the ripgrep that came with the tests, where the machine has none."""
    found = shutil.which("rg", path=SYSTEM_PATH) or shutil.which(
        "rg", path=sysconfig.get_path("scripts")
    )
    if found is None or Path(found).parent.as_posix() in SYSTEM_PATH.split(":"):
        return SYSTEM_PATH
    (root / "tools").mkdir()
    (root / "tools" / "rg").symlink_to(found)
    return f"{SYSTEM_PATH}:{root}/tools"


def plain(root: Path) -> Scene:
    home, work = root / "home" / "ada", root / "home" / "ada" / "work"
    for name in SECRETS.split():
        write(home / name, f"secret {CANARY}\n", 0o600)
    for name in ("b.py", "notes.txt", "README.md", "src/b.py", "deep/c.py"):
        write(work / name, "x = 1\n")
    write(work / "a.py", "x = 1\n")
    write(work / "package.json", '{"name": "x", "version": "1.0.0"}\n')
    ran = home / "ran"
    evil = f'#!/bin/sh\necho "$0 $*" >> {ran}\n'
    for name in ("evil", "evil.sh", "evil.py", "evil.so"):
        write(work / name, evil, 0o755)
    write(work / "evil.awk", f'BEGIN{{print 1 >> "{ran}"}}\n')
    write(work / "evil.sed", f"w {ran}\n")
    write(work / "evil.jq", "def x: $ENV; env\n")
    write(work / "evil.mk", f"$(shell touch {ran})\n")
    write(work / "evil.args", f"{home}/.netrc\n")
    (work / "link").symlink_to(home / ".ssh")
    (work / "innocent.txt").symlink_to(home / ".netrc")
    (work / "chain").symlink_to(work / "innocent.txt")
    (work / "deep" / "link2").symlink_to("../link/id_rsa")
    (work / "up").symlink_to(home)
    (work / "hard.txt").hardlink_to(home / ".netrc")
    os.mkfifo(work / "fifo")
    repository(work)
    return Scene(root, home, work, tools(root))


def _no_traps(scene: Scene) -> None:
    for name in ("link", "innocent.txt", "chain", "deep/link2", "up", "hard.txt", "fifo"):
        (scene.work / name).unlink()


def _programs_of_git(folder: Path, evil: Path) -> None:
    """Every setting by which git runs a program, in the configuration and in the attributes that
    select it."""
    settings = {
        "core.fsmonitor": evil,
        "core.hooksPath": folder / "hooks",
        "core.pager": evil,
        "core.editor": evil,
        "core.sshCommand": evil,
        "core.askPass": evil,
        "core.alternateRefsCommand": evil,
        "diff.external": evil,
        "diff.evil.command": evil,
        "diff.evil.textconv": evil,
        "filter.evil.clean": evil,
        "filter.evil.smudge": evil,
        "filter.evil.process": evil,
        "merge.evil.driver": evil,
        "gpg.program": evil,
        "gpg.ssh.program": evil,
        "log.showSignature": "true",
        "pager.status": evil,
        "pager.log": evil,
        "pager.branch": evil,
        "pager.tag": evil,
        "pager.diff": evil,
        "pager.show": evil,
        "alias.x": f"!{evil}",
        "alias.st": f"!{evil}",
        "alias.status": f"!{evil}",
        "interactive.diffFilter": evil,
        "sequence.editor": evil,
        "credential.helper": evil,
        "uploadpack.packObjectsHook": evil,
        "trailer.x.command": evil,
        "trailer.x.cmd": evil,
        "diff.submodule": "diff",
        "status.submoduleSummary": "true",
        "submodule.recurse": "true",
        "remote.origin.url": f"ext::{evil}",
        "remote.origin.uploadpack": evil,
        "protocol.ext.allow": "always",
    }
    for name, value in settings.items():
        git(folder, "config", name, str(value))
    write(folder / "included", f"[core]\n\tfsmonitor = {evil}\n\tpager = {evil}\n")
    git(folder, "config", "include.path", str(folder / "included"))
    for hook in """
        post-index-change post-checkout pre-commit reference-transaction fsmonitor-watchman
    """.split():
        write(folder / "hooks" / hook, evil.read_text(), 0o755)
        write(folder / ".git" / "hooks" / hook, evil.read_text(), 0o755)
    write(folder / ".gitattributes", "*.py diff=evil filter=evil merge=evil\n*.txt diff=evil\n")


def hostile_git(root: Path) -> Scene:
    scene = plain(root)
    _no_traps(scene)
    _programs_of_git(scene.work, scene.evil)
    return scene


def bare_inside(root: Path) -> Scene:
    """What a clone may bring: a folder that git takes for a repository, with its own
    configuration."""
    scene = plain(root)
    _no_traps(scene)
    (scene.work / ".git").rename(scene.work / "bare")
    configuration = (
        f"[core]\nbare = false\nworktree = {scene.work}\nfsmonitor = {scene.evil}\npager ="
        f" {scene.evil}\n"
    )
    configuration += f"[diff]\nexternal = {scene.evil}\n"
    write(scene.work / "bare" / "config", configuration)
    return scene


def hostile_module(root: Path) -> Scene:
    scene = plain(root)
    _no_traps(scene)
    module = scene.work / "module"
    write(module / "a.py", "x = 1\n")
    repository(module)
    git(scene.work, "add", "module")
    write(scene.work / ".gitmodules", '[submodule "module"]\n\tpath = module\n\turl = ./module\n')
    git(scene.work, "add", ".gitmodules")
    git(scene.work, "commit", "-qm", "module")
    _programs_of_git(module, scene.evil)
    return scene


def git_file(root: Path) -> Scene:
    scene = bare_inside(root)
    write(scene.work / ".git", "gitdir: bare\n")
    return scene


def wildcards(root: Path) -> Scene:
    scene = plain(root)
    _no_traps(scene)
    for name in (*OPTIONS.split(), "a[$(touch x)]", "a b", "new\nline"):
        write(scene.work / name, "x\n")
    return scene


def path_first(root: Path) -> Scene:
    scene = plain(root)
    _no_traps(scene)
    for name in PROGRAMS.split():
        write(scene.work / name, scene.evil.read_text(), 0o755)
    return Scene(scene.root, scene.home, scene.work, f"{scene.work}:{scene.path}")


def path_relative(root: Path) -> Scene:
    scene = plain(root)
    _no_traps(scene)
    for name in PROGRAMS.split():
        write(scene.work / "bin" / name, scene.evil.read_text(), 0o755)
        write(scene.work / "src" / name, scene.evil.read_text(), 0o755)
    return Scene(scene.root, scene.home, scene.work, f"bin::{scene.path}")


def hostile_config(root: Path) -> Scene:
    scene = plain(root)
    _no_traps(scene)
    write(scene.home / ".jq", "def keys: $ENV; def length: $ENV; .\n")
    write(scene.work / ".jq", "def keys: $ENV; .\n")
    for folder in (scene.home, scene.work):
        write(folder / ".ripgreprc", "--pre=./evil\n")
        write(folder / ".config" / "ripgrep" / "config", "--pre=./evil\n")
        write(folder / ".lessfilter", scene.evil.read_text(), 0o755)
        write(folder / ".lesskey", "#env\nLESSOPEN=|./evil %s\n")
        write(folder / ".manpath", "DEFINE pager ./evil\n")
        write(folder / ".magic", "0 byte x evil\n")
        write(folder / ".bashrc", f"{scene.evil}\n")
        write(folder / ".bash_profile", f"{scene.evil}\n")
        write(folder / ".inputrc", "$include /dev/zero\n")
    write(scene.work / ".gitconfig", f"[core]\n\tfsmonitor = {scene.evil}\n")
    return scene


SCENES: dict[str, Callable[[Path], Scene]] = {
    "plain": plain,
    "hostile-git": hostile_git,
    "bare-inside": bare_inside,
    "hostile-module": hostile_module,
    "git-file": git_file,
    "wildcards": wildcards,
    "path-first": path_first,
    "path-relative": path_relative,
    "hostile-config": hostile_config,
}
