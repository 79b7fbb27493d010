"""Sign-in, session cookies, password hashing, and sign-out."""

from __future__ import annotations

import json
import logging
import re
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import argon2
import pytest

from socialpub.base.security.crypto import digest
from socialpub.domain.access import actions
from socialpub.domain.access.actor import build_operator
from socialpub.domain.delivery.notifications import channels
from socialpub.domain.delivery.webhooks import endpoints
from socialpub.domain.identity import signin, users
from socialpub.domain.organizations import profiles
from socialpub.domain.schemas.common import parse_instant
from socialpub.domain.schemas.profiles import OrganizationRequest
from socialpub.store.schema.models import ApiKey, Organization, Session, User
from tests.support.app_server import UNKNOWN_ID, AppServer, MovableClock, Person, error_of, fill_slots, unchanged
from tests.support.sign_in import EMAIL, PASSWORD, add_user, at_once, csrf_of, sign_in, signed_in
from tests.support.soak.soak_world import wait_for

NAMED = OrganizationRequest(name="By a command")


@pytest.fixture
def owner(server: AppServer, alice: Person) -> Person:
    """Alice, who can sign in too."""
    add_user(server, alice, EMAIL, "owner")
    return alice


# --- In and out ----------------------------------------------------------------------------------------------------


def test_sign_in_leads_to_the_start_page_and_sign_out_ends_the_session(server, owner):
    api = server.api()
    assert api.get("/").headers["Location"] == "/login"
    answer = sign_in(api)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    cookie = api.cookies["socialpub_session"]
    home = api.get("/")
    assert home.status_code == 200
    assert "Alice&#39;s" in home.text
    assert api.post("/logout", data={"csrf_token": csrf_of(home)}).headers["Location"] == "/login"
    assert server.rows(Session) == []
    assert server.api(Cookie=f"socialpub_session={cookie}").get("/v1/posts").status_code == 401


def test_the_cookie_is_out_of_reach_and_only_its_hash_is_stored(server, owner):
    answer = sign_in(server.api())
    header = next(value for name, value in answer.headers.multi_items() if name == "set-cookie")
    assert {"HttpOnly", "SameSite=Lax", "Path=/"} <= {part.strip() for part in header.split(";")}
    value = header.split(";")[0].partition("=")[2]
    assert len(value) == 64
    assert [row["id"] for row in server.rows(Session)] == [digest(value)]


def test_under_https_the_cookie_is_secure_and_bound_to_the_host(make_server: Callable[..., AppServer]):
    server = make_server(server={"base_url": "https://social.example"})
    server.url = f"http://127.0.0.1:{server.service.runtime.settings.server.port}"
    add_user(server, server.person("Alice"), EMAIL, "owner")
    api = server.api()
    page = api.get("/login")
    form_cookie = page.headers["Set-Cookie"].split(";")[0]
    answer = api.post(
        "/login",
        data={"csrf_token": csrf_of(page), "email": EMAIL, "password": PASSWORD},
        headers={"Cookie": form_cookie, "Origin": "https://social.example"},
    )
    assert answer.status_code == 303
    header = answer.headers["Set-Cookie"]
    assert header.startswith("__Host-socialpub_session=")
    assert "; Secure" in header
    assert answer.headers["Strict-Transport-Security"]


def test_every_refused_sign_in_looks_the_same(server, owner):
    for email, password in (
        (EMAIL, "wrong password!"),
        ("nobody@example.com", PASSWORD),
        ("", ""),
        (EMAIL, ""),
        ("\0", "\0"),
        ("é" * 500, "x"),
    ):
        answer = sign_in(server.api(), email, password)
        assert answer.status_code == 401, email
        assert "The e-mail address or the password is wrong." in answer.text, email
    assert server.rows(Session) == []


def test_failures_slow_the_account_down_and_a_success_resets_them(server, owner, wall: MovableClock):
    api = server.api()
    for _ in range(signin.GUESS_BACKOFFS["pair"].free):
        assert sign_in(api, password="wrong password!").status_code == 401
    assert sign_in(api).status_code == 429
    wall.skip(2)
    assert sign_in(api).status_code == 303
    assert sign_in(server.api(), password="wrong password!").status_code == 401


def test_ten_thousand_guesses_in_an_hour_are_hardly_looked_at(wall: MovableClock):
    throttle, looked_at = signin.LoginThrottle(wall), 0
    for _ in range(10_000):
        looked_at += throttle.try_guess(("pair", "a")) == 0
        wall.skip(0.36)
    assert looked_at <= 60


@pytest.mark.usefixtures("real_passwords")
def test_passwords_are_hashed_as_is_recommended():
    found = argon2.extract_parameters(users.hash_password(PASSWORD))
    assert (found.type, found.time_cost, found.parallelism) == (argon2.Type.ID, 2, 1)
    assert found.memory_cost >= 19 * 1024


def test_a_cookie_from_before_the_sign_in_is_not_taken_over(server, owner):
    planted = {"Cookie": f"socialpub_session={'a' * 64}"}
    api = server.api()
    page = api.get("/login")
    form = {"csrf_token": csrf_of(page), "email": EMAIL, "password": PASSWORD}
    ours = {"Cookie": f"{planted['Cookie']}; {page.headers['Set-Cookie'].split(';')[0]}"}
    assert api.post("/login", data=form, headers=ours).status_code == 303
    assert [row["id"] for row in server.rows(Session)] != [digest("a" * 64)]
    assert server.api(**planted).get("/v1/posts").status_code == 401


def test_who_guesses_the_words_behind_an_unknown_address_is_nobody(server, owner):
    assert sign_in(server.api(), "nobody@example.com", "nobody has this password").status_code == 401


@pytest.mark.slow
@pytest.mark.usefixtures("real_passwords")
def test_hashing_takes_no_more_memory_however_many_sign_in(server, owner):
    assert at_once(server, PASSWORD, 20) == {303: 20}
    hashing = [thread for thread in threading.enumerate() if thread.name.startswith("hashing")]
    assert 1 <= len(hashing) <= 2  # each keeps what one hash takes, and no other thread ever hashes


def test_others_are_served_while_every_sign_in_waits_for_a_place_to_hash(server, owner):
    reader, gate = signed_in(server), threading.Event()
    held = fill_slots(users.HASHING_POOL.submit, 2, gate)  # all the places that there are
    browsers = [server.api() for _ in range(10)]
    try:
        with ThreadPoolExecutor(10) as many:
            waiting = [many.submit(sign_in, api) for api in browsers]
            assert wait_for(lambda: users.HASHING_POOL._work_queue.qsize() == 10, 30)
            for path in ("/healthz", "/v1/posts", "/login"):
                assert reader.get(path).status_code == 200
            assert not any(work.done() for work in (*held, *waiting))
            gate.set()
            assert [work.result(60).status_code for work in waiting] == [303] * 10
    finally:
        gate.set()


@pytest.mark.matrix
@pytest.mark.usefixtures("real_passwords")
@pytest.mark.parametrize("email", ["nobody@example.com", "", "\0", "é" * 500])
def test_an_unknown_user_costs_the_same_work_as_a_wrong_password(server, owner, email, monkeypatch, caplog):
    """The same statements and one hash of the same kind: what there is to measure."""
    password = users.hash_password(PASSWORD)
    server.service.write(lambda tx: User.update(password=password).execute()).result()
    verify, hashes = argon2.PasswordHasher.verify, []

    def counted(self, hash_, password):
        hashes.append(argon2.extract_parameters(hash_))
        return verify(self, hash_, password)

    def work(of: str) -> tuple[list[str], list[argon2.Parameters]]:
        api = server.api()
        page = api.get("/login")
        hashes.clear()
        caplog.clear()
        form = {"csrf_token": csrf_of(page), "email": of, "password": "wrong password!"}
        assert api.post("/login", data=form).status_code == 401
        return [record.msg[0] for record in caplog.records if record.name == "peewee"], list(hashes)

    monkeypatch.setattr(argon2.PasswordHasher, "verify", counted)
    with caplog.at_level(logging.DEBUG, "peewee"):
        known, unknown = work(EMAIL), work(email)
    assert known == unknown
    assert len(known[1]) == 1
    assert known[0]


def test_a_session_is_renewed_by_use_and_ends_after_30_idle_days(server, owner, wall: MovableClock):
    api, days = signed_in(server), 24 * 3600
    for _ in range(4):
        wall.skip(30 * days - 1)
        assert api.get("/v1/posts").status_code == 200
        server.service.write(lambda tx: None).result()  # that it was seen is written by now
    wall.skip(30 * days + 1)
    assert api.get("/v1/posts").status_code == 401


def test_the_cookie_of_a_session_outlasts_its_renewals(server, owner):
    cookies = sign_in(server.api()).headers.get_list("set-cookie")
    (session,) = [cookie for cookie in cookies if cookie.startswith("socialpub_session=")]
    assert "Max-Age=34560000" in session  # 400 days: browsers keep none for longer


def test_signing_in_never_leads_to_another_site(server, owner):
    for wanted in ("//evil.example", "https://evil.example", "/\\evil.example", "/a\r\nX: y", ""):
        assert sign_in(server.api(), next=wanted).headers["Location"] == "/", wanted


def test_signing_in_leads_back_to_where_one_was(server, owner):
    assert sign_in(server.api(), next="/connect/x/callback").headers["Location"] == "/connect/x/callback"


def test_another_password_ends_every_session(server, owner):
    api = signed_in(server)
    hash_ = users.hash_password("another password")
    server.service.write(
        lambda tx: users.set_password(tx, build_operator(server.service, "test"), EMAIL.upper(), hash_)
    ).result()
    assert api.get("/v1/posts").status_code == 401
    assert sign_in(server.api(), password="another password").status_code == 303


# --- Forged forms --------------------------------------------------------------------------------------------------

FORGED = [
    {"csrf_token": ""},
    {"csrf_token": "0" * 64},
    {"headers": {"Sec-Fetch-Site": "cross-site"}},
    {"headers": {"Sec-Fetch-Site": "same-site"}},
    {"headers": {"Origin": "https://evil.example"}},
    {"headers": {"Origin": "null"}},
]


@pytest.mark.parametrize("path", ["/logout", "/settings/keys", "/settings/profiles"])
def test_a_forged_form_changes_nothing(server, owner, path):
    api = signed_in(server)
    genuine = csrf_of(api.get("/"))
    for forged in FORGED:
        with unchanged(server):
            data = {"csrf_token": forged.get("csrf_token", genuine), "name": "x"}
            answer = api.post(path, data=data, headers=forged.get("headers", {}))
        assert (answer.status_code, error_of(answer)["rule"]) == (403, "csrf"), forged


def test_a_forged_sign_in_is_refused(server, owner):
    for forged in FORGED:
        api = server.api()
        token = forged.get("csrf_token", csrf_of(api.get("/login")))
        data = {"csrf_token": token, "email": EMAIL, "password": PASSWORD}
        assert error_of(api.post("/login", data=data, headers=forged.get("headers", {})))["rule"] == "csrf", forged


# --- First start ---------------------------------------------------------------------------------------------------


def test_the_setup_link_makes_the_first_owner_once(server):
    token = users.create_setup_token(server.service)
    api = server.api()
    page = api.get(f"/setup/{token}")
    form = {"csrf_token": csrf_of(page), "organization": "Acme", "email": EMAIL, "password": PASSWORD}
    short = api.post(f"/setup/{token}", data=form | {"password": "short"})
    assert (short.status_code, server.rows(User)) == (400, [])
    form["csrf_token"] = csrf_of(short)
    assert api.post(f"/setup/{token}", data=form).headers["Location"] == "/"
    (made,) = server.rows(Organization)
    assert f"socialpub key create --org {made['id']}" in api.get("/settings/keys").text
    assert "Acme" in api.get("/").text
    assert [(row["email"], row["role"]) for row in server.rows(User)] == [(EMAIL, "owner")]
    assert server.api().get(f"/setup/{token}").status_code == 404
    assert users.create_setup_token(server.service) is None


def test_the_first_owner_gets_the_organization_that_a_command_has_made(server):
    """The README's path, by the command line and by the link, leads to one organization."""
    made = actions.perform_sync(
        build_operator(server.service, "command org_create"), profiles.create_organization, NAMED
    )["id"]
    token = users.create_setup_token(server.service)
    api = server.api()
    page = api.get(f"/setup/{token}")
    assert 'value="By a command"' in page.text
    form = {"csrf_token": csrf_of(page), "organization": "Acme", "email": EMAIL, "password": PASSWORD}
    assert api.post(f"/setup/{token}", data=form).status_code == 303
    assert [(row["id"], row["name"]) for row in server.rows(Organization)] == [(made, "Acme")]
    assert [row["organization"] for row in server.rows(User)] == [made]


def test_a_wrong_setup_link_is_nothing(server):
    users.create_setup_token(server.service)
    assert server.api().get("/setup/" + "a" * 43).status_code == 404


# --- What a session may ----------------------------------------------------------------------------------------------


def test_a_session_reads_the_api_but_a_write_needs_a_key(server, owner):
    api = signed_in(server)
    for path in ("/v1/posts", "/v1/accounts", "/v1/profiles", f"/v1/accounts/{owner.bluesky}"):
        assert api.get(path).status_code == 200
    answer = api.post("/v1/posts", json={"targets": [{"accountId": owner.bluesky}], "text": "no"})
    assert (answer.status_code, error_of(answer)["code"]) == (401, "unauthenticated")


def test_a_key_is_minted_once_used_and_revoked(server, owner):
    api = signed_in(server)
    token = {"X-CSRF-Token": server.rows(Session)[0]["csrf"]}
    minted = api.post("/v1/api-keys", json={"name": "ci", "prefix": "svc_test_"}, headers=token)
    assert minted.status_code == 201
    key = minted.json()["key"]
    assert key.startswith("svc_test_")
    assert key not in str(server.rows(ApiKey))
    assert server.api(key).get("/v1/posts").status_code == 200
    listed = api.get("/v1/api-keys").json()["data"]
    assert "key" not in listed[0]
    assert {row["name"] for row in listed} == {"ci", "Alice"}
    gone = api.delete(f"/v1/api-keys/{minted.json()['id']}", headers=token)
    assert (gone.status_code, set(gone.json())) == (200, {"id", "revokedAt"})
    assert server.api(key).get("/v1/posts").status_code == 401


def test_a_replayed_minting_answers_the_same_key_from_a_sealed_record(server, owner):
    api = signed_in(server)
    headers = {"X-CSRF-Token": server.rows(Session)[0]["csrf"], "Idempotency-Key": "once"}
    first = api.post("/v1/api-keys", json={"name": "ci"}, headers=headers)
    again = api.post("/v1/api-keys", json={"name": "ci"}, headers=headers)
    assert again.content == first.content
    assert again.headers["Idempotency-Replayed"] == "true"
    assert first.json()["key"] not in str(server.stock())


def test_keys_and_profiles_are_managed_by_people_only(server, owner):
    browser = signed_in(server)
    for asked in (
        ("GET", "/v1/api-keys"),
        ("POST", "/v1/api-keys"),
        ("DELETE", "/v1/api-keys/x"),
        ("POST", "/v1/profiles"),
        ("PATCH", "/v1/profiles/x"),
        ("DELETE", "/v1/profiles/x"),
    ):
        by_key = owner.api.request(*asked, json={"name": "x"})
        assert (by_key.status_code, error_of(by_key)["code"]) == (403, "unauthorized"), asked
        assert server.api().request(*asked, json={"name": "x"}).status_code == 401, asked
        if asked[0] != "GET":
            without_token = browser.request(*asked, json={"name": "x"})
            assert (without_token.status_code, error_of(without_token)["rule"]) == (403, "csrf"), asked


def test_a_member_reads_but_manages_nothing(server, owner):
    add_user(server, owner, "mel@example.com", "member")
    api = signed_in(server, "mel@example.com")
    session = next(row for row in server.rows(Session))
    token = {"X-CSRF-Token": session["csrf"]}
    assert "API keys" not in api.get("/").text
    for method, path in (("GET", "/v1/api-keys"), ("POST", "/v1/api-keys"), ("POST", "/v1/profiles")):
        answer = api.request(method, path, json={"name": "x"}, headers=token)
        assert (answer.status_code, error_of(answer)["code"]) == (403, "unauthorized")
    assert api.post("/settings/keys", data={"csrf_token": session["csrf"], "name": "x"}).status_code == 403


def test_names_in_any_script_make_distinct_slugs(server, owner):
    api = signed_in(server)
    token = {"X-CSRF-Token": server.rows(Session)[0]["csrf"]}
    slugs = {"日本": "日本", "Ελλάς": "ελλάς", "Café  Süd": "caf-s-d", "Школа A": "школа-a", "की": "की", "का": "का"}
    for name, slug in slugs.items():
        made = api.post("/v1/profiles", json={"name": name}, headers=token)
        assert (made.status_code, made.json()["slug"]) == (201, slug)
    twin = api.post("/v1/profiles", json={"name": "ΕΛΛΆΣ"}, headers=token)
    assert (twin.status_code, error_of(twin)["rule"]) == (409, "profile.slug.unique")


def test_profiles_are_made_renamed_and_deleted_with_their_keys(server, owner, bob):
    api = signed_in(server)
    token = {"X-CSRF-Token": server.rows(Session)[0]["csrf"]}
    made = api.post("/v1/profiles", json={"name": "North Shop"}, headers=token)
    assert (made.status_code, made.json()["slug"]) == (201, "north-shop")
    profile = made.json()["id"]
    twin = api.post("/v1/profiles", json={"name": "north shop"}, headers=token)
    assert (twin.status_code, error_of(twin)["rule"]) == (409, "profile.slug.unique")
    key = api.post("/v1/api-keys", json={"name": "n", "profileId": profile}, headers=token).json()["key"]
    renamed = api.patch(f"/v1/profiles/{profile}", json={"name": "South"}, headers=token)
    assert (renamed.json()["name"], renamed.json()["slug"]) == ("South", "south")
    full = api.delete(f"/v1/profiles/{bob.profile}", headers=token)
    assert (full.status_code, error_of(full)["rule"]) == (409, "profile.delete.not_empty")
    assert api.delete(f"/v1/profiles/{profile}", headers=token).json() == {"id": profile, "deleted": True}
    assert server.api(key).get("/v1/posts").status_code == 401
    assert api.delete(f"/v1/profiles/{profile}", headers=token).status_code == 404
    assert api.post("/v1/profiles", json={"name": "South"}, headers=token).status_code == 201


def test_webhooks_and_channels_of_a_deleted_profile_go_with_it(server, owner, monkeypatch):
    """They counted towards the maximum of the organization."""
    monkeypatch.setattr(endpoints, "MAX_PER_ORGANIZATION", 1)
    monkeypatch.setattr(channels, "MAX_PER_ORGANIZATION", 1)
    api = signed_in(server)
    token = {"X-CSRF-Token": server.rows(Session)[0]["csrf"]}
    profile = api.post("/v1/profiles", json={"name": "North Shop"}, headers=token).json()["id"]
    key = api.post("/v1/api-keys", json={"name": "n", "profileId": profile}, headers=token).json()["key"]
    receivers = {
        "/v1/webhook-endpoints": {"url": "https://example.com/hook"},
        "/v1/notification-channels": {"to": {"kind": "slack", "url": "https://example.com/services/a-path-of-a-test"}},
    }
    for path, body in receivers.items():
        assert server.api(key).post(path, json=body).status_code == 201
        assert owner.api.post(path, json=body).status_code == 409
    assert api.delete(f"/v1/profiles/{profile}", headers=token).status_code == 200
    for path, body in receivers.items():
        assert owner.api.get(path).json()["data"] == []
        assert owner.api.post(path, json=body).status_code == 201


def test_another_organizations_keys_and_profiles_are_not_there(server, owner, charlie):
    api = signed_in(server)
    token = {"X-CSRF-Token": server.rows(Session)[0]["csrf"]}
    assert api.delete(f"/v1/api-keys/{charlie.key_id}", headers=token).status_code == 404
    assert api.patch(f"/v1/profiles/{charlie.profile}", json={"name": "x"}, headers=token).status_code == 404
    answer = api.post("/v1/api-keys", json={"name": "x", "profileId": charlie.profile}, headers=token)
    assert answer.status_code == 404


# --- The settings --------------------------------------------------------------------------------------------------


def test_the_page_of_keys_mints_shows_once_and_revokes(server, owner):
    api = signed_in(server)
    home = api.get("/settings/keys")
    sent = api.post("/settings/keys", data={"csrf_token": csrf_of(home), "name": "<b>site</b>", "prefix": "svc_live_"})
    assert (sent.status_code, sent.headers["Location"]) == (303, "/settings/keys")
    minted = api.get("/settings/keys")
    key = re.search(r"svc_live_[0-9A-Za-z]{49}", minted.text)
    assert key
    assert "&lt;b&gt;site&lt;/b&gt;" in minted.text
    assert server.api(key[0]).get("/v1/posts").status_code == 200
    again = api.get("/settings/keys")  # a reload shows it no more, and mints no other
    assert key[0] not in again.text
    assert len([row for row in server.rows(ApiKey) if row["name"] == "<b>site</b>"]) == 1
    made = next(row for row in server.rows(ApiKey) if row["name"] == "<b>site</b>")
    assert api.post(f"/settings/keys/{made['id']}/revoke", data={"csrf_token": csrf_of(again)}).status_code == 303
    assert server.api(key[0]).get("/v1/posts").status_code == 401


def test_the_page_of_keys_limits_a_key_as_chosen(server, owner):
    api = signed_in(server)
    home = api.get("/settings/keys")
    limits = {"preset": "plan", f"account.{owner.bluesky}": "yes", "lifetime": "90"}
    api.post("/settings/keys", data={"csrf_token": csrf_of(home), "name": "agent", **limits})
    shown = api.get("/settings/keys").text
    key = re.search(r"svc_live_[0-9A-Za-z]{49}", shown)
    me = server.api(key[0]).get("/v1/me").json()["key"]
    assert (me["scopes"], me["accounts"]) == (["posts:plan", "media", "accounts:read"], [owner.bluesky])
    assert parse_instant(me["expiresAt"]) - parse_instant(me["createdAt"]) == pytest.approx(90 * 86_400_000, abs=60_000)
    assert "Plan posts, Media, Read accounts" in shown
    assert re.search(r"Only <bdi[^>]*>Alice</bdi>", shown)
    whole = {"preset": "everything", "lifetime": ""}
    api.post("/settings/keys", data={"csrf_token": csrf_of(home), "name": "whole", **whole})
    (row,) = server.rows(ApiKey, name="whole")
    assert (row["scopes"], row["accounts"], row["expires_at"]) == (None, None, None)
    server.clock.skip(91 * 86_400)
    assert "Expired" in signed_in(server).get("/settings/keys").text
    assert server.api(key[0]).get("/v1/me").status_code == 401


def test_the_page_of_keys_keeps_choices_though_an_account_is_gone(server, owner):
    api = signed_in(server)
    accounts = {f"account.{UNKNOWN_ID}": "yes", f"account.{owner.bluesky}": "yes"}
    chosen = {"name": "agent", "preset": "read", "scope.webhooks": "yes", **accounts}
    answer = api.post("/settings/keys", data={"csrf_token": csrf_of(api.get("/settings/keys")), **chosen})
    assert answer.status_code == 404
    assert UNKNOWN_ID in answer.text
    assert re.search(rf'name="account\.{owner.bluesky}" value="yes" checked', answer.text)
    assert '<option value="read" selected' in answer.text
    assert re.search(r'name="scope.webhooks" value="yes" checked', answer.text)
    del chosen[f"account.{UNKNOWN_ID}"]
    api.post("/settings/keys", data={"csrf_token": csrf_of(answer), "scope.media": "yes", **chosen})
    (row,) = server.rows(ApiKey, name="agent")
    assert json.loads(row["scopes"]) == ["media", "webhooks"]  # what is ticked replaces the choice


def test_the_pages_of_keys_and_profiles_tell_what_is_wrong(server, owner):
    api = signed_in(server)
    token = csrf_of(api.get("/"))
    assert "1 to 100 characters" in api.post("/settings/keys", data={"csrf_token": token, "name": ""}).text
    assert api.post("/settings/profiles", data={"csrf_token": token, "name": "default"}).status_code == 409
    assert api.post("/settings/profiles", data={"csrf_token": token, "name": "West"}).status_code == 303
    assert "West" in api.get("/settings/profiles").text


def test_pages_carry_no_script_but_ours_and_their_token(server, owner):
    home = signed_in(server).get("/")
    ours = [f'<script src="/static/{name}.js" defer></script>' for name in ("page", "keys")]
    assert re.findall("<script.*", home.text) == ours
    assert "style=" not in home.text
    assert f'<meta name="csrf-token" content="{csrf_of(home)}">' in home.text
    assert home.headers["Cache-Control"] == "no-store"
