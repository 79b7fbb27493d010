"""What the type checker finds in a row: a misspelt column, another table's, one that may be null, a wrong change."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
HEAD = """
from socialpub.domain.core import moves
from socialpub.domain.publishing import horizon, intents
from socialpub.platforms.contract import KEY
from socialpub.store.db import Tx
from socialpub.store.models import Account, Post, row_of, row_where, rows_where, the_row
from socialpub.store.rows import AccountRow, AttemptRow, IntentRow, PostRow
"""
GIVEN = "intent: IntentRow, attempt: AttemptRow, post: PostRow, account: AccountRow, snapshot: intents.Snapshot, tx: Tx"
RIGHT = (
    'intent["sent_at"]',
    'intent["refusal"] or "none"',
    "intents._change(tx, intent, looks=1, answered=True)",
    'the_row(Post, "p")["text"]',
    "horizon.due_look(KEY.checks, intent, 0)",
    "moves.goes_on(post)",
    'snapshot.post["draft_at"]',
)
WRONG = (
    ('intent["sentt_at"]', 'TypedDict "IntentRow" has no key "sentt_at"'),
    ('intent["text"]', 'TypedDict "IntentRow" has no key "text"'),
    ('intent["refusal"].upper()', 'Item "None" of "str | None" has no attribute "upper"'),
    ('intent["looks"] + "1"', "Unsupported operand types for +"),
    ("intents._change(tx, intent, look=1)", 'Unexpected keyword argument "look" for "_change"'),
    ('intents._change(tx, intent, looks="1")', 'Argument "looks" to "_change" has incompatible type "str"'),
    ('attempt["error"]', 'TypedDict "AttemptRow" has no key "error"'),
    ('post["draft"]', 'TypedDict "PostRow" has no key "draft"'),
    ('account["secrets"]', 'TypedDict "AccountRow" has no key "secrets"'),
    ('the_row(Account, "a")["text"]', 'TypedDict "AccountRow" has no key "text"'),
    ('rows_where(Post)[0]["platform_url"]', 'TypedDict "PostRow" has no key "platform_url"'),
    ('row_where(Post)["text"]', 'Value of type "PostRow | None" is not indexable'),
    ('row_of(Post, "p")["text"]', 'Value of type "PostRow | None" is not indexable'),
    ("horizon.due_look(KEY.checks, post, 0)", 'incompatible type "PostRow"; expected "IntentRow"'),
    ("moves.goes_on(intent)", 'incompatible type "IntentRow"; expected "Prepared"'),
    ('snapshot.open_intent["plan"]', 'Value of type "IntentRow | None" is not indexable'),
    ('snapshot.post["tryes"]', 'TypedDict "PostRow" has no key "tryes"'),
)


@pytest.fixture(scope="module")
def errors(tmp_path_factory: pytest.TempPathFactory) -> dict[int, str]:
    """What mypy says of each of the lines, right ones first, as strictly as of the project."""
    lines = [*RIGHT, *(line for line, _ in WRONG)]
    path = tmp_path_factory.mktemp("typing") / "lines.py"
    path.write_text(
        HEAD + "".join(f"def f{number}({GIVEN}) -> object: return {line}\n" for number, line in enumerate(lines))
    )
    command = [sys.executable, "-m", "mypy", "--config-file", str(ROOT / "pyproject.toml"), str(path)]
    said = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    first = HEAD.count("\n") + 1
    found = re.findall(r"lines\.py:(\d+): error: (.*)", said)
    assert len(found) == len(WRONG), said
    return {int(number) - first: message for number, message in found}


def test_publishing_reads_rows_only_with_their_type() -> None:
    """What `.dicts()` gives is anything to the type checker; `row_where` and the like say what it is."""
    publishing = sorted((ROOT / "socialpub" / "domain" / "publishing").glob("*.py"))
    assert len(publishing) > 5
    assert [path.name for path in publishing if ".dicts()" in path.read_text(encoding="utf-8")] == []
    reads = sum(path.read_text(encoding="utf-8").count("row_where(") for path in publishing)
    assert reads >= 4


@pytest.mark.parametrize("line", RIGHT)
def test_a_right_line_is_right(errors: dict[int, str], line: str) -> None:
    assert RIGHT.index(line) not in errors


@pytest.mark.parametrize(("line", "error"), WRONG)
def test_a_wrong_line_is_found(errors: dict[int, str], line: str, error: str) -> None:
    number = [each for each, _ in WRONG].index(line)
    assert error in errors[len(RIGHT) + number]
