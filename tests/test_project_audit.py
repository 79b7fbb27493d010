"""The audit of the locked packages: a finding fails, an unreachable database is told and does not."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
from pathlib import Path

import pytest

from socialpub.base import crypto

ROOT = Path(__file__).parents[1]
CLEAN = {"name": "sanic", "version": "1", "vulns": []}
FOUND = {"name": "sanic", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}]}

SKIPPED = {"name": "peewee", "skip_reason": "not found"}


@pytest.mark.parametrize(
    "answer,ends,status,says",
    [
        ([CLEAN], 0, 0, "no locked package"),
        ([CLEAN, FOUND], 1, 1, "has a known vulnerability"),
        (None, 1, 0, "AUDIT NOT DONE"),
        ([], 0, 0, "AUDIT NOT DONE"),
        ([CLEAN, SKIPPED], 0, 0, "AUDIT NOT DONE"),
        ([SKIPPED, FOUND], 1, 1, "has a known vulnerability"),
    ],
)
def test_the_audit_fails_for_a_finding_only(
    tmp_path: Path, answer: list[object] | None, ends: int, status: int, says: str
) -> None:
    writes = "" if answer is None else f"echo '{json.dumps({'dependencies': answer})}' > \"$last\"\n"
    tool = tmp_path / "pip-audit"
    tool.write_text(f"#!/bin/sh\nfor last; do :; done\n{writes}exit {ends}\n")
    tool.chmod(0o700)
    environment = {"PATH": os.environ["PATH"], "PIP_AUDIT": str(tool)}
    ended = subprocess.run(
        [str(ROOT / ".ci" / "audit")], env=environment, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.returncode == status
    assert says in ended.stdout + ended.stderr


def test_the_pattern_for_secret_scanners_finds_every_key_and_nothing_shorter() -> None:
    text = (ROOT / "docs" / "security.md").read_text()
    patterns = re.findall(r"regex = '''(.+)'''", text)
    assert patterns
    for label in ("live", "test"):
        for _ in range(200):
            key = crypto.mint_key(f"svc_{label}_", secrets.token_bytes)
            for pattern in patterns:
                found = re.search(pattern, f'key = "{key}"')
                assert found
                assert found[1] == key
                assert not re.search(pattern, key[:-1])
                assert not re.search(pattern, f"{key}x")
