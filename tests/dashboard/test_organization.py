"""Organization page: renaming, and deletion by an owner who types its name."""

from __future__ import annotations

import httpx
import pytest

from socialpub.base.service_rules import SERVICE_RULES
from socialpub.store.schema.models import Organization
from tests.support.app_server import AppServer, Person, unchanged
from tests.support.audit_rows import newest_audit_row
from tests.support.connect_flow import sign_in
from tests.support.dashboard_forms import PROOF_EXPIRED, needs_password, send_settings_form
from tests.support.sign_in import EMAIL, PASSWORD, add_user, csrf_of, signed_in

PATH = "/settings/organization"
NAME = "Alice's"


def name_of(server: AppServer, person: Person) -> str:
    return str(server.rows(Organization, id=person.organization)[0]["name"])


@pytest.mark.parametrize("role", ["owner", "admin"])
def test_who_manages_it_renames_it(server: AppServer, alice: Person, role: str) -> None:
    browser = sign_in(server, alice.organization, role=role)
    answer = browser.post(PATH, data={"csrf_token": "csrf-alice", "name": "Café Süd"})
    assert (answer.status_code, answer.headers["Location"]) == (303, PATH)
    assert 'value="Café Süd"' in browser.get(PATH).text
    assert name_of(server, alice) == "Café Süd"
    row = newest_audit_row(server)
    assert (row["verb"], row["subject"]) == (f"POST {PATH}", alice.organization)


@pytest.mark.parametrize("name", ["", " ", "x" * 201])
def test_a_name_that_is_none_is_refused(server: AppServer, owner: httpx.Client, alice: Person, name: str) -> None:
    refused = send_settings_form(owner, PATH, name=name)
    assert refused.status_code == 400
    assert "The name must have 1 to 200 characters." in refused.text
    assert name_of(server, alice) == NAME


@pytest.mark.parametrize(
    ("role", "path", "status"),
    [
        ("member", PATH, 403),
        ("member", f"{PATH}/delete", 403),
        ("admin", PATH, 200),
        ("admin", f"{PATH}/delete", 403),
        ("owner", f"{PATH}/delete", 200),
    ],
)
def test_each_page_has_its_roles(server: AppServer, alice: Person, role: str, path: str, status: int) -> None:
    browser = sign_in(server, alice.organization, role=role)
    assert browser.get(path).status_code == status
    if status == 403:
        with unchanged(server):
            form = {"csrf_token": "csrf-alice", "name": "x", "confirm": NAME}
            assert browser.post(path, data=form).status_code == 403
    assert (f'href="{PATH}/delete"' in browser.get(PATH).text) is (role == "owner")


def test_the_page_says_first_what_a_deletion_ends(server: AppServer, owner: httpx.Client) -> None:
    with unchanged(server):
        page = owner.get(f"{PATH}/delete").text
    for line in ("1 connected account: its tokens are deleted.", "1 API key: it is revoked.", "1 profile."):
        assert f"<li>{line}</li>" in page
    assert "queued post" not in page


@pytest.mark.parametrize("typed", ["Cafe\u0301", " Café "])
def test_the_name_may_be_typed_on_any_keyboard(server: AppServer, owner: httpx.Client, typed: str) -> None:
    send_settings_form(owner, PATH, name="Café")
    assert send_settings_form(owner, f"{PATH}/delete", confirm=typed).headers["Location"] == "/login"


@pytest.mark.parametrize("typed", ["", "alice's", "Charlie's", EMAIL])
def test_the_name_has_to_be_typed(server: AppServer, owner: httpx.Client, alice: Person, typed: str) -> None:
    refused = send_settings_form(owner, f"{PATH}/delete", confirm=typed)
    assert refused.status_code == 400
    assert "This is not the name of the organization. Nothing was deleted." in refused.text
    assert alice.api.get("/v1/posts").status_code == 200
    assert server.rows(Organization, id=alice.organization)[0]["deleted_at"] is None


def test_password_is_required_ten_minutes_after_the_sign_in(
    server: AppServer, owner: httpx.Client, alice: Person
) -> None:
    assert not needs_password(owner.get(f"{PATH}/delete"))
    server.clock.skip(PROOF_EXPIRED)
    refused = send_settings_form(owner, f"{PATH}/delete", confirm=NAME)
    assert (refused.status_code, needs_password(refused)) == (403, True)
    assert SERVICE_RULES["session.proof"].message in refused.text
    assert server.rows(Organization, id=alice.organization)[0]["deleted_at"] is None
    assert send_settings_form(owner, f"{PATH}/delete", confirm=NAME, password=PASSWORD).status_code == 303
    assert server.rows(Organization, id=alice.organization)[0]["deleted_at"] is not None


def test_the_last_owner_is_signed_out_and_the_sign_in_page_says_why_once(
    server: AppServer, owner: httpx.Client, alice: Person, charlie: Person
) -> None:
    add_user(server, charlie, "charlie@example.com", "owner")
    answer = send_settings_form(owner, f"{PATH}/delete", confirm=NAME)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/login")
    row = newest_audit_row(server)
    assert (row["verb"], row["organization"], row["subject"]) == (f"POST {PATH}/delete", *[alice.organization] * 2)
    said = "The organization Alice&#39;s was deleted, and you are signed out."
    assert said in owner.get("/login").text
    assert said not in owner.get("/login").text
    assert owner.get(PATH).headers["Location"].startswith("/login")
    again = owner.post(
        "/login", data={"csrf_token": csrf_of(owner.get("/login")), "email": EMAIL, "password": PASSWORD}
    )
    assert again.status_code == 401
    assert signed_in(server, "charlie@example.com").get(PATH).status_code == 200
