"""``python -m tests.pythons``: the README's first command on every other Python that is here, each
in a copy of this tree.

``make install``, every module imported, then what ``make run`` starts, until it is ready, and
``ohmo doctor`` beside it. Says which of the Pythons that pyproject.toml names are not here; fails
when one of them fails."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.children import die_with_parent

ROOT = Path(__file__).parents[1]
INSTALL, READY, ENOUGH = 480.0, 90.0, 60.0  # seconds for: an installation, a start, anything else
WHOLE = "import ensurepip, sqlite3, ssl, venv"
IMPORTS = """
import importlib, pkgutil, channels, ohmo
for package in (channels, ohmo):
    for one in pkgutil.walk_packages(package.__path__, package.__name__ + "."):
        if not one.name.endswith("__main__"):
            importlib.import_module(one.name)
"""


def promised() -> list[str]:
    """``["3.11", …]``"""
    names = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["classifiers"]
    return [
        found[1]
        for name in names
        if (found := re.fullmatch(r"Programming Language :: Python :: (3\.\d+)", name))
    ]


def interpreter(version: str) -> str | None:
    """On the path, or one of pyenv's, whose name on the path may lead nowhere."""
    versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
    named = [
        shutil.which(f"python{version}"),
        *map(str, sorted(versions.glob(f"{version}.*/bin/python{version}"))),
    ]
    return next((one for one in named if one is not None and _is_whole(one)), None)


def _is_whole(python: str) -> bool:
    return (
        subprocess.run(
            [python, "-c", WHOLE], check=False, capture_output=True, timeout=ENOUGH
        ).returncode
        == 0
    )


def _copy(to: Path) -> None:
    listed = subprocess.run(
        ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"],
        cwd=ROOT,
        check=True,
        capture_output=True,
        timeout=ENOUGH,
    )
    for name in listed.stdout.decode().split("\0"):
        if name and (ROOT / name).is_file():
            (to / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(ROOT / name, to / name)


def _run(
    words: Sequence[str | Path], folder: Path, environ: Mapping[str, str], within: float = ENOUGH
) -> str:
    """What it says. Raises RuntimeError when it fails."""
    done = subprocess.run(
        words,
        cwd=folder,
        env=environ,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        timeout=within,
        check=False,
    )
    said = done.stdout.decode(errors="replace")
    if done.returncode != 0:
        raise RuntimeError(
            f"{' '.join(map(str, words))[:120]}: exit code {done.returncode}\n{said[-3000:]}"
        )
    return said.strip()


def first_hour(python: str, folder: Path) -> str:
    """One line of what was seen. Raises RuntimeError, subprocess.TimeoutExpired."""
    began = time.monotonic()
    tree, home = folder / "ohmo", folder / "home"
    _copy(tree)
    home.mkdir(mode=0o700)
    mine = {
        name: value
        for name, value in os.environ.items()
        if name not in ("MAKEFLAGS", "MAKELEVEL", "MFLAGS")
    }
    _run(["make", "install", f"PYTHON={python}"], tree, mine, INSTALL)
    installed, there = time.monotonic() - began, tree / ".venv" / "bin"
    clean = {
        "PATH": os.defpath,
        "HOME": str(home),
        "OHMO_HOME": str(home / ".ohmo"),
        "OHMO__CONTROL__LISTEN": "127.0.0.1:0",
    }
    _run([there / "python", "-c", IMPORTS], tree, clean)
    version = _run([there / "ohmo", "--version"], tree, clean)
    doctor = _beside_a_daemon([there / "ohmo"], tree, clean)
    return (
        f"{_run([there / 'python', '-V'], tree, clean)}: installed in {installed:.0f} s; {version};"
        f" doctor: {doctor.splitlines()[-1]}"
    )


def _beside_a_daemon(ohmo: Sequence[Path], tree: Path, environ: Mapping[str, str]) -> str:
    """What the doctor says while a daemon runs."""
    with (tree / "said").open("w+b") as said:
        daemon = subprocess.Popen(
            [*ohmo, "run"],
            cwd=tree,
            env=environ,
            stdin=subprocess.DEVNULL,
            stdout=said,
            stderr=said,
            preexec_fn=die_with_parent,  # noqa: PLW1509 - it only makes a system call
        )
        try:
            ends = time.monotonic() + READY
            while subprocess.run(
                [*ohmo, "status", "--check", "ready"],
                env=environ,
                check=False,
                capture_output=True,
                timeout=ENOUGH,
            ).returncode:
                if time.monotonic() > ends or daemon.poll() is not None:
                    raise RuntimeError(
                        "ohmo run is not"
                        f" ready:\n{(tree / 'said').read_text(errors='replace')[-3000:]}"
                    )
                time.sleep(0.5)
            doctor = _run([*ohmo, "doctor"], tree, environ)
            daemon.terminate()
            if daemon.wait(ENOUGH):
                raise RuntimeError(f"ohmo run ended with {daemon.returncode}")
        finally:
            if daemon.poll() is None:
                daemon.kill()
                daemon.wait(ENOUGH)
    return doctor


def _each(here: Mapping[str, str], folder: Path) -> Iterator[str]:
    """What is wrong."""
    with ThreadPoolExecutor(2) as pool:
        tries = {
            version: pool.submit(first_hour, python, folder / version)
            for version, python in here.items()
        }
        for version, one in tries.items():
            try:
                print(one.result(), flush=True)
            except (RuntimeError, OSError, subprocess.SubprocessError) as error:
                yield f"Python {version}: {error}"


def main() -> None:
    running = "{}.{}".format(*sys.version_info)
    found = {version: interpreter(version) for version in promised() if version != running}
    absent = [version for version, python in found.items() if python is None]
    print(
        f"this is Python {running};"
        f" {'not here: ' + ', '.join(absent) if absent else 'all others are here'}",
        flush=True,
    )
    with tempfile.TemporaryDirectory(prefix="ohmo-pythons-") as folder:
        wrong = list(
            _each(
                {version: python for version, python in found.items() if python is not None},
                Path(folder),
            )
        )
    sys.exit("\n".join(wrong) if wrong else 0)


if __name__ == "__main__":
    main()
