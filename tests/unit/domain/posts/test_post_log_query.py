"""Post log SQL: results equal to a full scan, by either plan, without scanning."""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from socialpub import platforms
from socialpub.base.config import Settings
from socialpub.base.error_codes import ERRORS
from socialpub.base.runtime import Runtime, load_vault
from socialpub.domain.context.app_context import AppContext, close_context, open_context
from socialpub.domain.posts import post_log_query
from socialpub.domain.posts.post_log_query import PostFilter
from socialpub.store import database, search
from socialpub.store.casefold import fold
from socialpub.store.schema import migration
from socialpub.store.search import SearchHit
from tests.support import post_rows as kit

ORGANIZATIONS = ("0190-org-aaa", "0190-org-bbb")
PROFILES = {"0190-one-p01": ORGANIZATIONS[0], "0190-two-p02": ORGANIZATIONS[0], "0190-far-p03": ORGANIZATIONS[1]}
PLATFORMS = tuple(platforms.PLATFORMS)
STATUSES = ("queued", "validated", "publishing", "published", "failed", "rejected", "canceled")
CODES = ("platform_rejected", "platform_unavailable", "internal_error")
PIECES = (
    "aaa",
    "aab",
    "ß",
    "İ",
    "%",
    "_",
    '"',
    "'",
    "\\",
    "日本",
    "語",
    "привет",
    " ",
    "😀",
    "\ufffd",
    "\uffff",
    "*",
    "OR",
)
EXTERNAL_IDS = ("cms/1", "cms/10", "cms/2", "CMS/1", "cms", "other")
ROWS = 600


def _random_row(dice: random.Random, number: int) -> dict[str, Any]:
    profile = dice.choices(list(PROFILES), (6, 2, 2))[0]
    status = dice.choice(STATUSES)
    code = dice.choice(CODES) if status in ("failed", "rejected", "validated") else None
    at = kit.NOON + number // 5 * 10  # ties
    if number in (200, 201, 400):
        at -= 700  # the clock was set back for a moment
    return {
        "organization": PROFILES[profile],
        "profile": profile,
        "platform": dice.choice(PLATFORMS),
        "status": status,
        "error_code": code,
        "text": "".join(dice.choices(PIECES, k=dice.randint(1, 9))),
        "external_id": dice.choice((None, *EXTERNAL_IDS)),
        "created_at": at,
    }


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(0, id="none filed", marks=pytest.mark.slow),
        pytest.param(300, id="half filed"),
        pytest.param(ROWS, id="all filed", marks=pytest.mark.slow),
    ],
)
def filed(request: pytest.FixtureRequest) -> Iterator[int]:
    """How many posts are in the search's index."""
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(search, "INDEX_BATCH", 3)
        yield request.param


@pytest.fixture(scope="module")
def service(filed: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppContext]:
    settings = Settings(database={"url": str(tmp_path_factory.mktemp("postlog") / "socialpub.db")})
    migration.migrate(settings.database_path)
    opened = open_context(Runtime(settings, load_vault(settings)))
    yield opened
    close_context(opened)


@pytest.fixture(scope="module")
def rows(service: AppContext, filed: int) -> list[dict[str, Any]]:
    """All posts there are, newest first."""
    dice = random.Random(3)
    for profile, organization in PROFILES.items():
        kit.insert_owner(service, organization, profile)
    accounts = {profile: kit.insert_account(service, PROFILES[profile], profile, "bluesky") for profile in PROFILES}
    drawn = [_random_row(dice, number) for number in range(ROWS)]
    batch = service.runtime.ids.uuid()
    for row in drawn[:25]:
        row |= {"batch": batch, "profile": "0190-one-p01", "organization": ORGANIZATIONS[0]}
    made = kit.insert_posts(service, [row | {"account": accounts[row["profile"]]} for row in drawn])
    kit.index_posts(service, filed)
    return sorted(made, key=lambda row: (row["created_at"], row["number"]), reverse=True)


def _read_all(rows: list[dict[str, Any]], wanted: PostFilter) -> list[int]:
    """The filter as the specification words it: the posts' numbers."""
    return [
        row["number"]
        for row in rows
        if row["organization"] == wanted.organization
        and wanted.profile in (None, row["profile"])
        and wanted.batch in (None, row["batch"])
        and (not wanted.platforms or row["platform"] in wanted.platforms)
        and (not wanted.statuses or row["status"] in wanted.statuses)
        and (not wanted.error_codes or row["error_code"] in wanted.error_codes)
        and (wanted.text is None or wanted.text in fold(row["text"]))
        and (not wanted.external_ids or row["external_id"] in wanted.external_ids)
        and (row["external_id"] or "").startswith(wanted.external_id_prefix or "")
        and (wanted.external_id_prefix is None or row["external_id"] is not None)
        and (wanted.after is None or row["created_at"] > wanted.after)
        and (wanted.below is None or (row["created_at"], row["number"]) < wanted.below)
    ]


def _newest(service: AppContext, wanted: PostFilter, count: int) -> list[SearchHit]:
    return service.read(lambda: post_log_query.find_newest(wanted, count)).result()


def _some(values: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
    return st.one_of(st.just([]), st.lists(st.sampled_from(values), max_size=4))


_times = st.none() | st.integers(kit.NOON - 1000, kit.NOON + 1500)
_texts = (
    st.none()
    | st.lists(st.sampled_from(PIECES), min_size=1, max_size=4).map(lambda parts: fold("".join(parts)))
    | st.text(sorted(set(fold("".join(PIECES)))), min_size=1, max_size=3)
)


@st.composite
def filters(draw: st.DrawFn) -> PostFilter:
    organization, profile = draw(
        st.sampled_from([(ORGANIZATIONS[0], None), (ORGANIZATIONS[1], None), *((o, p) for p, o in PROFILES.items())])
    )
    below = draw(_times)
    return PostFilter(
        organization,
        profile,
        platforms=draw(_some(PLATFORMS)),
        statuses=draw(_some(STATUSES)),
        error_codes=draw(_some((*CODES, "quota_exceeded"))),
        text=draw(_texts),
        after=draw(_times),
        below=None if below is None else (below, draw(st.integers(0, ROWS + 1))),
        external_ids=draw(st.just([]) | _some((*EXTERNAL_IDS, "unknown"))),
        external_id_prefix=draw(st.none() | st.sampled_from(("cms", "cms/", "cms/1", "C", "z"))),
    )


@pytest.mark.matrix
@pytest.mark.parametrize(
    "few, candidates", [(0, 0), (0, 2000), (20, 5), (20_000, 2000)], ids=["phrase", "thin", "either", "as it is"]
)
@pytest.mark.parametrize("probes", [1, pytest.param(5, marks=pytest.mark.slow), 56])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(wanted=filters(), count=st.integers(1, 60))
def test_a_page_is_what_reading_every_row_gives(
    service: AppContext,
    rows: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    few: int,
    candidates: int,
    probes: int,
    wanted: PostFilter,
    count: int,
) -> None:
    monkeypatch.setattr(post_log_query, "SCAN_MAX", few)
    monkeypatch.setattr(search, "CANDIDATES_MAX", candidates)
    monkeypatch.setattr(post_log_query, "PROBES_MAX", probes)
    found = _newest(service, wanted, count)
    assert [hit.number for hit in found] == _read_all(rows, wanted)[:count]


@pytest.mark.parametrize("text", ["aaa", "привет", "ss", None])
def test_a_batch_is_listed_with_the_other_filters(
    service: AppContext, rows: list[dict[str, Any]], text: str | None
) -> None:
    (batch,) = {row["batch"] for row in rows if sum(other["batch"] == row["batch"] for other in rows) == 25}
    for statuses in ([], ["failed", "published"]):
        for profile in (None, "0190-one-p01", "0190-two-p02"):
            wanted = PostFilter(ORGANIZATIONS[0], profile, batch, statuses=statuses, text=text)
            found = _newest(service, wanted, 50)
            assert [hit.number for hit in found] == _read_all(rows, wanted)
    foreign = PostFilter(ORGANIZATIONS[1], batch=batch)
    assert _newest(service, foreign, 50) == []


def test_a_text_with_nul_is_in_no_post(service: AppContext, rows: list[dict[str, Any]]) -> None:
    for text in ("\0", "aaa\0", "\0aaa"):
        wanted = PostFilter(ORGANIZATIONS[0], text=text)
        assert _newest(service, wanted, 5) == []


# --- Plans -------------------------------------------------------------------------------------------------------

_CHOICES: dict[str, tuple[Any, ...]] = {
    "profile": (None, "0190-one-p01"),
    "platforms": ((), ("tiktok",), PLATFORMS),
    "statuses": ((), ("failed",), STATUSES),
    "error_codes": ((), ("platform_rejected",), tuple(ERRORS)),
    "after": (None, kit.NOON),
    "below": (None, (kit.NOON + 1000, 0)),
    "text": (None, "aa", "aaab"),
}
COMBINATIONS = [dict(zip(_CHOICES, values, strict=True)) for values in itertools.product(*_CHOICES.values())]
APART = pytest.mark.parametrize("apart", [13, pytest.param(1, marks=pytest.mark.slow)])
"""One combination of thirteen, which have every pair of choices; all of them in the slow tests."""


@pytest.mark.slow
@APART
@pytest.mark.parametrize("few", [-1, 20_000], ids=["one by one", "as it is"])
def test_no_combination_of_filters_reads_every_row_or_sorts(
    service: AppContext, rows: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, few: int, apart: int
) -> None:
    monkeypatch.setattr(post_log_query, "SCAN_MAX", few)
    monkeypatch.setattr(search, "CANDIDATES_MAX", few)
    for choice in COMBINATIONS[::apart]:
        steps = _plan(service, PostFilter(ORGANIZATIONS[0], **choice))
        bad = [step for step in steps if re.match(r"SCAN post$|SCAN post |.*TEMP B-TREE", step)]
        assert not bad, (choice, bad)
        assert any(step.startswith("SEARCH post USING") for step in steps), (choice, steps)


@APART
def test_without_text_the_index_alone_decides(service: AppContext, rows: list[dict[str, Any]], apart: int) -> None:
    for choice in COMBINATIONS[::apart]:
        if choice["text"] is None:
            steps = _plan(service, PostFilter(ORGANIZATIONS[0], **choice))
            assert all("COVERING INDEX" in step for step in steps if step.startswith("SEARCH post ")), (choice, steps)


@pytest.mark.parametrize(
    "few, choice, way",
    [
        (20_000, {"text": "aaab"}, "index"),
        (20_000, {"text": "aaab", "platforms": ["tiktok"], "after": kit.NOON}, "index"),
        (20_000, {"text": "aaab", "statuses": ["failed"]}, "probes"),
        (20_000, {"text": "aaab", "error_codes": ["platform_rejected"]}, "probes"),
        (0, {"text": "aaab", "statuses": ["failed"]}, "index"),
        (0, {"text": "aaab", "error_codes": ["platform_rejected"]}, "index"),
        (0, {"text": "aa", "statuses": ["failed"], "error_codes": ["platform_rejected"]}, "log"),
        (0, {"text": "aa", "profile": "0190-one-p01", "platforms": ["tiktok"]}, "log"),
        (20_000, {"text": "aa", "statuses": ["failed"]}, "probes"),
        (20_000, {"text": "aa", "statuses": STATUSES, "platforms": PLATFORMS}, "log"),
    ],
)
def test_text_is_looked_for_where_it_costs_least(
    service: AppContext,
    rows: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    few: int,
    choice: dict[str, Any],
    way: str,
) -> None:
    monkeypatch.setattr(post_log_query, "SCAN_MAX", few)
    last = _plan(service, PostFilter(ORGANIZATIONS[0], **choice))[-1]
    expected = {
        "index": r"SEARCH post USING INTEGER PRIMARY KEY",
        "probes": r"SEARCH post USING INDEX post_organization_(status_platform|error_code)",
        "log": r"SEARCH post USING INDEX post_(organization|profile)_created_at ",
    }
    assert re.match(expected[way], last), last


@pytest.mark.parametrize("text", ["aa", "%", "語", "b", "ss"])
def test_short_texts_are_read_down_the_log(service: AppContext, rows: list[dict[str, Any]], text: str) -> None:
    wanted = PostFilter(ORGANIZATIONS[0], "0190-two-p02", text=text)
    assert [hit.number for hit in _newest(service, wanted, 50)] == _read_all(rows, wanted)[:50]
    last = _plan(service, wanted)[-1]
    assert last.startswith("SEARCH post USING INDEX post_profile_created_at "), last


@pytest.mark.parametrize("narrowed", [{}, {"profile": "0190-two-p02"}, {"statuses": ["failed"], "text": "aaab"}])
def test_a_batch_is_found_by_its_own_index(
    service: AppContext, rows: list[dict[str, Any]], narrowed: dict[str, Any]
) -> None:
    steps = _plan(service, PostFilter(ORGANIZATIONS[0], batch=rows[0]["batch"], **narrowed))
    assert steps == ["SEARCH post USING INDEX post_batch_position (batch=?)", "USE TEMP B-TREE FOR ORDER BY"]


def test_narrow_index_gives_status_and_error_code_before_the_row(
    service: AppContext, rows: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(post_log_query, "SCAN_MAX", -1)
    monkeypatch.setattr(search, "CANDIDATES_MAX", -1)
    steps = _plan(
        service, PostFilter(ORGANIZATIONS[0], text="aaab", statuses=["failed"], error_codes=["internal_error"])
    )
    assert steps[-2].startswith("SEARCH state USING COVERING INDEX post_number_status_error_code (number=?"), steps
    assert steps[-1].startswith("SEARCH post USING INTEGER PRIMARY KEY"), steps


ASIDE = r"CO-ROUTINE|SCAN \(subquery|SCALAR SUBQUERY|SEARCH (organization|profile|account) USING COVERING INDEX \w+_id "
"""What is found is given as one row, and numbers are looked up by their ids once."""


def _plan(service: AppContext, wanted: PostFilter) -> list[str]:
    """The steps of every statement that the query runs."""

    def explain() -> list[str]:
        connection = database.proxy.connection()
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
        post_log_query.find_newest(wanted, 51)
        connection.set_trace_callback(None)
        mine = [text for text in statements if " post" in text and not text.startswith("--")]
        found = [row[3] for text in mine for row in connection.execute(f"EXPLAIN QUERY PLAN {text}")]
        return [step for step in found if not re.match(ASIDE, step)]

    return service.read(explain).result()
