"""GET /v1/posts through HTTP: filters, forms of parameters, bounds, cursors, scope."""

from __future__ import annotations

import base64
import itertools
from urllib.parse import quote

import pytest

from socialpub.domain.events import cursors
from socialpub.store.schema.models import Post
from tests.support import post_rows as kit
from tests.support.app_server import UNKNOWN_ID, AppServer, Person, error_of, format_instant
from tests.support.post_list import insert_rows, list_pages, list_posts, refused_query

STATUSES = ("queued", "validated", "publishing", "published", "failed", "rejected", "canceled")
ERROR = '{"code":"platform_rejected","message":"No.","docUrl":"http://x/docs/errors/platform_rejected"}'


# --- What a row looks like ---------------------------------------------------------------------------------------


def test_an_empty_log_is_an_empty_page(alice: Person) -> None:
    assert alice.api.get("/v1/posts").json() == {"data": [], "nextCursor": None}


def test_a_post_has_every_documented_field(server: AppServer, alice: Person) -> None:
    media = '[{"kind":"image","mediaId":"med_1"}]'
    (post,) = insert_rows(server, alice, {"text": "Grüße", "created_at": kit.NOON, "media": media, "status": "queued"})
    (shown,) = alice.api.get("/v1/posts").json()["data"]
    account = alice.accounts["bluesky"]
    assert {name: value for name, value in shown.items() if name != "batchId"} == {
        "id": post,
        "externalId": None,
        "profileId": alice.profile,
        "accountId": alice.bluesky,
        "account": {
            "id": alice.bluesky,
            "platform": "bluesky",
            "platformAccountId": account["platformAccountId"],
            "displayName": account["displayName"],
        },
        "platform": "bluesky",
        "status": "queued",
        "text": "Grüße",
        "mediaRefs": [{"kind": "image", "mediaId": "med_1"}],
        "scheduledAt": None,
        "nextAttemptAt": None,
        "publishedAt": None,
        "platformUri": None,
        "platformCid": None,
        "url": None,
        "warnings": [],
        "threadOf": None,
        "threadPosition": None,
        "createdAt": "2026-11-20T12:00:00.000Z",
        "updatedAt": "2026-11-20T12:00:00.000Z",
    }


def test_an_error_is_there_when_there_is_one(server: AppServer, alice: Person) -> None:
    insert_rows(server, alice, {"status": "rejected", "error": ERROR, "error_code": "platform_rejected"})
    (shown,) = alice.api.get("/v1/posts").json()["data"]
    assert shown["error"] == {
        "code": "platform_rejected",
        "message": "No.",
        "docUrl": "http://x/docs/errors/platform_rejected",
    }


# --- Filters -----------------------------------------------------------------------------------------------------


@pytest.fixture
def grid(server: AppServer, alice: Person) -> dict[tuple[str, str], str]:
    """One post for each of three platforms and seven statuses: its id."""
    accounts = {name: server.connect(alice, name)["id"] for name in ("tiktok", "twitter")} | {"bluesky": alice.bluesky}
    spots = list(itertools.product(accounts, STATUSES))
    rows = [{"platform": name, "account": accounts[name], "status": status} for name, status in spots]
    for row in rows:
        if row["status"] in ("failed", "rejected"):
            code = "platform_unavailable" if row["status"] == "failed" else "platform_rejected"
            row |= {"error": ERROR, "error_code": code}
    return dict(zip(spots, insert_rows(server, alice, *rows), strict=True))


def test_filters_compose(subtests: pytest.Subtests, alice: Person, grid: dict[tuple[str, str], str]) -> None:
    for query, platforms, statuses in [
        ("", "bluesky tiktok twitter", STATUSES),
        ("platform=tiktok", "tiktok", STATUSES),
        ("platform=tiktok&platform=twitter", "tiktok twitter", STATUSES),
        ("platform=facebook", "", STATUSES),
        ("status=failed", "bluesky tiktok twitter", ["failed"]),
        ("status=failed,queued", "bluesky tiktok twitter", ["failed", "queued"]),
        ("status=failed,failed&status=failed", "bluesky tiktok twitter", ["failed"]),
        ("errorCode=platform_rejected", "bluesky tiktok twitter", ["rejected"]),
        ("errorCode=platform_rejected,platform_unavailable", "bluesky tiktok twitter", ["failed", "rejected"]),
        ("errorCode=internal_error", "", STATUSES),
        ("platform=tiktok,bluesky&status=failed,canceled", "tiktok bluesky", ["failed", "canceled"]),
        ("platform=tiktok&errorCode=platform_unavailable", "tiktok", ["failed"]),
        ("status=rejected&errorCode=platform_unavailable", "", STATUSES),
        ("status=rejected&errorCode=platform_rejected&platform=twitter&q=hell", "twitter", ["rejected"]),
        ("status=rejected&errorCode=platform_rejected&platform=twitter&q=he", "twitter", ["rejected"]),
        ("q=hallo&platform=twitter", "", STATUSES),
    ]:
        with subtests.test(query=query, platforms=platforms, statuses=statuses):
            expected = [
                post for (name, status), post in grid.items() if name in platforms.split() and status in statuses
            ]
            assert list_posts(alice, query) == expected[::-1]


@pytest.mark.parametrize(
    "form",
    [
        "status=failed&status=queued",
        "status=failed,queued",
        "status=queued,failed&status=failed",
        "status[]=failed&status[]=queued",
        "status[0]=failed&status[1]=queued",
        "status%5B%5D=failed&status%5B%5D=queued",
        "status%5B0%5D=failed&status=queued",
        "status=failed%2Cqueued",
    ],
)
@pytest.mark.usefixtures("grid")
def test_a_list_may_be_written_in_each_documented_form(alice: Person, form: str) -> None:
    found = alice.api.get(f"/v1/posts?{form}").json()["data"]
    assert sorted({post["status"] for post in found}) == ["failed", "queued"]
    assert len(found) == 6


def test_a_batch_can_be_listed(server: AppServer, alice: Person, charlie: Person) -> None:
    batch = "0190a2b3-c4d5-7e6f-8a9b-0c1d2e3f4a5b"
    posts = insert_rows(server, alice, *[{"batch": batch, "text": text} for text in ("one", "two")], {"text": "three"})
    assert list_posts(alice, f"batchId={batch}") == [posts[1], posts[0]]
    assert list_posts(alice, f"batchId={batch.upper()}") == [posts[1], posts[0]]
    assert list_posts(alice, f"batchId={batch}&q=one") == [posts[0]]
    assert list_posts(alice, f"batchId={UNKNOWN_ID}") == []
    assert list_posts(charlie, f"batchId={batch}") == []


def test_bounds_on_created_at_are_exclusive(server: AppServer, alice: Person) -> None:
    posts = insert_rows(server, alice, *[{"created_at": kit.NOON + step} for step in range(5)])

    def at(step: int) -> str:
        return quote(format_instant(kit.NOON + step))

    assert list_posts(alice, f"after={at(1)}") == [posts[4], posts[3], posts[2]]
    assert list_posts(alice, f"before={at(3)}") == [posts[2], posts[1], posts[0]]
    assert list_posts(alice, f"after={at(1)}&before={at(3)}") == [posts[2]]
    assert list_posts(alice, f"after={at(2)}&before={at(3)}") == []
    assert list_posts(alice, f"after={at(3)}&before={at(1)}") == []
    assert list_posts(alice, "after=2026-11-20T13:00:00.001%2B01:00") == [posts[4], posts[3], posts[2]]
    assert list_posts(alice, f"after={at(1)}&before={at(4)}&q=hello&status=published") == [posts[3], posts[2]]
    within = at(2).replace(".002Z", ".0020001Z")  # after the third post, and before the next millisecond
    assert list_posts(alice, f"before={within}") == [posts[2], posts[1], posts[0]]
    assert list_posts(alice, f"after={within}") == [posts[4], posts[3]]
    assert list_posts(alice, "before=0001-01-01T00:00:00Z") == []
    assert list_posts(alice, "after=0001-01-01T00:00:00Z&before=9999-12-31T23:59:59Z") == posts[::-1]


def test_a_wrong_parameter_is_named(subtests: pytest.Subtests, alice: Person) -> None:
    for query, rule in [
        ("limit=0", "limit"),
        ("limit=201", "limit"),
        ("limit=-1", "limit"),
        ("limit=ten", "limit"),
        ("limit=1.5", "limit"),
        ("limit=", "limit"),
        ("limit=99999999999999999999", "limit"),
        ("status=", "status.0"),
        ("status=published,", "status.1"),
        ("status=Published", "status.0"),
        ("platform=myspace", "platform.0"),
        ("errorCode=nonsense", "errorCode.0"),
        ("errorCode=platform_rejected,nonsense", "errorCode.1"),
        ("q=", "q"),
        ("q=" + "x" * 201, "q"),
        ("after=2026-05-04T15:30:00", "after"),
        ("after=2026-05-04", "after"),
        ("after=yesterday", "after"),
        ("after=1795176000000", "after"),
        ("before=2026-02-30T00:00:00Z", "before"),
        ("before=2026-05-04T25:00:00Z", "before"),
        ("before=", "before"),
        ("profileId=", "profileId"),
        ("profileId=nonsense", "profileId"),
        ("batchId=nonsense", "batchId"),
        ("colour=red", "colour"),
        ("Status=failed", "Status"),
        ("limit[]=5", "limit[]"),
        ("status[x]=failed", "status[x]"),
        ("error_code=internal_error", "error_code"),
    ]:
        with subtests.test(query=query, rule=rule):
            assert refused_query(alice, query) == rule


def test_an_unknown_parameter_is_corrected(alice: Person) -> None:
    error = error_of(alice.api.get("/v1/posts?stauts=failed"))
    assert "`status`" in error["remediation"]


def test_the_limit_is_50_and_at_most_200(server: AppServer, alice: Person) -> None:
    posts = insert_rows(server, alice, *[{} for _ in range(205)])
    assert list_posts(alice) == posts[::-1][:50]
    assert list_posts(alice, "limit=1") == posts[-1:]
    assert list_posts(alice, "limit=200") == posts[::-1][:200]


# --- Cursors -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("count, expected", [(5, [5]), (6, [5, 1]), (10, [5, 5]), (0, [0])])
def test_the_last_page_has_no_cursor(server: AppServer, alice: Person, count: int, expected: list[int]) -> None:
    posts = insert_rows(server, alice, *[{} for _ in range(count)])
    found = list(list_pages(alice, "limit=5"))
    assert [len(page) for page in found] == expected
    assert list(itertools.chain(*found)) == posts[::-1]


def test_posts_of_one_millisecond_are_ordered_by_id_across_pages(server: AppServer, alice: Person) -> None:
    posts = insert_rows(server, alice, *[{"created_at": kit.NOON} for _ in range(10)])
    for query in ("limit=3", "limit=3&status=published,failed", "limit=3&q=hello", "limit=3&q=lo"):
        assert list(itertools.chain(*list_pages(alice, query))) == sorted(posts, reverse=True)


@pytest.mark.matrix
@pytest.mark.parametrize("query", ["limit=17", "limit=40&status=published,failed", "limit=25&q=hello", "limit=25&q=he"])
def test_many_posts_are_walked_while_others_are_added(server: AppServer, alice: Person, query: str) -> None:
    posts = insert_rows(server, alice, *[{"status": "published" if step % 2 else "failed"} for step in range(200)])
    seen: list[str] = []
    for page in list_pages(alice, query):
        seen += page
        insert_rows(server, alice, {}, {"status": "failed"})
    assert seen == posts[::-1]


def test_a_cursor_goes_on_though_its_row_has_changed(server: AppServer, alice: Person) -> None:
    posts = insert_rows(server, alice, *[{"status": "queued"} for _ in range(4)])
    first = alice.api.get("/v1/posts?limit=2&status=queued").json()
    server.service.write(
        lambda tx: Post.update(status="canceled").where(Post.id == first["data"][1]["id"]).execute()
    ).result()
    assert list_posts(alice, f"limit=2&status=queued&cursor={first['nextCursor']}") == [posts[1], posts[0]]


def test_a_cursor_and_before_bound_together(server: AppServer, alice: Person) -> None:
    posts = insert_rows(server, alice, *[{"created_at": kit.NOON + step} for step in range(6)])
    cursor = alice.api.get("/v1/posts?limit=2").json()["nextCursor"]  # after the newest two
    for query in ("", "&q=hello"):
        assert list_posts(alice, f"cursor={cursor}&before={format_instant(kit.NOON + 2)}{query}") == [
            posts[1],
            posts[0],
        ]
        assert list_posts(alice, f"cursor={cursor}&before={format_instant(kit.NOON + 5)}{query}") == posts[3::-1]


def test_a_cursor_that_this_list_did_not_make_is_refused(server: AppServer, alice: Person, charlie: Person) -> None:
    insert_rows(server, alice, {}, {}, {})
    cursor = alice.api.get("/v1/posts?limit=1").json()["nextCursor"]
    raw = base64.urlsafe_b64decode(cursor)
    flipped = [raw[:place] + bytes([raw[place] ^ 1]) + raw[place + 1 :] for place in range(len(raw))]
    others = [
        "nonsense",
        "ünïcode",
        "A" * 5000,
        cursor[:-4],
        cursor + "AAAA",
        cursor.rstrip("=") + "====",
        " " + cursor,
        base64.urlsafe_b64encode(raw[:16]).decode(),
        cursors.encode(server.service, "media", alice.organization, kit.NOON, UNKNOWN_ID),
        cursors.encode(server.service, "posts", charlie.organization, kit.NOON, UNKNOWN_ID),
    ]
    for wrong in [base64.urlsafe_b64encode(bad).decode() for bad in flipped] + others:
        assert refused_query(alice, f"cursor={quote(wrong)}") == "cursor"
    assert refused_query(charlie, f"cursor={cursor}") == "cursor"
    assert len(list_posts(alice, f"cursor={quote(cursor)}")) == 2


# --- Scope -------------------------------------------------------------------------------------------------------


def test_an_organization_sees_its_own_posts_only(
    server: AppServer, alice: Person, bob: Person, charlie: Person
) -> None:
    (hers,), (his,), (other,) = (insert_rows(server, person, {}) for person in (alice, bob, charlie))
    for query in ("", "q=hello", "q=he", "status=published", f"platform=bluesky&after={format_instant(0)}"):
        assert list_posts(alice, query) == [his, hers]
        assert list_posts(bob, query) == [his]
        assert list_posts(charlie, query) == [other]


def test_a_profile_is_listed_by_its_id(server: AppServer, alice: Person, bob: Person) -> None:
    (hers,), (his,) = (insert_rows(server, person, {}) for person in (alice, bob))
    for query in ("", "&q=hello", "&q=he", "&status=published", "&platform=bluesky"):
        assert list_posts(alice, f"profileId={bob.profile}{query}") == [his]
        assert list_posts(alice, f"profileId={alice.profile.upper()}{query}") == [hers]
        assert list_posts(bob, f"profileId={bob.profile}{query}") == [his]


def test_another_or_unknown_profile_is_not_found(alice: Person, bob: Person, charlie: Person) -> None:
    for person, profile, rule in [
        (alice, UNKNOWN_ID, None),
        (alice, charlie.profile, None),
        (bob, alice.profile, "api_key.profile_scope"),
        (bob, UNKNOWN_ID, "api_key.profile_scope"),
    ]:
        answer = person.api.get(f"/v1/posts?profileId={profile}")
        assert answer.status_code == 404
        assert error_of(answer)["code"] == "not_found"
        assert error_of(answer).get("rule") == rule


def test_a_stranger_sees_nothing(server: AppServer, alice: Person) -> None:
    insert_rows(server, alice, {})
    answer = server.api().get("/v1/posts")
    assert answer.status_code == 401
    assert error_of(answer)["code"] == "unauthenticated"


def test_head_answers_without_a_body(server: AppServer, alice: Person) -> None:
    insert_rows(server, alice, {})
    answer = alice.api.head("/v1/posts?status=published")
    assert (answer.status_code, answer.content) == (200, b"")
    assert int(answer.headers["Content-Length"]) > 100
