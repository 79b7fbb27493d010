"""Post JSON built by SQLite, compared with `PostBody` and `PostDetail` byte for byte."""

from __future__ import annotations

import json
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from socialpub.base.config import Settings
from socialpub.base.json_codec import dumps
from socialpub.base.runtime import Runtime, format_iso, load_vault
from socialpub.domain.access.authentication import Scope
from socialpub.domain.context.app_context import AppContext, close_context, open_context
from socialpub.domain.posts import post_log
from socialpub.domain.schemas.posts import (
    AttemptBody,
    PostAccount,
    PostBody,
    PostDetail,
    PostedComment,
    PostPage,
    PostsQuery,
)
from socialpub.store.casefold import fold
from socialpub.store.rows import AccountRow, AttemptRow, PostRow
from socialpub.store.schema import migration
from socialpub.store.schema.models import Account, Attempt, Post, find_rows, get_row
from tests.support import post_rows as kit

ORGANIZATION = "01900000-0000-7000-8000-00000000a001"
PROFILE, OTHER = "01900000-0000-7000-8000-0000000000a1", "01900000-0000-7000-8000-0000000000a2"
ROWS = 400
MARKS = ['"', "\\", "/", "'", "%s", "%", "{}", "\b\f\n\r\t", "\x01\x1f\x7f", "\u0080\u2028\u2029\ufeff", "ß", "é", "🦋"]
TEXTS = [*MARKS, "", "Привет", "日本語", "𝔘𝔫𝔦", "a" * 5000, "null", "NaN", "".join(map(chr, range(1, 0xD800, 37)))]
MS = [0, 1, 999, 1000, 1_795_176_000_001, 1_795_176_000_999, 951_782_400_000, 253_402_300_799_999, 4_102_444_799_999]
ERRORS = [None, {"code": "platform_rejected", "message": 'No "✓" 100%.', "docUrl": "http://x", "platformResponse": {}}]
OPTIONS: tuple[dict[str, Any], ...] = ({}, {"langs": ["de", "en"]}, {"title": 'a "b" %s', "disableDuet": True})
MEDIA = [[], [{"kind": "image", "mediaId": "med_1", "altText": "„Tür“ %d"}]]
WARNINGS = [[], [{"code": "w", "message": "ünïcode", "rule": "a.b"}]]
RESPONSES = [None, {"error": "x" * 3000, "n": [1, 2.5, None, True]}, "text", [], 0]


@pytest.fixture(scope="module")
def service(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AppContext]:
    path: Path = tmp_path_factory.mktemp("made") / "socialpub.db"
    migration.migrate(path)
    settings = Settings.model_validate({"database": {"url": str(path)}})
    service = open_context(Runtime(settings, load_vault(settings)))
    furnish(service, random.Random(13))
    yield service
    close_context(service)


def furnish(service: AppContext, dice: random.Random) -> None:
    kit.insert_owner(service, ORGANIZATION, PROFILE)
    kit.insert_owner(service, ORGANIZATION, OTHER)
    accounts = [
        kit.insert_account(service, ORGANIZATION, PROFILE, platform) for platform in ("bluesky", "twitter", "threads")
    ]
    shown = zip(accounts, ({"display_name": 'Bäckerei "Eck"'}, {}, {"platform_account_id": "a\\b\n%s"}), strict=True)
    for account, values in shown:
        if values:
            change = Account.update(**values).where(Account.id == account)
            service.write(lambda tx, change=change: change.execute()).result()  # type: ignore[misc]
    others = [kit.insert_account(service, ORGANIZATION, OTHER, platform) for platform in ("bluesky", "twitter")]
    whose = [(PROFILE, account) for account in accounts] + [(OTHER, account) for account in others]
    rows = kit.insert_posts(service, (row(dice, *dice.choice(whose)) for _ in range(ROWS)))
    attempts = [attempt(dice, str(row["id"]), number) for row in rows for number in range(dice.randrange(3))]
    dice.shuffle(attempts)
    service.write(lambda tx: Attempt.insert_many(attempts).execute()).result()


def text(dice: random.Random) -> str:
    return dice.choice(TEXTS) + "".join(dice.choices(MARKS, k=dice.randrange(4)))


def maybe(dice: random.Random, value: Any) -> Any:
    return dice.choice((None, value))


def row(dice: random.Random, profile: str, account: str) -> dict[str, Any]:
    error, own = dice.choice(ERRORS), dice.choice((dumps, json.dumps))  # as rows of older versions have it, too
    return {
        "organization": ORGANIZATION,
        "profile": profile,
        "account": account,
        "platform": dice.choice(("bluesky", "twitter")),
        "status": dice.choice(("published", "failed", "queued")),
        "text": text(dice),
        "media": own(dice.choice(MEDIA)),
        "options": own(dice.choice(OPTIONS)),
        "warnings": own(dice.choice(WARNINGS)),
        "error": error and own(error),
        "external_id": maybe(dice, "cms/2026:a_b@1.-"),
        "scheduled_at": maybe(dice, dice.choice(MS)),
        "next_attempt_at": maybe(dice, dice.choice(MS)),
        "published_at": maybe(dice, dice.randrange(253_402_300_799_999)),
        "platform_uri": maybe(dice, text(dice)),
        "platform_cid": maybe(dice, text(dice)),
        "url": maybe(dice, text(dice)),
        "first_comment": maybe(dice, text(dice)),
        "first_comment_uri": maybe(dice, text(dice)),
        "first_comment_cid": maybe(dice, text(dice)),
        "created_at": dice.choice((dice.choice(MS), dice.randrange(253_402_300_799_999))),
    }


def attempt(dice: random.Random, post: str, number: int) -> dict[str, Any]:
    response = dice.choice(RESPONSES)
    return {
        "id": f"{post}-{number}",
        "post": post,
        "number": number,
        "started_at": dice.choice(MS),
        "finished_at": maybe(dice, dice.choice(MS)),
        "succeeded": dice.choice((None, True, False)),
        "error_code": maybe(dice, "platform_rejected"),
        "error_message": maybe(dice, text(dice)),
        "platform_response": None if response is None else dumps(response),
    }


def post_body(row: PostRow, account: AccountRow) -> PostBody:
    shown: PostBody = {
        "id": row["id"],
        "batchId": row["batch"],
        "externalId": row["external_id"],
        "profileId": row["profile"],
        "accountId": row["account"],
        "account": {
            "id": account["id"],
            "platform": account["platform"],
            "platformAccountId": account["platform_account_id"],
            "displayName": account["display_name"],
        },
        "platform": row["platform"],
        "status": row["status"],
        "text": row["text"],
        "mediaRefs": json.loads(row["media"]),
        "scheduledAt": format_iso(row["scheduled_at"]),
        "nextAttemptAt": format_iso(row["next_attempt_at"]),
        "publishedAt": format_iso(row["published_at"]),
        "platformUri": row["platform_uri"],
        "platformCid": row["platform_cid"],
        "url": row["url"],
        "warnings": json.loads(row["warnings"]),
        "threadOf": row["thread_of"],
        "threadPosition": row["thread_position"],
        "createdAt": format_iso(row["created_at"]),
        "updatedAt": format_iso(row["updated_at"]),
    }
    if row["error"]:
        shown["error"] = json.loads(row["error"])
    return shown


def attempt_body(row: AttemptRow) -> AttemptBody:
    return {
        "id": row["id"],
        "attemptNumber": row["number"],
        "startedAt": format_iso(row["started_at"]),
        "finishedAt": format_iso(row["finished_at"]),
        "succeeded": row["succeeded"],
        "errorCode": row["error_code"],  # type: ignore[typeddict-item]
        "errorMessage": row["error_message"],
        "platformResponse": json.loads(row["platform_response"]) if row["platform_response"] else None,
    }


def expected(row: PostRow) -> PostDetail:
    """What the shapes say, made from the row by Python."""
    comment: PostedComment | None = None
    if row["first_comment"]:
        comment = {"text": row["first_comment"], "uri": row["first_comment_uri"], "cid": row["first_comment_cid"]}
    attempts = [attempt_body(found) for found in find_rows(Attempt, Attempt.post == row["id"], order=Attempt.number)]
    options = json.loads(row["options"])
    return {
        **post_body(row, get_row(Account, row["account"])),
        "options": {"platform": row["platform"], **options},
        "firstComment": comment,
        "attempts": attempts,
    }


def compact(made: bytes) -> str:
    """With the spaces of older rows taken out: keys stay in their order, and values as they are."""
    return dumps(json.loads(made))


def detail(service: AppContext, row: PostRow) -> bytes:
    return service.read(lambda: post_log.load_detail(Scope(ORGANIZATION), row["id"])).result()


def one_page(service: AppContext, cursor: str) -> bytes:
    query = PostsQuery.model_validate({"limit": 30, "cursor": cursor})
    return service.read(lambda: post_log.load_page(service, Scope(ORGANIZATION), query)).result()


def said(service: AppContext, row: PostRow) -> str:
    return dumps(service.read(lambda: expected(row)).result())


@pytest.fixture(scope="module")
def rows(service: AppContext) -> list[PostRow]:
    """Newest first."""
    order = (Post.created_at.desc(), Post.id.desc())
    return service.read(lambda: list(Post.select().order_by(*order).dicts())).result()


@pytest.mark.slow
def test_a_page_is_what_its_rows_say(service: AppContext, rows: list[PostRow]) -> None:
    shown: list[str] = []
    cursor: str | None = ""
    while cursor is not None:
        page = json.loads(one_page(service, cursor))
        shown += map(dumps, page["data"])
        cursor = page["nextCursor"]
    bodies = service.read(lambda: [post_body(row, get_row(Account, row["account"])) for row in rows]).result()
    assert len(rows) == ROWS
    assert shown == list(map(dumps, bodies))


FILTERS: tuple[dict[str, Any], ...] = (
    {"status": ["failed"]},
    {"platform": ["twitter"]},
    {"q": "%s"},
    {"profileId": OTHER},
)


@pytest.mark.matrix
@pytest.mark.parametrize("query", FILTERS, ids=str)
def test_a_filtered_page_is_what_its_rows_say(service: AppContext, rows: list[PostRow], query: dict[str, Any]) -> None:
    wanted = PostsQuery.model_validate({"limit": 200} | query)
    made = service.read(lambda: post_log.load_page(service, Scope(ORGANIZATION), wanted)).result()

    def fits(row: PostRow) -> bool:
        return (
            row["status"] in query.get("status", [row["status"]])
            and row["platform"] in query.get("platform", [row["platform"]])
            and query.get("q", "") in fold(row["text"])
            and row["profile"] == query.get("profileId", row["profile"])
        )

    fitting = [row for row in rows if fits(row)]
    assert fitting
    bodies = service.read(lambda: [post_body(row, get_row(Account, row["account"])) for row in fitting]).result()
    assert json.loads(made)["data"] == bodies[:200]


@pytest.mark.slow
def test_a_post_is_what_its_row_says(service: AppContext, rows: list[PostRow]) -> None:
    for row in rows:
        assert compact(detail(service, row)) == said(service, row)


def test_what_is_compact_in_its_row_is_sent_to_the_byte(service: AppContext, rows: list[PostRow]) -> None:
    def is_compact(row: PostRow) -> bool:
        return all(kept == dumps(json.loads(kept)) for kept in (row["media"], row["warnings"], row["error"] or "0"))

    plain = [row for row in rows if is_compact(row)]
    assert len(plain) > 20
    for row in plain:
        assert detail(service, row).decode() == said(service, row)


def test_the_shapes_say_each_key_in_its_order(service: AppContext, rows: list[PostRow]) -> None:
    scope = Scope(ORGANIZATION)
    page = json.loads(service.read(lambda: post_log.load_page(service, scope, PostsQuery(limit=200))).result())
    assert list(page) == list(PostPage.__annotations__)
    details = [json.loads(detail(service, row)) for row in rows]
    keys = [name for name in PostBody.__annotations__ if name != "error"]
    own = [name for name in PostDetail.__annotations__ if name not in PostBody.__annotations__]
    for shown in page["data"]:
        assert [name for name in shown if name != "error"] == keys
        assert list(shown["account"]) == list(PostAccount.__annotations__)
    for shown in details:
        assert [name for name in shown if name != "error"] == keys + own
        for made in shown["attempts"]:
            assert list(made) == list(AttemptBody.__annotations__)
        if shown["firstComment"]:
            assert list(shown["firstComment"]) == list(PostedComment.__annotations__)
    assert any("error" in shown for shown in details)
    assert any(shown["firstComment"] for shown in details)
