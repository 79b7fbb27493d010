"""Free TCP ports outside the range that the kernel assigns to other connections."""

from __future__ import annotations

import contextlib
import random
import socket
from collections.abc import Iterator

FIRST, LAST = 20_000, 32_767  # Linux gives those after these to who asks for any


def free_port() -> int:
    """One that is free, and stays it between a server's end and its next start."""
    return free_ports(1)


def free_ports(count: int) -> int:
    """The first of so many free ports in a row."""
    for _ in range(1_000):
        first = random.SystemRandom().randrange(FIRST, LAST + 1 - count)
        with contextlib.ExitStack() as stack:
            try:
                for port in range(first, first + count):
                    stack.enter_context(socket.create_server(("127.0.0.1", port)))
            except OSError:
                continue
            return first
    raise AssertionError("no free ports")


@contextlib.contextmanager
def unused_address() -> Iterator[str]:
    """An address at which nobody listens, and nobody will while the block runs."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"
