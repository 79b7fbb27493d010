"""Runs of `socialpub apply` in the process of a test."""

from __future__ import annotations

from socialpub_client import Socialpub
from socialpub_client.apply import command
from socialpub_client.apply.command import ApplyRequest
from socialpub_client.commands import runner
from socialpub_client.commands.click_types import ApiOptions


def run_apply(sp: Socialpub, request: ApplyRequest, *, json: bool = False) -> int:
    """Run the command with this client; return its exit code."""
    return runner.run(lambda _: command.run(sp, request), ApiOptions(json=json, quiet=False))
