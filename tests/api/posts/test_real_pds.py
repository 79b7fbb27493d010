"""Publishing to a real Bluesky server: passwords, OAuth, and no duplicate records."""

from __future__ import annotations

import base64
import json
import secrets
import time
from collections.abc import Callable, Iterator
from typing import Any
from urllib.parse import urlencode, urlsplit

import httpx
import pytest

from socialpub.base import http as outbound
from socialpub.base.errors import ApiError, Outcome
from socialpub.domain.accounts import tokens
from socialpub.platforms.bluesky import connector as bluesky
from socialpub.platforms.contract import (
    AccountIdentity,
    AppClient,
    Draft,
    OfferedAccount,
    Published,
    Ready,
    SigningContext,
    Tokens,
    Upstream,
)
from socialpub.platforms.contract import ConnectorAccount as Who
from socialpub.store.schema.models import Account
from tests.support.app_server import ApiClient, AppServer, Person, error_of, sleep_briefly
from tests.support.bluesky_pds import SCOPE, BlueskyPds, PdsOwner, start_pds
from tests.support.connect_flow import sign_in
from tests.support.media_files import picture

pytestmark = [pytest.mark.upstream, pytest.mark.slow]

CALLBACK = "http://127.0.0.1/connect/bluesky/callback"
LOOPBACK = AppClient("http://localhost?" + urlencode({"redirect_uri": CALLBACK, "scope": SCOPE}), CALLBACK)
START = "/v1/accounts/connect/bluesky"
Lines = Callable[..., Upstream]


@pytest.fixture(scope="module")
def pds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BlueskyPds]:
    yield from start_pds(tmp_path_factory.mktemp("pds"))


@pytest.fixture
def owner(pds: BlueskyPds) -> Iterator[PdsOwner]:
    with PdsOwner(pds) as owner:
        yield owner


@pytest.fixture
def server(pds: BlueskyPds, make_server: Callable[..., AppServer]) -> AppServer:
    """Our server, which believes to stand at a public address where the PDS finds it."""
    server = public_server(pds, make_server)
    pds.stands_at(server.service.base_url, server.url)
    return server


def public_server(pds: BlueskyPds, make_server: Callable[..., AppServer]) -> AppServer:
    # A name for each: the PDS keeps a client's keys for ten minutes. Names of examples it refuses.
    name = f"https://u{secrets.token_hex(4)}.socialpub.page"
    server = make_server(platforms={"bluesky": pds.site()}, server={"base_url": name})
    server.url = f"http://127.0.0.1:{server.port}"
    return server


@pytest.fixture
def alice(server: AppServer) -> Person:
    return server.person("Alice")


@pytest.fixture
def browser(server: AppServer, alice: Person) -> ApiClient:
    return sign_in(server, alice.organization)


def publish(alice: Person, account: str, text: str, **more: Any) -> dict[str, Any]:
    answer = alice.api.publish({"targets": [{"accountId": account}], "text": text} | more, key=secrets.token_hex(8))
    (result,) = answer.json()["results"]
    assert result["status"] == "published", result
    return dict(result)


# --- App passwords ---------------------------------------------------------------------------------------------------


def test_a_wrong_app_password_connects_nothing(pds: BlueskyPds, server: AppServer, browser: ApiClient) -> None:
    refused = browser.post(f"{START}/complete", json={"handle": pds.handle, "password": "wron-gwro-ngwr-ongw"})
    assert (refused.status_code, error_of(refused)["code"]) == (424, "platform_auth_failed")
    assert server.rows(Account) == []


def with_password(pds: BlueskyPds, browser: ApiClient) -> str:
    answer = browser.post(f"{START}/complete", json={"handle": pds.handle, "password": pds.app_password})
    assert answer.status_code == 201, answer.text
    assert answer.json()["platformAccountId"] == pds.did
    return str(answer.json()["id"])


def test_text_an_image_and_a_comment_can_be_read_back(pds: BlueskyPds, alice: Person, browser: ApiClient) -> None:
    account, before = with_password(pds, browser), pds.records()
    image = picture("PNG")
    media = alice.api.post("/v1/media", files={"file": ("a.png", image)}).json()["id"]
    said = f"Fresh bread 🥖 at https://example.com/bread #bakery with @{pds.handle}"
    item = {"kind": "image", "mediaId": media, "altText": "A loaf"}
    sent = publish(alice, account, said, media=[item], firstComment={"text": "Still warm"})
    post, comment = pds.records()[len(before) :]
    assert post["uri"] == sent["uri"]
    assert post["cid"] == sent["cid"]
    assert post["value"]["text"] == said
    features = [facet["features"][0]["$type"].partition("#")[2] for facet in post["value"]["facets"]]
    assert features == ["link", "tag", "mention"]
    (shown,) = post["value"]["embed"]["images"]
    assert shown["alt"] == "A loaf"
    assert shown["aspectRatio"] == {"width": 64, "height": 48}
    assert pds.blob(shown["image"]["ref"]["$link"]).startswith(b"\x89PNG")
    parent = {"uri": post["uri"], "cid": post["cid"]}
    assert (comment["value"]["text"], comment["value"]["reply"]) == ("Still warm", {"root": parent, "parent": parent})


def test_a_request_that_is_repeated_makes_no_second_record(pds: BlueskyPds, alice: Person, browser: ApiClient) -> None:
    account, before = with_password(pds, browser), len(pds.records())
    body = {"targets": [{"accountId": account}], "text": "once"}
    first, again = alice.api.publish(body, key="same"), alice.api.publish(body, key="same")
    assert again.json() == first.json()
    assert len(pds.records()) == before + 1


def test_a_byte_order_mark_moves_nothing(pds: BlueskyPds, alice: Person, browser: ApiClient) -> None:
    account, before = with_password(pds, browser), pds.records()
    item = {"kind": "image", "bytesBase64": base64.b64encode(picture("PNG")).decode(), "altText": "\ufeffA loaf"}
    sent = publish(alice, account, "\ufeff\ufeff#bread 🥖", media=[item], firstComment={"text": "\ufeff#warm"})
    post, comment = pds.records()[len(before) :]
    assert (post["uri"], post["cid"]) == (sent["uri"], sent["cid"])
    assert (post["value"]["text"], comment["value"]["text"]) == ("#bread 🥖", "#warm")
    assert post["value"]["facets"][0]["index"] == {"byteStart": 0, "byteEnd": 6}
    assert post["value"]["embed"]["images"][0]["alt"] == "A loaf"


def test_labels_a_quote_and_the_repliers_are_accepted(pds: BlueskyPds, alice: Person, browser: ApiClient) -> None:
    account, before = with_password(pds, browser), pds.records()
    quoted = publish(alice, account, "the first")
    item = {"kind": "image", "bytesBase64": base64.b64encode(picture("PNG")).decode(), "altText": "A loaf"}
    listed = f"at://{pds.did}/app.bsky.graph.list/3n2qaial32p6v"
    options = {"platform": "bluesky", "labels": ["sexual", "graphic-media"], "quoteUri": quoted["uri"]}
    targets = [{"accountId": account, "options": options | {"threadgate": ["mention", "follower", listed]}}]
    sent = publish(alice, account, "see", media=[item], targets=targets)
    _, post = pds.records()[len(before) :]
    assert (post["uri"], post["cid"]) == (sent["uri"], sent["cid"])
    assert [label["val"] for label in post["value"]["labels"]["values"]] == ["sexual", "graphic-media"]
    embed = post["value"]["embed"]
    assert embed["record"]["record"] == {"uri": quoted["uri"], "cid": quoted["cid"]}
    assert embed["media"]["images"][0]["alt"] == "A loaf"
    (gate,) = [gate for gate in pds.records("app.bsky.feed.threadgate") if gate["value"]["post"] == post["uri"]]
    assert gate["uri"].rpartition("/")[2] == post["uri"].rpartition("/")[2]
    assert [rule["$type"].partition("#")[2] for rule in gate["value"]["allow"]] == [
        "mentionRule",
        "followerRule",
        "listRule",
    ]


def owners_call(pds: BlueskyPds, nsid: str) -> None:
    """A call that takes the account's own password."""
    login = {"identifier": pds.did, "password": pds.password}
    with httpx.Client(base_url=f"{pds.url}/xrpc/", trust_env=False) as http:
        session = http.post("com.atproto.server.createSession", json=login).raise_for_status().json()
        headers = {"Authorization": f"Bearer {session['accessJwt']}"}
        http.post(nsid, headers=headers, json={} if nsid.endswith("deactivateAccount") else None).raise_for_status()


def test_an_account_that_was_deactivated_works_again_when_it_comes_back(
    pds: BlueskyPds, alice: Person, browser: ApiClient, server: AppServer
) -> None:
    account = with_password(pds, browser)
    owners_call(pds, "com.atproto.server.deactivateAccount")
    try:
        body = {"targets": [{"accountId": account}], "text": "away"}
        (refused,) = alice.api.publish(body).json()["results"]
        assert (refused["status"], refused["error"]["code"]) == ("rejected", "platform_auth_failed")
        (row,) = server.rows(Account)
        held = tokens.decrypt(server.service, account, row["secret"])
        assert tokens.refresh_tokens(server.service, account, held).refresh != held.refresh
    finally:
        owners_call(pds, "com.atproto.server.activateAccount")
    publish(alice, account, "back")


def is_over(up: Upstream) -> bool:
    """Whether a session can be renewed no more."""
    try:
        bluesky.refresh(up, 0)
    except ApiError as error:
        return error.code == "platform_auth_failed"
    return False


def test_the_session_that_a_reconnect_replaces_is_ended(
    pds: BlueskyPds, browser: ApiClient, server: AppServer, line: Callable[..., Upstream]
) -> None:
    account = with_password(pds, browser)
    (row,) = server.rows(Account)
    old = tokens.decrypt(server.service, account, row["secret"])
    fields = {"handle": pds.handle, "password": pds.app_password}
    assert browser.post(f"{START}/complete", json=fields).status_code == 200
    connected = OfferedAccount(AccountIdentity(pds.did, pds.handle, json.loads(row["extra"])), old)
    deadline = time.monotonic() + 10
    while not is_over(line(connected)):
        assert time.monotonic() < deadline
        sleep_briefly()
    (row,) = server.rows(Account)
    fresh = tokens.decrypt(server.service, account, row["secret"])
    assert tokens.refresh_tokens(server.service, account, fresh).refresh != fresh.refresh


# --- A client on loopback, without our server ------------------------------------------------------------------------


@pytest.fixture
def line(pds: BlueskyPds) -> Iterator[Lines]:
    """A line to an account, or to nobody's."""
    with outbound.HttpClient(outbound.UNGUARDED_POLICY) as http:

        def line(connected: OfferedAccount | None = None) -> Upstream:
            who = connected.identity if connected else AccountIdentity("did:plc:unknown")
            account = Who(who.platform_account_id, who.display_name, who.extra)
            held = connected.tokens if connected else Tokens("")
            signing = SigningContext(lambda: time.time_ns() // 1_000_000, secrets.token_bytes)
            return Upstream(http, http, bluesky.PLATFORM.site(**pds.site()), account, held, signing=signing)

        yield line


def begun(pds: BlueskyPds, line: Lines) -> tuple[str, Any]:
    """(where the browser is sent, what is kept, as it comes out of the database)."""
    invitation = bluesky.invite(line(), LOOPBACK, pds.handle, "s" * 43)
    return invitation.url, json.loads(json.dumps(invitation.stored))


def danced(pds: BlueskyPds, line: Lines) -> OfferedAccount:
    url, kept = begun(pds, line)
    with PdsOwner(pds) as owner:
        back = owner.decide(url)
    assert back["state"] == "s" * 43
    return bluesky.accept(line(), LOOPBACK, kept, back["code"], back["iss"])


def written(line: Lines, connected: OfferedAccount, text: str, **options: Any) -> tuple[Published, Any]:
    up = line(connected)
    draft = Draft(text, (), options, now_ms=time.time_ns() // 1_000_000, nonce=secrets.randbits(64))
    ready = bluesky.prepare(up, draft, None)
    assert isinstance(ready, Ready)
    return bluesky.send(up, ready.plan), ready.plan


def refusal(run: Callable[[], Any]) -> ApiError:
    with pytest.raises(ApiError) as caught:
        run()
    return caught.value


def test_a_plan_that_is_sent_again_makes_no_second_record(pds: BlueskyPds, line: Lines) -> None:
    connected, before = danced(pds, line), len(pds.records())
    sent, plan = written(line, connected, "sent twice")
    assert bluesky.send(line(connected), plan) == sent
    assert bluesky.settle(line(connected), plan, 0) == sent
    assert len(pds.records()) == before + 1


def test_a_gated_plan_that_is_sent_again_makes_no_second_record(pds: BlueskyPds, line: Lines) -> None:
    connected, before = danced(pds, line), len(pds.records())
    sent, plan = written(line, connected, "gated", threadgate=["none"])
    again = refusal(lambda: bluesky.send(line(connected), plan))
    assert again.outcome is Outcome.AMBIGUOUS
    assert bluesky.settle(line(connected), plan, 0) == sent
    assert len(pds.records()) == before + 1


def test_session_lives_by_refresh_tokens_and_ends_when_one_is_reused(pds: BlueskyPds, line: Lines) -> None:
    old = danced(pds, line)
    new = OfferedAccount(old.identity, bluesky.refresh(line(old), 0))
    assert new.tokens.refresh != old.tokens.refresh
    assert new.tokens.private == old.tokens.private
    written(line, new, "after a refresh")
    assert refusal(lambda: bluesky.refresh(line(old), 0)).outcome is Outcome.REJECTED
    assert refusal(lambda: bluesky.refresh(line(new), 0)).code == "platform_auth_failed"
    assert refusal(lambda: written(line, new, "never")).stale_token


def test_a_code_works_once_and_for_who_asked(pds: BlueskyPds, owner: PdsOwner, line: Lines) -> None:
    url, kept = begun(pds, line)
    back = owner.decide(url)
    bluesky.accept(line(), LOOPBACK, kept, back["code"], back["iss"])
    again = refusal(lambda: bluesky.accept(line(), LOOPBACK, kept, back["code"], back["iss"]))
    assert (again.code, again.outcome) == ("platform_auth_failed", Outcome.REJECTED)
    url, kept = begun(pds, line)
    back = owner.decide(url)
    thief = kept | {"verifier": "w" * 43}
    assert refusal(lambda: bluesky.accept(line(), LOOPBACK, thief, back["code"], back["iss"])).code == again.code


def test_tokens_are_useless_without_their_key(pds: BlueskyPds, line: Lines) -> None:
    connected = danced(pds, line)
    stolen = dict(connected.tokens.private) | {"dpopKey": bluesky.client_key(secrets.token_bytes)}
    thief = OfferedAccount(
        connected.identity, Tokens(connected.tokens.access, connected.tokens.refresh, private=stolen)
    )
    assert refusal(lambda: written(line, thief, "stolen")).code == "platform_auth_failed"


def test_a_session_ends_when_it_is_revoked(pds: BlueskyPds, line: Lines) -> None:
    connected = danced(pds, line)
    bluesky.revoke(line(connected))
    assert refusal(lambda: bluesky.refresh(line(connected), 0)).outcome is Outcome.REJECTED


# --- A confidential client: our server -------------------------------------------------------------------------------


def invited(pds: BlueskyPds, browser: ApiClient) -> str:
    answer = browser.post(START, json={"handle": pds.handle})
    assert answer.status_code == 200, answer.text
    assert answer.json()["descriptor"]["type"] == "oauth"
    return str(answer.json()["descriptor"]["authorizeUrl"])


def held(server: AppServer) -> tuple[dict[str, Any], Tokens]:
    (row,) = server.rows(Account)
    return row, tokens.decrypt(server.service, row["id"], row["secret"])


def test_our_server_connects_publishes_renews_and_revokes(
    pds: BlueskyPds, server: AppServer, alice: Person, browser: ApiClient, owner: PdsOwner, line: Lines
) -> None:
    before = len(pds.records())
    back = owner.decide(invited(pds, browser))
    assert owner.location.startswith(f"{server.service.base_url}/connect/bluesky/callback?")
    page = browser.get(urlsplit(owner.location).path, params=back)
    assert page.status_code == 303, page.text
    page = browser.get(page.headers["Location"])
    assert page.status_code == 200, page.text
    row, first = held(server)
    assert row["platform_account_id"] == pds.did
    assert first.private["client"]["id"] == f"{server.service.base_url}/oauth/client-metadata.json"
    sent = publish(alice, row["id"], "through our own server")
    second = tokens.refresh_tokens(server.service, row["id"], first)
    assert second.refresh not in (None, first.refresh)
    publish(alice, row["id"], "after a renewal")
    posts = pds.records()[before:]
    assert [post["value"]["text"] for post in posts] == ["through our own server", "after a renewal"]
    assert posts[0]["uri"] == sent["uri"]
    assert browser.delete(f"/v1/accounts/{row['id']}").status_code == 200
    connected = OfferedAccount(AccountIdentity(pds.did, pds.handle, json.loads(row["extra"])), second)
    assert refusal(lambda: bluesky.refresh(line(connected), 0)).outcome is Outcome.REJECTED
    assert refusal(lambda: written(line, connected, "never")).stale_token


def test_an_owner_who_refuses_is_told_so(
    pds: BlueskyPds, server: AppServer, browser: ApiClient, owner: PdsOwner
) -> None:
    back = owner.decide(invited(pds, browser), allow=False)
    assert back["error"] == "access_denied"
    page = browser.get(urlsplit(owner.location).path, params=back, headers={"Accept": "text/html"})
    assert page.status_code == 424
    assert "The user rejected the request" in page.text
    assert server.rows(Account) == []


def test_an_owner_who_leaves_a_scope_out_is_told_which(
    pds: BlueskyPds, server: AppServer, browser: ApiClient, owner: PdsOwner
) -> None:
    back = owner.decide(invited(pds, browser), scope="atproto")
    refused = browser.post(f"{START}/complete", json={name: back[name] for name in ("state", "code", "iss")})
    assert refused.status_code == 424
    assert "transition:generic" in error_of(refused)["message"]
    assert server.rows(Account) == []


def test_a_server_whose_documents_cannot_be_read_is_the_operators_to_mend(
    pds: BlueskyPds, make_server: Callable[..., AppServer]
) -> None:
    server = public_server(pds, make_server)
    pds.stands_at(server.service.base_url, "http://127.0.0.1:9")
    browser = sign_in(server, server.person("Alice").organization)
    refused = browser.post(START, json={"handle": pds.handle})
    assert (refused.status_code, error_of(refused)["code"]) == (403, "platform_not_enabled")
