"""Import page: what is wrong with each row of a file, and each good one once."""

from __future__ import annotations

import base64
import html
import re
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from socialpub.domain.posts import sheet_import
from socialpub.store.schema.models import Account, Post
from socialpub.web.dashboard import imports
from tests.support.app_server import ApiClient, AppServer, Person, unchanged
from tests.support.connect_flow import sign_in
from tests.support.dashboard_forms import HTML, XSS, follow_notice, send_form
from tests.support.parsed_pages import ParsedPage

AT = "2098-03-04T10:20:00Z"
HEAD = "account;scheduledAt;text"


def sheet(person: Person, *rows: str) -> bytes:
    """A file as spreadsheets of most of Europe write it; ME stands for the account."""
    return "\r\n".join([HEAD, *(row.replace("ME", person.bluesky) for row in rows)]).encode("utf-8-sig")


def check(browser: ApiClient, raw: bytes, **fields: str) -> httpx.Response:
    given = {"csrf_token": browser.headers["X-CSRF-Token"]} | fields
    return browser.post("/import/check", data=given, files={"file": ("plan.csv", raw, "text/csv")}, headers=HTML)


def confirm(browser: ApiClient, page: httpx.Response) -> httpx.Response:
    """Send the form of the preview."""
    (content,) = re.findall(r'name="file" value="([^"]*)"', page.text)
    return send_form(browser, "/import", file=html.unescape(content))


def states(page: httpx.Response) -> list[str]:
    return re.findall(r'<td data-label="State"><span class="state \w+">(.*?)</span>', page.text)


READY, THERE, WRONG = "Ready", "Imported already", "Has a problem"


def test_each_row_is_shown_with_what_is_wrong_and_nothing_is_written(
    server: AppServer, alice: Person, browser: ApiClient
) -> None:
    with unchanged(server):
        page = check(
            browser,
            sheet(
                alice,
                f"ME;{AT};Good",
                f"ME;{AT};Good",
                f"nobody;{AT};x",
                "ME;2001-01-01T00:00:00Z;late",
                f"ME;{AT};{'x' * 301}",
                f'ME;{AT};"{XSS.replace(chr(34), chr(34) * 2)}"',
            ),
        )
    assert page.status_code == 200
    assert states(page) == [READY, THERE, WRONG, WRONG, WRONG, READY]
    counts = "2 ready, 1 imported already, 3 with a problem"
    for said in ("There is no account called 'nobody'.", "at most 300", counts):
        assert said in ParsedPage(page.text).text, said
    assert re.findall(r'<td data-label="Line">(\d+)</td>', page.text) == ["2", "3", "4", "5", "6", "7"]
    assert "<script>alert" not in page.text


def test_names_in_problems_are_shown_as_they_are_written(server: AppServer, alice: Person, browser: ApiClient) -> None:
    for platform in ("facebook", "threads"):
        made = server.connect(alice, platform)
        named = Account.update(display_name="Café Nord").where(Account.id == made["id"])
        server.service.write(lambda tx, named=named: named.execute()).result()
    page = check(browser, sheet(alice, f"Café Nord;{AT};x", f"facebook Café Nord;{AT};x"))
    assert states(page) == [WRONG, READY]
    advice = "Write the platform before the name, or the account's ID."
    assert f"2 accounts are called 'Café Nord'. {advice}" in ParsedPage(page.text).text
    twice = check(browser, f"{HEAD};Überschrift;Überschrift\nx;y;z".encode())
    assert "The column 'Überschrift' occurs twice." in ParsedPage(twice.text).text
    unknown = check(browser, f"Überschrift;{HEAD}\nx;{alice.bluesky};{AT};y".encode())
    assert "There is no such field as 'Überschrift'." in ParsedPage(unknown.text).text
    media = check(browser, f"{HEAD};media\n{alice.bluesky};{AT};y;Tür.jpg".encode())
    assert "'Tür.jpg' is neither an address nor the id of an uploaded file." in ParsedPage(media.text).text


def test_the_good_rows_are_scheduled_once_and_canceled_together(
    server: AppServer, alice: Person, browser: ApiClient
) -> None:
    raw = sheet(alice, f"ME;{AT};One", f'ME;{AT};"Two\nlines"', f"nobody;{AT};x")
    page = check(browser, raw)
    done = confirm(browser, page)
    assert done.status_code == 303
    listed = follow_notice(browser, done)
    assert "2 posts scheduled. 1 row left out." in listed
    assert 'action="/import/undo"' in listed
    assert {row["text"] for row in server.rows(Post, status="queued")} == {"One", "Two\nlines"}
    with ThreadPoolExecutor(2) as both:  # the form again, twice at once
        again = list(both.map(lambda _: confirm(browser, page), range(2)))
    assert [answer.status_code for answer in again] == [200, 200]
    assert states(again[0]) == [THERE, THERE, WRONG]
    assert len(server.rows(Post)) == 2
    assert "Cancel the 2 scheduled from this file" in check(browser, raw).text
    undone = send_form(browser, "/import/undo", name=sheet_import.name_file(raw))
    assert "2 posts canceled." in follow_notice(browser, undone)
    assert server.rows(Post, status="queued") == []
    assert confirm(browser, page).status_code == 303  # what was canceled may be imported again
    assert len(server.rows(Post, status="queued")) == 2


def test_a_form_that_is_sent_twice_at_once_schedules_each_post_once(
    server: AppServer, alice: Person, browser: ApiClient
) -> None:
    page = check(browser, sheet(alice, *(f"ME;{AT};Post {number}" for number in range(20))))
    with ThreadPoolExecutor(3) as all_:
        answers = list(all_.map(lambda _: confirm(browser, page), range(3)))
    assert {answer.status_code for answer in answers} <= {200, 303}
    assert len(server.rows(Post)) == 20


def test_an_edited_post_is_not_imported_again(server: AppServer, alice: Person, browser: ApiClient) -> None:
    raw = sheet(alice, f"ME;{AT};One")
    confirm(browser, check(browser, raw))
    post = server.rows(Post)[0]["id"]
    assert alice.api.patch(f"/v1/posts/{post}", json={"text": "Another"}).status_code == 200
    assert states(check(browser, raw)) == [THERE]


@pytest.mark.parametrize(
    "raw, said",
    [
        (b"", "no rows"),
        (HEAD.encode(), "no rows"),
        (b"PK\x03\x04" + bytes(100), "workbook"),
        (b"account,text\n" + b"a,b\n" * (sheet_import.ROWS_MAX + 1), "more than 200 rows"),
        (b"x" * (sheet_import.FILE_MAX + 1), "larger than 256 KiB"),
        (b"x" * imports.UPLOAD_MAX, "larger than 256 KiB"),
    ],
    ids=["empty", "header", "workbook", "rows", "bytes", "more than is read"],
)
def test_a_file_that_is_no_list_of_posts_is_refused(
    server: AppServer, alice: Person, browser: ApiClient, raw: bytes, said: str
) -> None:
    with unchanged(server):
        page = check(browser, raw)
        assert page.status_code == (413 if len(raw) >= imports.UPLOAD_MAX else 400)
        assert (said in page.text, 'action="/import/check"' in page.text) == (True, True), page.text
        form = send_form(browser, "/import", file=base64.b64encode(raw).decode())
        assert (form.status_code, said in form.text) == (400, True)


def test_broken_forms_are_refused(server: AppServer, alice: Person, browser: ApiClient) -> None:
    with unchanged(server):
        assert check(browser, sheet(alice, f"ME;{AT};x"), csrf_token="wrong").status_code == 403
        assert send_form(browser, "/import", file="no base64!").status_code == 400
        assert send_form(browser, "/import/undo", name="%").status_code == 400
        token = {"csrf_token": browser.headers["X-CSRF-Token"]}
        assert browser.post("/import/check", data=token).status_code == 400
        assert browser.post("/import/check", data=token, files={"other": b"x"}).status_code == 400
        cut = {"Content-Type": "multipart/form-data; boundary=x"}
        assert browser.post("/import/check", content=b"--x\r\nbroken", headers=cut).status_code == 403
        assert browser.post("/import/check", content=bytes(600_000), headers=cut).status_code == 413


def test_another_organization_imports_nothing_here(
    server: AppServer, alice: Person, charlie: Person, browser: ApiClient
) -> None:
    stranger = sign_in(server, charlie.organization, name="charlie")
    raw = sheet(alice, f"ME;{AT};One")
    assert states(check(stranger, raw)) == [WRONG]
    confirm(browser, check(browser, raw))
    with unchanged(server):
        undone = send_form(stranger, "/import/undo", name=sheet_import.name_file(raw))
        assert "0 posts canceled." in follow_notice(stranger, undone)


def test_where_approval_is_needed_a_member_imports_nothing(make_server: Callable[..., AppServer]) -> None:
    server = make_server(publishing={"approval": True})
    alice = server.connected_person("Alice")
    member = sign_in(server, alice.organization, role="member", name="max")
    raw = sheet(alice, f"ME;{AT};One")
    with unchanged(server):
        assert "only approved drafts" in member.get("/import", headers=HTML).text
        assert check(member, raw).status_code == 409
        assert send_form(member, "/import", file=base64.b64encode(raw).decode()).status_code == 409
