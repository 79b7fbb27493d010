"""Random delays between threads (`JITTER=0.1 make test`) that expose race conditions.

That fraction of the calls between threads, and between a test and its server, is delayed: mostly by a few milliseconds,
occasionally by as much as on a busy machine. A test that fails only with jitter depends on timing: it counts work of
others, or takes requested work for completed.
"""

from __future__ import annotations

import functools
import random
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

import httpx

from socialpub.base.concurrency.thread_pool import ElasticThreadPool
from socialpub.store.engine.writer import DatabaseWriter

SEAMS: tuple[tuple[type, str], ...] = (
    (threading.Event, "set"),
    (threading.Event, "wait"),
    (threading.Condition, "notify"),
    (threading.Thread, "run"),
    (Future, "set_result"),
    (DatabaseWriter, "_enqueue"),
    (DatabaseWriter, "_commit"),
    (ElasticThreadPool, "_check_exit"),
    (httpx.Client, "send"),
)
SHORT, LONG, LONG_ONES = 0.004, 0.06, 0.2  # seconds at most, and how many of those that are late are so for long

Delay = Callable[[], None]


def add_jitter(share: float) -> None:
    """From now on, until the process ends, this share of the calls begins late, and as many end late."""
    chance = random.Random().random  # no chance of Hypothesis, whose examples it would change
    for owner, name in SEAMS:
        setattr(owner, name, with_jitter(owner.__dict__[name], functools.partial(sleep_sometimes, share, chance)))


def with_jitter(call: Callable[..., Any], late: Delay) -> Callable[..., Any]:
    @functools.wraps(call)
    def shaking(*given: Any, **named: Any) -> Any:
        late()
        try:
            return call(*given, **named)
        finally:
            late()

    return shaking


def sleep_sometimes(share: float, chance: Callable[[], float]) -> None:
    drawn = chance()
    if drawn < share:
        time.sleep(chance() * (LONG if drawn < share * LONG_ONES else SHORT))
