"""Gate on the database writer that opens when a given number of writes is queued."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from tests.support.app_server import AppServer, sleep_briefly


class WriterGate:
    """Keeps the thread that writes busy until so many writes of a kind wait for it."""

    def __init__(self, server: AppServer, kind: Any, many: int, before: Callable[[], None] = lambda: None) -> None:
        self._service, self._kind, self._many, self._before = server.service, kind, many, before
        self._write_together, self._lock, self._come = server.service.write_together, threading.Lock(), 0
        self._entered, self._open = threading.Event(), threading.Event()
        self._inbox = server.service.db._writer._inbox

    def __call__(self, kind: Any, what: Any) -> Any:
        if kind is not self._kind:
            return self._write_together(kind, what)
        with self._lock:
            if not self._come:
                self._service.db.write(self._hold)
                assert self._entered.wait(60)
            promise = self._write_together(kind, what)
            self._come += 1
            if self._come == self._many:
                self._open.set()
        return promise

    def _hold(self, tx: Any) -> None:
        self._entered.set()
        assert self._open.wait(60)
        deadline = time.monotonic() + 20
        while self._inbox.qsize() < self._many:  # a loop hands over what it has only once no more comes
            assert time.monotonic() < deadline
            sleep_briefly()
        self._before()
