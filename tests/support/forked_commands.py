"""CLI commands as processes forked from one that has already imported the program.

Importing takes half a second of CPU time; other tests cover commands in a new interpreter. Run as a program (`python -m
tests.support.forked_commands DESCRIPTOR`), this module is the fork server, with one request per command over a socket.
"""

from __future__ import annotations

import atexit
import contextlib
import functools
import gc
import importlib
import json
import os
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]
REQUEST_MAX = 1 << 17
STREAMS = 3
IMPORTED = ("cli", "runner", "serve", "admin", "backup", "doctor", "master_key", "listen", "resume", "status")


@dataclass
class ForkedCommand:
    """A command that runs: what of `subprocess.Popen` the tests use."""

    pid: int
    stdout: IO[str]
    stderr: IO[str]
    _end: IO[str]
    returncode: int | None = field(default=None)

    def wait(self, timeout: float | None = None) -> int:
        """Its exit code once it has ended; minus the number of the signal that ended it."""
        if self.returncode is None:
            if not select.select([self._end], [], [], timeout)[0]:
                raise subprocess.TimeoutExpired(f"process {self.pid}", timeout or 0)
            self.returncode = int(self._end.readline())
            self._end.close()
        return self.returncode

    def poll(self) -> int | None:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            with contextlib.suppress(ProcessLookupError):  # it has just ended: its minder is about to tell
                os.kill(self.pid, number)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self) -> tuple[str, str]:
        """All that is left to read of it, and its end."""
        said: list[str] = []
        reading = threading.Thread(target=lambda: said.append(_read_rest(self.stderr)))
        reading.start()
        out = _read_rest(self.stdout)
        reading.join()
        self.wait()
        return out, said[0]


def _read_rest(stream: IO[str]) -> str:
    if stream.closed:
        return ""
    with stream:
        return stream.read()


def start_python(
    arguments: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    before: Sequence[str] = (),
    terminal: int | None = None,
) -> subprocess.Popen[str]:
    """Start a command in a new interpreter."""
    command = [*before, sys.executable, "-m", "socialpub", *arguments]
    asked, told = (subprocess.DEVNULL, subprocess.PIPE) if terminal is None else (terminal, terminal)
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=env,
        stdin=asked,
        stdout=subprocess.PIPE,
        stderr=told,
        text=True,
        start_new_session=terminal is not None,
    )


def start_fork(
    arguments: Sequence[str],
    cwd: Path,
    env: Mapping[str, str],
    before: Sequence[str] = (),
    terminal: int | None = None,
) -> ForkedCommand | subprocess.Popen[str]:
    """Start a command. `before`: a command line that sets the process up for what follows it, such as setpriv's.

    `terminal`: what is its standard input and error, in a session of its own.
    """
    if sys.platform != "linux":  # libraries of others do not bear a fork
        return start_python(arguments, cwd, env, before, terminal)
    pipes = [os.pipe() for _ in range(STREAMS)]
    nothing = os.open(os.devnull, os.O_RDONLY)
    asked = {"arguments": list(arguments), "cwd": str(cwd), "env": dict(env), "apart": terminal is not None}
    request = json.dumps(asked).encode()
    given = [nothing, *(write for _, write in pipes)]
    sent = given if terminal is None else [terminal, given[1], terminal, given[3]]
    socket.send_fds(_start_fork_server(tuple(before)), [request], sent)
    for descriptor in given:
        os.close(descriptor)
    out, err, end = (os.fdopen(read, encoding="utf-8") for read, _ in pipes)
    return ForkedCommand(int(end.readline()), out, err, end)


@functools.cache
def _start_fork_server(before: tuple[str, ...]) -> socket.socket:
    """The socket of a process that has imported the program; it ends with this one."""
    ours, its = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    process = subprocess.Popen(
        [*before, sys.executable, "-m", __name__, str(its.fileno())],
        cwd=ROOT,
        stdin=subprocess.DEVNULL,
        env=os.environ | {"PYTHONUNBUFFERED": "1"},
        pass_fds=[its.fileno()],
    )
    its.close()

    def end() -> None:
        ours.close()
        process.wait()

    atexit.register(end)
    return ours


# --- The process that is forked ------------------------------------------------------------------------------------


def serve(descriptor: int) -> None:
    """Fork for each request until nobody can ask any more. Returns in the forked processes too, to be a command."""
    gc.freeze()
    with socket.socket(fileno=descriptor) as asked:
        while True:
            request, descriptors, _, _ = socket.recv_fds(asked, REQUEST_MAX, STREAMS + 1)
            if not request:
                break
            if os.fork() == 0:
                asked.close()
                return _mind_command(json.loads(request), descriptors)
            for descriptor in descriptors:
                os.close(descriptor)
            _reap_minders(os.WNOHANG)
    _reap_minders(0)
    sys.exit()


def _reap_minders(options: int) -> None:
    """Take the minders that have ended: what they and their commands took of the processor counts as ours."""
    with contextlib.suppress(ChildProcessError):
        while os.waitpid(-1, options)[0]:
            continue


def _mind_command(request: dict[str, Any], descriptors: list[int]) -> None:
    """Fork the command, tell its number and then how it ended. Returns in the command."""
    *streams, end = descriptors
    if pid := os.fork():
        for stream in streams:
            os.close(stream)
        os.write(end, b"%d\n" % pid)
        with contextlib.suppress(BrokenPipeError):  # nobody waits for it any more
            os.write(end, b"%d\n" % os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
        os._exit(0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(STREAMS, max(descriptors) + 1)
    if request["apart"]:
        os.setsid()
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.argv[1:] = request["arguments"]


if __name__ == "__main__":
    gc.disable()
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")  # as the program does
    for name in IMPORTED:
        importlib.import_module(f"socialpub.commands.{name}")
    serve(int(sys.argv[1]))
    if os.environ.get("SOCIALPUB_TEST") == "1":  # read where the program is imported, which was before
        importlib.import_module("socialpub.base.fault_injection").plan(os.environ.get("SOCIALPUB_FAULTS", ""))
    if folder := os.environ.get("TESTS_MIGRATIONS"):  # of `tests/support/earlier_databases.py`
        vars(importlib.import_module("socialpub.store.schema.migration"))["find_shipped_directory"] = lambda name: Path(
            folder
        )
    exec(os.environ.get("TESTS_BEFORE", ""), {})  # noqa: S102 - what a test lets run beside it
    importlib.import_module("socialpub.commands.cli").program()
