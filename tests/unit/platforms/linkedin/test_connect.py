"""LinkedIn login: offered members and pages, scopes, token refresh, disconnection."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from urllib.parse import parse_qs, parse_qsl, urlsplit

import pytest

from socialpub.base import http as outbound
from socialpub.base.errors import ApiError
from socialpub.base.http import UpstreamResponse
from socialpub.platforms.contract import AccountIdentity, ConnectorAccount, OfferedAccount, Tokens, Upstream
from socialpub.platforms.kit import oauth
from socialpub.platforms.linkedin import connector as linkedin
from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET
from socialpub.simulator.server import SimulatorThread
from tests.support.app_server import unused_name
from tests.support.platforms.linkedin_calls import (
    FINDER,
    PAGE,
    PERSON,
    REST,
    VersionedCall,
    make_refusal,
    make_upstream,
)
from tests.support.platforms.scripted_upstream import AUTH, NOW, check_finished, make_response

CALLBACK = "https://pub.example/connect/linkedin/callback"
USERINFO = "https://api.linkedin.com/v2/userinfo"
ME = "https://api.linkedin.com/v2/me"
ANN = {"sub": "a1B2-c3_", "name": "Ann Ant"}
PERSON_SCOPES = ["openid", "profile", "w_member_social"]
PAGE_SCOPES = ["r_basicprofile", "w_organization_social", "r_organization_social", "rw_organization_admin"]


def held(*scopes: str) -> Tokens:
    return Tokens("access-token-1", "refresh-token-1", NOW, {"scopes": list(scopes)})


def acls(*rows: tuple[str, str], start: int = 0, total: int | None = None) -> VersionedCall:
    params = {"q": "roleAssignee", "state": "APPROVED", "start": str(start), "count": "100"}
    elements = [{"organization": urn, "role": role, "state": "APPROVED"} for urn, role in rows]
    body = {"elements": elements, "paging": {"total": len(rows) if total is None else total}}
    return VersionedCall("GET", f"{REST}/organizationAcls", make_response(200, body), FINDER, params)


def named(id: str, name: str) -> VersionedCall:
    return VersionedCall(
        "GET", f"{REST}/organizations/{id}", make_response(200, {"id": int(id), "localizedName": name})
    )


def offered(up: Upstream) -> list[tuple[str, str | None, str]]:
    found = linkedin.identify(up, NOW)
    check_finished(up)
    for each in found:
        private = {**up.tokens.private, "login": PERSON}
        assert each.tokens == replace(up.tokens, private=private)
    return [(each.identity.platform_account_id, each.identity.display_name, each.kind) for each in found]


def test_a_member_is_offered_alone_where_pages_were_not_asked_for() -> None:
    up = make_upstream(VersionedCall("GET", USERINFO, make_response(200, ANN), AUTH), tokens=held(*PERSON_SCOPES))
    assert offered(up) == [(PERSON, "Ann Ant", "person")]


def test_pages_are_offered_beside_the_member_by_publishing_roles() -> None:
    second = "urn:li:organization:456"
    up = make_upstream(
        VersionedCall("GET", USERINFO, make_response(200, ANN), AUTH),
        acls((PAGE, "ADMINISTRATOR"), ("urn:li:organization:9", "ANALYST"), start=0, total=4),
        acls((second, "CONTENT_ADMINISTRATOR"), (PAGE, "CONTENT_ADMIN"), start=2, total=4),
        named("123", "Ants"),
        named("456", "Bees"),
        tokens=held(*PERSON_SCOPES, *PAGE_SCOPES),
    )
    assert offered(up) == [
        (PERSON, "Ann Ant", "person"),
        (PAGE, "Ants", "organization"),
        (second, "Bees", "organization"),
    ]


def test_an_app_for_pages_knows_the_member_by_the_older_profile() -> None:
    who = {"id": "a1B2-c3_", "localizedFirstName": "Ann", "localizedLastName": "Ant"}
    me = VersionedCall("GET", ME, make_response(200, who), AUTH)
    up = make_upstream(me, acls((PAGE, "ADMINISTRATOR")), named("123", "Ants"), tokens=held(*PAGE_SCOPES))
    assert offered(up) == [(PAGE, "Ants", "organization")]


@pytest.mark.parametrize(
    ("scopes", "calls", "words"),
    [
        (("openid", "profile"), (), "w_member_social"),
        (("openid", "w_organization_social"), (acls((PAGE, "ANALYST")),), "not publish on any page"),
    ],
)
def test_a_login_that_offers_nothing_is_refused(
    scopes: tuple[str, ...], calls: tuple[VersionedCall, ...], words: str
) -> None:
    up = make_upstream(VersionedCall("GET", USERINFO, make_response(200, ANN), AUTH), *calls, tokens=held(*scopes))
    with pytest.raises(ApiError, match=words) as caught:
        linkedin.identify(up, NOW)
    assert caught.value.code == "platform_auth_failed"


@pytest.mark.parametrize(
    ("reply", "code"),
    [
        (make_refusal(401, "INVALID_ACCESS_TOKEN"), "platform_auth_failed"),
        (make_refusal(403, "ACCESS_DENIED"), "platform_auth_failed"),
        (make_response(500, "oops"), "platform_unavailable"),
        (make_response(200, "<html>"), "platform_unavailable"),
        (make_response(200, {"name": "Ann"}), "platform_unavailable"),
    ],
)
def test_a_member_who_cannot_be_told_is_not_connected(reply: UpstreamResponse, code: str) -> None:
    with pytest.raises(ApiError) as caught:
        linkedin.identify(make_upstream(VersionedCall("GET", USERINFO, reply, AUTH), tokens=held(*PERSON_SCOPES)), NOW)
    assert caught.value.code == code


def test_the_token_is_renewed_with_the_apps_secret_in_the_body() -> None:
    form = {"grant_type": "refresh_token", "refresh_token": "refresh-token-1"}
    form |= {"client_id": "app-1", "client_secret": "app-secret-1"}
    body = {"access_token": "next", "expires_in": 60, "refresh_token": "refresh-token-1", "scope": "a,b"}
    body |= {"refresh_token_expires_in": 90}
    url = "https://www.linkedin.com/oauth/v2/accessToken"
    up = make_upstream(VersionedCall("POST", url, make_response(200, body), {"Accept": "application/json"}, data=form))
    private = {"refreshExpiresAtMs": NOW + 90_000, "scopes": ["a", "b"]}
    assert linkedin.refresh(up, NOW) == Tokens("next", "refresh-token-1", NOW + 60_000, private)


def test_what_is_asked_for_is_the_operators_to_say() -> None:
    site = linkedin.PLATFORM.site(client_id="app-1")
    asked = [
        parse_qs(urlsplit(oauth.build_authorize_url(linkedin.PLATFORM, each, CALLBACK, "st", "v")).query)["scope"]
        for each in (site, site.model_copy(update={"scopes": "r_basicprofile  w_organization_social"}))
    ]
    assert asked == [["openid profile w_member_social"], ["r_basicprofile w_organization_social"]]


@pytest.mark.parametrize(("asked", "refused"), [("", True), ("openid w_member_social", True), ("openid", False)])
def test_a_scope_that_was_asked_for_must_be_granted(asked: str, refused: bool) -> None:
    form = {"grant_type": "authorization_code", "code": "c", "redirect_uri": CALLBACK}
    form |= {"client_id": "app-1", "client_secret": "app-secret-1"}
    url = "https://www.linkedin.com/oauth/v2/accessToken"
    reply = make_response(200, {"access_token": "a", "expires_in": 60, "scope": "openid,profile"})
    up = make_upstream(VersionedCall("POST", url, reply, {"Accept": "application/json"}, data=form))
    site = up.site.model_copy(update={"scopes": asked})
    if refused:
        with pytest.raises(ApiError, match="w_member_social"):
            oauth.exchange(linkedin.PLATFORM, up.http, site, "c", CALLBACK, "v", NOW)
    else:
        found = oauth.exchange(linkedin.PLATFORM, up.http, site, "c", CALLBACK, "v", NOW)
        assert found == Tokens("a", None, NOW + 60_000, {"scopes": ["openid", "profile"]})


@pytest.mark.parametrize(
    ("base", "token_url"),
    [
        ("http://127.0.0.1:9", "http://127.0.0.1:9/oauth/v2/accessToken"),
        ("https://api.linkedin.com", "https://www.linkedin.com/oauth/v2/accessToken"),
        ("https://linkedin.com.example", "https://linkedin.com.example/oauth/v2/accessToken"),
    ],
)
def test_only_a_lab_stands_in_for_linkedins_other_host(base: str, token_url: str) -> None:
    assert linkedin.PLATFORM.site(api_base=base).token_url == token_url


# --- At the simulator ------------------------------------------------------------------------------------------------


@pytest.fixture
def http() -> Iterator[outbound.HttpClient]:
    with outbound.HttpClient(outbound.UNGUARDED_POLICY) as client:
        yield client


def signed_in(
    lab: SimulatorThread, http: outbound.HttpClient, **wanted: Any
) -> tuple[Upstream, tuple[OfferedAccount, ...]]:
    """Somebody new, who has said yes on LinkedIn's page."""
    made = lab.lab.add_account("linkedin", handle=unused_name("ann"), **wanted)
    scopes = " ".join([*PERSON_SCOPES, *PAGE_SCOPES[1:]]) if wanted.get("pages") else ""
    origin = lab.origin("linkedin")
    site = linkedin.PLATFORM.site(api_base=origin, client_id=CLIENT_ID, client_secret=CLIENT_SECRET, scopes=scopes)
    back = http.request("GET", oauth.build_authorize_url(linkedin.PLATFORM, site, CALLBACK, "st", "verifier"))
    code = dict(parse_qsl(urlsplit(back.headers["location"]).query))["code"]
    tokens = oauth.exchange(linkedin.PLATFORM, http, site, code, CALLBACK, "verifier", NOW)
    up = Upstream(http, http, site, ConnectorAccount(made["platformAccountId"]), tokens)
    return up, linkedin.identify(up, NOW)


def test_a_member_connects_and_ends_it(lab: SimulatorThread, http: outbound.HttpClient) -> None:
    up, (ann,) = signed_in(lab, http, displayName="Ann Ant")
    assert ann.identity == AccountIdentity(up.account.platform_account_id, "Ann Ant")
    assert (ann.tokens.refresh, ann.tokens.expires_at_ms) == (None, NOW + 60 * 86_400_000)
    linkedin.revoke(replace(up, tokens=ann.tokens))
    with pytest.raises(ApiError) as caught:
        linkedin.identify(up, NOW)
    assert (caught.value.code, caught.value.stale_token) == ("platform_auth_failed", False)


def test_a_member_connects_pages(lab: SimulatorThread, http: outbound.HttpClient) -> None:
    _, found = signed_in(lab, http, displayName="Ann", pages=2)
    assert [(each.kind, each.identity.display_name) for each in found] == [
        ("person", "Ann"),
        ("organization", "Ann Ltd."),
        ("organization", "Ann Ltd."),
    ]


def test_a_vetted_app_renews_its_tokens(lab: SimulatorThread, http: outbound.HttpClient) -> None:
    up, (ann,) = signed_in(lab, http, vetted=True)
    assert ann.tokens.private["refreshExpiresAtMs"] == NOW + 365 * 86_400_000
    lab.lab.end_tokens("linkedin", up.account.platform_account_id)
    again = linkedin.refresh(replace(up, tokens=ann.tokens), NOW)
    assert again.refresh == ann.tokens.refresh
    assert linkedin.identify(replace(up, tokens=again), NOW)[0].identity == ann.identity


def test_an_app_that_is_not_vetted_has_nothing_to_renew_by(lab: SimulatorThread, http: outbound.HttpClient) -> None:
    up, (ann,) = signed_in(lab, http)
    with pytest.raises(ApiError) as caught:
        linkedin.refresh(replace(up, tokens=ann.tokens), NOW)
    assert caught.value.code == "platform_auth_failed"
