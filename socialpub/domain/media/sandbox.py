"""Limits of the media reader: memory, CPU time, open files and, on Linux, system calls."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import resource
import struct
import sys

MEMORY_MAX = 1024 * 1024 * 1024
CPU_SECONDS = 5


def limit_resources() -> None:
    """Drop privileges and resources not needed to read one file."""
    # When memory runs out, the kernel kills this process first (Linux).
    with contextlib.suppress(OSError), open("/proc/self/oom_score_adj", "w") as file:
        file.write("1000")
    _prctl(_NO_NEW_PRIVS, 1)
    for what, soft, hard in (
        (resource.RLIMIT_AS, MEMORY_MAX, MEMORY_MAX),
        (resource.RLIMIT_CPU, CPU_SECONDS, CPU_SECONDS + 1),  # ends with SIGXCPU; at the hard limit with SIGKILL
        (resource.RLIMIT_FSIZE, 0, 0),
        (resource.RLIMIT_CORE, 0, 0),
    ):
        with contextlib.suppress(OSError, ValueError):  # macOS lacks some limits
            resource.setrlimit(what, (soft, hard))


def close_sandbox(descriptors: int) -> None:
    """Forbid further files, connections (a video may name some) and unneeded system calls."""
    os.closerange(3, 64)  # the one-file binary leaves its own file open
    with contextlib.suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (descriptors, descriptors))
    _filter_calls()


_NO_NEW_PRIVS, _SECCOMP, _FILTER = 38, 22, 2  # linux/prctl.h, linux/seccomp.h
_ALLOWED, _DENIED = 0x7FFF0000, 0x00050000 | errno.EPERM
_LOAD, _EQUAL, _RETURN = 0x20, 0x15, 0x06  # linux/bpf_common.h
# System calls for reading, memory, locks, time and exit; kernel numbers by machine.
_ALLOWED_CALLS = {
    "read": (0, 63), "write": (1, 64), "close": (3, 57), "fstat": (5, 80), "lseek": (8, 62), "mmap": (9, 222),
    "mprotect": (10, 226), "munmap": (11, 215), "brk": (12, 214), "rt_sigaction": (13, 134),
    "rt_sigprocmask": (14, 135), "rt_sigreturn": (15, 139), "pread64": (17, 67), "readv": (19, 65),
    "writev": (20, 66), "sched_yield": (24, 124), "mremap": (25, 216), "madvise": (28, 233), "dup": (32, 23),
    "nanosleep": (35, 101), "getpid": (39, 172), "exit": (60, 93), "fcntl": (72, 25), "gettimeofday": (96, 169),
    "getrusage": (98, 165), "sigaltstack": (131, 132), "gettid": (186, 178), "futex": (202, 98),
    "sched_getaffinity": (204, 123), "restart_syscall": (219, 128), "clock_gettime": (228, 113),
    "clock_nanosleep": (230, 115), "exit_group": (231, 94), "newfstatat": (262, 79), "getrandom": (318, 278),
}  # fmt: skip
_MACHINES = {"x86_64": (0xC000003E, 0), "aarch64": (0xC00000B7, 1)}  # linux/audit.h, and the column above


class _SeccompProgram(ctypes.Structure):
    _fields_ = (("length", ctypes.c_ushort), ("steps", ctypes.c_char_p))


def _filter_calls() -> None:
    """Make every other system call fail with EPERM, on Linux kernels with seccomp."""
    machine = _MACHINES.get(os.uname().machine)
    if machine is None:
        return
    architecture, column = machine
    calls = sorted(numbers[column] for numbers in _ALLOWED_CALLS.values())
    steps = [(_LOAD, 0, 0, 4), (_EQUAL, 1, 0, architecture), (_RETURN, 0, 0, _DENIED), (_LOAD, 0, 0, 0)]
    steps += [(_EQUAL, len(calls) - index, 0, number) for index, number in enumerate(calls)]
    steps += [(_RETURN, 0, 0, _DENIED), (_RETURN, 0, 0, _ALLOWED)]
    code = b"".join(struct.pack("=HBBI", *step) for step in steps)
    program = _SeccompProgram(len(steps), code)
    _prctl(_SECCOMP, _FILTER, ctypes.addressof(program))


def _prctl(*arguments: int) -> None:
    """Call prctl where it exists; elsewhere the other limits stand alone."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(*(ctypes.c_ulong(argument) for argument in (*arguments, 0, 0, 0, 0)[:5]))
