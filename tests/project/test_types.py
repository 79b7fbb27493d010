"""mypy finds wrong keys and types in response bodies and database rows.

One run checks all examples, in the slow suite: it takes ten seconds. A dict that is sent has its keys, all of them. A
row has its table's columns: a misspelt one, another table's, one that may be null and a wrong change are found.
"""

from __future__ import annotations

import json
import subprocess
import sys
import textwrap
from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.support.table_checks import check_rows

ROOT = Path(__file__).parents[2]

# --- Answers -------------------------------------------------------------------------------------------------------

ANSWERS = """\
from typing import Any

from socialpub.domain.accounts import accounts, boards
from socialpub.domain.media import library
from socialpub.domain.posts import batches, post_log
from socialpub.domain.schemas.errors import ErrorBody, build_envelope, build_error_body
from socialpub.domain.schemas.events import PostFailed
from socialpub.domain.schemas.posts import BatchBody, CanceledBody, PostBody, PostDetail
from socialpub.web.api import catalogue
"""
POST = """\
answer: PostBody = {
    "id": "", "batchId": "", "externalId": None, "profileId": "", "accountId": "", "platform": "",
    "status": "queued", "text": "",
    "account": {"id": "", "platform": "", "platformAccountId": "", "displayName": None},
    "mediaRefs": [], "scheduledAt": None, "nextAttemptAt": None, "publishedAt": None, "platformUri": None,
    "platformCid": None, "url": None, "warnings": [], "threadOf": None, "threadPosition": None,
    "createdAt": "", "updatedAt": "",
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
        "accounts.to_body(given)",
        "accounts.list_bodies(given)[0]",
        "batches.load_body(given)",
        "boards.to_body(given, given)",
        "catalogue.error_bodies(given)[0]",
        "catalogue.platform_body(given, given)",
        "catalogue.rule_bodies(given)[0]",
        'build_envelope(given, given, given)["error"]',
        "build_error_body(given, given)",
        "library.to_body(given, given)",
        "library.load_page(given, given, given)",
        "post_log.load_body(given, given)",
    )
}  # fmt: skip

# --- Rows ----------------------------------------------------------------------------------------------------------

ROWS = """
from socialpub.domain import post_states
from socialpub.domain.publishing import intents, lookup_schedule
from socialpub.platforms.contract import KEY
from socialpub.store.database import Tx
from socialpub.store.schema.models import Account, Post, find_row, find_row_where, find_rows, get_row
from socialpub.store.rows import AccountRow, AttemptRow, IntentRow, PostRow
"""
GIVEN = (
    "intent: IntentRow, attempt: AttemptRow, post: PostRow, account: AccountRow, snapshot: intents.RunSnapshot, tx: Tx"
)
RIGHT = (
    'intent["sent_at"]',
    'intent["refusal"] or "none"',
    "intents._update(tx, intent, looks=1, answered=True)",
    'get_row(Post, "p")["text"]',
    "lookup_schedule.find_due_time(KEY.checks, intent, 0)",
    "post_states.is_completed_remotely(post)",
    'snapshot.post["draft_at"]',
)
WRONG = (
    ('intent["sentt_at"]', 'TypedDict "IntentRow" has no key "sentt_at"'),
    ('intent["text"]', 'TypedDict "IntentRow" has no key "text"'),
    ('intent["refusal"].upper()', 'Item "None" of "str | None" has no attribute "upper"'),
    ('intent["looks"] + "1"', "Unsupported operand types for +"),
    ("intents._update(tx, intent, look=1)", 'Unexpected keyword argument "look" for "_update"'),
    ('intents._update(tx, intent, looks="1")', 'Argument "looks" to "_update" has incompatible type "str"'),
    ('attempt["error"]', 'TypedDict "AttemptRow" has no key "error"'),
    ('post["draft"]', 'TypedDict "PostRow" has no key "draft"'),
    ('account["secrets"]', 'TypedDict "AccountRow" has no key "secrets"'),
    ('get_row(Account, "a")["text"]', 'TypedDict "AccountRow" has no key "text"'),
    ('find_rows(Post)[0]["platform_url"]', 'TypedDict "PostRow" has no key "platform_url"'),
    ('find_row_where(Post)["text"]', 'Value of type "PostRow | None" is not indexable'),
    ('find_row(Post, "p")["text"]', 'Value of type "PostRow | None" is not indexable'),
    ("lookup_schedule.find_due_time(KEY.checks, post, 0)", 'incompatible type "PostRow"; expected "IntentRow"'),
    ("post_states.is_completed_remotely(intent)", 'incompatible type "IntentRow"; expected "PreparedColumns"'),
    ('snapshot.open_intent["plan"]', 'Value of type "IntentRow | None" is not indexable'),
    ('snapshot.post["tryes"]', 'TypedDict "PostRow" has no key "tryes"'),
)

# --- One run -------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Found:
    kinds: Mapping[str, set[str]]
    """Of each wrong case of the answers, the kinds of its errors."""
    messages: Mapping[int, str]
    """Of each wrong line with rows, its error; the right lines are counted first."""


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Found:
    """What mypy says of both files, with the project's own settings."""
    folder = tmp_path_factory.mktemp("types")
    answers, rows = folder / "wrong_answers.py", folder / "wrong_rows.py"
    begins, first = _write_answers(answers), _write_rows(rows)
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), "--output", "json"]
    run = subprocess.run([*command, str(answers), str(rows)], cwd=ROOT, capture_output=True, text=True, check=False)
    assert run.returncode == 1, run.stdout + run.stderr
    kinds: dict[str, set[str]] = defaultdict(set)
    messages: list[tuple[int, str]] = []
    for error in map(json.loads, run.stdout.splitlines()):
        name = Path(error["file"]).name  # mypy names another folder where it has kept the same text
        assert name in (answers.name, rows.name), error
        if error["severity"] != "error":
            continue
        if name == answers.name:
            kinds[begins[max(begin for begin in begins if begin < error["line"])]].add(error["code"])
        else:
            messages.append((error["line"] - first, error["message"]))
    assert len(messages) == len(WRONG), run.stdout
    return Found(kinds, dict(messages))


def _write_answers(path: Path) -> dict[int, str]:
    """Each case by the line that it begins after."""
    text, begins = ANSWERS, {}
    for number, (name, (lines, _)) in enumerate(CASES.items()):
        text += f"\n\ndef case_{number}() -> None:\n"
        begins[text.count("\n")] = name
        text += textwrap.indent(textwrap.dedent(lines), "    ")
    path.write_text(text, encoding="utf-8")
    return begins


def _write_rows(path: Path) -> int:
    """The number of the first line, right ones first."""
    lines = [*RIGHT, *(line for line, _ in WRONG)]
    functions = (f"def f{number}({GIVEN}) -> object: return {line}\n" for number, line in enumerate(lines))
    path.write_text(ROWS + "".join(functions), encoding="utf-8")
    return ROWS.count("\n") + 1


@pytest.mark.slow
def test_the_type_checker_finds_what_is_wrong_with_an_answer(found: Found) -> None:
    def check(name: str) -> None:
        assert found.kinds.get(name, set()) == CASES[name][1]

    check_rows(list(CASES), check)


@pytest.mark.slow
@pytest.mark.parametrize("line", RIGHT)
def test_a_right_line_is_right(found: Found, line: str) -> None:
    assert RIGHT.index(line) not in found.messages


@pytest.mark.slow
@pytest.mark.parametrize(("line", "error"), WRONG)
def test_a_wrong_line_is_found(found: Found, line: str, error: str) -> None:
    number = [each for each, _ in WRONG].index(line)
    assert error in found.messages[len(RIGHT) + number]


def test_publishing_reads_rows_only_with_their_type() -> None:
    """What `.dicts()` gives is anything to the type checker; `find_row_where` and `sql.to_row` say what it is."""
    publishing = sorted((ROOT / "socialpub" / "domain" / "publishing").glob("*.py"))
    assert len(publishing) > 5
    assert [path.name for path in publishing if ".dicts()" in path.read_text(encoding="utf-8")] == []
    texts = [path.read_text(encoding="utf-8") for path in publishing]
    assert sum(text.count("find_row_where(") + text.count("sql.to_row(") for text in texts) >= 4
