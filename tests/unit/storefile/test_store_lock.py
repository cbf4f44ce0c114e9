"""One instance per home."""

from __future__ import annotations

import fcntl
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from ohmo.contracts.errors import ConfigError, HomeTaken
from ohmo.storefile.lock import hold_home, holder, is_held, network_file_system

HOLDER = """
import sys, time
from pathlib import Path
from ohmo.storefile.lock import hold_home
with hold_home(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(60)
"""


def test_the_second_is_told_the_pid_of_the_first(home: Path) -> None:
    with hold_home(home), pytest.raises(HomeTaken, match=rf"pid {os.getpid()}\)"), hold_home(home):
        pytest.fail("two owners")


def test_the_home_is_free_again_afterwards(home: Path) -> None:
    for _ in range(2):
        with hold_home(home):
            assert (home / "lock").read_text() == f"{os.getpid()}\n"


def test_a_lock_dies_with_its_process(home: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", HOLDER, str(home)], stdout=subprocess.PIPE, text=True
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        with pytest.raises(HomeTaken, match=f"pid {child.pid}"), hold_home(home):
            pytest.fail("two owners")
        child.send_signal(signal.SIGKILL)
        child.wait(10)
        with hold_home(home):
            assert (home / "lock").read_text() == f"{os.getpid()}\n"


def test_the_first_process_of_a_container_is_an_owner_like_any_other(home: Path) -> None:
    with hold_home(home):
        (home / "lock").write_text("1\n")
        assert holder(home / "lock") == 1
        (home / "lock").write_text("0\n")
        assert holder(home / "lock") is None


def test_one_that_only_looks_keeps_nobody_out(home: Path) -> None:
    lock = home / "lock"
    with hold_home(home):
        assert is_held(lock, unclear=False)
        assert holder(lock) == os.getpid()
    assert not is_held(lock, unclear=True)
    assert holder(lock) is None
    looking = os.open(lock, os.O_RDONLY)
    fcntl.flock(looking, fcntl.LOCK_SH)  # as is_held does for a moment
    assert not is_held(lock, unclear=True), "two who look do not take each other for the owner"
    with hold_home(home, sleep=lambda _: os.close(looking)):
        assert is_held(lock, unclear=False)


def test_many_that_look_slowly_keep_nobody_out(home: Path) -> None:
    """Three processes look in turn while they wait for a supervisor, on a machine that lets them
    stand for a while."""
    home.mkdir(exist_ok=True)
    looking = os.open(home / "lock", os.O_RDONLY | os.O_CREAT)
    fcntl.flock(looking, fcntl.LOCK_SH)
    pauses: list[float] = []

    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        if sum(pauses) > 0.5:
            fcntl.flock(looking, fcntl.LOCK_UN)

    try:
        with hold_home(home, sleep):
            assert is_held(home / "lock", unclear=False)
    finally:
        os.close(looking)


def test_an_owner_is_not_waited_for(home: Path) -> None:
    pauses: list[float] = []
    with hold_home(home), pytest.raises(HomeTaken), hold_home(home, pauses.append):
        pass
    assert sum(pauses) < 0.1


@pytest.mark.parametrize("unclear", [False, True])
def test_whoever_looks_says_what_a_lock_means_that_cannot_be_looked_at(
    tmp_path: Path, unclear: bool
) -> None:
    assert not is_held(tmp_path / "lock", unclear=unclear), "nobody holds what is not there"
    (tmp_path / "lock").symlink_to(tmp_path)
    assert is_held(tmp_path / "lock", unclear=unclear) is unclear


MOUNTS = """22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw
40 22 0:35 / /mnt/share rw,relatime shared:20 - nfs4 server:/export rw
41 40 0:36 / /mnt/share/local rw,relatime - tmpfs tmpfs rw
42 22 0:37 / /mnt/with\\040space rw,relatime master:1 - fuse.sshfs host:/ rw
43 22 0:38 / /mnt/größe rw,relatime - cifs //host/x rw
torn line
"""


@pytest.mark.parametrize(
    ("path", "kind"),
    [
        ("/home/ada", None),
        ("/mnt/share", "nfs4"),
        ("/mnt/share/x/y", "nfs4"),
        ("/mnt/share/local/z", None),
        ("/mnt/shared", None),
        ("/mnt/with space/h", "fuse.sshfs"),
        ("/mnt/größe/h", "cifs"),
    ],
)
def test_a_network_file_system_is_recognised(path: str, kind: str | None) -> None:
    assert network_file_system(Path(path), MOUNTS) == kind


def test_a_link_in_place_of_the_lock_is_not_written_through(tmp_path: Path) -> None:
    target = tmp_path / "precious"
    target.write_text("precious")
    (tmp_path / "lock").symlink_to(target)
    with pytest.raises(ConfigError, match="move it away"), hold_home(tmp_path):
        pass
    assert target.read_text() == "precious"
