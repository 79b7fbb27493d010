"""Members: invited by a link that works once, seeing what their role lets them see, and gone at once when removed."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import httpx
import pytest

from socialpub.base.security.crypto import digest
from socialpub.domain.identity import members, signin, users
from socialpub.store.schema.models import AuditEntry, Device, Invitation, RemovedUser, Session, User
from tests.kit import UNKNOWN_ID, Person, Server
from tests.mailroom import Mailroom, delivering
from tests.web.pages.test_settings import asks_for_password, send
from tests.web.test_audit import newest
from tests.web.test_signin import EMAIL, PASSWORD, add_user, csrf_of, sign_in, signed_in

CAROL = "carol@example.com"
PATH = "/settings/members"
XSS = '"><script>alert(1)</script>'


@pytest.fixture
def owner(server: Server, alice: Person) -> httpx.Client:
    """An owner who has signed in."""
    add_user(server, alice, EMAIL, "owner")
    return signed_in(server)


def invite(browser: httpx.Client, email: str = CAROL, role: str = "member") -> str:
    """The path of a new invitation's link."""
    answer = send(browser, PATH, email=email, role=role)
    assert (answer.status_code, answer.headers["Location"]) == (303, PATH)
    found = re.search(r"http\S+/invited/\w+", browser.get(PATH).text)
    assert found
    return urlsplit(found[0]).path


def join(server: Server, path: str, password: str = PASSWORD, browser: httpx.Client | None = None) -> httpx.Response:
    api = browser or server.api()
    return api.post(path, data={"csrf_token": csrf_of(api.get(path)), "password": password})


def joined(server: Server, owner: httpx.Client, email: str = CAROL, role: str = "member") -> httpx.Client:
    """The browser of somebody who was invited and came."""
    browser = server.api()
    assert join(server, invite(owner, email, role), browser=browser).status_code == 303
    return browser


def id_of(server: Server, email: str) -> str:
    (row,) = server.rows(User, email=email)
    return str(row["id"])


# --- Inviting ----------------------------------------------------------------------------------------------------


def test_a_link_is_shown_once_and_makes_a_member_once(server: Server, owner: httpx.Client, alice: Person) -> None:
    path = invite(owner)
    token = path.rsplit("/", 1)[1]
    assert token not in owner.get(PATH).text
    (row,) = server.rows(Invitation)
    assert row["digest"] == digest(token)
    assert token not in str(row)
    browser = server.api()
    shown = browser.get(path)
    assert CAROL in shown.text
    assert join(server, path, "short").status_code == 400
    answer = join(server, path, browser=browser)
    assert (answer.status_code, answer.headers["Location"]) == (303, "/")
    assert CAROL in browser.get("/settings").text
    assert newest(server)["verb"] == "POST /invited/<token:str>"
    assert newest(server)["organization"] == alice.organization
    assert server.rows(Invitation) == []
    assert server.api().get(path).status_code == 404
    assert sign_in(server.api(), CAROL).status_code == 303
    assert server.rows(User, email=CAROL)[0]["role"] == "member"


def test_the_link_of_an_invitation_is_not_in_the_log(
    server: Server, owner: httpx.Client, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level("INFO", logger="socialpub.web"):
        path = invite(owner)
        join(server, path)
    assert "/invited/<token:str>" in caplog.text
    assert path not in caplog.text


def test_an_invitation_ends_after_a_week_or_when_it_is_withdrawn(server: Server, owner: httpx.Client) -> None:
    path = invite(owner)
    (row,) = server.rows(Invitation)
    assert send(owner, f"/settings/invitations/{row['id']}/withdraw").status_code == 303
    assert server.api().get(path).status_code == 404
    assert send(owner, f"/settings/invitations/{row['id']}/withdraw").status_code == 404
    path = invite(owner)
    page = server.api()
    token = csrf_of(page.get(path))
    server.clock.skip(members.INVITATION_MS / 1000 + 1)
    assert page.get(path).status_code == 404
    assert page.post(path, data={"csrf_token": token, "password": PASSWORD}).status_code == 404
    assert server.rows(User, email=CAROL) == []


def test_a_second_invitation_of_the_same_address_ends_the_first(server: Server, owner: httpx.Client) -> None:
    first, second = invite(owner), invite(owner, role="admin")
    assert server.api().get(first).status_code == 404
    assert join(server, second).status_code == 303


def test_so_many_may_be_open(owner: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "OPEN_INVITATIONS_MAX", 2)
    for number in range(2):
        invite(owner, f"{number}@example.com")
    refused = send(owner, PATH, email="more@example.com", role="member")
    assert (refused.status_code, "Withdraw one first" in refused.text) == (409, True)


def test_so_many_may_be_made_within_a_day(server: Server, owner: httpx.Client, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(members, "INVITATIONS_PER_DAY_MAX", 2)
    for _ in range(2):
        invite(owner)
    refused = send(owner, PATH, email=CAROL, role="member")
    assert (refused.status_code, "Wait until tomorrow" in refused.text) == (409, True)


@pytest.fixture
def mailroom(tmp_path: Path) -> Iterator[Mailroom]:
    with delivering(tmp_path) as room:
        yield room


def test_where_there_is_a_mail_server_the_link_is_mailed_too(
    make_server: Callable[..., Server], mailroom: Mailroom
) -> None:
    server = make_server(smtp=mailroom.settings())
    add_user(server, server.person("Alice"), EMAIL, "owner")
    browser = signed_in(server)
    path = invite(browser)
    (mailed,) = mailroom.wait(1)
    assert mailed.to == [CAROL]
    assert f"{server.service.base_url}{path}" in mailed.text
    assert EMAIL in mailed.text
    mailroom.refusal[CAROL] = "550 nobody of that name"
    send(browser, PATH, email=CAROL, role="member")
    page = browser.get(PATH).text
    assert "The e-mail failed" in page
    assert "/invited/" in page
    send(browser, PATH, email='"odd one"@example.com'.replace(" ", "."), role="member")
    assert "/invited/" in browser.get(PATH).text


@pytest.mark.parametrize(
    ("email", "role", "status"),
    [
        ("", "member", 400),
        ("nobody", "member", 400),
        ("a@b\0", "member", 400),
        ("a@b c", "member", 400),
        ("x" * 65 + "@example.com", "member", 400),
        (XSS, "member", 400),
        (CAROL, "", 400),
        (CAROL, "boss", 400),
        (EMAIL.upper(), "member", 409),
    ],
)
def test_who_cannot_be_invited(server: Server, owner: httpx.Client, email: str, role: str, status: int) -> None:
    refused = send(owner, PATH, email=email, role=role)
    assert refused.status_code == status
    assert 'role="alert"' in refused.text
    assert "<script>alert" not in refused.text
    assert server.rows(Invitation) == []


def test_whoever_belongs_to_another_organization_is_told_so_by_the_link(server: Server, owner: httpx.Client) -> None:
    bob = server.person("Bob")
    add_user(server, bob, CAROL, "owner")
    path = invite(owner)  # and nothing is told to whoever invites
    refused = join(server, path, "another password")
    assert (refused.status_code, "already a user" in refused.text) == (409, True)
    assert sign_in(server.api(), CAROL).status_code == 303  # the password is what it was
    assert server.rows(User, email=CAROL)[0]["organization"] == bob.organization
    assert len(server.rows(Invitation)) == 1


@pytest.mark.parametrize("token", ["x", "0" * 43, "%00", "%ED%A0%80", "x" * 500])
def test_a_link_that_was_never_made_is_nothing(server: Server, alice: Person, token: str) -> None:
    assert server.api().get(f"/invited/{token}").status_code == 404


def test_a_form_of_another_site_joins_nobody(server: Server, owner: httpx.Client) -> None:
    path = invite(owner)
    api = server.api()
    token = csrf_of(api.get(path))
    evil = {"Sec-Fetch-Site": "cross-site"}
    assert api.post(path, data={"csrf_token": token, "password": PASSWORD}, headers=evil).status_code == 403
    assert api.post(path, data={"csrf_token": "0" * 64, "password": PASSWORD}).status_code == 403
    assert server.rows(User, email=CAROL) == []


def test_inviting_asks_for_the_password_when_the_sign_in_is_old(server: Server, owner: httpx.Client) -> None:
    server.clock.skip(signin.REAUTHENTICATED_MS / 1000 + 1)
    assert asks_for_password(owner.get(PATH))
    refused = send(owner, PATH, email=CAROL, role="member")
    assert (refused.status_code, server.rows(Invitation)) == (403, [])
    assert f'value="{CAROL}"' in refused.text
    assert send(owner, PATH, email=CAROL, role="member", password=PASSWORD).status_code == 303


# --- Roles ---------------------------------------------------------------------------------------------------------

OWNERS_ACTS = (
    "/settings/members",
    "/settings/members/{}",
    "/settings/members/{}/remove",
    "/settings/invitations/{}/withdraw",
)
MANAGERS_PAGES = ("/settings/keys", "/settings/members", "/webhooks")


def test_a_member_sees_less_and_may_less(server: Server, owner: httpx.Client) -> None:
    member = joined(server, owner)
    home = member.get("/settings").text
    for page in MANAGERS_PAGES:
        assert f'href="{page}"' not in home
        assert member.get(page).status_code == 403
    before = server.rows(User), server.rows(Invitation)
    for path in OWNERS_ACTS:
        assert send(member, path.format(id_of(server, EMAIL)), role="owner", email="x@y.test").status_code == 403
    assert (server.rows(User), server.rows(Invitation)) == before
    assert member.get("/posts").status_code == 200


def test_an_admin_sees_the_members_and_changes_none(server: Server, owner: httpx.Client) -> None:
    admin = joined(server, owner, role="admin")
    page = admin.get(PATH).text
    assert EMAIL in page
    assert "Owners invite" in page
    assert f'action="{PATH}"' not in page
    for path in OWNERS_ACTS:
        assert send(admin, path.format(id_of(server, EMAIL)), role="member", email="x@y.test").status_code == 403
    assert admin.get("/settings/keys").status_code == 200


def test_a_role_counts_from_the_next_request(server: Server, owner: httpx.Client) -> None:
    carol = joined(server, owner, role="admin")
    path = f"{PATH}/{id_of(server, CAROL)}"
    assert carol.get("/settings/keys").status_code == 200
    assert send(owner, path, role="member").status_code == 303
    assert carol.get("/settings/keys").status_code == 403
    assert send(owner, path, role="owner").status_code == 303
    assert carol.get(path).status_code == 200
    assert (newest(server)["verb"], newest(server)["subject"]) == (
        "POST /settings/members/<member_id:str>",
        id_of(server, CAROL),
    )
    assert send(owner, path, role="king").status_code == 400


def test_whoever_is_an_owner_no_more_has_no_invitations_open(server: Server, owner: httpx.Client) -> None:
    carol = joined(server, owner, role="owner")
    path = invite(carol, "dave@example.com", "owner")
    assert send(owner, f"{PATH}/{id_of(server, CAROL)}", role="admin").status_code == 303
    assert server.api().get(path).status_code == 404


def test_the_last_owner_is_neither_lowered_nor_removed(server: Server, owner: httpx.Client) -> None:
    joined(server, owner, role="admin")
    path = f"{PATH}/{id_of(server, EMAIL)}"
    assert "last owner" in owner.get(path).text
    assert 'class="danger"' not in owner.get(path).text
    for act in ("", "/remove"):
        refused = send(owner, path + act, role="admin")
        assert (refused.status_code, "last owner" in refused.text) == (409, True)
    assert server.rows(User, email=EMAIL)[0]["role"] == "owner"


def test_of_two_owners_one_may_step_down_but_not_the_other_then(server: Server, owner: httpx.Client) -> None:
    carol = joined(server, owner, role="owner")
    assert send(owner, f"{PATH}/{id_of(server, EMAIL)}", role="member").headers["Location"] == "/settings"
    assert owner.get("/settings").status_code == 200
    assert send(carol, f"{PATH}/{id_of(server, CAROL)}", role="member").status_code == 409


# --- Removing ------------------------------------------------------------------------------------------------------


def test_a_removed_members_sessions_end_at_once(server: Server, owner: httpx.Client) -> None:
    carol = joined(server, owner, role="owner")
    open_link = invite(carol, "dave@example.com")
    member = id_of(server, CAROL)
    page = owner.get(f"{PATH}/{member}")
    assert "signed out everywhere" in page.text
    assert send(owner, f"{PATH}/{member}/remove").headers["Location"] == PATH
    assert carol.get("/settings").headers["Location"].startswith("/login")
    assert carol.get("/v1/posts").status_code == 401
    assert server.rows(Session, user=member) == []
    assert server.rows(Device, user=member) == []
    assert sign_in(server.api(), CAROL).status_code == 401
    assert server.api().get(open_link).status_code == 404
    assert [row["email"] for row in server.rows(RemovedUser)] == [CAROL]
    assert join(server, invite(owner)).status_code == 303  # and may come back
    assert send(owner, f"{PATH}/{member}/remove").status_code == 404


def test_a_member_who_is_removed_while_they_act_has_done_nothing(
    server: Server, owner: httpx.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    carol = joined(server, owner, role="owner")
    token = csrf_of(carol.get("/settings"))
    member, removed, usual = id_of(server, CAROL), [], signin.reauthenticate_if_stale

    async def then_removed(*args: object, **kwargs: object) -> bool:
        if not removed:
            removed.append(True)
            await server.service.write(lambda tx: Session.delete().where(Session.user == member).execute())
        return await usual(*args, **kwargs)  # type: ignore[arg-type]

    monkeypatch.setattr(signin, "reauthenticate_if_stale", then_removed)
    answer = carol.post(PATH, data={"csrf_token": token, "email": "dave@example.com", "role": "owner"})
    assert answer.status_code == 401
    assert server.rows(Invitation) == []


def test_removing_asks_for_the_password_when_the_sign_in_is_old(server: Server, owner: httpx.Client) -> None:
    joined(server, owner)
    path = f"{PATH}/{id_of(server, CAROL)}"
    server.clock.skip(signin.REAUTHENTICATED_MS / 1000 + 1)
    for act in ("/remove", ""):
        assert send(owner, path + act, role="admin").status_code == 403
    assert server.rows(User, email=CAROL)[0]["role"] == "member"
    assert send(owner, f"{path}/remove", password=PASSWORD).status_code == 303


def test_another_organization_sees_and_changes_nothing(server: Server, owner: httpx.Client) -> None:
    invite(owner)
    (open_one,) = server.rows(Invitation)
    add_user(server, server.person("Mallory"), "mallory@example.com", "owner")
    mallory = signed_in(server, "mallory@example.com")
    page = mallory.get(PATH).text
    assert EMAIL not in page
    assert CAROL not in page
    for id_ in (id_of(server, EMAIL), UNKNOWN_ID, "x"):
        assert mallory.get(f"{PATH}/{id_}").status_code == 404
        for act in ("", "/remove"):
            assert send(mallory, f"{PATH}/{id_}{act}", role="member").status_code == 404
    assert send(mallory, f"/settings/invitations/{open_one['id']}/withdraw").status_code == 404
    assert server.rows(Invitation) == [open_one]


def test_every_act_leaves_its_row_and_no_secret(server: Server, owner: httpx.Client, alice: Person) -> None:
    path = invite(owner)
    join(server, path)
    member = id_of(server, CAROL)
    send(owner, f"{PATH}/{member}", role="admin")
    send(owner, f"{PATH}/{member}/remove")
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


def test_sessions_are_listed_with_their_browser_and_one_is_ended(server: Server, owner: httpx.Client) -> None:
    phone = server.api(**{"User-Agent": "Mozilla/5.0 (iPhone; CPU iPhone OS 17) Version/17.0 Mobile Safari/604.1"})
    assert sign_in(phone).status_code == 303
    page = owner.get("/settings").text
    assert "Safari on an iPhone" in page
    assert "127.0.0.1" in page
    assert "This session" in page
    for row in server.rows(Session):
        assert row["id"] not in page
    (name,) = re.findall(r'name="session" value="(\w+)"', page)
    assert send(owner, "/settings/sessions/end", session=name).status_code == 303
    assert phone.get("/settings").status_code == 303
    assert owner.get("/settings").status_code == 200
    assert newest(server)["verb"] == "POST /settings/sessions/end"


def test_nobody_ends_the_session_of_another(server: Server, owner: httpx.Client) -> None:
    carol = joined(server, owner)
    sign_in(server.api(), CAROL)
    (name,) = re.findall(r'name="session" value="(\w+)"', carol.get("/settings").text)
    before = len(server.rows(Session))
    for wrong in (name, "", "x", "\u00e9"):
        assert send(owner, "/settings/sessions/end", session=wrong).status_code == 303
    assert len(server.rows(Session)) == before
    assert "This session has already ended." in owner.get("/settings").text


def test_what_a_browser_calls_itself_stays_text_and_is_cut(server: Server, owner: httpx.Client) -> None:
    sign_in(server.api(**{"User-Agent": XSS + "x" * 5000}))
    assert "<script>alert" not in owner.get("/settings").text
    assert max(len(row["agent"]) for row in server.rows(Session)) == 300


def test_a_new_password_needs_the_old_one_and_ends_every_other_session(server: Server, owner: httpx.Client) -> None:
    other = signed_in(server)
    new = "another long password"
    for old in ("", "wrong password!"):
        refused = send(owner, "/settings/password", password=old, new_password=new)
        assert (refused.status_code, 'role="alert"' in refused.text) == (403, True)
    short = send(owner, "/settings/password", password=PASSWORD, new_password="short")
    assert (short.status_code, "10 to 1024" in short.text) == (400, True)
    assert other.get("/settings").status_code == 200
    assert send(owner, "/settings/password", password=PASSWORD, new_password=new).status_code == 303
    assert other.get("/settings").status_code == 303
    assert owner.get("/settings").status_code == 200
    assert server.rows(Device) == []
    assert sign_in(server.api()).status_code == 401
    assert sign_in(server.api(), password=new).status_code == 303
    assert users.verify_password(server.rows(User, email=EMAIL)[0]["password"], new)


def test_guesses_at_the_password_now_are_slowed_down(owner: httpx.Client) -> None:
    statuses = [
        send(owner, "/settings/password", password=f"wrong {n}", new_password="x" * 20).status_code for n in range(6)
    ]
    assert statuses == [403] * 5 + [429]
