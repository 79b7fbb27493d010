"""Gate on the database writer that keeps the writes of a kind until all of them are there."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable
from typing import Any
from unittest import mock

from tests.support.app_server import AppServer


class WriterGate(contextlib.ExitStack):
    """Within it, the first `many` writes of a kind are one group of the writer, in which no other write is.

    Other writes go on meanwhile. `before` is committed when the last of the kind has come.
    """

    def __init__(self, server: AppServer, kind: Any, many: int, before: Callable[[], None] = lambda: None) -> None:
        super().__init__()
        self._service, self._kind, self._many, self._before = server.service, kind, many, before
        self._writer = server.service.db._writer
        self._write_together, self._gather = server.service.write_together, self._writer._gather
        self._lock = threading.Lock()
        self._values: list[Any] = []  # what the writes of the kind are to write
        self._kept: list[Any] = []  # those that wait for the others

    def __enter__(self) -> WriterGate:
        self.enter_context(mock.patch.object(self._service, "write_together", self._queue))
        self.enter_context(mock.patch.object(self._writer, "_gather", self._gather_others))
        self._service.write(lambda tx: None).result()  # the writer calls `_gather_others` from now on
        return self

    def _queue(self, kind: Any, value: Any) -> Any:
        with self._lock:
            if kind is self._kind and len(self._values) < self._many:
                self._values.append(value)
                if len(self._values) == self._many:
                    self._service.write(lambda tx: self._before()).result()
            return self._write_together(kind, value)

    def _gather_others(self) -> list[Any]:
        """Return the writer's next group without those of the kind, or these once all are there; [] at the end."""
        while len(self._kept) < self._many:
            if not (group := self._gather()):
                return []
            kept = [item for item in group if any(item.value is value for value in self._values)]
            self._kept += kept
            if others := [item for item in group if item not in kept]:
                return others
        complete, self._kept = self._kept, []
        return complete
