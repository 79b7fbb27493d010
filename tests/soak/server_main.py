"""Starts servers for the soaks: one process that has imported everything and forks one server for each line it reads.

A line is JSON:
`{"arguments": [...], "faults": "...", "naive": bool, "deadline": seconds, "log": FILE, "preload": FILE}`.
It answers `{"pid": N}` at once and `{"pid": N, "code": N}` when that server has ended. The servers run the normal
command; what only tests need (platforms, short deadlines, the naive protocol) is put in here, from outside.
"""

from __future__ import annotations

import json
import os
import select
import signal
import sys
from typing import Any

from socialpub.base import faults, net
from socialpub.commands import cli
from tests.soak import fakes


def main() -> None:
    fakes.register()
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    children: set[int] = set()
    pending = b""
    while True:
        readable, _, _ = select.select([0], [], [], 0.005 if children else None)
        if readable:
            data = os.read(0, 65536)
            if not data:
                break
            *lines, pending = (pending + data).split(b"\n")
            children |= {_fork(json.loads(line)) for line in lines}
        children -= _reap()
    for child in children:
        os.kill(child, signal.SIGKILL)


def _fork(asked: dict[str, Any]) -> int:
    pid = os.fork()
    if pid:
        _say({"pid": pid})
        return pid
    log = os.open(asked["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.close(0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _serve(asked)
    os._exit(99)


def _serve(asked: dict[str, Any]) -> None:
    faults.plan(asked.get("faults", ""))
    if asked.get("deadline"):
        net._Client.request.__kwdefaults__["deadline"] = asked["deadline"]
    if asked.get("naive"):
        from tests.soak import naive

        naive.apply()
    try:
        code = cli.main(asked["arguments"])
    except SystemExit as error:
        code = int(error.code or 0)
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _reap() -> set[int]:
    ended = set()
    while True:
        try:
            pid, status = os.waitpid(-1, os.WNOHANG)
        except ChildProcessError:
            return ended
        if not pid:
            return ended
        ended.add(pid)
        _say({"pid": pid, "code": os.waitstatus_to_exitcode(status)})


def _say(value: dict[str, Any]) -> None:
    os.write(1, json.dumps(value).encode() + b"\n")


if __name__ == "__main__":
    main()
