"""Members: one-time invitation links, roles, and removal with immediate effect."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from socialpub.base.security.crypto import digest
from socialpub.domain.identity import members, signin, users
from socialpub.store.schema.models import AuditEntry, Device, Invitation, RemovedUser, Session, User
from tests.support.app_server import UNKNOWN_ID, AppServer, Person
from tests.support.audit_rows import newest_audit_row
from tests.support.dashboard_forms import needs_password, send_settings_form
from tests.support.mail_server import MailServer, running_mail_server
from tests.support.members import CAROL, SCRIPT_NAME, invite_member, join_organization, joined_browser, member_id
from tests.support.sign_in import EMAIL, PASSWORD, add_user, csrf_of, sign_in, signed_in

PATH = "/settings/members"


# --- Inviting ----------------------------------------------------------------------------------------------------


def test_a_link_is_shown_once_and_makes_a_member_once(server: AppServer, owner: httpx.Client, alice: Person) -> None:
    path = invite_member(owner)
    token = path.rsplit("/", 1)[1]
    assert token not in owner.get(PATH).text
    (row,) = server.rows(Invitation)
    assert row["digest"] == digest(token)
    assert token not in str(row)
    browser = server.api()
    shown = browser.get(path)
    assert CAROL in shown.text
    assert join_organization(server, path, "short").status_code == 400
    answer = join_organization(server, path, browser=browser)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    assert CAROL in browser.get("/settings").text
    assert newest_audit_row(server)["verb"] == "POST /invited/<token:str>"
    assert newest_audit_row(server)["organization"] == alice.organization
    assert server.rows(Invitation) == []
    assert server.api().get(path).status_code == 404
    assert sign_in(server.api(), CAROL).status_code == 303
    assert server.rows(User, email=CAROL)[0]["role"] == "member"


def test_the_link_of_an_invitation_is_not_in_the_log(
    server: AppServer, owner: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="socialpub.web"):
        path = invite_member(owner)
        join_organization(server, path)
    assert "/invited/<token:str>" in caplog.text
    assert path not in caplog.text


def test_an_invitation_ends_after_a_week_or_when_it_is_withdrawn(server: AppServer, owner: httpx.Client) -> None:
    path = invite_member(owner)
    (row,) = server.rows(Invitation)
    assert send_settings_form(owner, f"/settings/invitations/{row['id']}/withdraw").status_code == 303
    assert server.api().get(path).status_code == 404
    assert send_settings_form(owner, f"/settings/invitations/{row['id']}/withdraw").status_code == 404
    path = invite_member(owner)
    page = server.api()
    token = csrf_of(page.get(path))
    server.clock.skip(members.INVITATION_MS / 1000 + 1)
    assert page.get(path).status_code == 404
    assert page.post(path, data={"csrf_token": token, "password": PASSWORD}).status_code == 404
    assert server.rows(User, email=CAROL) == []


def test_a_second_invitation_of_the_same_address_ends_the_first(server: AppServer, owner: httpx.Client) -> None:
    first, second = invite_member(owner), invite_member(owner, role="admin")
    assert server.api().get(first).status_code == 404
    assert join_organization(server, second).status_code == 303


def test_so_many_may_be_open(owner: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "OPEN_INVITATIONS_MAX", 2)
    for number in range(2):
        invite_member(owner, f"{number}@example.com")
    refused = send_settings_form(owner, PATH, email="more@example.com", role="member")
    assert (refused.status_code, "Withdraw one first" in refused.text) == (409, True)


def test_so_many_members_may_join_and_all_are_listed(
    server: AppServer, owner: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    count = len(server.rows(User))
    monkeypatch.setattr(users, "MEMBERS_MAX", count + 1)
    first, second = invite_member(owner, "1@example.com"), invite_member(owner, "2@example.com")
    assert join_organization(server, first).status_code == 303
    refused = join_organization(server, second)
    assert (refused.status_code, "One has to be removed first" in refused.text) == (409, True)
    invited = send_settings_form(owner, PATH, email="3@example.com", role="member")
    assert (invited.status_code, "One has to be removed first" in invited.text) == (409, True)
    assert [row["email"] for row in server.rows(User)[count:]] == ["1@example.com"]
    assert send_settings_form(owner, f"{PATH}/{member_id(server, '1@example.com')}/remove").status_code == 303
    assert join_organization(server, second).status_code == 303  # the invitation was not used up


def test_so_many_may_be_made_within_a_day(
    server: AppServer, owner: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(members, "INVITATIONS_PER_DAY_MAX", 2)
    for _ in range(2):
        invite_member(owner)
    refused = send_settings_form(owner, PATH, email=CAROL, role="member")
    assert (refused.status_code, "Wait until tomorrow" in refused.text) == (409, True)


@pytest.fixture
def mailroom(tmp_path: Path) -> Iterator[MailServer]:
    with running_mail_server(tmp_path) as room:
        yield room


def test_where_there_is_a_mail_server_the_link_is_mailed_too(
    make_server: Callable[..., AppServer], mailroom: MailServer
) -> None:
    server = make_server(smtp=mailroom.settings())
    add_user(server, server.person("Alice"), EMAIL, "owner")
    browser = signed_in(server)
    path = invite_member(browser)
    (mailed,) = mailroom.wait(1)
    assert mailed.to == [CAROL]
    assert f"{server.service.base_url}{path}" in mailed.text
    assert EMAIL in mailed.text
    mailroom.refusal[CAROL] = "550 nobody of that name"
    send_settings_form(browser, PATH, email=CAROL, role="member")
    page = browser.get(PATH).text
    assert "The e-mail failed" in page
    assert "/invited/" in page
    send_settings_form(browser, PATH, email='"odd one"@example.com'.replace(" ", "."), role="member")
    assert "/invited/" in browser.get(PATH).text


@pytest.mark.matrix
@pytest.mark.parametrize(
    ("email", "role", "status"),
    [
        ("", "member", 400),
        ("nobody", "member", 400),
        ("a@b\0", "member", 400),
        ("a@b c", "member", 400),
        ("x" * 65 + "@example.com", "member", 400),
        (SCRIPT_NAME, "member", 400),
        (CAROL, "", 400),
        (CAROL, "boss", 400),
        (EMAIL.upper(), "member", 409),
    ],
)
def test_who_cannot_be_invited(server: AppServer, owner: httpx.Client, email: str, role: str, status: int) -> None:
    refused = send_settings_form(owner, PATH, email=email, role=role)
    assert refused.status_code == status
    assert 'role="alert"' in refused.text
    assert "<script>alert" not in refused.text
    assert server.rows(Invitation) == []


@pytest.mark.parametrize("is_early", [True, False], ids=["before the form", "after it"])
def test_whoever_belongs_to_another_organization_is_told_so_by_the_link(
    server: AppServer, owner: httpx.Client, *, is_early: bool
) -> None:
    bob, browser = server.person("Bob"), server.api()
    path = invite_member(owner)  # and nothing is told to whoever invites
    token = "" if is_early else csrf_of(browser.get(path))
    add_user(server, bob, CAROL, "owner")
    fields = {"csrf_token": token, "password": "another password"}
    refused = browser.get(path) if is_early else browser.post(path, data=fields)
    assert (refused.status_code, "already a user" in refused.text) == (409, True)
    assert invite_member(owner) != path
    assert sign_in(server.api(), CAROL).status_code == 303  # the password is what it was
    assert server.rows(User, email=CAROL)[0]["organization"] == bob.organization
    assert len(server.rows(Invitation)) == 1


@pytest.mark.parametrize("token", ["x", "0" * 43, "%00", "%ED%A0%80", "x" * 500])
def test_a_link_that_was_never_made_is_nothing(server: AppServer, alice: Person, token: str) -> None:
    assert server.api().get(f"/invited/{token}").status_code == 404


def test_a_form_of_another_site_joins_nobody(server: AppServer, owner: httpx.Client) -> None:
    path = invite_member(owner)
    api = server.api()
    token = csrf_of(api.get(path))
    evil = {"Sec-Fetch-Site": "cross-site"}
    assert api.post(path, data={"csrf_token": token, "password": PASSWORD}, headers=evil).status_code == 403
    assert api.post(path, data={"csrf_token": "0" * 64, "password": PASSWORD}).status_code == 403
    assert server.rows(User, email=CAROL) == []


def test_inviting_asks_for_the_password_when_the_sign_in_is_old(server: AppServer, owner: httpx.Client) -> None:
    server.clock.skip(signin.REAUTHENTICATED_MS / 1000 + 1)
    assert needs_password(owner.get(PATH))
    refused = send_settings_form(owner, PATH, email=CAROL, role="member")
    assert (refused.status_code, server.rows(Invitation)) == (403, [])
    assert f'value="{CAROL}"' in refused.text
    assert send_settings_form(owner, PATH, email=CAROL, role="member", password=PASSWORD).status_code == 303


# --- Roles ---------------------------------------------------------------------------------------------------------

OWNERS_ACTS = (
    "/settings/members",
    "/settings/members/{}",
    "/settings/members/{}/remove",
    "/settings/invitations/{}/withdraw",
)
MANAGERS_PAGES = ("/settings/keys", "/settings/members", "/webhooks")


def test_a_member_sees_less_and_may_less(server: AppServer, owner: httpx.Client) -> None:
    member = joined_browser(server, owner)
    home = member.get("/settings").text
    for page in MANAGERS_PAGES:
        assert f'href="{page}"' not in home
        assert member.get(page).status_code == 403
    before = server.rows(User), server.rows(Invitation)
    for path in OWNERS_ACTS:
        assert (
            send_settings_form(
                member, path.format(member_id(server, EMAIL)), role="owner", email="x@y.test"
            ).status_code
            == 403
        )
    assert (server.rows(User), server.rows(Invitation)) == before
    assert member.get("/posts").status_code == 200


def test_an_admin_sees_the_members_and_changes_none(server: AppServer, owner: httpx.Client) -> None:
    admin = joined_browser(server, owner, role="admin")
    page = admin.get(PATH).text
    assert EMAIL in page
    assert "Owners invite" in page
    assert f'action="{PATH}"' not in page
    for path in OWNERS_ACTS:
        assert (
            send_settings_form(
                admin, path.format(member_id(server, EMAIL)), role="member", email="x@y.test"
            ).status_code
            == 403
        )
    assert admin.get("/settings/keys").status_code == 200


def test_a_role_counts_from_the_next_request(server: AppServer, owner: httpx.Client) -> None:
    carol = joined_browser(server, owner, role="admin")
    path = f"{PATH}/{member_id(server, CAROL)}"
    assert carol.get("/settings/keys").status_code == 200
    assert send_settings_form(owner, path, role="member").status_code == 303
    assert carol.get("/settings/keys").status_code == 403
    assert send_settings_form(owner, path, role="owner").status_code == 303
    assert carol.get(path).status_code == 200
    assert (newest_audit_row(server)["verb"], newest_audit_row(server)["subject"]) == (
        "POST /settings/members/<member_id:str>",
        member_id(server, CAROL),
    )
    assert send_settings_form(owner, path, role="king").status_code == 400


def test_whoever_is_an_owner_no_more_has_no_invitations_open(server: AppServer, owner: httpx.Client) -> None:
    carol = joined_browser(server, owner, role="owner")
    path = invite_member(carol, "dave@example.com", "owner")
    assert send_settings_form(owner, f"{PATH}/{member_id(server, CAROL)}", role="admin").status_code == 303
    assert server.api().get(path).status_code == 404


def test_the_last_owner_is_neither_lowered_nor_removed(server: AppServer, owner: httpx.Client) -> None:
    joined_browser(server, owner, role="admin")
    path = f"{PATH}/{member_id(server, EMAIL)}"
    assert "last owner" in owner.get(path).text
    assert 'class="danger"' not in owner.get(path).text
    for act in ("", "/remove"):
        refused = send_settings_form(owner, path + act, role="admin")
        assert (refused.status_code, "last owner" in refused.text) == (409, True)
    assert server.rows(User, email=EMAIL)[0]["role"] == "owner"


def test_of_two_owners_one_may_step_down_but_not_the_other_then(server: AppServer, owner: httpx.Client) -> None:
    carol = joined_browser(server, owner, role="owner")
    assert (
        send_settings_form(owner, f"{PATH}/{member_id(server, EMAIL)}", role="member").headers["Location"]
        == "/settings"
    )
    assert owner.get("/settings").status_code == 200
    assert send_settings_form(carol, f"{PATH}/{member_id(server, CAROL)}", role="member").status_code == 409


# --- Removing ------------------------------------------------------------------------------------------------------


def test_a_removed_members_sessions_end_at_once(server: AppServer, owner: httpx.Client) -> None:
    carol = joined_browser(server, owner, role="owner")
    open_link = invite_member(carol, "dave@example.com")
    member = member_id(server, CAROL)
    page = owner.get(f"{PATH}/{member}")
    assert "signed out everywhere" in page.text
    assert send_settings_form(owner, f"{PATH}/{member}/remove").headers["Location"] == PATH
    assert carol.get("/settings").headers["Location"].startswith("/login")
    assert carol.get("/v1/posts").status_code == 401
    assert server.rows(Session, user=member) == []
    assert server.rows(Device, user=member) == []
    assert sign_in(server.api(), CAROL).status_code == 401
    assert server.api().get(open_link).status_code == 404
    assert [row["email"] for row in server.rows(RemovedUser)] == [CAROL]
    assert join_organization(server, invite_member(owner)).status_code == 303  # and may come back
    assert send_settings_form(owner, f"{PATH}/{member}/remove").status_code == 404


def test_whoever_removes_themselves_is_told_so_at_the_door(server: AppServer, owner: httpx.Client) -> None:
    carol = joined_browser(server, owner, role="owner")
    gone = send_settings_form(carol, f"{PATH}/{member_id(server, CAROL)}/remove")
    assert (gone.status_code, gone.headers["Location"]) == (303, "/login")
    notice = next(each for each in gone.headers.get_list("Set-Cookie") if "socialpub_notice" in each)
    door = server.api().get("/login", headers={"Cookie": notice.partition(";")[0]}).text
    assert f"{CAROL} is no longer a member" in door


def test_a_member_who_is_removed_while_they_act_has_done_nothing(
    server: AppServer, owner: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    carol = joined_browser(server, owner, role="owner")
    token = csrf_of(carol.get("/settings"))
    member, removed, usual = member_id(server, CAROL), [], signin.reauthenticate_if_stale

    async def then_removed(*args: object, **kwargs: object) -> bool:
        if not removed:
            removed.append(True)
            await server.service.write(lambda tx: Session.delete().where(Session.user == member).execute())
        return await usual(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(signin, "reauthenticate_if_stale", then_removed)
    answer = carol.post(PATH, data={"csrf_token": token, "email": "dave@example.com", "role": "owner"})
    assert answer.status_code == 401
    assert server.rows(Invitation) == []


def test_removing_asks_for_the_password_when_the_sign_in_is_old(server: AppServer, owner: httpx.Client) -> None:
    joined_browser(server, owner)
    path = f"{PATH}/{member_id(server, CAROL)}"
    server.clock.skip(signin.REAUTHENTICATED_MS / 1000 + 1)
    for act in ("/remove", ""):
        assert send_settings_form(owner, path + act, role="admin").status_code == 403
    assert server.rows(User, email=CAROL)[0]["role"] == "member"
    assert send_settings_form(owner, f"{path}/remove", password=PASSWORD).status_code == 303


def test_another_organization_sees_and_changes_nothing(server: AppServer, owner: httpx.Client) -> None:
    invite_member(owner)
    (open_one,) = server.rows(Invitation)
    add_user(server, server.person("Mallory"), "mallory@example.com", "owner")
    mallory = signed_in(server, "mallory@example.com")
    page = mallory.get(PATH).text
    assert EMAIL not in page
    assert CAROL not in page
    for id_ in (member_id(server, EMAIL), UNKNOWN_ID, "x"):
        assert mallory.get(f"{PATH}/{id_}").status_code == 404
        for act in ("", "/remove"):
            assert send_settings_form(mallory, f"{PATH}/{id_}{act}", role="member").status_code == 404
    assert send_settings_form(mallory, f"/settings/invitations/{open_one['id']}/withdraw").status_code == 404
    assert server.rows(Invitation) == [open_one]


def test_every_act_leaves_its_row_and_no_secret(server: AppServer, owner: httpx.Client, alice: Person) -> None:
    path = invite_member(owner)
    join_organization(server, path)
    member = member_id(server, CAROL)
    send_settings_form(owner, f"{PATH}/{member}", role="admin")
    send_settings_form(owner, f"{PATH}/{member}/remove")
    rows = [row for row in server.rows(AuditEntry) if row["organization"] == alice.organization]
    verbs = [row["verb"] for row in sorted(rows, key=lambda row: int(row["number"]))]
    assert verbs == [
        "POST /login",
        "POST /settings/members",
        "POST /invited/<token:str>",
        "POST /settings/members/<member_id:str>",
        "POST /settings/members/<member_id:str>/remove",
    ]
    assert path.rsplit("/", 1)[1] not in str(rows)


# --- Sessions and the password ---------------------------------------------------------------------------------------


def test_sessions_are_listed_with_their_browser_and_one_is_ended(server: AppServer, owner: httpx.Client) -> None:
    phone = server.api(**{"User-Agent": "Mozilla/5.0 (iPhone; CPU iPhone OS 17) Version/17.0 Mobile Safari/604.1"})
    assert sign_in(phone).status_code == 303
    page = owner.get("/settings").text
    assert "Safari on an iPhone" in page
    assert "127.0.0.1" in page
    assert "This session" in page
    for row in server.rows(Session):
        assert row["id"] not in page
    (name,) = re.findall(r'name="session" value="(\w+)"', page)
    assert send_settings_form(owner, "/settings/sessions/end", session=name).status_code == 303
    assert phone.get("/settings").status_code == 303
    assert owner.get("/settings").status_code == 200
    assert newest_audit_row(server)["verb"] == "POST /settings/sessions/end"


def test_nobody_ends_the_session_of_another(server: AppServer, owner: httpx.Client) -> None:
    carol = joined_browser(server, owner)
    sign_in(server.api(), CAROL)
    (name,) = re.findall(r'name="session" value="(\w+)"', carol.get("/settings").text)
    before = len(server.rows(Session))
    for wrong in (name, "", "x", "\u00e9"):
        assert send_settings_form(owner, "/settings/sessions/end", session=wrong).status_code == 303
    assert len(server.rows(Session)) == before
    assert "This session has already ended." in owner.get("/settings").text


def test_what_a_browser_calls_itself_stays_text_and_is_cut(server: AppServer, owner: httpx.Client) -> None:
    sign_in(server.api(**{"User-Agent": SCRIPT_NAME + "x" * 5000}))
    assert "<script>alert" not in owner.get("/settings").text
    assert max(len(row["agent"]) for row in server.rows(Session)) == 300


def test_a_new_password_needs_the_old_one_and_ends_every_other_session(server: AppServer, owner: httpx.Client) -> None:
    other = signed_in(server)
    new = "another long password"
    for old in ("", "wrong password!"):
        refused = send_settings_form(owner, "/settings/password", password=old, new_password=new)
        assert (refused.status_code, 'role="alert"' in refused.text) == (403, True)
    short = send_settings_form(owner, "/settings/password", password=PASSWORD, new_password="short")
    assert (short.status_code, "10 to 1024" in short.text) == (400, True)
    assert other.get("/settings").status_code == 200
    assert send_settings_form(owner, "/settings/password", password=PASSWORD, new_password=new).status_code == 303
    assert other.get("/settings").status_code == 303
    assert owner.get("/settings").status_code == 200
    assert server.rows(Device) == []
    assert sign_in(server.api()).status_code == 401
    assert sign_in(server.api(), password=new).status_code == 303
    assert users.verify_password(server.rows(User, email=EMAIL)[0]["password"], new)


def test_guesses_at_the_password_now_are_slowed_down(server: AppServer, owner: httpx.Client) -> None:
    server.clock.hold()
    statuses = [
        send_settings_form(owner, "/settings/password", password=f"wrong {n}", new_password="x" * 20).status_code
        for n in range(6)
    ]
    assert statuses == [403] * 5 + [429]
