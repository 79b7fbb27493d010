"""What rarely changes, kept in memory for as long as it has not: who may ask, which accounts there are, who is told.

Each of those tables has temporary triggers on the one connection that writes, so that no change of this process is
missed, whoever makes it. A command that runs beside the server commits by itself, and that shows in the wal-index,
where each commit is counted: what is one more than our own is somebody else's, and may have changed anything.
"""

from __future__ import annotations

import itertools
import sqlite3

from socialpub.store.place import Place
from socialpub.store.statements import settled


class Settled:
    """`version` is another once something that rarely changes may have changed.

    Any thread may ask. In a transaction it is that of what the transaction sees; elsewhere, of what is committed: what
    is read after the version was asked for is at least as new.
    """

    def __init__(self, place: Place) -> None:
        self._place = place
        self._versions = itertools.count(1)
        self._version = next(self._versions)
        self._before = -1  # how many commits there were when the transaction began
        self._counts = (-1, -1)  # how many commits there are, or will be in a moment, of which `_version` knows
        self._touched = self._undone = False  # some of it, and a part of the transaction, in the one that is open

    @property
    def version(self) -> int:
        self._notice()
        return self._version

    def _notice(self) -> int:
        """How many commits there are; whether somebody else has made one of them is known from now on."""
        count = self._place.count()
        if count not in self._counts:
            self._counts = (count, count)
            self._renew()
        return count

    def watch(self, connection: sqlite3.Connection) -> None:
        """Hear of each change that is made with this connection, the only one of this process that makes any."""
        connection.create_function("settled_changed", 0, self._touch)
        for text in settled.WATCH:
            connection.execute(text)

    def began(self) -> None:
        """A transaction has begun, so that nobody else can commit: the next commit is its own."""
        self._before = self._notice()
        self._counts = (self._before, self._before + 1)

    def undone(self) -> None:
        """Something of the transaction was undone: what was read in it may never have been so."""
        self._undone = True
        if self._touched:
            self._renew()

    def ended(self, *, wrote: bool) -> None:
        """The transaction is over. Whether one of which a part was undone has written anything, nobody can tell: its
        commit is taken for somebody else's.
        """
        count = self._before + (wrote and not self._undone)
        self._counts, self._undone = (count, count), False
        if self._touched:
            self._touched = False
            self._renew()

    def _touch(self) -> None:
        self._touched = True
        self._renew()

    def _renew(self) -> None:
        self._version = next(self._versions)
