"""The log, written by a thread of its own: whoever says something never waits for whoever reads standard error.

What was said waits in memory, so many records at most. Where nobody takes them, what is said further is dropped and
counted, and the next line that can be written tells the number; some places are kept for warnings and errors.

Not a QueueListener: that wakes for each record, which costs the one who speaks more than the line itself.
"""

from __future__ import annotations

import copy
import logging
import threading
from collections import deque
from collections.abc import Iterable
from typing import TextIO

WAITING = 4000  # records
RESERVED = 1000  # places beyond these, for warnings and worse
AT_ONCE = 200  # lines of one write
PAUSE_SECONDS = 0.02  # between two turns
PATIENCE_SECONDS = 3.0  # at the end, with whoever takes nothing
LOST = "%d lines of the log were dropped: nobody took them in time"
_PLAIN = (str, int, float, bool, type(None))


class Settled(logging.LogRecord):
    """A record whose arguments are plain values. It is made from another of its kind, without looking who speaks."""

    def __init__(self, kind: logging.LogRecord, created_ms: int, arguments: tuple[object, ...]) -> None:
        own = kind.__dict__.copy()  # for each request has one: a copy takes half of what filling a new one does
        own["args"], own["created"], own["msecs"] = arguments, created_ms / 1000, created_ms % 1000
        self.__dict__ = own


def kind_of(log: logging.Logger, file: str, words: str, names: tuple[str, ...]) -> logging.LogRecord:
    """What all lines of a kind have in common, at level INFO: the module that says them, the words, and what their
    arguments are called in logs that programs read.
    """
    kind = logging.LogRecord(log.name, logging.INFO, file, 0, words, None, None)
    kind.names = names
    return kind


class Behind(logging.Handler):
    """Writes to `stream` behind the back of whoever logs."""

    def __init__(self, stream: TextIO) -> None:
        super().__init__()
        self._stream = stream
        self._waiting: deque[logging.LogRecord] = deque()
        self._taken = self._done = 0  # records that were let in, and that are written or given up
        self._lost = self._lost_told = 0
        self._ended = False
        self._roused, self._hurried = threading.Event(), threading.Event()
        self._progress = threading.Condition()
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        """Let the record in where there is room; after the end, write it. The caller holds the handler's lock."""
        if self._ended:
            if self._done >= self._taken:  # else somebody still waits for the reader, and so would this
                self._write([record])
            return
        most = WAITING if record.levelno < logging.WARNING else WAITING + RESERVED
        if len(self._waiting) >= most:
            self._lost += 1
            return
        self._taken += 1
        self._waiting.append(settled(record))
        if not self._roused.is_set():
            self._roused.set()

    def flush(self) -> None:
        """Wait until all that was said is written, as long as somebody takes it."""
        said = self._taken
        with self._progress:
            self._hurried.set()
            self._roused.set()
            self._progress.wait_for(lambda: self._done >= said, PATIENCE_SECONDS)
            self._hurried.clear()

    def close(self) -> None:
        self.flush()
        self._ended = True
        self._roused.set()
        super().close()

    def _run(self) -> None:
        while not self._ended:
            self._roused.wait()
            self._roused.clear()
            while self._waiting:
                self._write_some()
            self._hurried.wait(PAUSE_SECONDS)

    def _write_some(self) -> None:
        records = [self._waiting.popleft() for _ in range(min(AT_ONCE, len(self._waiting)))]
        self._write(records)
        with self._progress:
            self._done += len(records)
            self._progress.notify_all()

    def _write(self, records: list[logging.LogRecord]) -> None:
        lost = self._lost - self._lost_told
        told = logging.LogRecord(__name__, logging.WARNING, __file__, 0, LOST, (lost,), None)
        text = "".join(self._lines([*records, told] if lost else records))
        try:
            self._stream.write(text)
            self._stream.flush()
        except (OSError, ValueError):  # there is no standard error any more, or nobody at its other end
            self._lost_told -= len(records)
        else:
            self._lost_told += lost

    def _lines(self, records: Iterable[logging.LogRecord]) -> Iterable[str]:
        for record in records:
            try:
                yield f"{self.format(record)}\n"
            except Exception:  # noqa: BLE001 - a line that cannot be made, of whatever it is made, stops no other
                self.handleError(record)


def settled(record: logging.LogRecord) -> logging.LogRecord:
    """The record, as it will still be when it is written: nothing in it changes, and nothing large is held by it."""
    if isinstance(record, Settled):
        return record
    arguments = record.args if isinstance(record.args, tuple) else (record.args,)
    if record.exc_info is None and all(type(argument) in _PLAIN for argument in arguments):
        return record
    mine = copy.copy(record)
    mine.msg, mine.args = record.getMessage(), None
    if record.exc_info:
        mine.exc_text, mine.exc_info = record.exc_text or _EXPLAINS.formatException(record.exc_info), None
    return mine


_EXPLAINS = logging.Formatter()
