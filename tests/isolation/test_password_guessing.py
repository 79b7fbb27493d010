"""Password guessing is slowed down and locks out no user who has signed in before."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import httpx
import pytest
from argon2 import PasswordHasher

from socialpub.base.security.crypto import digest
from socialpub.domain.access import idempotency
from socialpub.domain.access.actor import build_operator
from socialpub.domain.access.authentication import Scope
from socialpub.domain.identity import sessions, signin, users
from socialpub.store.schema.models import Device, Session, User
from socialpub.web.dashboard import sign_in as pages
from tests.support.app_server import ApiClient, AppServer, MovableClock, Person, unchanged
from tests.support.sign_in import EMAIL, PASSWORD, add_user, at_once, csrf_of, sign_in, signed_in

WRONG = "wrong password!"
MEL = "mel@example.com"
BRAKES = signin.GUESS_BACKOFFS


@pytest.fixture
def still() -> MovableClock:
    """However long the guesses take, their waits are not over."""
    clock = MovableClock()
    clock.hold()
    return clock


@pytest.fixture
def server(make_server: Callable[..., AppServer], still: MovableClock) -> AppServer:
    """Behind a proxy, so that a test may ask from any address."""
    server = make_server(server={"trusted_proxies": ["127.0.0.1"]})
    server.engine.throttle = signin.LoginThrottle(still)
    return server


@pytest.fixture
def owner(server: AppServer, alice: Person) -> Person:
    add_user(server, alice, EMAIL, "owner")
    add_user(server, alice, MEL, "member")
    return alice


@pytest.fixture
def evaluated(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Every password that was hashed to be looked at."""
    seen: list[str] = []
    verify = PasswordHasher.verify

    def counted(hasher: PasswordHasher, stored: str, password: str) -> bool:
        seen.append(password)
        return verify(hasher, stored, password)

    monkeypatch.setattr(PasswordHasher, "verify", counted)
    return seen


def from_(server: AppServer, address: str) -> ApiClient:
    return server.api(**{"X-Forwarded-For": address})


def guess(api: ApiClient, times: int, email: str = EMAIL) -> list[int]:
    return [sign_in(api, email, WRONG).status_code for _ in range(times)]


# --- Who is slowed down ----------------------------------------------------------------------------------------------


def test_guesses_are_slowed_down_for_the_pair_of_account_and_address(
    server: AppServer, owner: Person, evaluated: list[str]
) -> None:
    free = BRAKES["pair"].free
    assert guess(from_(server, "9.9.9.9"), free + 3) == [401] * free + [429] * 3
    assert evaluated == [WRONG] * free
    assert sign_in(from_(server, "9.9.9.9")).status_code == 429  # even the right one
    assert sign_in(from_(server, "9.9.9.9"), MEL).status_code == 303
    assert sign_in(from_(server, "8.8.8.8")).status_code == 303


@pytest.mark.slow
def test_guesses_that_are_sent_at_once_are_not_all_looked_at(
    server: AppServer, owner: Person, evaluated: list[str]
) -> None:
    free = BRAKES["pair"].free
    assert at_once(server, WRONG, 40) == {401: free, 429: 40 - free}
    assert evaluated == [WRONG] * free


def test_a_refusal_says_when_to_try_again_and_then_it_works(
    server: AppServer, owner: Person, still: MovableClock
) -> None:
    guess(from_(server, "9.9.9.9"), BRAKES["pair"].free)
    for wait in (1, 2, 4):
        refused = sign_in(from_(server, "9.9.9.9"), password=WRONG)
        assert refused.status_code == 429
        assert wait <= int(refused.headers["Retry-After"]) <= wait + 1
        assert "Too many failed sign-ins. Try again in " in refused.text
        still.skip(int(refused.headers["Retry-After"]))
        assert guess(from_(server, "9.9.9.9"), 1) == [401]
    still.skip(9)
    assert sign_in(from_(server, "9.9.9.9")).status_code == 303


def test_distributed_guesses_slow_the_account_for_at_most_90_seconds(
    server: AppServer, owner: Person, evaluated: list[str], still: MovableClock
) -> None:
    far = [from_(server, f"9.9.9.{number}") for number in range(30)]
    codes = [code for api in far for code in guess(api, 1)]
    assert codes.count(401) == len(evaluated) == BRAKES["account"].free
    assert sign_in(from_(server, "8.8.8.8")).status_code == 429
    still.skip(BRAKES["account"].longest + 1)
    assert sign_in(from_(server, "8.8.8.8")).status_code == 303


def test_an_address_that_tries_many_accounts_is_slowed_down(
    server: AppServer, owner: Person, evaluated: list[str]
) -> None:
    codes = [code for number in range(30) for code in guess(from_(server, "9.9.9.9"), 1, f"u{number}@example.com")]
    assert codes.count(401) == len(evaluated) == BRAKES["address"].free
    assert sign_in(from_(server, "8.8.8.8"), "u1@example.com", WRONG).status_code == 401


def test_guesses_from_ten_thousand_addresses_are_rarely_evaluated(still: MovableClock) -> None:
    throttle, looked_at = signin.LoginThrottle(still), 0
    for number in range(10_000):
        names = (("pair", str(number)), ("account", "a"), ("address", str(number)))
        looked_at += throttle.try_guess(*names) == 0
        still.skip(0.36)
    assert looked_at <= 60


def test_signing_in_takes_back_no_guess_of_others(still: MovableClock) -> None:
    throttle = signin.LoginThrottle(still)
    for _ in range(BRAKES["account"].free):
        assert throttle.try_guess(("pair", "far"), ("account", "a"), ("address", "far")) == 0
        still.skip(1000)
    ours = (("pair", "ours"), ("account", "a"), ("address", "ours"))
    assert throttle.try_guess(*ours) == 0
    throttle.accept(*ours)
    assert throttle.try_guess(("pair", "other"), ("account", "a"), ("address", "other")) == 0
    assert throttle.try_guess(("pair", "another"), ("account", "a"), ("address", "another")) > 0


def test_what_the_throttle_remembers_is_bounded_and_ends(still: MovableClock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signin, "NAMES_MAX", 100)
    throttle = signin.LoginThrottle(still)
    for number in range(1000):
        throttle.try_guess(("pair", str(number)))
    assert len(throttle) == 100
    still.skip(signin.GUESS_LIFETIME_SECONDS + 1)
    throttle.try_guess(("pair", "new"))
    assert len(throttle) == 1


def test_a_name_of_any_length_takes_the_same_room(still: MovableClock) -> None:
    short, long = (signin._list_throttle_names("a" * length, "1.2.3.4", None) for length in (1, 320))
    assert [len(part) for _, part in short] == [len(part) for _, part in long]


# --- Browsers that have signed in before -----------------------------------------------------------------------------


def test_who_signed_in_before_gets_in_while_the_account_is_under_attack(server: AppServer, owner: Person) -> None:
    browser = from_(server, "8.8.8.8")
    assert sign_in(browser).status_code == 303
    for number in range(20):
        guess(from_(server, f"9.9.9.{number}"), 1)
    guess(from_(server, "8.8.8.8"), 10)  # from the owner's own network too
    assert sign_in(from_(server, "7.7.7.7")).status_code == 429
    assert sign_in(browser).status_code == 303
    browser.headers["X-Forwarded-For"] = "7.7.7.7"
    assert sign_in(browser).status_code == 303


def test_a_known_browser_has_its_own_guesses_alone(server: AppServer, owner: Person, evaluated: list[str]) -> None:
    browser = from_(server, "8.8.8.8")
    sign_in(browser)
    evaluated.clear()
    assert guess(browser, BRAKES["device"].free + 1)[-1] == 429
    assert len(evaluated) == BRAKES["device"].free
    assert sign_in(from_(server, "8.8.8.8")).status_code == 303


def test_a_known_browser_is_known_for_its_own_user(server: AppServer, owner: Person) -> None:
    browser = from_(server, "8.8.8.8")
    sign_in(browser, MEL)
    for number in range(20):
        guess(from_(server, f"9.9.9.{number}"), 1)
    assert sign_in(browser, EMAIL).status_code == 429


def device_cookie(answer: httpx.Response) -> str:
    found = [value for name, value in answer.headers.multi_items() if name == "set-cookie" and "_device=" in value]
    assert len(found) == 1
    return found[0]


def test_device_cookie_lasts_a_year_and_only_its_hash_is_stored(server: AppServer, owner: Person) -> None:
    header = device_cookie(sign_in(server.api()))
    parts = {part.strip() for part in header.split(";")}
    assert {"HttpOnly", "SameSite=Lax", "Path=/", f"Max-Age={365 * 86_400}"} <= parts
    value = header.split(";")[0].partition("=")[2]
    assert len(value) == 64
    assert value not in str(server.stock())
    assert len(server.rows(Device)) == 1


def test_under_https_the_device_cookie_is_bound_to_the_host(make_server: Callable[..., AppServer]) -> None:
    server = make_server(server={"base_url": "https://social.example"})
    server.url = f"http://127.0.0.1:{server.port}"
    add_user(server, server.person("Alice"), EMAIL, "owner")
    page = server.api().get("/login")
    headers = {"Cookie": page.headers["Set-Cookie"].split(";")[0]}
    form = {"csrf_token": csrf_of(page), "email": EMAIL, "password": PASSWORD}
    header = device_cookie(server.api().post("/login", data=form, headers=headers))
    assert header.startswith("__Host-socialpub_device=")
    assert "; Secure" in header


def test_device_cookie_is_replaced_at_each_sign_in_and_old_ones_are_void(server: AppServer, owner: Person) -> None:
    browser = server.api()
    sign_in(browser)
    first = browser.cookies["socialpub_device"]
    sign_in(browser)
    assert browser.cookies["socialpub_device"] != first
    assert len(server.rows(Device)) == 1
    (user,) = server.rows(User, email=EMAIL)
    known = server.service.read(lambda: sessions.find_device(server.service, user["id"], first)).result()
    assert known is None


def test_a_device_is_forgotten_after_a_year_and_the_oldest_of_many(
    server: AppServer, owner: Person, wall: MovableClock
) -> None:
    for _ in range(3):
        signed_in(server)
    wall.skip(366 * 86_400)
    signed_in(server)
    assert len(server.rows(Device)) == 1
    (user,) = server.rows(User, email=EMAIL)
    for _ in range(sessions.DEVICES_MAX):
        wall.skip(1)
        server.service.write(lambda tx: sessions.start(server.service, tx, user["id"])).result()
    assert len(server.rows(Device)) == sessions.DEVICES_MAX


def test_another_password_forgets_every_device(server: AppServer, owner: Person) -> None:
    signed_in(server)
    signed_in(server, MEL)
    hash_ = users.hash_password("another password")
    server.service.write(
        lambda tx: users.set_password(tx, build_operator(server.service, "test"), EMAIL, hash_)
    ).result()
    (mel,) = server.rows(User, email=MEL)
    assert [row["user"] for row in server.rows(Device)] == [mel["id"]]


def test_password_changed_while_it_was_checked_opens_no_session(
    server: AppServer, owner: Person, monkeypatch: pytest.MonkeyPatch
) -> None:
    verify, hash_ = users.verify_password, users.hash_password("another password")

    def slow(stored: str | None, password: str) -> bool:
        right = verify(stored, password)
        server.service.write(
            lambda tx: users.set_password(tx, build_operator(server.service, "test"), EMAIL, hash_)
        ).result()
        return right

    monkeypatch.setattr(users, "verify_password", slow)
    assert sign_in(server.api()).status_code == 401
    assert (server.rows(Session), server.rows(Device)) == ([], [])


# --- Everywhere ------------------------------------------------------------------------------------------------------


def test_signing_out_everywhere_ends_every_session_and_device(server: AppServer, owner: Person) -> None:
    here, there, mel = signed_in(server), signed_in(server), signed_in(server, MEL)
    home = here.get("/")
    assert 'formaction="/logout/everywhere"' in home.text
    answer = here.post("/logout/everywhere", data={"csrf_token": csrf_of(home)})
    assert (answer.status_code, answer.headers["Location"]) == (303, "/login")
    assert not {"socialpub_session", "socialpub_device"} & set(here.cookies)
    assert there.get("/").headers["Location"] == "/login"
    assert mel.get("/").status_code == 200
    (user,) = server.rows(User, email=MEL)
    assert {row["user"] for table in (Session, Device) for row in server.rows(table)} == {user["id"]}


def test_signing_out_here_leaves_other_sessions_and_the_device(server: AppServer, owner: Person) -> None:
    here, there = signed_in(server), signed_in(server)
    here.post("/logout", data={"csrf_token": csrf_of(here.get("/"))})
    assert there.get("/").status_code == 200
    assert (len(server.rows(Session)), len(server.rows(Device))) == (1, 2)


@pytest.mark.parametrize("path", ["/logout", "/logout/everywhere"])
def test_a_forged_sign_out_changes_nothing(server: AppServer, owner: Person, path: str) -> None:
    browser = signed_in(server)
    with unchanged(server):
        assert browser.post(path, data={"csrf_token": "0" * 64}).status_code == 403


@pytest.mark.parametrize("path", ["/logout", "/logout/everywhere"])
def test_session_that_ended_meanwhile_is_signed_out_and_ends_no_other(
    server: AppServer, owner: Person, monkeypatch: pytest.MonkeyPatch, path: str
) -> None:
    here, there = signed_in(server), signed_in(server)
    token, cookie = csrf_of(here.get("/")), here.cookies["socialpub_session"]
    left = pages._sign_out

    async def late(call: Any, end: Any, *cookies: str) -> Any:
        server.service.write(lambda tx: sessions.end(tx, digest(cookie))).result()
        return await left(call, end, *cookies)

    monkeypatch.setattr(pages, "_sign_out", late)
    assert here.post(path, data={"csrf_token": token}).headers["Location"] == "/login"
    assert there.get("/").status_code == 200


# --- Two tabs --------------------------------------------------------------------------------------------------------


def test_two_tabs_of_the_sign_in_page_both_work(server: AppServer, owner: Person) -> None:
    browser = server.api()
    first, second = (csrf_of(browser.get("/login")) for _ in range(2))
    form = {"email": EMAIL, "password": PASSWORD}
    assert browser.post("/login", data=form | {"csrf_token": first}).status_code == 303
    assert browser.post("/login", data=form | {"csrf_token": second}).status_code == 303


def test_a_tab_works_after_another_ones_password_was_wrong(server: AppServer, owner: Person) -> None:
    browser = server.api()
    first = csrf_of(browser.get("/login"))
    wrong = sign_in(browser, password=WRONG)
    for token in (first, csrf_of(wrong)):
        form = {"csrf_token": token, "email": EMAIL, "password": PASSWORD}
        assert browser.post("/login", data=form).status_code == 303


@pytest.mark.parametrize("planted", ["xyzzy", "0" * 63, '0"' * 32, "Ä" * 64])
def test_a_form_takes_no_token_of_another_shape_from_the_browser(server: AppServer, planted: str) -> None:
    headers = [("Cookie", f"socialpub_form={planted}".encode())]
    page = httpx.get(f"{server.url}/login", headers=headers, trust_env=False)
    assert csrf_of(page) in page.headers["Set-Cookie"]
    assert planted not in page.text


# --- Idempotency of people -------------------------------------------------------------------------------------------


def test_an_idempotency_key_of_one_person_says_nothing_to_another(server: AppServer, owner: Person) -> None:
    add_user(server, owner, "ann@example.com", "admin")
    answers = []
    for email in (EMAIL, "ann@example.com", EMAIL):
        browser = signed_in(server, email)
        headers = {"X-CSRF-Token": csrf_of(browser.get("/")), "Idempotency-Key": "the-key"}
        answers.append(browser.post("/v1/api-keys", json={"name": "ci"}, headers=headers))
    first, other, again = answers
    assert [answer.status_code for answer in answers] == [201, 201, 201]
    assert other.json()["key"] != first.json()["key"]
    assert again.content == first.content
    assert "Idempotency-Replayed" not in other.headers


def test_an_idempotency_key_of_an_api_key_keeps_its_scope() -> None:
    asked = ("POST", "/v1/posts", "k", "")
    by_key = [idempotency.parse_key(Scope("o", None, key), *asked) for key in ("one", "rotated")]
    by_user = [idempotency.parse_key(Scope("o", user=user), *asked) for user in ("a", "b")]
    assert len({key.id for key in by_key if key}) == 1
    assert len({key.id for key in by_user if key}) == 2
