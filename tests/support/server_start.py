"""Failing starts of `socialpub serve`."""

from __future__ import annotations

from tests.support.command_runner import CommandResult

SERVE = ("serve", "--port", "0", "--json")


def failed_start(ended: CommandResult, *words: str) -> None:
    assert ended.code == 1
    assert all(word in ended.error["message"] for word in words), ended.error["message"]
    assert ended.err.rstrip().splitlines()[-1] == f"socialpub: {ended.error['message']}"
