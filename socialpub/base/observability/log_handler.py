"""Logging to standard error from a background thread.

A slow reader of standard error delays no request. The queue is bounded: while it is full, records are dropped and
counted, and a later line reports the number; QUEUE_RESERVE slots are for warnings and errors.
"""

from __future__ import annotations

import copy
import logging
import logging.handlers
import queue
import threading
from collections.abc import Callable, Sequence
from typing import Any, TextIO

QUEUE_MAX = 4000  # records
QUEUE_RESERVE = 1000  # more records, if they are warnings or errors
LINES_MAX = 100  # written by one call
GATHER_SECONDS = 0.02  # between the first record and the writing, for those that follow it
FLUSH_SECONDS = 3.0  # how long the exit waits for a stalled reader
DROPPED_MESSAGE = "%d log lines were dropped: standard error was read too slowly"


class BackgroundHandler(logging.handlers.QueueHandler):
    """Passes records to a QueueListener, which writes them to `stream`."""

    def __init__(self, stream: TextIO) -> None:
        self._records: queue.SimpleQueue[Any] = queue.SimpleQueue()  # `enqueue` bounds it
        super().__init__(self._records)
        self._writer = _LogStreamHandler(stream, self._records.empty)
        self._listener = _LogListener(self._records, self._writer)
        self._listener.start()
        self._stopping: threading.Thread | None = None
        self._is_closed = False

    def setFormatter(self, fmt: logging.Formatter | None) -> None:
        super().setFormatter(fmt)
        self._writer.setFormatter(fmt)

    def prepare(self, record: logging.LogRecord) -> logging.LogRecord:
        """Return the record, or a formatted copy if it must not be formatted later.

        That is so for mutable arguments and tracebacks.
        """
        arguments = record.args if isinstance(record.args, tuple) else (record.args,)
        if record.exc_info is None and all(type(argument) in _IMMUTABLE_TYPES for argument in arguments):
            return record
        frozen = copy.copy(record)
        frozen.msg, frozen.args = record.getMessage(), None
        if record.exc_info:
            frozen.exc_text = record.exc_text or _TRACEBACK_FORMATTER.formatException(record.exc_info)
            frozen.exc_info = None
        return frozen

    def enqueue(self, record: logging.LogRecord) -> None:
        if self._is_closed:
            self._writer.handle(record)
        elif self._records.qsize() < QUEUE_MAX + (QUEUE_RESERVE if record.levelno >= logging.WARNING else 0):
            self._records.put_nowait(record)
        else:
            self._writer.count_dropped()

    def flush(self) -> None:
        """Wait until every queued record is written, at most FLUSH_SECONDS."""
        if not self._is_closed:
            written = threading.Event()
            self._records.put(written)
            written.wait(FLUSH_SECONDS)

    def close(self) -> None:
        """Write the queued records, for at most FLUSH_SECONDS; later records are written at once."""
        if self._stopping is None:
            self._stopping = threading.Thread(target=self._listener.stop, name="log-stop", daemon=True)
            self._stopping.start()
        self._stopping.join(FLUSH_SECONDS)
        self._is_closed = not self._stopping.is_alive()  # else each record would wait for the reader
        super().close()


class _LogListener(logging.handlers.QueueListener):
    """Writes the queued records. An event among them is set once those before it are written."""

    def __init__(self, records: queue.SimpleQueue[Any], writer: _LogStreamHandler) -> None:
        super().__init__(records, writer)
        self._records, self._writer = records, writer
        self._is_stopping = threading.Event()

    def dequeue(self, block: bool) -> Any:
        """Return the next record. After an idle time, let the records of GATHER_SECONDS follow it.

        A thread that wakes for each record takes the interpreter lock from the event loop in each request: to read one
        post then took 30 % more processor time.
        """
        is_idle = block and self._records.empty()
        record = self._records.get(block)
        if is_idle and isinstance(record, logging.LogRecord):
            self._is_stopping.wait(GATHER_SECONDS)
        return record

    def handle(self, record: logging.LogRecord | threading.Event) -> None:
        if isinstance(record, threading.Event):
            self._writer.flush()
            record.set()
        else:
            super().handle(record)

    def stop(self) -> None:
        self._is_stopping.set()
        super().stop()
        self._writer.flush()


class _LogStreamHandler(logging.Handler):
    """Writes the lines that wait by one call, and reports how many were dropped before.

    A call for each line would take the interpreter lock from the event loop twice a request.
    """

    def __init__(self, stream: TextIO, is_last: Callable[[], bool]) -> None:
        super().__init__()
        self._stream, self._is_last = stream, is_last
        self._lines: list[str] = []
        self._dropped, self._count_lock = 0, threading.Lock()

    def count_dropped(self, count: int = 1) -> None:
        with self._count_lock:
            self._dropped += count

    def emit(self, record: logging.LogRecord) -> None:
        try:
            self._lines.append(f"{self.format(record)}\n")
        except Exception:  # noqa: BLE001 - as every handler of `logging` does
            self.handleError(record)
        if self._is_last() or len(self._lines) >= LINES_MAX:
            self.flush()

    def flush(self) -> None:
        """Write the lines; those that the stream refuses count as dropped."""
        lines, self._lines = self._lines, []
        if not self._write(lines):
            return
        with self._count_lock:
            dropped, self._dropped = self._dropped, 0
        if dropped:
            report = logging.LogRecord(__name__, logging.WARNING, __file__, 0, DROPPED_MESSAGE, (dropped,), None)
            if not self._write([f"{self.format(report)}\n"]):
                self.count_dropped(dropped - 1)

    def _write(self, lines: Sequence[str]) -> bool:
        try:
            self._stream.write("".join(lines))
            self._stream.flush()
        except (OSError, ValueError):
            self.count_dropped(len(lines))
            return False
        return True


_IMMUTABLE_TYPES = (str, int, float, bool, type(None))
_TRACEBACK_FORMATTER = logging.Formatter()
