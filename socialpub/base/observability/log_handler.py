"""Logging to standard error from a thread of its own, so that no request waits for a slow reader.

The queue is bounded. While it is full, further records are dropped and counted, and the next line that can be written
tells the number; RESERVED places are for warnings and errors.
"""

from __future__ import annotations

import copy
import logging
import logging.handlers
import queue
import sys
import threading
from typing import TextIO

QUEUE_MAX = 4000  # records
QUEUE_RESERVE = 1000  # places beyond these, for warnings and worse
FLUSH_SECONDS = 3.0  # at the end, with a reader that takes nothing
DROPPED_MESSAGE = "%d lines of the log were dropped: nobody took them in time"


class BackgroundHandler(logging.handlers.QueueHandler):
    """Hands records to a QueueListener, which writes them to `stream`."""

    def __init__(self, stream: TextIO) -> None:
        self._records: queue.Queue[logging.LogRecord] = queue.Queue()  # `enqueue` bounds it
        super().__init__(self._records)
        self._writer = _LogStreamHandler(stream)
        self._listener = logging.handlers.QueueListener(self._records, self._writer)
        self._listener.start()
        self._stopping: threading.Thread | None = None
        self._is_closed = False

    def setFormatter(self, fmt: logging.Formatter | None) -> None:
        super().setFormatter(fmt)
        self._writer.setFormatter(fmt)

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """The record, or a copy with its message and traceback as text where these may change until it is written."""
        arguments = record.args if isinstance(record.args, tuple) else (record.args,)
        if record.exc_info is None and all(type(argument) in _IMMUTABLE_TYPES for argument in arguments):
            return record
        mine = copy.copy(record)
        mine.msg, mine.args = record.getMessage(), None
        if record.exc_info:
            mine.exc_text, mine.exc_info = (
                record.exc_text or _TRACEBACK_FORMATTER.formatException(record.exc_info),
                None,
            )
        return mine

    def enqueue(self, record: logging.LogRecord) -> None:
        if self._is_closed:
            self._writer.handle(record)
        elif self._records.qsize() < QUEUE_MAX + (QUEUE_RESERVE if record.levelno >= logging.WARNING else 0):
            self._records.put_nowait(record)
        else:
            self._writer.count_dropped()

    def flush(self) -> None:
        """Wait until all that was logged is written, at most PATIENCE_SECONDS."""
        with self._records.all_tasks_done:
            self._records.all_tasks_done.wait_for(lambda: not self._records.unfinished_tasks, FLUSH_SECONDS)

    def close(self) -> None:
        """Write what is left, at most for PATIENCE_SECONDS; records that come later are written at once."""
        if self._stopping is None:
            self._stopping = threading.Thread(target=self._listener.stop, name="log-stop", daemon=True)
            self._stopping.start()
        self._stopping.join(FLUSH_SECONDS)
        self._is_closed = not self._stopping.is_alive()  # else each record would wait for the reader, too
        super().close()


class _LogStreamHandler(logging.StreamHandler[TextIO]):
    """Writes lines, and tells how many were dropped before."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__(stream)
        self._dropped, self._counting = 0, threading.Lock()

    def count_dropped(self, count: int = 1) -> None:
        with self._counting:
            self._dropped += count

    def emit(self, record: logging.LogRecord) -> None:
        super().emit(record)
        with self._counting:
            dropped, self._dropped = self._dropped, 0
        if dropped:
            self._tell(dropped)

    def _tell(self, dropped: int) -> None:
        told = logging.LogRecord(__name__, logging.WARNING, __file__, 0, DROPPED_MESSAGE, (dropped,), None)
        try:
            self.stream.write(self.format(told) + self.terminator)
            self.flush()
        except (OSError, ValueError):
            self.count_dropped(dropped)

    def handleError(self, record: logging.LogRecord) -> None:
        """Count a line that the stream does not take; report one that cannot be formatted, as usual."""
        if isinstance(sys.exc_info()[1], OSError | ValueError):
            self.count_dropped()
        else:
            super().handleError(record)


_IMMUTABLE_TYPES = (str, int, float, bool, type(None))
_TRACEBACK_FORMATTER = logging.Formatter()
