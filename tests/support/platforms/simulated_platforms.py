"""Platforms whose simulator a test file needs."""

from __future__ import annotations

import re
from pathlib import Path

from socialpub.simulator.registry import FAKES

_META = ("facebook", "instagram", "threads")


def find_simulated_platforms(file: Path) -> tuple[str, ...]:
    """The platforms that the file's name or folder names, or all: each takes 5 ms of the processor to start."""
    words = re.split(r"[_.]", f"{file.parent.name}_{file.name}")
    return _META if "meta" in words else tuple(name for name in FAKES if name in words) or tuple(FAKES)
