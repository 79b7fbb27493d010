"""Synchronous executor that runs submitted work at once, for deterministic tests."""

from __future__ import annotations

import concurrent.futures
from collections.abc import Callable
from typing import Any

from socialpub.base.concurrency.fair_executor import ShareKey


class InlineExecutor(concurrent.futures.Executor):
    """A pool that does its work at once."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> concurrent.futures.Future[Any]:
        done: concurrent.futures.Future[Any] = concurrent.futures.Future()
        done.set_result(fn(*args, **kwargs))
        return done

    def submit_for(self, share: ShareKey, fn: Callable[..., Any], /, *args: Any) -> concurrent.futures.Future[Any]:
        return self.submit(fn, *args)
