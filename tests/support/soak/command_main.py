"""CLI command runner for subprocesses, with the test-only platforms registered."""

from __future__ import annotations

# Commands are read when they are asked for. The shapes are those of the program's own platforms: they come first.
import socialpub.domain.schemas.posts  # noqa: F401
from socialpub.commands import cli
from tests.support.soak import extra_platforms

if __name__ == "__main__":
    extra_platforms.register()
    cli.program()
