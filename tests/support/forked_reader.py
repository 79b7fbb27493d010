"""Media reader in forks of one process: to start one anew takes longer than most files."""

from __future__ import annotations

import contextlib
import json
import os
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import IO

from socialpub.domain.media import probe

SERVE = """
import json, os, runpy, socket, sys
reader = runpy.run_path(sys.argv[1], run_name="reader")
for kind in ("image/png", "video/mp4"):
    reader["_preload_libraries"](kind)
channel = socket.socket(fileno=int(sys.argv[2]))
while True:
    arguments, files, *_ = socket.recv_fds(channel, 4096, 2)
    if not arguments:
        break
    child = os.fork()
    if child == 0:
        code = 1
        try:
            os.dup2(files[0], 0)
            os.dup2(files[1], 1)
            sys.stdin = open(0)
            reader["main"](*json.loads(arguments))
            sys.stdout.flush()
            code = 0
        finally:
            os._exit(code)
    for file in files:
        os.close(file)
    channel.send(str(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])).encode())
"""


@contextlib.contextmanager
def forked_reader() -> Iterator[Callable[[list[str], IO[bytes]], tuple[bytes, int]]]:
    """Yield a `probe._run_process` whose readers have the limits and the sandbox, but are not started each anew."""
    ours, theirs = socket.socketpair()
    command = [sys.executable, "-I", "-c", SERVE, str(probe.WORKER), str(theirs.fileno())]
    lock = threading.Lock()

    def run(given: list[str], file: IO[bytes]) -> tuple[bytes, int]:
        said, write = os.pipe()
        with lock, open(said, "rb") as output:
            socket.send_fds(ours, [json.dumps(given[3:]).encode()], [file.fileno(), write])
            os.close(write)
            return output.read(), int(ours.recv(16))

    with ours, subprocess.Popen(command, pass_fds=[theirs.fileno()], env=probe._ENVIRONMENT, cwd="/") as process:
        theirs.close()
        yield run
        ours.close()
        process.wait(60)
