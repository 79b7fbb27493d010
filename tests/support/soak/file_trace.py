"""Recorder of a server's file system calls, and the file states after a power cut."""

from __future__ import annotations

import random
import re
import struct
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

_HEAD = struct.Struct("=ccQQ")
SECTOR = 512
NAMES = {"d": "socialpub.db", "w": "socialpub.db-wal"}


def build_recorder(folder: Path) -> Path:
    """The shared library of syscall_recorder.c."""
    library = folder / "record.so"
    source = Path(__file__).with_name("syscall_recorder.c")
    subprocess.run(["gcc", "-shared", "-fPIC", "-O1", "-o", library, source, "-ldl", "-lpthread"], check=True)
    return library


@dataclass(frozen=True)
class FileStep:
    """W write, T truncate, F sync; of the file d(atabase) or w(al). S: sent over a socket."""

    kind: str
    file: str
    offset: int
    data: bytes


def read_trace(path: Path) -> list[FileStep]:
    return list(_steps(path.read_bytes()))


def _steps(content: bytes) -> Iterator[FileStep]:
    at = 0
    while at + _HEAD.size <= len(content):
        kind, file, offset, size = _HEAD.unpack_from(content, at)
        at += _HEAD.size
        yield FileStep(kind.decode(), file.decode(), offset, content[at : at + size])
        at += size


_POST = re.compile(rb'"postId":"([0-9a-f-]{36})"')


def acknowledged_posts(step: FileStep) -> set[str]:
    """The posts whose acceptance this step told a client."""
    if step.kind != "S" or not step.data.startswith(b"HTTP/1.1 20"):
        return set()
    return {found.decode() for found in _POST.findall(step.data)}


@dataclass
class TracedFile:
    """One file: what is surely on the disk, and what was written since the last sync."""

    durable: bytearray
    pending: list[FileStep] = field(default_factory=list)

    def take(self, step: FileStep) -> None:
        if step.kind == "F":
            for waiting in self.pending:
                _apply(self.durable, waiting, None)
            self.pending.clear()
        else:
            self.pending.append(step)

    def after_power_cut(self, chance: random.Random) -> bytes:
        """Everything synced; of the rest nothing, a part in any order, or all but a torn last write."""
        left, how = bytearray(self.durable), chance.randrange(4)
        if how == 0:
            return bytes(left)
        kept = self.pending if how == 1 else [step for step in self.pending if chance.random() < 0.5]
        for step in kept:
            torn = chance.randrange(0, len(step.data) + 1, SECTOR) if how == 3 and step.data else None
            _apply(left, step, torn)
        return bytes(left)


def _apply(content: bytearray, step: FileStep, size: int | None) -> None:
    if step.kind == "T":
        if step.offset < len(content):
            del content[step.offset :]
        else:
            content.extend(bytes(step.offset - len(content)))
        return
    data = step.data if size is None else step.data[:size]
    if step.offset > len(content):
        content.extend(bytes(step.offset - len(content)))
    content[step.offset : step.offset + len(data)] = data
