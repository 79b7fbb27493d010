"""Responses of platforms are stored within bounds, or refused; none is a 500.

Names are cut, ids and tokens refused, and a post whose id is unusable is looked up (`platforms/contract/bounds.py`).
"""

from __future__ import annotations

import base64
import json
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from typing import Any

import httpx
import pytest

from socialpub.base.errors import ApiError
from socialpub.domain.accounts import tokens
from socialpub.domain.publishing.intents import RESPONSE_MAX
from socialpub.platforms.contract.bounds import FACT_MAX, ID_MAX, NAME_MAX, TOKEN_MAX
from socialpub.simulator.server import SimulatorThread
from tests.support.app_server import AppServer, error_of, unused_name
from tests.support.changed_fields import LONG, UNUSABLE, replace_fields
from tests.support.connect_flow import APP, ConnectSession, sign_in
from tests.support.platforms.meta_calls import jpeg, mp4
from tests.support.response_relay import ResponseRelay

NAMES = ("name", "displayName", "display_name", "username", "business_name", "localizedName", "localizedFirstName")
FACTS = ("category", "account_type", "subscription_type", "handle", "scope", "permissions")
IDS = ("id", "user_id", "sub", "open_id", "did")
TOKENS = ("access_token", "refresh_token", "accessJwt", "refreshJwt")
EXPIRY = ("expires_in", "refresh_token_expires_in", "refresh_expires_in", "exp")
POST_IDS = ("id", "cid", "publish_id")
UPLOAD_IDS = ("id", "publish_id", "upload_url", "media_id", "image", "blob")
ADDRESSES = ("permalink", "permalink_url", "shortcode")
NOTHING = "^NOTHING"

PUBLIC = {
    "bluesky": r"^POST /xrpc/com\.atproto\.repo\.putRecord$",
    "facebook": r"^POST /v[\d.]+/\d+/feed$",
    "instagram": r"^POST /v[\d.]+/\d+/media_publish$",
    "linkedin": r"^POST /rest/posts$",
    "pinterest": r"^POST /v5/pins$",
    "threads": r"^POST /v[\d.]+/\d+/threads_publish$",
    "tiktok": r"^POST /v2/post/publish/content/init/$",
    "twitter": r"^POST /2/tweets$",
}
LISTS = {
    "bluesky": r"^GET /xrpc/com\.atproto\.repo\.getRecord$",
    "facebook": r"^GET /v[\d.]+/\d+/published_posts$",
    "instagram": r"^GET /v[\d.]+/\d+/media$",
    "linkedin": r"^GET /rest/posts$",
    "pinterest": r"^GET /v5/boards/[^/]+/pins$",
    "threads": r"^GET /v[\d.]+/\d+/threads$",
    "tiktok": NOTHING,
    "twitter": r"^GET /2/users/\d+/tweets$",
}
"""The calls that a publication is looked up by."""
COLUMN_MAX = 6 * RESPONSE_MAX  # characters of any text column; LONG is longer
SECRET_MAX = 8 * TOKEN_MAX


class RelayedServer:
    """A server whose one platform is behind a relay."""

    def __init__(self, make_server: Callable[..., AppServer], lab: SimulatorThread, name: str) -> None:
        self.name, self.relay = name, ResponseRelay(lab.origin(name), NOTHING)
        self.server = make_server(
            platforms={name: {"api_base": self.relay.origin, **({} if name == "bluesky" else APP)}},
            publishing={"settle_horizon": 1},
        )
        self.server.url = f"http://127.0.0.1:{self.server.port}"
        self.alice = self.server.person("Alice")
        self.office = ConnectSession(self.server, self.alice, sign_in(self.server, self.alice.organization), name)

    def answer(self, calls: str, names: tuple[str, ...], value: Any) -> None:
        """Replace fields in the responses to these calls, from now on."""
        self.relay.match(calls)
        self.relay.odd = replace_fields(names, value)

    def connect(self) -> httpx.Response:
        with self.office.browser.expecting_failure():
            return self._connect()

    def _connect(self) -> httpx.Response:
        if self.name != "bluesky":
            self.office.login_exists()
            return self.office.connect()
        made = self.server.lab.lab.add_account("bluesky", handle=unused_name() + ".test")
        fields = {"handle": made["handle"], "password": made["appPassword"]}
        return self.office.browser.post("/v1/accounts/connect/bluesky/complete", json=fields)

    def publish(self, account: str, kind: str = "image") -> dict[str, Any]:
        file = {"kind": kind, "bytesBase64": base64.b64encode(jpeg() if kind == "image" else mp4()).decode()}
        body = {"targets": [{"accountId": account}], "text": unused_name("text "), "media": [file]}
        with self.server.hurried():
            (result,) = self.alice.api.publish(body).json()["results"]
            row = self.server.wait(result["postId"], "published", "failed", "rejected")
        made = self.server.lab.lab.ledger.entries(self.name)
        return row | {"made": [entry for entry in made if body["text"] in f"{entry.text} {entry.request}"]}


@pytest.fixture(params=sorted(PUBLIC))
def place(
    request: pytest.FixtureRequest, make_server: Callable[..., AppServer], lab: SimulatorThread
) -> Iterator[RelayedServer]:
    made = RelayedServer(make_server, lab, request.param)
    yield made
    made.relay.close()


def check_stored(server: AppServer) -> None:
    """No column of any table has a text that came whole from the platform."""
    with closing(sqlite3.connect(server.service.db.path)) as connection:
        tables = [
            name
            for (name,) in connection.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB '*_search*'"
            )
        ]
        assert {"account", "post", "intent", "attempt", "event", "connect_attempt"} <= set(tables)
        for table in tables:
            for column in [row[1] for row in connection.execute(f"PRAGMA table_info({table})")]:
                longest = connection.execute(f'SELECT MAX(LENGTH("{column}")) FROM "{table}"').fetchone()[0] or 0
                assert longest <= (SECRET_MAX if column in ("secret", "choices") else COLUMN_MAX), (table, column)
        for account, name, extra in connection.execute("SELECT platform_account_id, display_name, extra FROM account"):
            assert len(account) <= ID_MAX
            assert name is None or (0 < len(name) <= NAME_MAX and not set(name) & set("\x00\r\n\u202e")), name
            facts = json.loads(extra).values()
            assert all(fact is None or len(str(fact)) <= FACT_MAX for fact in facts), extra


def check_refused(answer: httpx.Response, *codes: str) -> None:
    error = error_of(answer)
    assert error["code"] in codes, error
    assert answer.status_code != 500
    assert len(answer.content) < COLUMN_MAX


def test_names_and_facts_are_cut_and_connect(place: RelayedServer, subtests: pytest.Subtests) -> None:
    for label, value in UNUSABLE.items():
        with subtests.test(value=label):
            place.answer("", (*NAMES, *FACTS, *EXPIRY), value)
            answer = place.connect()
            if answer.status_code != 201:  # a needed scope or user name is missing
                check_refused(answer, "platform_unavailable", "platform_auth_failed")
            listed = place.office.browser.get("/v1/accounts")
            assert listed.status_code == 200
            assert len(listed.content) < COLUMN_MAX
            check_stored(place.server)
    place.answer("", NAMES, f" Ann{UNUSABLE['controls']} {LONG}")
    assert place.connect().status_code == 201
    check_stored(place.server)


@pytest.mark.parametrize("names", [IDS, TOKENS], ids=["id", "token"])
def test_an_unusable_id_or_token_is_refused(
    place: RelayedServer, names: tuple[str, ...], subtests: pytest.Subtests
) -> None:
    for label, value in UNUSABLE.items():
        with subtests.test(value=label):
            place.answer("", names, value)
            answer = place.connect()
            if (
                place.name == "pinterest" and label in ("empty", "no text") and names is IDS
            ):  # it identifies an account by its name
                assert answer.status_code == 201
                continue
            check_refused(answer, "platform_unavailable", "platform_auth_failed")
            assert LONG[:2_000] not in answer.text
            check_stored(place.server)


@pytest.mark.parametrize("value", [LONG, UNUSABLE["controls"]], ids=["long", "controls"])
def test_a_refresh_with_unusable_tokens_keeps_the_old_ones(place: RelayedServer, value: Any) -> None:
    service, account = place.server.service, place.connect().json()["id"]
    (before,) = place.office.rows()
    place.answer("", TOKENS, value)
    stale = tokens.decrypt(service, account, before["secret"])
    if stale.refresh is None:
        return
    with pytest.raises(ApiError) as caught:
        tokens.refresh_tokens(service, account, stale)
    assert caught.value.code == "platform_unavailable"
    (after,) = place.office.rows()
    assert (after["secret"], after["status"]) == (before["secret"], "active")
    check_stored(place.server)


def ready_account(place: RelayedServer) -> str:
    """A connected account that can publish a picture."""
    account = str(place.connect().json()["id"])
    if place.name == "pinterest":
        boards = place.alice.api.get(f"/v1/accounts/{account}/pinterest/boards").json()["data"]
        changed = {"boardId": boards[0]["id"]}
        answer = place.alice.api.patch(f"/v1/accounts/{account}/pinterest/default-board", json=changed)
        assert answer.status_code == 200, answer.text
    return account


def test_a_post_with_an_unusable_id_is_looked_up(place: RelayedServer, subtests: pytest.Subtests) -> None:
    account = ready_account(place)
    for label, value in UNUSABLE.items():
        for calls in (PUBLIC[place.name], f"{PUBLIC[place.name]}|{LISTS[place.name]}"):
            with subtests.test(value=label, calls=calls):
                place.answer(calls, ("x-restli-id",) if place.name == "linkedin" else POST_IDS, value)
                row = place.publish(account)
                told = (row["status"], row["error"])
                assert len(row["made"]) == 1, told
                assert row["status"] == "published" or "publish.outcome_unknown" in str(row["error"]), told
                if calls == PUBLIC[place.name] and place.name not in ("tiktok", "linkedin"):
                    assert row["status"] == "published", told
                check_stored(place.server)


def test_an_unusable_id_of_an_upload_fails_the_post(place: RelayedServer, subtests: pytest.Subtests) -> None:
    account, kind = ready_account(place), "video" if place.name in ("pinterest", "tiktok") else "image"
    for label, value in UNUSABLE.items():
        with subtests.test(value=label):
            place.answer(f"^POST (?!{PUBLIC[place.name].removeprefix('^POST ')})", UPLOAD_IDS, value)
            row = place.publish(account, kind)
            assert row["made"] == []
            assert row["status"] == "failed", row["error"]
            assert row["error_code"] == "platform_unavailable", row["error"]
            check_stored(place.server)


def test_boards_are_listed_within_bounds(make_server: Callable[..., AppServer], lab: SimulatorThread) -> None:
    place = RelayedServer(make_server, lab, "pinterest")
    account = ready_account(place)
    for value in UNUSABLE.values():
        for names in (("id",), ("name", "privacy")):
            place.answer("^GET /v5/boards$", names, value)
            answer = place.alice.api.get(f"/v1/accounts/{account}/pinterest/boards")
            assert answer.status_code == 200
            assert len(answer.content) < COLUMN_MAX
            assert names != ("id",) or answer.json()["data"] == [] or value == UNUSABLE["number"]
    place.relay.close()


def test_an_unusable_address_costs_no_post(place: RelayedServer, subtests: pytest.Subtests) -> None:
    account = ready_account(place)
    for label, value in UNUSABLE.items():
        with subtests.test(value=label):
            place.answer("", ADDRESSES, value)
            row = place.publish(account)
            assert len(row["made"]) == 1
            assert row["status"] == "published", row["error"]
            assert len(row["url"] or "") < len(LONG)
            check_stored(place.server)
