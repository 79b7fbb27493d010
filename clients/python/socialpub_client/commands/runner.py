"""Run a command over the API: result or error, exit code."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from socialpub_client.commands.click_types import ApiOptions


def run(command: Callable[[ApiOptions], Any], options: ApiOptions) -> int:
    """Run one command and return its exit code."""
    return int(command(options))
