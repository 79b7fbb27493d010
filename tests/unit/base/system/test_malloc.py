"""Return of freed heap memory to the operating system (malloc_trim)."""

from __future__ import annotations

import platform
import subprocess
import sys
import threading

import pytest

from socialpub.base.system import malloc
from tests.support.app_server import AppServer

# Threads take and free blocks that glibc does not give back by itself: above them, in each arena, one is still in use.
CODE = """
import os, threading
from socialpub.base.system import malloc

def used():
    return int(open("/proc/self/statm").read().split()[1]) * os.sysconf("SC_PAGESIZE")

kept, over = [], threading.Event()

def work():
    blocks = [b"x" * 60_000 for _ in range(500)]
    kept.append(b"y" * 60_000)
    del blocks
    over.wait()

threads = [threading.Thread(target=work, daemon=True) for _ in range(4)]
for thread in threads:
    thread.start()
while len(kept) < 4:
    over.wait(0.01)
over.wait(0.2)
before = used()
malloc.trim()
print(before - used())
"""


@pytest.mark.skipif(platform.libc_ver()[0] != "glibc", reason="only glibc keeps it so")
def test_what_threads_have_freed_goes_back() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, timeout=60, check=True)
    assert int(done.stdout) > 50_000_000


@pytest.mark.slow
def test_a_server_gives_back_on_a_timer(server: AppServer, monkeypatch: pytest.MonkeyPatch) -> None:
    given = threading.Event()
    monkeypatch.setattr(malloc, "trim", given.set)
    server.skip(60)
    assert given.wait(30)


def test_a_library_without_it_is_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(malloc, "_trim", None)
    malloc.trim()
