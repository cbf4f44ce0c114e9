"""The filter of system calls, seccomp(2), as the bytes of its program (classic BPF: struct
sock_filter of linux/filter.h, each 8 bytes). What it refuses fails with EPERM.

An own assembler of six instructions and not libseccomp: that is a library of the system which is
not everywhere, and pyseccomp opens it by name."""

from __future__ import annotations

import platform
import socket
import struct
from collections.abc import Mapping
from functools import cache

# linux/audit.h: AUDIT_ARCH_*; 64-bit, little-endian
_ARCH = {"x86_64": 0xC000003E, "aarch64": 0xC00000B7}
#: Numbers on x86-64 and aarch64 (asm/unistd_64.h, asm-generic/unistd.h); None: there is none.
DENIED: Mapping[str, tuple[int, int | None]] = {
    # keys of the kernel, and other processes
    "add_key": (248, 217),
    "request_key": (249, 218),
    "keyctl": (250, 219),
    "ptrace": (101, 117),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "kcmp": (312, 272),
    "pidfd_getfd": (438, 438),
    "process_madvise": (440, 440),
    # large parts of the kernel that no build needs
    "io_uring_setup": (425, 425),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "bpf": (321, 280),
    "perf_event_open": (298, 241),
    "userfaultfd": (323, 282),
    "lookup_dcookie": (212, 18),
    "fanotify_init": (300, 262),
    # file systems and namespaces
    "mount": (165, 40),
    "umount2": (166, 39),
    "pivot_root": (155, 41),
    "chroot": (161, 51),
    "open_tree": (428, 428),
    "move_mount": (429, 429),
    "fsopen": (430, 430),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fspick": (433, 433),
    "mount_setattr": (442, 442),
    "open_tree_attr": (467, 467),
    "unshare": (272, 97),
    "setns": (308, 268),
    "open_by_handle_at": (304, 265),
    "name_to_handle_at": (303, 264),
    "mknod": (133, None),
    # the machine
    "kexec_load": (246, 104),
    "kexec_file_load": (320, 294),
    "init_module": (175, 105),
    "finit_module": (313, 273),
    "delete_module": (176, 106),
    "reboot": (169, 142),
    "swapon": (167, 224),
    "swapoff": (168, 225),
    "acct": (163, 89),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "settimeofday": (164, 170),
    "clock_settime": (227, 112),
    "clock_adjtime": (305, 266),
    "adjtimex": (159, 171),
    "sethostname": (170, 161),
    "setdomainname": (171, 162),
    "syslog": (103, 116),
    "iopl": (172, None),
    "ioperm": (173, None),
    "vhangup": (153, 58),
    "personality": (135, 92),
    # its share of the machine is fixed
    "sched_setaffinity": (203, 122),
    "migrate_pages": (256, 238),
    "move_pages": (279, 239),
}
#: Of System V, sysvipc(7): where there is no namespace of its own, they reach what others keep.
_SHARED: Mapping[str, tuple[int, int]] = {
    "shmget": (29, 194),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "semget": (64, 190),
    "semop": (65, 193),
    "semctl": (66, 191),
    "semtimedop": (220, 192),
    "msgget": (68, 186),
    "msgsnd": (69, 189),
    "msgrcv": (70, 188),
    "msgctl": (71, 187),
}
#: What a process may do to itself, and by its number to every other of the same person: the values
#: that its first arguments must have.
_ITSELF: Mapping[str, tuple[int, int, tuple[int, ...]]] = {
    "prlimit64": (302, 261, (0,)),
    "setpriority": (141, 140, (0, 0)),  # PRIO_PROCESS
    "ioprio_set": (251, 30, (1, 0)),  # IOPRIO_WHO_PROCESS
    "sched_setparam": (142, 118, (0,)),
    "sched_setscheduler": (144, 119, (0,)),
    "sched_setattr": (314, 274, (0,)),
}
_IOCTL = (16, 29)
_SOCKET = (41, 198)
_PAIR = (53, 199)
_STREAM, _SEQPACKET = 1, 5  # socket(2); every other pair can be sent on to an address
_CLONE = (56, 220)
_CLONE3 = (435, 435)
_X32 = 0x40000000  # calls of another ABI on x86-64 carry this bit
TERMINAL = (0x5412, 0x541C)  # TIOCSTI, TIOCLINUX: would type into a terminal, ioctl_tty(2)
NAMESPACES = 0x7E020080  # every CLONE_NEW* of clone(2)
_ALLOW, _EPERM, _ENOSYS, _KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000
_NUMBER, _ARCHITECTURE, _FIRST, _SECOND = 0, 4, 16, 24  # offsets in struct seccomp_data
_LOAD, _EQUAL, _ABOVE, _ANY, _AND, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x54, 0x06

INTERNET = (socket.AF_INET, socket.AF_INET6, getattr(socket, "AF_NETLINK", 16))
LOCAL = (socket.AF_UNIX,)


def supported(machine: str = platform.machine()) -> bool:
    """Whether there is a filter for this kind of machine."""
    return machine in _ARCH


def numbers(machine: str = platform.machine()) -> dict[str, int]:
    """Of every call that is refused outright. Raises OSError: not ``supported``."""
    if machine not in _ARCH:
        raise OSError(f"there is no filter of system calls for {machine}")
    column = list(_ARCH).index(machine)
    pairs = ((name, pair[column]) for name, pair in DENIED.items())
    return {name: number for name, number in pairs if number is not None}


@cache
def program(
    families: tuple[int, ...], machine: str = platform.machine(), *, alone: bool = True
) -> bytes:
    """``families``: of which sockets can be made, address_families(7). ``alone``: in namespaces of
    its own, where there are no others whom it could reach by their numbers. Raises OSError."""
    denied = sorted(numbers(machine).values())
    column = list(_ARCH).index(machine)
    if not alone:
        denied += [pair[column] for pair in _SHARED.values()]
    code = [_op(_LOAD, _ARCHITECTURE), _op(_EQUAL, _ARCH[machine], 1, 0), _op(_RETURN, _KILL)]
    code.append(_op(_LOAD, _NUMBER))
    if machine == "x86_64":
        code += [_op(_ABOVE, _X32, 0, 1), _op(_RETURN, _EPERM)]
    for number in denied:
        code += [_op(_EQUAL, number, 0, 1), _op(_RETURN, _EPERM)]
    # The flags of clone3 lie in memory, where no filter can look; libc then takes clone.
    code += [_op(_EQUAL, _CLONE3[column], 0, 1), _op(_RETURN, _ENOSYS)]
    code += _argument(_CLONE[column], _FIRST, [_op(_ANY, NAMESPACES, 0, 1), _op(_RETURN, _EPERM)])
    typing: list[bytes] = []
    for request in TERMINAL:
        typing += [_op(_EQUAL, request, 0, 1), _op(_RETURN, _EPERM)]
    code += _argument(_IOCTL[column], _SECOND, typing)
    made: list[bytes] = []
    for family in families:
        made += [_op(_EQUAL, family, 0, 1), _op(_RETURN, _ALLOW)]
    code += _argument(_SOCKET[column], _FIRST, [*made, _op(_RETURN, _EPERM)])
    if not set(LOCAL) & set(families):
        pair = [_op(_AND, 0xF), _op(_EQUAL, _STREAM, 2, 0), _op(_EQUAL, _SEQPACKET, 1, 0)]
        code += _argument(_PAIR[column], _SECOND, [*pair, _op(_RETURN, _EPERM)])
    for *numbered, first in () if alone else _ITSELF.values():
        for offset, value in zip((_FIRST, _SECOND), first, strict=False):
            its = [_op(_EQUAL, value, 1, 0), _op(_RETURN, _EPERM)]
            code += _argument(numbered[column], offset, its)
    return b"".join([*code, _op(_RETURN, _ALLOW)])


def _argument(number: int, offset: int, checks: list[bytes]) -> list[bytes]:
    """``checks`` on an argument of one call; the number is loaded again for what follows."""
    body = [_op(_LOAD, offset), *checks, _op(_LOAD, _NUMBER)]
    return [_op(_EQUAL, number, 0, len(body)), *body]


def _op(code: int, value: int, true: int = 0, false: int = 0) -> bytes:
    return struct.pack("<HBBI", code, true, false, value)
