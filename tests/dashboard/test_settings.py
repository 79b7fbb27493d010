"""API key and profile pages: confirmation, password checks, forms kept over sign-in."""

from __future__ import annotations

import re

import httpx
import pytest

from socialpub.base.service_rules import SERVICE_RULES
from socialpub.store.schema.models import Account, ApiKey, Profile
from socialpub.web.http.handler import Route
from socialpub.web.routes import ROUTES
from tests.support.app_server import UNKNOWN_ID, AppServer, Person, error_of
from tests.support.connect_flow import sign_in
from tests.support.dashboard_forms import PROOF_EXPIRED, needs_password, send_settings_form, sign_in_at
from tests.support.sign_in import EMAIL, PASSWORD, csrf_of

# --- Keys ------------------------------------------------------------------------------------------------------------


def test_the_page_of_keys_says_how_the_program_uses_one(server: AppServer, owner: httpx.Client) -> None:
    page = owner.get("/settings/keys").text
    assert re.findall(r"<code>(socialpub login [^<]*)</code>", page) == [
        f"socialpub login --url {server.service.base_url}"
    ]


def test_a_key_is_revoked_on_a_page_that_says_what_will_happen(
    server: AppServer, owner: httpx.Client, alice: Person
) -> None:
    path = f"/settings/keys/{alice.key_id}/revoke"
    listed = owner.get("/settings/keys").text
    assert f'href="{path}"' in listed
    assert f'action="{path}"' not in listed
    alice.api.get("/v1/posts")
    server.service.write(lambda tx: None).result()  # when the key was used is written behind the answer
    asked = owner.get(path)
    assert "last used" in asked.text
    assert alice.api.get("/v1/posts").status_code == 200
    assert send_settings_form(owner, path).headers["Location"] == "/settings/keys"
    assert "Key revoked." in owner.get("/settings/keys").text
    assert alice.api.get("/v1/posts").status_code == 401
    assert "is revoked</h1>" in owner.get(path).text  # back to where it was asked


@pytest.mark.parametrize("path", ["/settings/keys/{}/revoke", "/settings/profiles/{}"])
def test_what_is_another_organizations_is_not_there(server: AppServer, owner: httpx.Client, path: str) -> None:
    mallory = server.person("Mallory")
    for id_ in (mallory.key_id, mallory.profile, UNKNOWN_ID):
        assert owner.get(path.format(id_)).status_code == 404
        assert send_settings_form(owner, path.format(id_), name="x").status_code == 404


def test_new_secrets_and_deletions_need_the_password_after_ten_minutes(
    server: AppServer, owner: httpx.Client, alice: Person
) -> None:
    assert not needs_password(owner.get("/settings/keys"))
    server.clock.skip(PROOF_EXPIRED)
    for path, fields in (("/settings/keys", {"name": "new"}), (f"/settings/keys/{alice.key_id}/revoke", {})):
        assert needs_password(owner.get(path))
        before = server.rows(ApiKey)
        refused = send_settings_form(owner, path, **fields)
        assert (refused.status_code, needs_password(refused)) == (403, True)
        assert SERVICE_RULES["session.proof"].message in refused.text
        wrong = send_settings_form(owner, path, password="not the one", **fields)
        assert (wrong.status_code, "The password is wrong." in wrong.text) == (403, True)
        assert server.rows(ApiKey) == before
    assert send_settings_form(owner, "/settings/keys", name="new", password=PASSWORD).status_code == 303
    assert not needs_password(owner.get("/settings/keys"))  # for the next ten minutes
    assert send_settings_form(owner, f"/settings/keys/{alice.key_id}/revoke").status_code == 303


PROVED = [route for route in ROUTES if route.recent_password]


@pytest.mark.parametrize("route", PROVED, ids=lambda route: f"{route.method} {route.path}")
def test_the_api_asks_for_a_password_too_where_its_pages_do(
    server: AppServer, owner: httpx.Client, alice: Person, route: Route
) -> None:
    ids = {"account_id": alice.bluesky, "profile_id": alice.profile, "key_id": alice.key_id}
    path = re.sub(r"<(\w+):str>", lambda found: ids[found[1]], route.path)
    body = {"json": {"name": "ci"}} if route.method == "POST" else {}

    def ask() -> httpx.Response:
        token = {"X-CSRF-Token": csrf_of(owner.get("/settings"))}
        return owner.request(route.method, path, headers=token | {"Idempotency-Key": "one"}, **body)

    server.clock.skip(PROOF_EXPIRED)
    before = [server.rows(table) for table in (Account, ApiKey, Profile)]
    refused = ask()
    assert (refused.status_code, error_of(refused)["rule"]) == (403, "session.proof")
    assert error_of(refused)["remediation"] == SERVICE_RULES["session.proof"].remediation
    assert [server.rows(table) for table in (Account, ApiKey, Profile)] == before
    assert (
        send_settings_form(owner, "/settings/keys", name="new", password=PASSWORD).status_code == 303
    )  # a proof for ten minutes
    done = ask()
    assert done.status_code in (200, 201, 409)  # the profile still owns an account
    if done.status_code != 409:
        server.clock.skip(PROOF_EXPIRED)
        assert ask().json() == done.json()  # a repeat changes nothing, and asks for nothing


def test_routes_that_need_a_password_destroy_or_make_a_secret() -> None:
    assert {f"{route.method} {route.path}" for route in PROVED} == {
        "DELETE /v1/accounts/<account_id:str>",
        "DELETE /v1/profiles/<profile_id:str>",
        "DELETE /v1/api-keys/<key_id:str>",
        "POST /v1/api-keys",
    }


def test_what_was_typed_is_still_there_when_the_password_is_asked_for(server: AppServer, owner: httpx.Client) -> None:
    server.clock.skip(PROOF_EXPIRED)
    refused = send_settings_form(owner, "/settings/keys", name="<i>for the shop", password="not the one")
    assert 'value="&lt;i&gt;for the shop"' in refused.text
    assert "Your session had ended" not in refused.text
    assert "not the one" not in refused.text


def test_password_guesses_are_slowed_down_as_at_sign_in(server: AppServer, owner: httpx.Client) -> None:
    server.clock.hold()
    server.clock.skip(PROOF_EXPIRED)
    statuses = [
        send_settings_form(owner, "/settings/keys", name="x", password=f"wrong {n}").status_code for n in range(6)
    ]
    assert statuses == [403] * 5 + [429]


# --- Profiles --------------------------------------------------------------------------------------------------------


def test_a_profile_is_renamed_and_deleted(server: AppServer, owner: httpx.Client) -> None:
    assert send_settings_form(owner, "/settings/profiles", name="West").status_code == 303
    made = server.rows(Profile)[-1]["id"]
    assert send_settings_form(owner, f"/settings/profiles/{made}", name="Far West").status_code == 303
    assert "Far West" in owner.get("/settings/profiles").text
    assert send_settings_form(owner, f"/settings/profiles/{made}", name="default").status_code == 409
    assert "No API key is limited to it." in owner.get(f"/settings/profiles/{made}").text
    assert send_settings_form(owner, f"/settings/profiles/{made}/delete").status_code == 303
    assert "Far West" not in owner.get("/settings/profiles").text


def test_the_slots_of_a_profile_are_a_field_for_each_day(owner: httpx.Client, alice: Person) -> None:
    path = f"/settings/profiles/{alice.profile}"
    assert "There are none yet." in owner.get(path).text
    typed = {"zone": "Europe/Berlin", "thu": " 18:00", "mon": "9:30,17:00  ", "sun": ""}
    assert send_settings_form(owner, f"{path}/slots", **typed).status_code == 303
    stored = alice.api.get("/v1/slots").json()
    weekly = [("mon", "09:30"), ("mon", "17:00"), ("thu", "18:00")]
    assert stored["zone"] == "Europe/Berlin"
    assert [(slot["day"], slot["time"]) for slot in stored["weekly"]] == weekly
    page = owner.get(path).text
    for name, value in (("mon", "09:30, 17:00"), ("thu", "18:00"), ("sun", "")):
        assert f'name="{name}" type="text" value="{value}"' in page
    assert '<option value="Europe/Berlin" selected' in page
    wrong = send_settings_form(owner, f"{path}/slots", zone="Europe/Berlin", mon="09:30", fri="9:30, noon")
    assert wrong.status_code == 400
    assert 'name="fri" type="text" value="9:30, noon"' in wrong.text
    assert "Friday: write times of 24 hours, such as 09:30, with commas between them." in wrong.text
    for time in ("930", "24:00", "9:3", "9.30", ":", "09:30pm", "-9:30"):
        refused = send_settings_form(owner, f"{path}/slots", zone="Europe/Berlin", sat=time)
        assert (refused.status_code, "Saturday: write times" in refused.text) == (400, True), time
    twice = send_settings_form(owner, f"{path}/slots", zone="Europe/Berlin", mon="09:30, 9:30")
    assert "Each day and time should occur only once." in twice.text
    assert "weekly." not in wrong.text + twice.text
    assert alice.api.get("/v1/slots").json() == stored
    assert send_settings_form(owner, f"{path}/slots", zone="UTC").status_code == 303
    assert alice.api.get("/v1/slots").json()["weekly"] == []


def test_the_calendar_and_the_composer_lead_to_the_slots(server: AppServer, owner: httpx.Client, alice: Person) -> None:
    there = f"/settings/profiles/{alice.profile}#slots"
    member = sign_in(server, alice.organization, role="member", name="mona")
    for page in ("/calendar", "/calendar/week", "/compose"):
        shown = owner.get(page, follow_redirects=True).text
        assert (f'href="{there}"' in shown, "#slots" in member.get(page, follow_redirects=True).text) == (True, False)
    assert f'href="{there}"' in owner.get("/settings/profiles").text


def test_a_profile_that_owns_accounts_says_so_in_place_of_a_button(owner: httpx.Client, alice: Person) -> None:
    path = f"/settings/profiles/{alice.profile}"
    page = owner.get(path).text
    assert "has 1 connected account" in page
    assert f'action="{path}/delete"' not in page
    assert send_settings_form(owner, f"{path}/delete").status_code == 409


def test_a_member_sees_profiles_and_no_keys(server: AppServer, alice: Person) -> None:
    member = sign_in(server, alice.organization, role="member", name="dave")
    page = member.get("/settings/profiles").text
    assert "default" in page
    assert '<form class="form"' not in page
    assert "/settings/keys" not in page
    assert member.get("/settings/keys").status_code == 403


# --- A session that ends in the middle -------------------------------------------------------------------------------


def test_a_form_that_is_sent_after_the_session_ended_comes_back_filled_in(
    server: AppServer, owner: httpx.Client
) -> None:
    token = csrf_of(owner.get("/settings/keys"))
    server.clock.skip(31 * 24 * 3600)
    typed = {"csrf_token": token, "page": "/settings/keys", "name": "for <the> shop", "password": "a secret"}
    page = owner.post("/settings/keys", data=typed)
    assert page.status_code == 200
    assert "Your session has ended" in page.text
    assert "a secret" not in page.text
    assert token not in page.text
    before = server.rows(ApiKey)
    sent = sign_in_at(page, owner)
    assert (sent.status_code, sent.headers["Location"]) == (303, "/settings/keys?kept=1")
    back = owner.get(sent.headers["Location"])
    assert 'value="for &lt;the&gt; shop"' in back.text
    assert "so the form was not sent" in back.text
    assert server.rows(ApiKey) == before
    assert "for &lt;the&gt; shop" not in owner.get("/settings/keys").text
    assert "for &lt;the&gt; shop" not in owner.get("/settings/profiles?kept=1").text


@pytest.mark.parametrize("path", ["/webhooks", "/settings/keys", "/settings/notifications/new/slack"])
def test_every_box_that_was_ticked_comes_back_ticked(server: AppServer, owner: httpx.Client, path: str) -> None:
    page = owner.get(path)
    boxes = re.findall(r'<input type="checkbox" id="[^"]*" name="([^"]*)" value="yes"', page.text)
    assert len(boxes) > 5
    server.clock.skip(31 * 24 * 3600)
    typed = dict.fromkeys(boxes, "yes") | {"csrf_token": csrf_of(page), "page": path}
    back = owner.get(sign_in_at(owner.post(path, data=typed), owner).headers["Location"])
    assert [box for box in boxes if f'name="{box}" value="yes" checked' not in back.text] == []


@pytest.mark.parametrize("headers", [{"Sec-Fetch-Site": "cross-site"}, {"Origin": "https://evil.example"}])
def test_a_form_of_another_site_is_not_kept(server: AppServer, headers: dict[str, str]) -> None:
    answer = server.api().post("/settings/keys", data={"name": "evil", "page": "/settings/keys"}, headers=headers)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/login")


def test_what_is_too_long_to_be_kept_is_not(server: AppServer) -> None:
    answer = server.api().post("/compose", data={"text": "x" * 50_000, "page": "/compose"})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/login?next=/compose")


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("/posts/x/retry", {"page": "/posts/x"}),
        ("/compose", {"page": "/posts/x", "text": "x" * 50_000}),
        ("/settings/members", {"page": "/posts/x"}),
    ],
)
def test_a_button_pressed_after_the_session_ended_says_it_did_nothing(
    server: AppServer, owner: httpx.Client, path: str, fields: dict[str, str]
) -> None:
    server.clock.skip(31 * 24 * 3600)
    answer = owner.post(path, data=fields)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/login?next=/posts/x")
    page = owner.get(answer.headers["Location"]).text
    assert "Your session has ended, so nothing was sent or changed." in page
    assert "Your session has ended" not in owner.get("/login").text


@pytest.mark.parametrize("kept", ["nonsense", "[]", '{"page": 1}', '{"fields": {"a": 1}}', "x" * 50_000, "null"])
def test_a_kept_form_that_is_none_is_left_out(server: AppServer, owner: httpx.Client, kept: str) -> None:
    token = csrf_of(owner.get("/login"))
    sent = owner.post("/login", data={"csrf_token": token, "email": EMAIL, "password": PASSWORD, "kept": kept})
    assert sent.status_code == 303
    assert owner.get("/settings/keys?kept=1").status_code == 200


def test_two_open_sign_in_tabs_both_work(server: AppServer, owner: httpx.Client) -> None:
    other = server.api()
    first, second = csrf_of(other.get("/login")), csrf_of(other.get("/login"))
    for token in (first, second):
        sent = other.post("/login", data={"csrf_token": token, "email": EMAIL, "password": PASSWORD})
        assert (sent.status_code, sent.headers["Location"]) == (303, "/")
    assert other.get("/").status_code == 200
