"""Fork server of the soaks: forks one configured `serve` process per line of JSON.

A line is JSON:
`{"arguments": [...], "faults": "...", "victims": [...], "victim": FILE, "naive": bool, "deadline": seconds,
"hurry": factor, "descriptors": number, "log": FILE}`.
The answers are `{"pid": N}` at once and `{"pid": N, "code": N}` at the server's exit. The servers run the normal
command; this module patches in the test-only parts (platforms, short deadlines, the naive protocol).
"""

from __future__ import annotations

import json
import logging
import os
import resource
import select
import signal
import sys
import threading
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from socialpub.base import fault_injection
from socialpub.base import http as outbound
from socialpub.commands import cli
from socialpub.domain import post_states
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.publishing import transactions
from socialpub.domain.publishing.intents import RunSnapshot
from socialpub.platforms.contract import Json, Pending, Platform, SendClass
from socialpub.platforms.tiktok import upload
from socialpub.store.database import Tx
from socialpub.store.rows import IntentRow
from tests.support.soak import extra_platforms


def main() -> None:
    extra_platforms.register()
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
    if most := asked.get("descriptors"):
        resource.setrlimit(resource.RLIMIT_NOFILE, (most, most))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    _serve(asked)
    os._exit(99)


def _serve(asked: dict[str, Any]) -> None:
    fault_injection.plan(asked.get("faults", ""))
    if asked.get("deadline"):
        _cut_off(asked["deadline"])
    if asked.get("hurry", 1) != 1:
        _hurry(asked["hurry"])
        _cut_small()
    if asked.get("victims"):
        _choose(asked["victims"], Path(asked["victim"]))
    if asked.get("naive"):
        from tests.support.soak import naive_protocol

        naive_protocol.install()
    try:
        code = cli.main(asked["arguments"])
    except SystemExit as error:
        code = int(error.code or 0)
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _cut_off(seconds: float) -> None:
    """No upstream call takes longer, whatever it is allowed."""
    request: Callable[..., outbound.UpstreamResponse] = outbound.HttpClient.request

    def shorter(
        client: outbound.HttpClient, *args: Any, timeout: float = seconds, **more: Any
    ) -> outbound.UpstreamResponse:
        return request(client, *args, timeout=min(timeout, seconds), **more)

    outbound.HttpClient.request = shorter


def _hurry(factor: float) -> None:
    """Whatever connectors and their classes wait for takes only this part of its time."""
    class_of, pending = Platform.choose_send_class, transactions.save_progress

    def quicker(platform: Platform, plan: Json) -> SendClass:
        usual = class_of(platform, plan)
        return replace(usual, checks=tuple(check * factor for check in usual.checks))

    def sooner(
        service: AppContext, tx: Tx, snapshot: RunSnapshot, found: Pending, intent: IntentRow | None = None
    ) -> None:
        pending(service, tx, snapshot, replace(found, seconds=found.seconds * factor), intent)

    pause_ms = post_states.find_pause_ms
    Platform.choose_send_class, transactions.save_progress = quicker, sooner
    post_states.find_pause_ms = lambda platform: int(pause_ms(platform) * factor)


def _cut_small() -> None:
    """TikTok's videos go up in the smallest parts that it takes."""
    upload.WHOLE_MAX = min(upload.WHOLE_MAX, 5 << 20)
    upload.CHUNK = min(upload.CHUNK, 5 << 20)


def _choose(victims: list[str], told: Path) -> None:
    """A planned kill waits for one of these platforms, whose name is then left behind."""
    kill, first = fault_injection._ACTIONS["kill"], threading.Lock()

    def choosy() -> None:
        platform = _platform_here()
        if platform in victims:
            first.acquire()
            told.write_text(platform)
            kill()

    fault_injection._ACTIONS["kill"] = choosy


def _platform_here() -> str:
    """The platform that the calling thread publishes to; its run's snapshot is somewhere up the stack."""
    frame = sys._getframe()
    while frame := frame.f_back:
        here = frame.f_locals
        if found := here.get("snapshot") or getattr(here.get("self"), "snapshot", None):
            return str(found.post["platform"])
    return ""


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
