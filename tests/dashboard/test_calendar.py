"""Calendar page: posts by day in the reader's time zone, moving, and page cost."""

from __future__ import annotations

import html
import json
import re
from datetime import UTC, date, datetime

import httpx
import pytest

from socialpub.base.runtime import format_iso
from socialpub.domain.posts import calendar
from socialpub.store.schema.models import User
from socialpub.web.dashboard import calendar as calendar_page
from socialpub.web.dashboard import posts as posts_page
from tests.support.app_server import UNKNOWN_ID, ApiClient, AppServer, Person
from tests.support.connect_flow import sign_in
from tests.support.dashboard_forms import HTML, follow_notice, send_form
from tests.support.database_costs import DatabaseCounter
from tests.support.parsed_pages import ParsedPage
from tests.support.post_drafts import new_draft, seen
from tests.support.post_list import insert_rows

HOUR = 3_600_000
PAGE_BYTES_MAX = 60_000


def ms(year: int, month: int, day: int, hour: int = 0, minute: int = 0) -> int:
    return int(datetime(year, month, day, hour, minute, tzinfo=UTC).timestamp() * 1000)


def by_day(browser: ApiClient, path: str) -> dict[str, list[str]]:
    """The ids of the posts on each day that has any, in their order."""
    answer = browser.get(path, headers=HTML)
    assert answer.status_code == 200, path
    assert len(ParsedPage(answer.text).ids) == len(set(ParsedPage(answer.text).ids))
    cut = r'<li class="day' if 'class="month' in answer.text else r'<section class="day'
    days = {}
    for part in re.split(cut, answer.text)[1:]:
        found = re.search(r"d(\d{4}-\d\d-\d\d)\"", part)
        posts = list(dict.fromkeys(re.findall(r'href="/posts/([0-9a-f-]{36})"', part)))
        if found and posts:
            days[found[1]] = posts
    return days


@pytest.mark.slow
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


def test_the_posts_of_a_batch_are_one_entry(server: AppServer, alice: Person, browser: ApiClient) -> None:
    """Its state is the worst of its targets."""
    second = server.connect(alice, "twitter")["id"]
    at = {"scheduled_at": ms(2098, 3, 3, 8, 30), "batch": UNKNOWN_ID, "text": "Buns"}
    error = json.dumps({"code": "platform_rejected", "message": "No."})
    rows = [
        at | {"status": "published"},
        at | {"status": "failed", "error": error, "position": 1, "account": second, "platform": "twitter"},
    ]
    good, bad = insert_rows(server, alice, *rows)
    for path in ("/calendar/month/2098-03", "/calendar/week/2098-03-03"):
        text = browser.get(path, headers=HTML).text
        assert text.count('<li class="entry ') == 1
        assert '<li class="entry bad"' in text
        assert f'href="/posts/{bad}"' in text
        assert f'href="/posts/{good}"' not in text
        assert [text.count(f"/static/icons.svg#p-{name}") for name in ("bluesky", "twitter")] == [1, 1]


def test_days_begin_and_end_on_the_clock_of_the_reader(server: AppServer, alice: Person, browser: ApiClient) -> None:
    """Also the day on which the clocks are set forward."""
    server.service.write(lambda tx: User.update(zone="Europe/Berlin").execute()).result()
    times = [ms(2026, 3, 28, 22, 59), ms(2026, 3, 28, 23), ms(2026, 3, 29, 21, 59), ms(2026, 3, 29, 22)]
    posts = insert_rows(server, alice, *[{"scheduled_at": at} for at in times])
    for path in ("/calendar/month/2026-03", "/calendar/week/2026-03-29"):
        assert by_day(browser, path).get("2026-03-29") == posts[1:3]
    text = browser.get("/calendar/month/2026-03", headers=HTML).text
    assert '<span class="clock">23:59</span>' in text
    for day, said in (("03-29", "forward 1 hour at 02:00"), ("10-25", "back 1 hour at 03:00")):
        for path in (f"/calendar/month/2026-{day[:2]}", f"/calendar/week/2026-{day}"):
            assert browser.get(path, headers=HTML).text.count(f"The clock goes {said}") == 1


def test_a_time_that_exists_twice_is_told_with_its_zone(server: AppServer, alice: Person, browser: ApiClient) -> None:
    server.service.write(lambda tx: User.update(zone="Europe/Berlin").execute()).result()
    insert_rows(server, alice, *[{"scheduled_at": ms(2026, 10, 25, hour, 30)} for hour in (0, 1, 2)])
    text = browser.get("/calendar/week/2026-10-25", headers=HTML).text
    assert re.findall(r'<span class="clock">([^<]*)<', text) == ["02:30 CEST", "02:30 CET", "03:30"]


def test_a_repeated_time_that_is_sent_back_moves_nothing(alice: Person, browser: ApiClient) -> None:
    at = ms(2098, 10, 26, 1, 30)  # 02:30 in Berlin, for the second time
    batch = alice.api.publish(
        {"targets": [{"accountId": alice.bluesky}], "text": "Late", "scheduledAt": "2098-10-26T01:30:00.000Z"}
    ).json()
    fields = {"from": f"{at}", "day": "2098-10-26", "clock": "02:30", "in_zone": "Europe/Berlin", "view": "week"}
    assert send_form(browser, f"/publications/{batch['id']}/move", **fields).status_code == 303
    post = batch["results"][0]["postId"]
    assert alice.api.get(f"/v1/posts/{post}").json()["scheduledAt"] == "2098-10-26T01:30:00.000Z"


@pytest.mark.parametrize(
    ("zone", "day", "hours", "end"),
    [
        ("UTC", date(2026, 10, 25), range(9, 10), ms(2026, 10, 25, 10)),
        ("UTC", date(2026, 12, 31), range(23, 24), ms(2027, 1, 1)),
        ("Europe/Berlin", date(2026, 10, 24), range(6), ms(2026, 10, 24, 4)),
        ("Europe/Berlin", date(2026, 10, 25), range(6), ms(2026, 10, 25, 5)),  # seven hours long
        ("Europe/Berlin", date(2026, 10, 25), range(2, 3), ms(2026, 10, 25, 2)),  # 02:00 CEST to 03:00 CET
        ("Europe/Berlin", date(2026, 10, 25), range(1, 2), ms(2026, 10, 25)),
        ("Europe/Berlin", date(2026, 3, 29), range(6), ms(2026, 3, 29, 4)),  # five hours long
        ("Asia/Beirut", date(2026, 10, 24), range(23, 24), ms(2026, 10, 24, 22)),  # at 24:00 they go back to 23:00
        ("Asia/Beirut", date(2026, 10, 24), range(22, 23), ms(2026, 10, 24, 20)),
        ("Australia/Lord_Howe", date(2026, 4, 5), range(1, 2), ms(2026, 4, 4, 15, 30)),  # half an hour is repeated
    ],
)
def test_an_hour_ends_after_its_second_pass(zone: str, day: date, hours: range, end: int) -> None:
    assert calendar_page.find_end(day, hours, zone) == end


FIRST, SECOND = ms(2026, 10, 25, 0, 30), ms(2026, 10, 25, 1, 30)  # 02:30 in Berlin


@pytest.mark.parametrize(
    ("now", "seen", "at"),
    [
        (FIRST - HOUR, None, FIRST),
        (FIRST - 1, None, FIRST),
        (FIRST, None, SECOND),
        (SECOND - 1, None, SECOND),
        (SECOND, None, FIRST),  # both are over
        (FIRST - 1, SECOND, SECOND),
        (SECOND - 1, FIRST, FIRST),  # it is not moved
    ],
)
def test_a_repeated_time_is_the_first_that_is_not_over(now: int, seen: int | None, at: int) -> None:
    form = {"day": "2026-10-25", "clock": "02:30", "in_zone": "Europe/Berlin", "from": f"{seen}"}
    assert posts_page.read_time(form, now) == format_iso(at)


def test_a_week_of_two_years_names_both(browser: ApiClient) -> None:
    for day, words in (("2027-01-01", "28 Dec 2026 to 3 Jan 2027"), ("2026-11-16", "16 Nov to 22 Nov 2026")):
        assert f"<h1>{words}</h1>" in browser.get(f"/calendar/week/{day}", headers=HTML).text


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
    assert len(by_day(browser, "/calendar/month/2098-03")["2098-03-03"]) == 3
    assert "7 more" in browser.get("/calendar/month/2098-03", headers=HTML).text
    monkeypatch.setattr(calendar, "SCAN_MAX", 3)
    insert_rows(server, alice, *[{"created_at": ms(2098, 3, 7) + step} for step in range(5)])
    text = browser.get("/calendar/week/2098-03-07", headers=HTML).text
    assert "Many more" in text


def move(browser: ApiClient, batch: str, seen: int, **fields: str) -> httpx.Response:
    given = {"from": str(seen), "view": "week", "in_zone": "UTC"}
    return send_form(browser, f"/publications/{batch}/move", **(given | fields))


def undo_fields(page: str) -> dict[str, str]:
    """What the button of a message sends."""
    form = page[: page.index(">Undo<")].rpartition("<form")[2]
    return dict(re.findall(r'name="(\w+)" value="([^"]*)"', form))


def test_a_publication_is_moved_with_all_its_targets_and_moved_back(
    server: AppServer, alice: Person, browser: ApiClient
) -> None:
    second = server.connect(alice, "twitter")["id"]
    body = {"targets": [{"accountId": alice.bluesky}, {"accountId": second}], "text": "x"}
    batch = alice.api.publish(body | {"scheduledAt": "2098-03-03T10:00:00Z"}).json()
    posts, at = [result["postId"] for result in batch["results"]], ms(2098, 3, 3, 10)
    (way,) = re.findall(r'href="(/publications/[^"]*)"', browser.get("/calendar/week/2098-03-03", headers=HTML).text)
    page = browser.get(html.unescape(way), headers=HTML).text
    assert f'value="{at}"' in page
    assert page.count('class="mark"') == 2
    moved = move(browser, batch["id"], at, day="2098-03-03", clock="11:15", by="1")
    assert moved.headers["Location"] == f"/calendar/week/2098-03-04#e-{posts[0][-12:]}"
    assert {alice.api.get(f"/v1/posts/{post}").json()["scheduledAt"] for post in posts} == {"2098-03-04T11:15:00.000Z"}
    assert alice.api.get(f"/v1/batches/{batch['id']}").json()["scheduledAt"] == "2098-03-04T11:15:00.000Z"
    shown = follow_notice(browser, moved)
    assert "Moved to Tue 4 Mar 2098, 11:15 UTC." in shown
    back = undo_fields(shown)
    assert (back["to"], back["from"]) == (str(at), str(ms(2098, 3, 4, 11, 15)))
    again = follow_notice(browser, send_form(browser, f"/publications/{batch['id']}/move", **back))
    assert "Moved back to Mon 3 Mar 2098, 10:00 UTC." in again
    assert ">Undo<" not in again
    assert {alice.api.get(f"/v1/posts/{post}").json()["scheduledAt"] for post in posts} == {"2098-03-03T10:00:00.000Z"}


def test_a_move_of_what_has_changed_since_moves_nothing(server: AppServer, alice: Person, browser: ApiClient) -> None:
    """The second of two people who drag one card is told; a target that has a time of its own stays there."""
    body = {"targets": [{"accountId": alice.bluesky}], "text": "x", "scheduledAt": "2098-03-03T10:00:00Z"}
    batch, at = alice.api.publish(body).json(), ms(2098, 3, 3, 10)
    post = batch["results"][0]["postId"]
    assert move(browser, batch["id"], at, day="2098-03-05", clock="10:00").status_code == 303
    late = move(browser, batch["id"], at, day="2098-03-06", clock="10:00")
    assert late.status_code == 412
    assert "in the meantime" in late.text
    assert alice.api.get(f"/v1/posts/{post}").json()["scheduledAt"] == "2098-03-05T10:00:00.000Z"
    for fields, status in (
        ({"day": "2000-01-01", "clock": "10:00"}, 400),
        ({"day": "x", "clock": "10:00"}, 400),
        ({"day": "2098-03-30", "clock": "02:30", "in_zone": "Europe/Berlin"}, 400),
        ({"to": "1"}, 400),
    ):
        assert move(browser, batch["id"], ms(2098, 3, 5, 10), **fields).status_code == status, fields
    assert alice.api.get(f"/v1/posts/{post}").json()["scheduledAt"] == "2098-03-05T10:00:00.000Z"
    send_form(browser, f"/posts/{post}/cancel")
    assert "can no longer be moved" in browser.get(f"/publications/{batch['id']}/move", headers=HTML).text
    assert browser.get(f"/publications/{UNKNOWN_ID}/move", headers=HTML).status_code == 404


def test_a_draft_is_moved_like_a_post_and_its_approval_ends(
    server: AppServer, alice: Person, browser: ApiClient
) -> None:
    target, at = {"accountId": alice.bluesky}, ms(2098, 3, 3, 10)
    draft = new_draft(alice.api, targets=[target], text="An idea", scheduledAt="2098-03-03T10:00:00Z")["id"]
    path = f"/drafts/{draft}/move"
    assert alice.api.post(f"/v1/drafts/{draft}/approve", headers=seen(alice.api, draft)).status_code == 200
    month = browser.get("/calendar/month/2098-03", headers=HTML).text
    assert f'draggable="true"><a href="/drafts/{draft}">' in month
    assert f'href="{path}?from={at}&amp;view=month"' in month
    form = browser.get(f"{path}?from={at}", headers=HTML).text
    assert ("<h1>Move this draft</h1>" in form, "An idea" in form, f'value="{at}"' in form) == (True, True, True)
    fields = {"in_zone": "UTC", "view": "month", "clock": "11:15"}
    moved = send_form(browser, path, **{"from": str(at), "day": "2098-03-04", **fields})
    assert moved.headers["Location"] == f"/calendar/month/2098-03#e-{draft[-12:]}"
    shown = follow_notice(browser, moved)
    assert "Moved to Tue 4 Mar 2098, 11:15 UTC. Its approval ended." in shown
    body = alice.api.get(f"/v1/drafts/{draft}").json()
    content = {"targets": [target], "text": "An idea", "scheduledAt": "2098-03-04T11:15:00.000Z"}
    assert (body["status"], body["content"]) == ("draft", content)
    late = send_form(browser, path, **{"from": str(at), "day": "2098-03-05", **fields})
    assert (late.status_code, "can no longer be moved" in late.text) == (409, True)
    again = follow_notice(browser, send_form(browser, path, **undo_fields(shown)))
    assert "Moved back to Mon 3 Mar 2098, 10:00 UTC." in again
    assert alice.api.get(f"/v1/drafts/{draft}").json()["content"]["scheduledAt"] == "2098-03-03T10:00:00.000Z"


def test_slots_and_drafts_with_a_time_stand_in_the_calendar(
    server: AppServer, alice: Person, bob: Person, browser: ApiClient
) -> None:
    weekly = [{"day": "mon", "time": "10:00"}, {"day": "mon", "time": "12:00"}]
    slots = alice.api.put("/v1/slots", json={"profileId": alice.profile, "zone": "UTC", "weekly": weekly})
    assert slots.status_code == 200
    insert_rows(server, alice, {"status": "queued", "scheduled_at": ms(2098, 3, 3, 10)})
    insert_rows(server, bob, {"status": "queued", "scheduled_at": ms(2098, 3, 3, 12)})  # of another profile
    content = {"targets": [{"accountId": alice.bluesky}], "text": "An idea", "scheduledAt": "2098-03-03T11:00:00+01:00"}
    draft = new_draft(alice.api, **content)
    for path in ("/calendar/month/2098-03", "/calendar/week/2098-03-03"):
        text = browser.get(path, headers=HTML).text
        monday = text[text.index('data-day="2098-03-03"') :].partition('data-day="2098-03-04"')[0]
        assert re.findall(r'class="slot" href="([^"]*)"', monday) == ["/compose?day=2098-03-03&amp;clock=12:00"]
        assert monday.count(" in-slot") == 1
        (shown,) = re.findall(r'<li class="entry draft".*?</li>', text, re.DOTALL)
        assert f'href="/drafts/{draft["id"]}"' in shown
        assert '<span class="clock">10:00</span>' in shown
        assert "#p-bluesky" in shown
    send_form(browser, "/profile", profile=bob.profile)
    text = browser.get("/calendar/month/2098-03", headers=HTML).text
    assert ('class="slot"' in text, "entry draft" in text) == (False, False)
    assert alice.api.delete(f"/v1/drafts/{draft['id']}").status_code == 200
    composed = browser.get("/compose?day=2098-03-03&clock=12:00", headers=HTML).text
    assert re.search(r'name="clock"[^>]*value="12:00"', composed)


def test_an_author_sees_the_calendar_and_moves_no_post(server: AppServer, alice: Person) -> None:
    author = sign_in(server, alice.organization, role="author", name="ann")
    insert_rows(server, alice, {"status": "queued", "scheduled_at": ms(2098, 3, 3)})
    for path in ("/calendar/month/2098-03", "/calendar/week/2098-03-03"):
        text = author.get(path, headers=HTML).text
        assert '<li class="entry wait"' in text
        assert [part for part in ('draggable="true"', "/publications/") if part in text] == []


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


@pytest.mark.slow
def test_a_page_costs_the_same_however_many_posts_there_are(
    counting: DatabaseCounter, server: AppServer, alice: Person
) -> None:
    browser = sign_in(server, alice.organization)

    def work(path: str) -> int:
        with counting.while_() as done:
            assert browser.get(path, headers=HTML).status_code == 200
        return done.asked.statements

    weekly = [{"day": "mon", "time": "10:00"}]
    alice.api.put("/v1/slots", json={"profileId": alice.profile, "zone": "UTC", "weekly": weekly})
    new_draft(alice.api, text="x", scheduledAt="2098-03-03T11:00:00Z")
    paths = ("/calendar/month/2098-03", "/calendar/week/2098-03-03")
    few = [work(path) for path in paths]
    insert_rows(
        server, alice, *[{"status": "queued", "scheduled_at": ms(2098, 3, 1) + step * HOUR} for step in range(300)]
    )
    assert [work(path) for path in paths] == few
    assert max(few) <= 20
    sizes = [len(browser.get(path, headers=HTML).content) for path in paths]
    assert max(sizes) < PAGE_BYTES_MAX, sizes
