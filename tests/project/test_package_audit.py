"""Package audit, hash-locked installation, and the scanner for committed keys."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
import sys
import zipfile
from datetime import UTC, datetime
from pathlib import Path

import pytest
import yaml

from socialpub.base.security import crypto
from tests.support.release_files import module_of

ROOT = Path(__file__).parents[2]
CLEAN = {"name": "sanic", "version": "1", "vulns": []}
FOUND = {"name": "sanic", "version": "1", "vulns": [{"id": "PYSEC-1", "fix_versions": ["2"]}]}

SKIPPED = {"name": "peewee", "skip_reason": "not found"}


@pytest.mark.matrix
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


# --- A database that is kept as files ---

HERE = re.search(r"^sanic==(\S+)", (ROOT / "requirements.lock").read_text(), re.MULTILINE)
assert HERE
LOCKED = HERE[1]
TODAY = datetime.now(UTC).isoformat()


def advisory(*events: dict[str, str], name: str = "sanic", **more: object) -> dict[str, object]:
    """One that is about these versions of a package."""
    affected = {"package": {"ecosystem": "PyPI", "name": name}, "ranges": [{"type": "ECOSYSTEM", "events": events}]}
    return {"id": "PYSEC-2026-1", "aliases": ["CVE-2026-1"], "modified": TODAY, "affected": [affected], **more}


SAFE = advisory({"introduced": "0"}, {"fixed": "0.1"})
OF_ALL = {"introduced": "0"}


def audited(database: Path) -> tuple[int, str]:
    """How the audit ends with this database, and all that it says."""
    ended = subprocess.run(
        [str(ROOT / ".ci" / "audit")],
        env={"PATH": os.environ["PATH"], "AUDIT_DB": str(database)},
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return ended.returncode, ended.stdout + ended.stderr


@pytest.mark.parametrize(
    ("found", "status"),
    [
        (advisory(OF_ALL), 1),
        (advisory(OF_ALL, {"fixed": f"{LOCKED}.1"}), 1),
        (advisory(OF_ALL, {"fixed": LOCKED}), 0),
        (advisory({"introduced": LOCKED}), 1),
        (advisory({"introduced": f"{LOCKED}.1"}), 0),
        (advisory(OF_ALL, {"last_affected": LOCKED}), 1),
        (advisory(OF_ALL, {"last_affected": "1.0"}), 0),
        (advisory(OF_ALL, {"fixed": "1.0"}, {"introduced": LOCKED}, {"fixed": f"{LOCKED}.1"}), 1),
        (advisory(OF_ALL, {"fixed": "1.0"}, {"introduced": f"{LOCKED}.1"}), 0),
        (advisory(OF_ALL, name="Sanic"), 1),
        (advisory(OF_ALL, name="another"), 0),
        (advisory(OF_ALL, withdrawn=TODAY), 0),
        (advisory(affected=[{"package": {"ecosystem": "PyPI", "name": "sanic"}, "versions": ["1.0", LOCKED]}]), 1),
        (advisory(affected=[{"package": {"ecosystem": "PyPI", "name": "sanic"}, "versions": ["1.0", "old"]}]), 0),
        (advisory(affected=[{"package": {"ecosystem": "npm", "name": "sanic"}, "versions": [LOCKED]}]), 0),
        (advisory(affected=[{"package": {"ecosystem": "PyPI", "name": "sanic"}}]), 2),
        (advisory({"introduced": "whenever"}), 2),
    ],
)
def test_a_kept_database_finds_the_locked_versions_that_it_names(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], found: dict[str, object], status: int
) -> None:
    (tmp_path / "safe.json").write_text(json.dumps(SAFE))
    (tmp_path / "sanic").mkdir()
    (tmp_path / "sanic" / "found.json").write_text(json.dumps(found))
    locks = [ROOT / "requirements.lock", ROOT / "requirements-dev.lock"]
    ended, said = module_of("advisories").main(tmp_path, locks), "".join(capsys.readouterr())
    assert ended == status, said
    assert {0: "==> no locked package", 1: f"sanic {LOCKED}: PYSEC-2026-1 (CVE-2026-1)", 2: "AUDIT NOT DONE"}[
        status
    ] in said
    assert "OLD" not in said


def test_a_kept_database_is_a_zip_a_folder_of_json_or_one_of_yaml(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "all.zip", "w") as archive:
        archive.writestr("PYSEC-2026-1.json", json.dumps(advisory(OF_ALL)))
    (tmp_path / "vulns").mkdir()
    (tmp_path / "vulns" / "PYSEC-2026-1.yaml").write_text(yaml.safe_dump(advisory(OF_ALL)))
    for database in ("all.zip", "vulns"):
        ended, said = audited(tmp_path / database)
        assert ended == 1, said
        assert "1 advisories" in said


def test_a_kept_database_that_says_nothing_is_no_all_clear(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "a.json").write_text("{")
    (tmp_path / "not-a-zip.zip").write_text("<html>moved</html>")
    for database in ("missing.zip", "empty", "broken", "not-a-zip.zip"):
        ended, said = audited(tmp_path / database)
        assert (ended, "AUDIT NOT DONE" in said, "no locked package" in said) == (2, True, False), said


def test_an_old_database_says_so(tmp_path: Path) -> None:
    (tmp_path / "old.json").write_text(json.dumps(SAFE | {"modified": "2024-10-10T00:00:00Z"}))
    ended, said = audited(tmp_path)
    assert ended == 0
    assert "the newest of 2024-10-10" in said
    assert "THE DATABASE IS OLD" in said


def test_every_installation_is_by_hash_or_without_network() -> None:
    """But for the tools of the audit and of locking, which have a folder of their own and are no part of what runs."""
    lines = [line for name in ("Makefile", ".ci/run", ".ci/audit") for line in (ROOT / name).read_text().splitlines()]
    installs = [line for line in lines if "pip install" in line and ".venv-" not in line]
    assert len(installs) == 2
    assert all("--require-hashes" in line or "--no-index" in line for line in installs)


# --- Python ---


def test_least_python_is_stated_everywhere_and_older_ones_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    pattern = {
        "pyproject.toml": r'requires-python = ">=([\d.]+)"',
        "docs/security.md": r"supported Python is ([\d.]+):",
    }
    pattern |= dict.fromkeys(
        ("README.md", "docs/CONTRIBUTING.md", "Makefile"), r"Python ([\d.]+) (?:or newer|is needed)"
    )
    stated = {name: set(re.findall(found, (ROOT / name).read_text())) for name, found in pattern.items()}
    ((least,), *_) = stated.values()
    assert stated == dict.fromkeys(pattern, {least})
    asked = re.search(r"\$\(PYTHON\) -c '(.+)'", (ROOT / "Makefile").read_text())
    assert asked
    major, minor, patch = map(int, least.split("."))
    exec(asked[1])  # this one is new enough
    monkeypatch.setattr(sys, "version_info", (major, minor, patch))
    exec(asked[1])
    monkeypatch.setattr(sys, "version_info", (major, minor, patch - 1))
    with pytest.raises(SystemExit, match=f"Python {least} or newer"):
        exec(asked[1])


# --- Secret scanners ---


def patterns() -> list[re.Pattern[str]]:
    return [
        re.compile(found) for found in re.findall(r"regex = '''(.+)'''", (ROOT / "docs" / "security.md").read_text())
    ]


def test_secret_scanner_pattern_finds_every_key_and_nothing_shorter() -> None:
    assert patterns()
    for label in ("live", "test"):
        for _ in range(200):
            key = crypto.generate_api_key(f"svc_{label}_", secrets.token_bytes)
            for pattern in patterns():
                found = pattern.search(f'key = "{key}"')
                assert found
                assert found[1] == key
                assert not pattern.search(key[:-1])
                assert not pattern.search(f"{key}x")


def test_no_key_stands_in_the_repository() -> None:
    made = {"__pycache__", "dist", "build", "media"} | {path.name for path in ROOT.glob(".*") if path.name != ".ci"}
    tops = [path for path in ROOT.iterdir() if path.name not in made]
    found = (path for top in tops for path in (top, *top.rglob("*")) if not made & set(path.parts[len(ROOT.parts) :]))
    files = [path for path in found if path.is_file()]
    assert len(files) > 500
    texts = {path: path.read_text(encoding="utf-8", errors="replace") for path in files}
    assert [path for path, text in texts.items() for pattern in patterns() if pattern.search(text)] == []


def test_the_hook_refuses_a_commit_with_a_key_and_no_other(tmp_path: Path) -> None:
    def git(*arguments: str) -> subprocess.CompletedProcess[str]:
        named = ["-c", "user.name=t", "-c", "user.email=t@t", "-c", f"core.hooksPath={ROOT / '.ci' / 'hooks'}"]
        return subprocess.run(["git", *named, *arguments], cwd=tmp_path, capture_output=True, text=True, check=False)

    key = crypto.generate_api_key("svc_live_", secrets.token_bytes)
    git("init", "--quiet")
    for content, allowed in (
        (f"{key[:-1]}\n", True),
        (f"KEY={key}\n", False),
        (f'key: "{key}"\n', False),
        ("\n", True),
    ):
        (tmp_path / "settings").write_text(content)
        git("add", "settings")
        ended = git("commit", "--quiet", "--message", "a change")
        assert (ended.returncode == 0, "adds an API key" in ended.stderr) == (allowed, not allowed), ended.stderr
    (tmp_path / "settings").write_text(f"{key}\n")
    git("add", "settings")
    git("commit", "--quiet", "--no-verify", "--message", "past the hook")
    (tmp_path / "settings").write_text("taken out\n")
    git("add", "settings")
    assert git("commit", "--quiet", "--message", "taken out again").returncode == 0
