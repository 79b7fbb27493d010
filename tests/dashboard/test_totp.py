"""Two-factor sign-in: setup, one-time codes, recovery codes, and turning it off."""

from __future__ import annotations

import base64
import html
import re

import httpx
import pyotp
import pytest

from socialpub.domain.access.actor import build_operator
from socialpub.domain.identity import signin, totp
from socialpub.store.schema.models import Device, RecoveryCode, Session, User
from socialpub.web.dashboard import sign_in as people
from socialpub.web.dashboard import totp as pages
from tests.support.app_server import AppServer, Person
from tests.support.audit_rows import audit_rows, newest_audit_row
from tests.support.dashboard_forms import needs_password, send_settings_form
from tests.support.sign_in import EMAIL, PASSWORD, add_user, csrf_of, sign_in, signed_in
from tests.support.totp_codes import make_code, offered_secret

PATH = "/settings/totp"


@pytest.fixture
def owner(server: AppServer, alice: Person) -> httpx.Client:
    """An owner who has signed in. The clock stands in the middle of a step."""
    now = server.clock.stop()
    server.clock.stop(now - now % totp.STEP_MS + totp.STEP_MS // 2)
    add_user(server, alice, EMAIL, "owner")
    return signed_in(server)


def turn_on(server: AppServer, browser: httpx.Client) -> tuple[str, list[str]]:
    """The app's secret, and the recovery codes."""
    secret, sealed = offered_secret(browser)
    assert send_settings_form(browser, PATH, secret=sealed, code=make_code(server, secret)).headers["Location"] == PATH
    return secret, re.findall(r"\b[a-z2-7]{4}(?:-[a-z2-7]{4}){3}\b", browser.get(PATH).text)


def second_step(browser: httpx.Client, page: httpx.Response, code: str, **fields: str) -> httpx.Response:
    hidden = dict(re.findall(r'<input type="hidden" name="(\w+)" value="([^"]*)"', page.text))
    given = {name: html.unescape(value) for name, value in hidden.items()}
    return browser.post("/login", data=given | {"code": code} | fields)


def half_in(server: AppServer) -> tuple[httpx.Client, httpx.Response]:
    """A browser that has given the password, and what it is asked next."""
    browser = server.api()
    page = sign_in(browser)
    assert (page.status_code, "Enter your code" in page.text) == (200, True)
    return browser, page


# --- Setting it up -----------------------------------------------------------------------------------------------


def test_it_is_turned_on_with_a_code_and_recovery_codes_are_shown_once(server: AppServer, owner: httpx.Client) -> None:
    secret, codes = turn_on(server, owner)
    assert len(set(codes)) == totp.RECOVERY_CODE_COUNT
    page = owner.get(PATH).text
    assert "10 of 10 codes are left" in page
    assert not any(code in page for code in codes)
    assert secret not in page
    (row,) = server.rows(User, email=EMAIL)
    assert row["totp"].startswith("v1.")
    kept = str(server.rows(RecoveryCode)) + str(audit_rows(server)) + str(row)
    assert secret not in kept
    assert not any(code in kept or code.replace("-", "") in kept for code in codes)
    assert newest_audit_row(server)["verb"] == "POST /settings/totp"
    assert "On</span>" in owner.get("/settings").text


def test_the_picture_is_drawn_without_style_and_says_what_apps_read(server: AppServer, owner: httpx.Client) -> None:
    secret, _ = offered_secret(owner)
    page = owner.get(PATH).text
    assert "<svg viewBox=" in page
    assert " style=" not in page
    assert len(base64.b32decode(secret)) == 20
    told = pyotp.parse_uri(totp.build_uri(secret, "a&b?c#d@example.com"))
    assert (told.secret, told.issuer, told.name) == (secret, "socialpub", "a&b?c#d@example.com")
    assert "<path" in pages.render_qr_code(totp.build_uri(secret, "x" * 320))


@pytest.mark.matrix
@pytest.mark.parametrize("code", ["", "000000", "abcdef", "１２３４５６", "9" * 500, "<script>"])
def test_a_wrong_code_turns_nothing_on_and_shows_the_same_secret_again(
    server: AppServer, owner: httpx.Client, code: str
) -> None:
    secret, sealed = offered_secret(owner)
    refused = send_settings_form(
        owner, PATH, secret=sealed, code=code if code != make_code(server, secret) else "000001"
    )
    assert (refused.status_code, secret in refused.text, "<script>" in refused.text) == (400, True, False)
    assert server.rows(User, email=EMAIL)[0]["totp"] is None


def test_a_secret_that_another_session_was_shown_is_none(server: AppServer, owner: httpx.Client) -> None:
    secret, sealed = offered_secret(signed_in(server))
    for given in (sealed, "", "v1.x.y.z", "x" * 5000):
        assert send_settings_form(owner, PATH, secret=given, code=make_code(server, secret)).status_code == 400
    assert server.rows(User, email=EMAIL)[0]["totp"] is None


def test_it_is_not_turned_on_over_one_that_is_on(server: AppServer, owner: httpx.Client) -> None:
    other = signed_in(server)
    secret, sealed = offered_secret(other)
    turn_on(server, owner)
    assert send_settings_form(other, PATH, secret=sealed, code=make_code(server, secret)).status_code == 409


# --- Signing in ----------------------------------------------------------------------------------------------------


def test_signing_in_wants_a_code_and_takes_each_once(server: AppServer, owner: httpx.Client) -> None:
    secret, _ = turn_on(server, owner)
    before = len(server.rows(Session))
    browser, page = half_in(server)
    assert "socialpub_session" not in browser.cookies
    assert len(server.rows(Session)) == before
    assert second_step(browser, page, make_code(server, secret)).status_code == 401  # it turned the factor on
    server.clock.skip(30)
    code = make_code(server, secret)
    answer = second_step(browser, page, f"{code[:3]} {code[3:]}", next="/posts")
    assert (answer.status_code, answer.headers["Location"]) == (303, "/posts")
    assert browser.get("/settings").status_code == 200
    assert (newest_audit_row(server)["verb"], newest_audit_row(server)["user"]) == (
        "POST /login",
        server.rows(User)[0]["id"],
    )
    assert second_step(*half_in(server), code).status_code == 401
    assert code not in str(audit_rows(server))


@pytest.mark.parametrize(("steps", "status"), [(-2, 401), (-1, 303), (0, 303), (1, 303), (2, 401)])
def test_a_clock_may_be_off_by_a_step(server: AppServer, owner: httpx.Client, steps: int, status: int) -> None:
    secret, _ = turn_on(server, owner)
    server.clock.skip(150)
    assert second_step(*half_in(server), make_code(server, secret, steps)).status_code == status


def test_after_a_later_code_no_earlier_one_counts(server: AppServer, owner: httpx.Client) -> None:
    secret, _ = turn_on(server, owner)
    server.clock.skip(150)
    assert second_step(*half_in(server), make_code(server, secret, 1)).status_code == 303
    for steps in (-1, 0, 1):
        assert second_step(*half_in(server), make_code(server, secret, steps)).status_code == 401


def test_both_may_be_sent_at_once(server: AppServer, owner: httpx.Client) -> None:
    secret, _ = turn_on(server, owner)
    server.clock.skip(60)
    assert sign_in(server.api(), code="000000").status_code == 401
    assert sign_in(server.api(), password="wrong password!", code=make_code(server, secret)).status_code == 401
    assert sign_in(server.api(), code=make_code(server, secret)).status_code == 303


def test_a_recovery_code_signs_in_once_and_its_row_says_so(server: AppServer, owner: httpx.Client) -> None:
    _, codes = turn_on(server, owner)
    assert second_step(*half_in(server), codes[0].upper()).status_code == 303
    assert newest_audit_row(server)["verb"] == "POST /login with a recovery code"
    assert second_step(*half_in(server), codes[0]).status_code == 401
    assert second_step(*half_in(server), codes[1].replace("-", " ")).status_code == 303
    assert "8 of 10 codes are left" in owner.get(PATH).text


def test_a_known_device_is_asked_for_the_code_too(server: AppServer, owner: httpx.Client) -> None:
    turn_on(server, owner)
    assert server.rows(Device)
    token = csrf_of(owner.get("/settings"))
    owner.post("/logout", data={"csrf_token": token})
    assert "socialpub_device" in owner.cookies
    assert "Enter your code" in sign_in(owner).text


def test_guesses_at_the_code_are_slowed_down_for_the_person(server: AppServer, owner: httpx.Client) -> None:
    secret, codes = turn_on(server, owner)
    server.clock.hold()
    server.clock.skip(60)
    for _ in range(signin.GUESS_BACKOFFS["code"].free):
        assert second_step(*half_in(server), "000000").status_code == 401
    slowed = second_step(*half_in(server), make_code(server, secret))  # in another browser, and be it the right one
    assert (slowed.status_code, slowed.headers["Retry-After"]) == (429, "2")  # a second, and what is left of the next
    assert second_step(*half_in(server), codes[0]).status_code == 429
    server.clock.skip(2)
    assert second_step(*half_in(server), make_code(server, secret)).status_code == 303


def test_first_step_expires_in_five_minutes_and_is_void_elsewhere(server: AppServer, owner: httpx.Client) -> None:
    secret, _ = turn_on(server, owner)
    server.clock.skip(60)
    _, page = half_in(server)
    elsewhere = server.api()
    token = csrf_of(elsewhere.get("/login"))
    code = make_code(server, secret)
    assert second_step(elsewhere, page, code, csrf_token=token).status_code == 401
    for half in ("x", "v1.a.b.c", "x" * 5000):
        assert second_step(elsewhere, page, code, csrf_token=token, half=half).status_code == 401
    browser, page = half_in(server)
    server.clock.skip(people.CODE_SECONDS + 1)
    late = second_step(browser, page, make_code(server, secret))
    assert (late.status_code, "took too long" in late.text) == (401, True)


def test_a_password_that_was_changed_meanwhile_is_no_half(server: AppServer, owner: httpx.Client) -> None:
    secret, _ = turn_on(server, owner)
    server.clock.skip(60)
    browser, page = half_in(server)
    send_settings_form(owner, "/settings/password", password=PASSWORD, new_password="another long password")
    assert second_step(browser, page, make_code(server, secret)).status_code == 401
    assert len(server.rows(Session)) == 1


# --- Turning it off --------------------------------------------------------------------------------------------------


def test_it_is_turned_off_with_the_password(server: AppServer, owner: httpx.Client) -> None:
    _, codes = turn_on(server, owner)
    server.clock.skip(signin.REAUTHENTICATED_MS / 1000 + 1)
    assert needs_password(owner.get(PATH))
    for path in (f"{PATH}/off", f"{PATH}/codes"):
        assert send_settings_form(owner, path).status_code == 403
        assert send_settings_form(owner, path, password="wrong password!").status_code == 403
    assert server.rows(User, email=EMAIL)[0]["totp"]
    assert send_settings_form(owner, f"{PATH}/off", password=PASSWORD).headers["Location"] == "/settings"
    assert newest_audit_row(server)["verb"] == "POST /settings/totp/off"
    assert server.rows(RecoveryCode) == []
    assert sign_in(server.api()).status_code == 303
    assert codes[0] not in owner.get(PATH).text


def test_new_recovery_codes_end_those_before(server: AppServer, owner: httpx.Client) -> None:
    _, codes = turn_on(server, owner)
    assert send_settings_form(owner, f"{PATH}/codes").headers["Location"] == PATH
    new = re.findall(r"\b[a-z2-7]{4}(?:-[a-z2-7]{4}){3}\b", owner.get(PATH).text)
    assert len(set(new) - set(codes)) == totp.RECOVERY_CODE_COUNT
    assert second_step(*half_in(server), codes[0]).status_code == 401
    assert second_step(*half_in(server), new[0]).status_code == 303


def test_new_codes_of_what_is_off_are_none(owner: httpx.Client) -> None:
    assert send_settings_form(owner, f"{PATH}/codes").status_code == 404


def test_a_code_of_one_person_is_nothing_for_another(server: AppServer, owner: httpx.Client, alice: Person) -> None:
    secret, codes = turn_on(server, owner)
    add_user(server, alice, "bob@example.com", "member")
    bob = signed_in(server, "bob@example.com")
    turn_on(server, bob)
    server.clock.skip(60)
    for code in (make_code(server, secret), codes[0]):
        browser = server.api()
        assert second_step(browser, sign_in(browser, "bob@example.com"), code).status_code == 401
    assert len(server.rows(RecoveryCode)) == 2 * totp.RECOVERY_CODE_COUNT


def test_the_operator_turns_it_off_for_who_has_lost_it(server: AppServer, owner: httpx.Client) -> None:
    turn_on(server, owner)
    server.service.write(lambda tx: totp.reset(tx, build_operator(server.service, "test"), EMAIL)).result()
    assert sign_in(server.api()).status_code == 303
