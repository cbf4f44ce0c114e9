"""What a container is made with: places, limits, and the filter of system calls as engines take it,
who know calls by name. libseccomp(3) leaves out a name that it does not know yet, so here what is
allowed is said, and not what is refused. It takes the place of the engine's own, which lets ptrace
and io_uring through."""

from __future__ import annotations

import json
import os
import platform
import resource
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

from ohmo.contracts.messages import Json
from ohmo.contracts.sandbox import Cage
from ohmo.sandbox.limits import limits
from ohmo.sandbox.places import Way
from ohmo.sandbox.proxy import DOOR
from ohmo.sandbox.seccomp import INTERNET, LOCAL, NAMESPACES, TERMINAL

#: Of asm/unistd.h up to Linux 6.16, without those of ``seccomp.DENIED``, of 32 bits and obsolete.
ALLOWED = """
accept accept4 access alarm arch_prctl bind brk cachestat capget capset chdir chmod chown
clock_getres clock_gettime clock_nanosleep close close_range connect copy_file_range creat dup
dup2 dup3 epoll_create epoll_create1 epoll_ctl epoll_pwait epoll_pwait2 epoll_wait eventfd
eventfd2 execve execveat exit exit_group faccessat faccessat2 fadvise64 fallocate fanotify_mark
fchdir fchmod fchmodat fchmodat2 fchown fchownat fcntl fdatasync fgetxattr file_getattr
flistxattr flock fork fremovexattr fsetxattr fstat fstatfs fsync ftruncate futex futex_requeue
futex_wait futex_waitv futex_wake futimesat get_mempolicy get_robust_list getcpu getcwd getdents
getdents64 getegid geteuid getgid getgroups getitimer getpeername getpgid getpgrp getpid getppid
getpriority getrandom getresgid getresuid getrlimit getrusage getsid getsockname getsockopt
gettid gettimeofday getuid getxattr getxattrat inotify_add_watch inotify_init inotify_init1
inotify_rm_watch io_cancel io_destroy io_getevents io_pgetevents io_setup io_submit ioprio_get
ioprio_set kill landlock_add_rule landlock_create_ruleset landlock_restrict_self lchown
lgetxattr link linkat listen listmount listxattr listxattrat llistxattr lremovexattr lseek
lsetxattr lsm_get_self_attr lsm_list_modules lstat madvise map_shadow_stack mbind membarrier
memfd_create memfd_secret mincore mkdir mkdirat mknodat mlock mlock2 mlockall mmap mprotect
mq_getsetattr mq_notify mq_open mq_timedreceive mq_timedsend mq_unlink mremap mseal msgctl
msgget msgrcv msgsnd msync munlock munlockall munmap nanosleep newfstatat open openat openat2
pause pidfd_open pidfd_send_signal pipe pipe2 pkey_alloc pkey_free pkey_mprotect poll ppoll
prctl pread64 preadv preadv2 prlimit64 process_mrelease pselect6 pwrite64 pwritev pwritev2 read
readahead readlink readlinkat readv recvfrom recvmmsg recvmsg remap_file_pages removexattr
removexattrat rename renameat renameat2 restart_syscall rmdir rseq rt_sigaction rt_sigpending
rt_sigprocmask rt_sigqueueinfo rt_sigreturn rt_sigsuspend rt_sigtimedwait rt_tgsigqueueinfo
sched_get_priority_max sched_get_priority_min sched_getaffinity sched_getattr sched_getparam
sched_getscheduler sched_rr_get_interval sched_setattr sched_setparam sched_setscheduler
sched_yield seccomp select semctl semget semop semtimedop sendfile sendmmsg sendmsg sendto
set_mempolicy set_mempolicy_home_node set_robust_list set_tid_address setfsgid setfsuid setgid
setgroups setitimer setpgid setpriority setregid setresgid setresuid setreuid setrlimit setsid
setsockopt setuid setxattr setxattrat shmat shmctl shmdt shmget shutdown sigaltstack signalfd
signalfd4 socketpair splice stat statfs statmount statx symlink symlinkat sync sync_file_range
sync_file_range2 syncfs sysinfo tee tgkill time timer_create timer_delete timer_getoverrun
timer_gettime timer_settime timerfd_create timerfd_gettime timerfd_settime times tkill truncate
umask uname unlink unlinkat utime utimensat utimes vfork vmsplice wait4 waitid write writev
"""
_NOBODY = "65534:65534"  # of the first process: no command may touch its input
_WORD = 32  # bits of an argument that the kernel looks at


def profile(machine: str = platform.machine()) -> str:
    """JSON of seccomp.json, for ``x86_64`` or ``aarch64``."""
    rules: list[Json] = [{"names": [*ALLOWED.split()], "action": "SCMP_ACT_ALLOW"}]
    # Its flags lie in memory, where no filter can look; libc then takes clone.
    rules.append({"names": ["clone3"], "action": "SCMP_ACT_ERRNO", "errnoRet": 38})
    rules.append(_allowed("clone", 0, NAMESPACES, 0))
    rules += [_allowed("socket", 0, (1 << 64) - 1, family) for family in (*LOCAL, *INTERNET)]
    rules += [_allowed("ioctl", 1, mask, value) for mask, value in _others(*TERMINAL)]
    told: dict[str, Json] = {
        "defaultAction": "SCMP_ACT_ERRNO",
        "defaultErrnoRet": 1,
        "architectures": [f"SCMP_ARCH_{machine.upper()}"],
        "syscalls": rules,
    }
    return json.dumps(told)


def _allowed(name: str, argument: int, mask: int, value: int) -> Json:
    rule: dict[str, Json] = {"index": argument, "value": mask, "valueTwo": value}
    rule["op"] = "SCMP_CMP_MASKED_EQ"
    return {"names": [name], "action": "SCMP_ACT_ALLOW", "args": [rule]}


def _others(one: int, other: int) -> Iterator[tuple[int, int]]:
    """Masks and values that between them match every number but these two: those that differ in a
    bit which both have alike, and of the bits in which they differ every other mixture."""
    apart = one ^ other
    for bit in range(_WORD):
        if not apart >> bit & 1:
            yield 1 << bit, ~one & 1 << bit
    mixture = apart
    while True:  # every subset of the bits
        if mixture not in (one & apart, other & apart):
            yield apart, mixture
        if not mixture:
            return
        mixture = (mixture - 1) & apart


def settings(
    cage: Cage, found: Iterable[tuple[Way, Path]], door: Path | None, calls: str, *, podman: bool
) -> dict[str, Any]:
    """Of containers.create of the SDK. ``found``: its places; ``door``: of ``Launch``; ``calls``:
    the filter of system calls. Every limit of processes is named: engines without CAP_SYS_RESOURCE
    fail at their own defaults."""
    from docker.types import Mount, Ulimit

    bounds = {**cast("dict[str, int]", limits(cage)["rlimits"]), "NOFILE": 2048}
    ulimits: list[Ulimit] = []
    for name, value in bounds.items():
        hard = resource.getrlimit(getattr(resource, f"RLIMIT_{name}"))[1]
        most = value if hard == resource.RLIM_INFINITY else min(value, hard)
        soft = min(most, 1024) if name == "NOFILE" else most
        ulimits.append(Ulimit(name=name.lower(), soft=soft, hard=most))
    places: list[Mount] = []
    room = max(1 << 20, cage.memory // 4)
    own = {"/tmp": f"rw,exec,nosuid,nodev,mode=1777,size={room}"}  # noqa: S108
    for way, path in found:
        at = str(path)
        if way != "hide":
            places.append(Mount(at, at, type="bind", read_only=way == "read"))
        elif path.is_dir() and podman:
            own[at] = "ro,notmpcopyup,nosuid,nodev,noexec,size=4096"
        elif path.is_dir():
            places.append(Mount(at, None, type="tmpfs", read_only=True, tmpfs_size=4096))
        else:
            places.append(Mount(at, os.devnull, type="bind", read_only=True))
    if door is not None:
        at = str(Path(DOOR).parent)
        places.append(Mount(at, str(door), type="bind", read_only=True))
    return {
        "command": ["/bin/bash", "--norc", "--noprofile", "-c", "read -r _"],
        "entrypoint": [],
        "stdin_open": True,
        "detach": False,  # with the end of its input it ends
        "auto_remove": True,
        "user": _NOBODY,
        "working_dir": "/",
        "hostname": "sandbox",
        "read_only": True,
        "cap_drop": ["ALL"],
        "security_opt": ["no-new-privileges", f"seccomp={calls}"],
        "network_mode": "bridge" if cage.network == "on" else "none",
        "ipc_mode": "private",
        "mem_limit": cage.memory,
        "memswap_limit": cage.memory,
        "nano_cpus": int(min(cage.cpus, os.cpu_count() or 1) * 1e9),
        "pids_limit": cage.pids + 4,  # its first process, the shell around, who ends the others
        "ulimits": ulimits,
        "mounts": places,
        "tmpfs": own,
        "shm_size": room,
    }
