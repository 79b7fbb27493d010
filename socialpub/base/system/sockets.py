"""The socket that the web server listens on."""

from __future__ import annotations

import contextlib
import socket
import sys
from pathlib import Path

DEFER_ACCEPT_SECONDS = 30  # how long the kernel holds a connection without data; it rounds up


def listen(host: str, port: int) -> socket.socket:
    """Bind a socket for the web server; port 0 takes a free one.

    Raise OSError if the port is taken.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    bound = socket.socket(family, socket.SOCK_STREAM)
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        bound.bind((host, port))
    except OSError:
        bound.close()
        raise
    return bound


def set_defer_accept(listening: socket.socket) -> None:
    """Let the kernel hold connections until their first data arrives, if it can (Linux).

    Otherwise a thousand silent connections would be accepted one after another before the next request is read. Without
    SYN cookies they would fill the kernel's own queue, so then nothing is changed.
    """
    if sys.platform == "linux" and _has_syn_cookies():
        with contextlib.suppress(OSError):  # a kernel without the option
            listening.setsockopt(socket.IPPROTO_TCP, socket.TCP_DEFER_ACCEPT, DEFER_ACCEPT_SECONDS)


def _has_syn_cookies() -> bool:
    try:
        return Path("/proc/sys/net/ipv4/tcp_syncookies").read_text().strip() != "0"
    except OSError:
        return False
