"""Whose end of a TCP connection it is: told by the kernel's tables, for an ordinary user, whose
programs may hide what they hold."""

from __future__ import annotations

import json
import os
import sys

import pytest

from ohmo.processes.peer_process import _end_of, _is_here, _read
from tests.programs import run_process

pytestmark = pytest.mark.needs("linux")

# A house and, at its side, somebody who is not below it; both are nobody in particular.
STORY = """
import ctypes, encodings.ascii, encodings.idna, json, os, signal, socket, sys, time
from ohmo.processes.peer_process import Ancestry
from ohmo.processes.peer_process import place_of
from ohmo.processes.process_tree import adopt_orphans, descendants, send
from ohmo.processes.process_tree import seal
host, far = sys.argv[1:3]
signal.alarm(30)
if os.geteuid() == 0:
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    ctypes.CDLL(None).prctl(4, 1, 0, 0, 0)
family = socket.AF_INET6 if ":" in host else socket.AF_INET
door = socket.create_server((host, 0), family=family, dualstack_ipv6=host == "::")
where = (far, door.getsockname()[1])
ready, go = os.pipe()

def asks(how):
    signal.alarm(30)
    link = socket.create_connection(where)
    ctypes.CDLL(None).prctl(4, how != "closed", 0, 0, 0)  # 1: as after execve(2)
    if how == "hidden":  # in the queue of a socket nobody has it open
        mine, other = socket.socketpair()
        socket.send_fds(mine, [b"x"], [link.fileno()])
        link.close()
    if how == "orphan" and os.fork():
        os._exit(0)
    if how == "gone":
        link.close()
    os.write(go, b"x")
    time.sleep(60)
    os._exit(0)

def judged():
    link, theirs = door.accept()
    os.read(ready, 1)
    return place_of(theirs, link.getsockname(), Ancestry(os.getpid()))

begin, begun = os.pipe()
stranger = os.fork()
if stranger == 0:  # a child of whoever started both
    os.read(begin, 1)
    asks("open")
house = os.fork()
if house == 0:
    signal.alarm(30)
    adopt_orphans()
    seal({})
    told = {}
    for how in ("open", "orphan", "hidden", "gone", "closed"):
        if os.fork() == 0:
            asks(how)
        told[how] = judged()
        if how == "closed":
            os.write(begun, b"x")
            told["stranger beside a closed one"] = judged()
    send(descendants(os.getpid()), 9)
    print(json.dumps(told), flush=True)
    os._exit(0)
os.waitpid(house, 0)
os.kill(stranger, 9)
"""

# Root's process with two children that became somebody: the house, and a tunnel.
LOGIN = """
import ctypes, encodings.ascii, encodings.idna, json, os, signal, socket, time
from ohmo.processes.peer_process import Ancestry
from ohmo.processes.peer_process import place_of
from ohmo.processes.process_tree import descendants, send
signal.alarm(30)
door = socket.create_server(("127.0.0.1", 0))
ready, go = os.pipe()
begin, begun = os.pipe()

def become(open_to_others):
    signal.alarm(30)
    os.setgroups([])
    os.setresgid(65534, 65534, 65534)
    os.setresuid(65534, 65534, 65534)
    ctypes.CDLL(None).prctl(4, open_to_others, 0, 0, 0)

def judged():
    link, theirs = door.accept()
    os.read(ready, 1)
    return place_of(theirs, link.getsockname(), Ancestry(os.getpid()))

tunnel = os.fork()
if tunnel == 0:
    become(0)
    links = []
    while os.read(begin, 1):
        links.append(socket.create_connection(door.getsockname()))
        os.write(go, b"x")
house = os.fork()
if house == 0:
    become(1)
    os.write(begun, b"x")
    told = {"tunnel": judged()}
    for how in ("hidden", "ring"):
        if os.fork() == 0:
            signal.alarm(30)
            link = socket.create_connection(door.getsockname())
            libc, files = ctypes.CDLL(None), (ctypes.c_int * 1)(link.fileno())
            # io_uring_setup(2), where there is one, and io_uring_register(2), IORING_REGISTER_FILES
            ring = libc.syscall(425, 4, ctypes.create_string_buffer(120)) if how == "ring" else -1
            if ring >= 0:
                assert libc.syscall(427, ring, 2, files, 1) == 0
            else:
                mine, other = socket.socketpair()
                socket.send_fds(mine, [b"x"], [link.fileno()])
            link.close()
            os.write(go, b"x")
            time.sleep(60)
        told[how] = judged()
        send(descendants(os.getpid()), 9)
        os.wait()
    os.write(begun, b"x")
    print(json.dumps({**told, "tunnel again": judged()}), flush=True)
    os._exit(0)
os.waitpid(house, 0)
os.kill(tunnel, 9)
"""


def told(*words: str) -> dict[str, str]:
    """What a story ends with."""
    command, environ = [sys.executable, "-c", *words], {"PATH": os.defpath}
    done = run_process(*command, env=environ, code=0)
    return json.loads(done.stdout)


@pytest.mark.parametrize(
    "ends", ["127.0.0.1 127.0.0.1", "0.0.0.0 127.0.0.1", ":: 127.0.0.1", "::1 ::1"]
)
def test_below_the_house_nobody_is_outside_however_they_hide(ends: str) -> None:
    assert told(STORY, *ends.split()) == {
        "open": "inside",
        "orphan": "inside",
        "hidden": "unclear",
        "gone": "unclear",
        "closed": "unclear",
        "stranger beside a closed one": "outside",
    }


@pytest.mark.needs("root")
def test_a_tunnel_of_sshd_is_outside_and_nobody_hides_behind_it() -> None:
    """Its process is the user's, shows nobody what it has open, and stands below one of root's, as
    with sshd's privilege separation."""
    tunnel = {"tunnel": "outside", "tunnel again": "outside"}
    assert told(LOGIN) == {**tunnel, "hidden": "unclear", "ring": "unclear"}


def test_addresses_of_the_table_are_read_as_the_kernel_writes_them() -> None:
    assert _read("0100007F:1E25") == (bytes([127, 0, 0, 1]), 7717)
    assert _read("0000000000000000FFFF00000100007F:1E25") == (bytes([127, 0, 0, 1]), 7717)
    assert _read("00000000000000000000000001000000:0001") == (bytes(15) + b"\x01", 1)


def test_a_connection_that_is_in_no_table_is_somebody_elses_only_when_its_address_is() -> None:
    assert _end_of(("192.0.2.7", 5), ("192.0.2.8", 7717)) is None
    assert not _is_here("192.0.2.7")
    assert _is_here("127.0.0.5")
