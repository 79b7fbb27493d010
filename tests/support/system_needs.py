"""Skips for tests that need system rights or tools."""

from __future__ import annotations

import subprocess
from typing import Any

import pytest


def skip_without(*command: str, **more: Any) -> None:
    """Skip, with the reason, where this machine does not let us set the stage."""
    try:
        tried = subprocess.run(command, capture_output=True, text=True, check=False, **more)
    except OSError as error:
        pytest.skip(f"{command[0]}: {error}")
    if tried.returncode:
        pytest.skip(f"{command[0]}: {tried.stderr.strip()}")
