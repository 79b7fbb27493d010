"""Calendar page: posts by day in the reader's time zone, moving, and page cost."""

from __future__ import annotations

import json
import re
from datetime import UTC, date, datetime

import pytest

from socialpub.domain.posts import calendar
from socialpub.store.schema.models import User
from tests.support.app_server import UNKNOWN_ID, ApiClient, AppServer, Person
from tests.support.connect_flow import sign_in
from tests.support.dashboard_forms import HTML, later_time, send_form
from tests.support.database_costs import DatabaseCounter
from tests.support.parsed_pages import ParsedPage
from tests.support.post_list import insert_rows

HOUR = 3_600_000


@pytest.fixture
def browser(server: AppServer, alice: Person) -> ApiClient:
    return sign_in(server, alice.organization)


def ms(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> int:
    return int(datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp() * 1000)


def by_day(browser: ApiClient, path: str) -> dict[str, list[str]]:
    """The ids of the posts on each day that has any, in their order."""
    answer = browser.get(path, headers=HTML)
    assert answer.status_code == 200, path
    assert len(ParsedPage(answer.text).ids) == len(set(ParsedPage(answer.text).ids))
    cut = r'<li class="day' if 'class="month' in answer.text else r"<h2 id="
    days = {}
    for part in re.split(cut, answer.text)[1:]:
        found = re.search(r"d(\d{4}-\d\d-\d\d)\"", part)
        posts = list(dict.fromkeys(re.findall(r'href="/posts/([0-9a-f-]{36})"', part)))
        if found and posts:
            days[found[1]] = posts
    return days


def test_a_post_stands_on_its_day_in_a_month_and_in_a_week(
    server: AppServer, alice: Person, browser: ApiClient
) -> None:
    rows = [
        {"status": "queued", "scheduled_at": ms(2098, 3, 31, 23, 59), "text": "last"},
        {"status": "queued", "scheduled_at": ms(2098, 3, 1), "text": "first"},
        {"status": "queued", "scheduled_at": ms(2098, 4, 1), "text": "April"},
        {"status": "queued", "scheduled_at": ms(2098, 2, 28, 23, 59), "text": "February"},
        {"status": "canceled", "scheduled_at": ms(2098, 3, 5), "text": "canceled"},
        {"status": "published", "created_at": ms(2098, 3, 31, 12), "text": "at once"},
        {"status": "failed", "created_at": ms(2098, 3, 4), "scheduled_at": ms(2098, 3, 31, 10), "text": "failed"},
    ]
    last, first, april, february, _, at_once, failed = insert_rows(server, alice, *rows)
    of_march = {"2098-03-01": [first], "2098-03-31": [failed, at_once, last]}
    assert by_day(browser, "/calendar/month/2098-03") == of_march
    assert by_day(browser, "/calendar/month/2098-04") == {"2098-04-01": [april]}
    assert by_day(browser, "/calendar/month/2098-02") == {"2098-02-28": [february]}
    assert date(2098, 3, 31).weekday() == 0
    week = {"2098-03-31": [failed, at_once, last], "2098-04-01": [april]}
    for day in ("2098-03-31", "2098-04-03", "2098-04-06"):
        assert by_day(browser, f"/calendar/week/{day}") == week
    text = browser.get("/calendar/month/2098-03", headers=HTML).text
    assert "<strong>Failed</strong>" in text


def test_the_posts_of_a_batch_are_one_entry_of_a_month(server: AppServer, alice: Person, browser: ApiClient) -> None:
    """Its state is the worst of its targets."""
    second = server.connect(alice, "twitter")["id"]
    at = {"scheduled_at": ms(2098, 3, 3, 8, 30), "batch": UNKNOWN_ID, "text": "Buns"}
    error = json.dumps({"code": "platform_rejected", "message": "No."})
    rows = [
        at | {"status": "published"},
        at | {"status": "failed", "error": error, "position": 1, "account": second, "platform": "twitter"},
    ]
    good, bad = insert_rows(server, alice, *rows)
    text = browser.get("/calendar/month/2098-03", headers=HTML).text
    assert text.count('<li class="entry ') == 1
    assert '<li class="entry bad">' in text
    assert f'href="/posts/{bad}"' in text
    assert f'href="/posts/{good}"' not in text
    assert [text.count(f"/static/icons.svg#p-{name}") for name in ("bluesky", "twitter")] == [1, 1]
    assert by_day(browser, "/calendar/week/2098-03-03") == {"2098-03-03": [good, bad]}


def test_days_begin_and_end_on_the_clock_of_the_reader(server: AppServer, alice: Person, browser: ApiClient) -> None:
    """Also the day on which the clocks are set forward."""
    server.service.write(lambda tx: User.update(zone="Europe/Berlin").execute()).result()
    times = [ms(2026, 3, 28, 22, 59), ms(2026, 3, 28, 23), ms(2026, 3, 29, 21, 59), ms(2026, 3, 29, 22)]
    posts = insert_rows(server, alice, *[{"scheduled_at": at} for at in times])
    for path in ("/calendar/month/2026-03", "/calendar/week/2026-03-29"):
        assert by_day(browser, path).get("2026-03-29") == posts[1:3]
    text = browser.get("/calendar/month/2026-03", headers=HTML).text
    assert '<span class="clock">23:59</span>' in text


def test_today_and_this_week_are_where_one_begins(server: AppServer, alice: Person, browser: ApiClient) -> None:
    today = datetime.fromtimestamp(server.clock.now_ms() / 1000, UTC).date()
    (post,) = insert_rows(server, alice, {"created_at": server.clock.now_ms()})
    for path in ("/calendar", "/calendar/week"):
        assert by_day(browser, path) == {f"{today}": [post]}


@pytest.mark.parametrize(
    "path", ["month/2026-13", "month/x", "month/1999-12", "month/2200-01", "week/2026-02-30", "week/x"]
)
def test_a_page_that_there_is_not_is_not_found(browser: ApiClient, path: str) -> None:
    assert browser.get(f"/calendar/{path}", headers=HTML).status_code == 404


@pytest.mark.parametrize("path", ["month/2000-01", "month/2199-12", "week/2000-01-01", "week/2199-12-31"])
def test_the_first_and_the_last_page_are_there(browser: ApiClient, path: str) -> None:
    answer = browser.get(f"/calendar/{path}", headers=HTML)
    assert answer.status_code == 200
    ways = re.findall(r'href="(/calendar/[^"#]*)" rel="(?:prev|next)"', answer.text)
    assert ways
    assert all(browser.get(way, headers=HTML).status_code == 200 for way in ways)


def test_a_day_with_many_says_how_many_more(
    server: AppServer, alice: Person, browser: ApiClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    insert_rows(server, alice, *[{"status": "queued", "scheduled_at": ms(2098, 3, 3) + step} for step in range(10)])
    assert len(by_day(browser, "/calendar/month/2098-03")["2098-03-03"]) == 4
    assert "6 more" in browser.get("/calendar/month/2098-03", headers=HTML).text
    monkeypatch.setattr(calendar, "SCAN_MAX", 3)
    insert_rows(server, alice, *[{"created_at": ms(2098, 3, 7) + step} for step in range(5)])
    text = browser.get("/calendar/week/2098-03-07", headers=HTML).text
    assert "Many more" in text


def test_a_post_is_moved_in_the_week_by_days_or_to_a_time(server: AppServer, alice: Person, browser: ApiClient) -> None:
    body = {"targets": [{"accountId": alice.bluesky}], "text": "x", "scheduledAt": "2098-03-03T10:00:00Z"}
    post, page = alice.api.publish(body).json()["results"][0]["postId"], "/calendar/week/2098-03-03"
    assert f'action="/posts/{post}/move"' in browser.get(page, headers=HTML).text
    for by, day in (("1", "2098-03-04"), ("-1", "2098-03-03"), ("", "2098-03-03")):
        (on,) = by_day(browser, page)
        answer = later_time(browser, post, day=on, clock="10:00", by=by, page=page)
        assert (answer.status_code, answer.headers["Location"]) == (303, page)
        assert by_day(browser, page) == {day: [post]}
    send_form(browser, f"/posts/{post}/cancel")
    assert by_day(browser, page) == {}


def test_the_calendar_is_that_of_the_profile_one_is_in_and_of_nobody_else(
    server: AppServer, alice: Person, bob: Person, charlie: Person, browser: ApiClient
) -> None:
    row = {"status": "queued", "scheduled_at": ms(2098, 3, 3)}
    (hers,), (his,), (other,) = (insert_rows(server, person, row) for person in (alice, bob, charlie))
    path = "/calendar/month/2098-03"
    assert by_day(browser, path) == {"2098-03-03": sorted([hers, his])}
    send_form(browser, "/profile", profile=bob.profile)
    assert by_day(browser, path) == {"2098-03-03": [his]}
    stranger = sign_in(server, charlie.organization, name="charlie")
    assert by_day(stranger, path) == {"2098-03-03": [other]}


def test_a_page_costs_the_same_however_many_posts_there_are(
    server: AppServer, alice: Person, counting: DatabaseCounter
) -> None:
    browser = sign_in(server, alice.organization)

    def work(path: str) -> int:
        with counting.while_() as done:
            assert browser.get(path, headers=HTML).status_code == 200
        return done.asked.statements

    paths = ("/calendar/month/2098-03", "/calendar/week/2098-03-03")
    few = [work(path) for path in paths]
    insert_rows(
        server, alice, *[{"status": "queued", "scheduled_at": ms(2098, 3, 1) + step * HOUR} for step in range(300)]
    )
    assert [work(path) for path in paths] == few
