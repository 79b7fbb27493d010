"""What the type checker finds, shown by type-checking what is wrong: a dict that is sent has its keys, all of them."""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from tests.laws import all_hold

ROOT = Path(__file__).parents[1]

HEADER = """\
from typing import Any

from socialpub.domain.accounts import accounts, boards
from socialpub.domain.media import library
from socialpub.domain.posts import batches, postlog
from socialpub.domain.shapes.errors import ErrorBody, envelope, error_body
from socialpub.domain.shapes.events import PostFailed
from socialpub.domain.shapes.posts import BatchBody, CanceledBody, PostBody, PostDetail
from socialpub.web.api import catalogue
"""
POST = """\
answer: PostBody = {
    "id": "", "batchId": "", "profileId": "", "accountId": "", "platform": "", "status": "queued", "text": "",
    "account": {"id": "", "platform": "", "platformAccountId": "", "displayName": None},
    "mediaRefs": [], "scheduledAt": None, "nextAttemptAt": None, "publishedAt": None, "platformUri": None,
    "platformCid": None, "url": None, "warnings": [], "createdAt": "", "updatedAt": "",
}
"""
MISSING, UNKNOWN = "typeddict-item", "typeddict-unknown-key"

# By what it shows: some lines of Python, and the kinds of error that they have.
CASES: dict[str, tuple[str, set[str]]] = {
    "a post as it should be": (POST, set()),
    "a post with its error": (f'{POST}answer["error"] = {{"code": "", "message": "", "docUrl": ""}}', set()),
    "a misspelt key": (POST.replace("batchId", "bathcId"), {MISSING, UNKNOWN}),
    "a misspelt key further in": (POST.replace("displayName", "display_name"), {MISSING, UNKNOWN}),
    "a key too few": (POST.replace('"batchId": "",', ""), {MISSING}),
    "a key too many": (POST.replace('"text": "",', '"text": "", "title": "",'), {UNKNOWN}),
    "a value of another type": (POST.replace('"text": ""', '"text": 1'), {MISSING}),
    "null where it cannot be": (POST.replace('"text": ""', '"text": None'), {MISSING}),
    "a status that there is not": (POST.replace("queued", "cancelled"), {MISSING}),
    "a misspelt key that is added": (f'{POST}answer["eror"] = {{}}', {UNKNOWN}),
    "a misspelt key that is read": (f'{POST}print(answer["bathcId"])', {MISSING}),
    "a misspelt key of what another answer has more": (
        f'{POST}more: PostDetail = {{**answer, "firstComment": None, "attemps": []}}',
        {MISSING, UNKNOWN},
    ),
    "a misspelt key of an event": (
        """\
        event: PostFailed = {
            "id": "", "batchId": "", "platform": "", "accountId": "", "profileId": "", "scheduledAt": None,
            "failedAt": "", "error": {"code": "", "message": "", "docUrl": ""}, "wilRetry": False,
            "nextAttemptAt": None,
        }
        """,
        {MISSING, UNKNOWN},
    ),
    "a misspelt key of an error": ('error: ErrorBody = {"code": "", "mesage": "", "docUrl": ""}', {MISSING, UNKNOWN}),
    "an answer for another": ('def run(found: CanceledBody) -> BatchBody:\n    return found', {"return-value"}),
} | {
    # What is sent comes from functions that say what they make.
    f"a misspelt key of {call}": (f'given: Any = None\nprint({call}["bathcId"])', {MISSING})
    for call in (
        "accounts.body(given)",
        "accounts.list_bodies(given)[0]",
        "batches.batch_body(given, given)",
        "boards.body(given, given)",
        "catalogue.error_bodies(given)[0]",
        "catalogue.platform_body(given, given)",
        "catalogue.rule_bodies(given)[0]",
        'envelope(given, given, given)["error"]',
        "error_body(given, given)",
        "library.body(given, given)",
        "library.page(given, given, given)",
        "postlog.body(given, given)",
        "postlog.detail(given, given)",
        "postlog.one(given, given)",
        "postlog.page(given, given, given)",
    )
}  # fmt: skip


def _kinds_of_error(file: Path) -> Mapping[str, set[str]]:
    """By case, from one run over all of them with the project's own settings."""
    text, begins = HEADER, {}
    for number, (name, (lines, _)) in enumerate(CASES.items()):
        text += f"\n\ndef case_{number}() -> None:\n"
        begins[text.count("\n")] = name
        text += textwrap.indent(textwrap.dedent(lines), "    ")
    file.write_text(text, encoding="utf-8")
    command = [
        sys.executable,
        "-m",
        "mypy",
        "--config-file",
        str(ROOT / "pyproject.toml"),
        "--output",
        "json",
        str(file),
    ]
    run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stdout + run.stderr
    kinds: dict[str, set[str]] = defaultdict(set)
    for error in map(json.loads, run.stdout.splitlines()):
        assert Path(error["file"]).name == file.name, error  # of the same text in another folder, if it is kept
        if error["severity"] == "error":
            kinds[begins[max(begin for begin in begins if begin < error["line"])]].add(error["code"])
    return kinds


def test_the_type_checker_finds_what_is_wrong_with_an_answer(tmp_path: Path) -> None:
    found = _kinds_of_error(tmp_path / "wrong.py")

    def check(name: str) -> None:
        assert found.get(name, set()) == CASES[name][1]

    all_hold(list(CASES), check)
