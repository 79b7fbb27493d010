"""Listening socket of tests that speak bytes: each connection has a thread."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable


class ConnectionServer:
    """Run `talk` on each connection in a thread, and close the connection when it returns.

    `connections`: number of connections so far.
    """

    def __init__(self, talk: Callable[[socket.socket], None], host: str = "127.0.0.1", port: int = 0) -> None:
        self._talk, self._socket = talk, socket.create_server((host, port), backlog=128)
        self.port: int = self._socket.getsockname()[1]
        self.connections = 0
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                connection, _ = self._socket.accept()
                self.connections += 1
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        with contextlib.suppress(OSError), connection:
            self._talk(connection)

    def close(self) -> None:
        """Stop listening.

        The shutdown ends the thread's wait: a socket that is only closed is waited for by its number, which belongs to
        the next one that is opened.
        """
        self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()
