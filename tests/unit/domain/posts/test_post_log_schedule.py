"""Post log by account and by scheduled time: order, bounds, cursors.

test_post_log_query.py compares the results of every combination of filters with a full scan.
"""

from __future__ import annotations

import itertools
import random
import re
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import quote

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from socialpub.base.config import Settings
from socialpub.base.runtime import Runtime, load_vault
from socialpub.domain.context.app_context import AppContext, close_context, open_context
from socialpub.domain.posts import post_log_query, post_log_schedule
from socialpub.domain.posts.post_log_query import AccountFilter, PostFilter, ScheduleRange
from socialpub.store import database
from socialpub.store.casefold import fold
from socialpub.store.schema import migration
from tests.support import post_rows as kit
from tests.support.app_server import UNKNOWN_ID, AppServer, Person, error_of, format_instant
from tests.support.post_list import insert_rows, list_pages, list_posts, refused_query

HOUR = 3_600_000
ORGANIZATIONS = ("0190-org-aaa", "0190-org-bbb")
PROFILES = {"0190-one-p01": ORGANIZATIONS[0], "0190-two-p02": ORGANIZATIONS[0], "0190-far-p03": ORGANIZATIONS[1]}
PLATFORMS = ("bluesky", "tiktok", "twitter")
STATUSES = ("queued", "validated", "published", "failed", "rejected", "canceled")
CODES = ("platform_rejected", "platform_unavailable")
PIECES = ("aaa", "aab", "ß", "%", "日本", "привет", " ")
ROWS = 500


def at(hour: int) -> str:
    return quote(format_instant(kit.NOON + hour * HOUR))


# --- By account ----------------------------------------------------------------------------------------------------


@pytest.fixture
def two(server: AppServer, alice: Person) -> dict[str, list[str]]:
    """The ids of posts of two accounts of Alice's on the same platform, by account: three each, in turns."""
    accounts = [alice.bluesky, server.connect(alice, "bluesky", "second")["id"]]
    rows = [{"account": accounts[step % 2], "status": ("failed", "published")[step % 3 == 0]} for step in range(6)]
    posts = insert_rows(server, alice, *rows)
    return {account: posts[place::2] for place, account in enumerate(accounts)}


def test_an_account_is_listed_by_its_id(alice: Person, two: dict[str, list[str]]) -> None:
    for account, posts in two.items():
        for query in ("", "&q=hello", "&q=he", "&platform=bluesky,twitter", f"&profileId={alice.profile}"):
            assert list_posts(alice, f"accountId={account}{query}") == posts[::-1]
        assert list_posts(alice, f"accountId={account.upper()}") == posts[::-1]
        assert list_posts(alice, f"accountId={account}&platform=twitter") == []
        assert len(list_posts(alice, f"accountId={account}&status=failed&q=hello")) == 2
        assert list(itertools.chain(*list_pages(alice, f"accountId={account}&limit=2"))) == posts[::-1]


def test_a_disconnected_account_still_has_its_posts(
    server: AppServer, alice: Person, two: dict[str, list[str]]
) -> None:
    account, posts = list(two.items())[1]
    server.service.write(
        lambda tx: database.proxy.execute_sql("UPDATE account SET disconnected_at = 1 WHERE id = ?", (account,))
    ).result()
    assert list_posts(alice, f"accountId={account}") == posts[::-1]
    assert alice.api.get(f"/v1/accounts/{account}").status_code == 404


def test_another_or_unknown_account_is_not_found(alice: Person, bob: Person, charlie: Person) -> None:
    """The same answer for one that is another's and for one that there is not."""
    for person, account, query in [
        (alice, UNKNOWN_ID, ""),
        (alice, charlie.bluesky, ""),
        (bob, alice.bluesky, ""),
        (alice, alice.bluesky, f"&profileId={bob.profile}"),
    ]:
        answer = person.api.get(f"/v1/posts?accountId={account}{query}")
        assert (answer.status_code, error_of(answer)["code"]) == (404, "not_found")
        assert error_of(answer)["message"] == "There is no account with this id in the scope."


# --- By scheduled time ---------------------------------------------------------------------------------------------


@pytest.fixture
def week(server: AppServer, alice: Person) -> list[str]:
    """Posts that were written in the reverse order of their times, 1 to 6 o'clock, and one without a time."""
    times = [{"scheduled_at": kit.NOON + hour * HOUR, "status": "queued"} for hour in (6, 5, 4, 3, 2, 1)]
    return insert_rows(server, alice, *times, {})[:-1][::-1]


def test_scheduled_posts_are_listed_by_their_time(alice: Person, week: list[str]) -> None:
    for query in ("", "&status=queued", "&q=hello", "&q=he", "&platform=bluesky", f"&accountId={alice.bluesky}"):
        assert list_posts(alice, f"order=scheduledAt{query}") == week
        assert list(itertools.chain(*list_pages(alice, f"order=scheduledAt&limit=2{query}"))) == week
    assert list_posts(alice, "order=scheduledAt&status=published") == []
    assert len(list_posts(alice, "order=createdAt")) == 7


def test_bounds_on_the_scheduled_time_are_exclusive(alice: Person, week: list[str]) -> None:
    for order, text in itertools.product(("", "&order=createdAt", "&order=scheduledAt"), ("", "&q=hello", "&q=he")):
        for rest in (f"{order}{text}", f"{order}{text}&status=queued,failed"):  # newest first is the same here
            assert list_posts(alice, f"scheduledAfter={at(2)}{rest}") == week[2:]
            assert list_posts(alice, f"scheduledBefore={at(3)}{rest}") == week[:2]
            assert list_posts(alice, f"scheduledAfter={at(1)}&scheduledBefore={at(4)}{rest}") == week[1:3]
            assert list_posts(alice, f"scheduledAfter={at(4)}&scheduledBefore={at(1)}{rest}") == []
    assert list_posts(alice, "scheduledBefore=9999-12-31T23:59:59Z") == week
    within = quote(format_instant(kit.NOON + 3 * HOUR).replace(".000Z", ".0000001Z"))
    assert list_posts(alice, f"scheduledBefore={within}&order=scheduledAt") == week[:3]
    assert list_posts(alice, f"scheduledAfter={within}&order=scheduledAt") == week[3:]


def test_both_times_bound_together(server: AppServer, alice: Person) -> None:
    rows = [{"created_at": kit.NOON + step, "scheduled_at": kit.NOON + HOUR - step} for step in range(5)]
    posts = insert_rows(server, alice, *rows)
    after, before = format_instant(kit.NOON), format_instant(kit.NOON + 4)
    bounds = f"after={after}&before={before}&scheduledAfter={format_instant(kit.NOON + HOUR - 3)}"
    assert list_posts(alice, bounds) == [posts[2], posts[1]]
    assert list_posts(alice, f"{bounds}&order=scheduledAt") == [posts[2], posts[1]]
    assert list_posts(alice, f"{bounds}&order=scheduledAt&status=published,failed&q=hello") == [posts[2], posts[1]]


def test_posts_of_one_time_are_ordered_by_id_across_pages(server: AppServer, alice: Person) -> None:
    accounts = [alice.bluesky, server.connect(alice, "bluesky", "second")["id"]]
    rows = [{"scheduled_at": kit.NOON, "account": accounts[step % 2]} for step in range(10)]
    posts = insert_rows(server, alice, *rows)
    for query in ("", "&status=published,failed", "&q=hello", "&q=lo"):
        assert list(itertools.chain(*list_pages(alice, f"order=scheduledAt&limit=3{query}"))) == sorted(posts)


@pytest.mark.parametrize("query", ["limit=17", "limit=20&status=queued,failed", "limit=20&q=hello", "limit=20&q=he"])
def test_the_order_is_walked_while_others_are_added(server: AppServer, alice: Person, query: str) -> None:
    times = random.Random(5).sample(range(1_000_000), 100)
    rows = [{"scheduled_at": kit.NOON + time, "status": ("queued", "failed")[time % 2]} for time in times]
    posts = dict(zip(times, insert_rows(server, alice, *rows), strict=True))
    seen: list[str] = []
    for page in list_pages(alice, f"order=scheduledAt&{query}"):
        seen += page
        insert_rows(server, alice, {"scheduled_at": kit.NOON - 1, "status": "queued"})  # before the page
    assert seen == [posts[time] for time in sorted(times)]


def test_a_cursor_of_one_order_is_none_of_the_other(alice: Person, week: list[str]) -> None:
    cursor = {order: alice.api.get(f"/v1/posts?limit=2&order={order}").json()["nextCursor"] for order in ORDERS}
    for order, other in (ORDERS, ORDERS[::-1]):
        assert refused_query(alice, f"order={order}&cursor={quote(cursor[other])}") == "cursor"
        assert len(list_posts(alice, f"order={order}&cursor={quote(cursor[order])}")) >= 4


ORDERS = ("createdAt", "scheduledAt")


def test_a_wrong_parameter_is_named(subtests: pytest.Subtests, alice: Person) -> None:
    for query, rule in [
        ("accountId=", "accountId"),
        ("accountId=nonsense", "accountId"),
        (f"accountId={UNKNOWN_ID},{UNKNOWN_ID}", "accountId"),
        ("scheduledAfter=", "scheduledAfter"),
        ("scheduledAfter=tomorrow", "scheduledAfter"),
        ("scheduledAfter=2026-05-04T15:30:00", "scheduledAfter"),
        ("scheduledBefore=", "scheduledBefore"),
        ("scheduledBefore=2026-02-30T00:00:00Z", "scheduledBefore"),
        ("order=", "order"),
        ("order=scheduled_at", "order"),
        ("order=scheduledAt,createdAt", "order"),
        ("scheduledat=2026-05-04T15:30:00Z", "scheduledat"),
    ]:
        with subtests.test(query=query, rule=rule):
            assert refused_query(alice, query) == rule


def test_others_see_nothing_of_it(server: AppServer, alice: Person, bob: Person, charlie: Person) -> None:
    row = {"scheduled_at": kit.NOON + HOUR, "status": "queued"}
    (hers,), (his,), (other,) = (insert_rows(server, person, row) for person in (alice, bob, charlie))
    for query in ("order=scheduledAt", f"scheduledAfter={at(0)}&order=scheduledAt", "order=scheduledAt&q=hello"):
        assert list_posts(alice, query) == [hers, his]
        assert list_posts(alice, f"{query}&profileId={bob.profile}") == [his]
        assert list_posts(bob, query) == [his]
        assert list_posts(charlie, query) == [other]
    cursor = alice.api.get("/v1/posts?order=scheduledAt&limit=1").json()["nextCursor"]
    assert refused_query(charlie, f"order=scheduledAt&cursor={quote(cursor)}") == "cursor"


# --- Every combination -----------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppContext]:
    settings = Settings(database={"url": str(tmp_path_factory.mktemp("schedule") / "socialpub.db")})
    migration.migrate(settings.database_path)
    opened = open_context(Runtime(settings, load_vault(settings)))
    yield opened
    close_context(opened)


@pytest.fixture(scope="module")
def rows(service: AppContext) -> list[dict[str, Any]]:
    """All posts there are, newest first; each profile has two accounts on each platform."""
    dice = random.Random(7)
    for profile, organization in PROFILES.items():
        kit.insert_owner(service, organization, profile)
    accounts = {
        (profile, platform): [kit.insert_account(service, PROFILES[profile], profile, platform) for _ in range(2)]
        for profile, platform in itertools.product(PROFILES, PLATFORMS)
    }
    batch = service.runtime.ids.uuid()
    drawn = []
    for number in range(ROWS):
        profile, platform = dice.choices(list(PROFILES), (6, 2, 2))[0], dice.choice(PLATFORMS)
        status = dice.choice(STATUSES)
        drawn.append(
            {
                "organization": PROFILES[profile],
                "profile": profile,
                "platform": platform,
                "account": dice.choice(accounts[profile, platform]),
                "status": status,
                "error_code": dice.choice(CODES) if status in ("failed", "rejected") else None,
                "text": "".join(dice.choices(PIECES, k=dice.randint(1, 5))),
                "created_at": kit.NOON + number // 5 * 10,
                "scheduled_at": dice.choice([None, kit.NOON + dice.randrange(100) * 10]),
            }
        )
    for row in [row for row in drawn if row["organization"] == ORGANIZATIONS[0]][:25]:
        row["batch"] = batch
    made = kit.insert_posts(service, drawn)
    return sorted(made, key=lambda row: (row["created_at"], row["number"]), reverse=True)


def _read_all(rows: list[dict[str, Any]], wanted: PostFilter) -> list[dict[str, Any]]:
    """The filter as the reference words it."""
    schedule = wanted.schedule
    found = [
        row
        for row in rows
        if row["organization"] == wanted.organization
        and wanted.profile in (None, row["profile"])
        and wanted.batch in (None, row["batch"])
        and (wanted.accounts is None or row["account"] in [account.id for account in wanted.accounts])
        and (not wanted.platforms or row["platform"] in wanted.platforms)
        and (not wanted.statuses or row["status"] in wanted.statuses)
        and (not wanted.error_codes or row["error_code"] in wanted.error_codes)
        and (wanted.text is None or wanted.text in fold(row["text"]))
        and (wanted.after is None or row["created_at"] > wanted.after)
        and (wanted.below is None or (row["created_at"], row["number"]) < wanted.below)
        and (schedule is None or row["scheduled_at"] is not None)
    ]
    if schedule is None:
        return found
    return [
        row
        for row in found
        if (schedule.after is None or row["scheduled_at"] > schedule.after)
        and (schedule.before is None or row["scheduled_at"] < schedule.before)
        and (schedule.above is None or (row["scheduled_at"], row["number"]) > schedule.above)
    ]


def _some(values: tuple[str, ...]) -> st.SearchStrategy[list[str]]:
    return st.one_of(st.just([]), st.lists(st.sampled_from(values), max_size=3))


_times = st.none() | st.integers(kit.NOON - 10, kit.NOON + 1010)
_places = st.none() | st.tuples(st.integers(kit.NOON - 10, kit.NOON + 1010), st.integers(0, ROWS + 1))
_texts = st.none() | st.lists(st.sampled_from(PIECES), min_size=1, max_size=3).map(lambda parts: fold("".join(parts)))


@st.composite
def choices(draw: st.DrawFn) -> dict[str, Any]:
    """What a filter asks for; `spot` draws the account, `batch` whether the one batch is meant."""
    return {
        "profile": draw(st.sampled_from([None, "0190-one-p01", "0190-two-p02"])),
        "spot": draw(st.none() | st.integers(0, ROWS - 1)),
        "batch": draw(st.sampled_from([False, False, False, True])),
        "platforms": draw(_some(PLATFORMS)),
        "statuses": draw(_some(STATUSES)),
        "error_codes": draw(_some((*CODES, "quota_exceeded"))),
        "text": draw(_texts),
        "after": draw(_times),
        "below": draw(_places),
        "schedule": draw(st.none() | st.builds(ScheduleRange, _times, _times, _places)),
    }


def _filter(rows: list[dict[str, Any]], choice: dict[str, Any]) -> PostFilter:
    named = dict(choice)
    spot, batch = named.pop("spot"), named.pop("batch")
    made = PostFilter(ORGANIZATIONS[0], batch=_batch(rows) if batch else None, **named)
    row = rows[spot] if spot is not None else None
    if row is None or row["organization"] != ORGANIZATIONS[0]:
        return made
    named["profile"] = row["profile"]
    return PostFilter(
        ORGANIZATIONS[0], batch=made.batch, accounts=[AccountFilter(row["account"], row["platform"])], **named
    )


def _batch(rows: list[dict[str, Any]]) -> str:
    batches = [row["batch"] for row in rows]
    return str(max(set(batches), key=batches.count))


@pytest.mark.matrix
@pytest.mark.parametrize("few, sought", [(0, 0), (20, 5), (20_000, 2000)], ids=["walked", "either", "as it is"])
@pytest.mark.parametrize("probes", [1, pytest.param(5, marks=pytest.mark.slow), 56])
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(choice=choices(), count=st.integers(1, 60))
def test_a_page_is_what_reading_every_row_gives(
    service: AppContext,
    rows: list[dict[str, Any]],
    monkeypatch: pytest.MonkeyPatch,
    few: int,
    sought: int,
    probes: int,
    choice: dict[str, Any],
    count: int,
) -> None:
    monkeypatch.setattr(post_log_query, "SCAN_MAX", few)
    monkeypatch.setattr(post_log_schedule, "SORT_MAX", sought)
    monkeypatch.setattr(post_log_query, "PROBES_MAX", probes)
    wanted = _filter(rows, choice)
    if wanted.schedule is None:
        numbers = [hit.number for hit in service.read(lambda: post_log_query.find_newest(wanted, count)).result()]
        assert numbers == [row["number"] for row in _read_all(rows, wanted)][:count]
        return
    numbers = [hit.number for hit in service.read(lambda: post_log_schedule.find_newest(wanted, count)).result()]
    assert numbers == [row["number"] for row in _read_all(rows, wanted)][:count]
    numbers = [spot.number for spot in service.read(lambda: post_log_schedule.find_earliest(wanted, count)).result()]
    in_order = sorted(_read_all(rows, wanted), key=lambda row: (row["scheduled_at"], row["number"]))
    assert numbers == [row["number"] for row in in_order][:count]


# --- Plans -----------------------------------------------------------------------------------------------------------

PROBE = r"SEARCH post USING (COVERING )?INDEX post_scheduled \(account=\? AND status=\? AND \(?scheduled_at"
_CHOICES: dict[str, tuple[Any, ...]] = {
    "profile": (None, "0190-one-p01"),
    "platforms": ((), ("tiktok",)),
    "statuses": ((), ("queued", "failed")),
    "error_codes": ((), ("platform_rejected",)),
    "after": (None, kit.NOON),
    "below": (None, (kit.NOON + 1000, 0)),
    "text": (None, "aa", "aaab"),
    "schedule": (
        ScheduleRange(),
        ScheduleRange(kit.NOON, kit.NOON + 500),
        ScheduleRange(above=(kit.NOON, 7)),
    ),
}


def _plan(service: AppContext, ask: Callable[[], object]) -> list[str]:
    """The steps of every statement about posts."""

    def explain() -> list[str]:
        connection = database.proxy.connection()
        statements: list[str] = []
        connection.set_trace_callback(statements.append)
        ask()
        connection.set_trace_callback(None)
        mine = [text for text in statements if " post" in text and not text.startswith("--")]
        return [row[3] for text in mine for row in connection.execute(f"EXPLAIN QUERY PLAN {text}")]

    return service.read(explain).result()


@pytest.mark.parametrize("apart", [11, pytest.param(1, marks=pytest.mark.slow)])
def test_the_order_is_the_index_s_and_nothing_is_sorted(
    service: AppContext, rows: list[dict[str, Any]], apart: int
) -> None:
    """Where posts are not few, with every combination of filters, each account and state is one probe."""
    for values in itertools.islice(itertools.product(*_CHOICES.values()), 0, None, apart):
        wanted = PostFilter(ORGANIZATIONS[0], **dict(zip(_CHOICES, values, strict=True)))
        with pytest.MonkeyPatch.context() as patched:
            patched.setattr(post_log_schedule, "_should_filter_first", lambda wanted: False)
            steps = _plan(service, lambda wanted=wanted: post_log_schedule.find_earliest(wanted, 51))  # type: ignore[misc]
        probes = [step for step in steps if step.startswith(("SEARCH post", "SCAN post"))]
        assert probes
        for step in probes:
            assert re.match(PROBE, step), (wanted, step)
        assert not [step for step in steps if "TEMP B-TREE" in step], (wanted, steps)


def test_bounds_on_the_scheduled_time_keep_the_log_s_own_ways(service: AppContext, rows: list[dict[str, Any]]) -> None:
    """Where many are scheduled within the bounds, they are told from the rows of the log."""
    bounds = ScheduleRange(kit.NOON, kit.NOON + 500)
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(post_log_schedule, "has_few", lambda statements: False)
        for wanted in (
            PostFilter(ORGANIZATIONS[0], schedule=bounds),
            PostFilter(ORGANIZATIONS[0], statuses=["queued"], schedule=bounds),
            PostFilter(ORGANIZATIONS[0], "0190-one-p01", schedule=bounds),
        ):
            steps = _plan(service, lambda wanted=wanted: post_log_schedule.find_newest(wanted, 51))  # type: ignore[misc]
            assert not [step for step in steps if re.match(r"SCAN post|.*TEMP B-TREE", step)], steps
            assert [step for step in steps if re.match(r"SEARCH post USING .*(organization|profile)=\?", step)], steps


def test_an_account_s_posts_have_an_index_of_their_own(service: AppContext, rows: list[dict[str, Any]]) -> None:
    row = rows[0]
    wanted = PostFilter(row["organization"], row["profile"], accounts=[AccountFilter(row["account"], row["platform"])])
    (first, *_) = [step for step in _plan(service, lambda: post_log_query.find_newest(wanted, 51)) if " post " in step]
    assert first.startswith("SEARCH post USING COVERING INDEX post_account_created_at (account=?"), first
