"""Permissions are checked again in the transaction that writes."""

from __future__ import annotations

import ast
import base64
import dataclasses
import re
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any

import httpx
import pytest

from socialpub import platforms
from socialpub.base.security.crypto import digest
from socialpub.domain.accounts import connect
from socialpub.domain.context.platform_sites import PlatformSites
from socialpub.domain.identity import totp, users
from socialpub.domain.posts import sheet_import
from socialpub.domain.server import instance
from socialpub.platforms.contract import Board
from socialpub.simulator.oauth import CLIENT_ID, CLIENT_SECRET
from socialpub.store.schema.models import ApiKey, Invitation, Organization, Post, Session, User
from socialpub.web.pipeline import RequestPipeline
from socialpub.web.routes import ROUTES
from tests.support.app_server import AppServer, error_of, format_instant, unused_name
from tests.support.composer_form import open_form
from tests.support.connect_flow import ConnectSession, open_connect_session, sign_in
from tests.support.media_uploads import stored_files, stored_media, upload_media
from tests.support.oauth_assistant import ENDPOINT, Assistant, fields_of
from tests.support.post_drafts import new_draft, seen
from tests.support.post_outcomes import unknown
from tests.support.program_source import find_modules, parse_module
from tests.support.request_cast import RequestCast, make_picture
from tests.support.sign_in import PASSWORD, add_user
from tests.support.soak.soak_world import wait_for
from tests.support.table_checks import check_rows
from tests.support.totp_codes import make_code, offered_secret
from tests.support.write_requests import WriteRequest, find_writes

Send = Callable[[], httpx.Response]


@pytest.fixture
def office(make_server: Callable[..., AppServer], lab: Any, monkeypatch: pytest.MonkeyPatch) -> ConnectSession:
    return open_connect_session(make_server, lab, monkeypatch, "threads")


def newcomer(office: ConnectSession) -> ConnectSession:
    """Another organization on the same server, the only one that is not deleted."""
    office.server.service.write(lambda tx: Organization.update(deleted_at=1).execute()).result()
    alice = office.server.connected_person("Alice")
    browser = sign_in(office.server, alice.organization, name=unused_name("alice"))
    return dataclasses.replace(office, alice=alice, browser=browser)


# --- What can be taken away ----------------------------------------------------------------------------------------


def revoke_key(server: AppServer) -> None:
    server.service.write(lambda tx: ApiKey.update(revoked_at=1).execute()).result()


def end_session(server: AppServer) -> None:
    server.service.write(lambda tx: Session.delete().execute()).result()


def lower_role(server: AppServer) -> None:
    server.service.write(lambda tx: User.update(role="author").execute()).result()


TAKEN: dict[str, tuple[Callable[[AppServer], None], int, str]] = {
    "key revoked": (revoke_key, 401, "unauthenticated"),
    "session ended": (end_session, 401, "unauthenticated"),
    "role lowered": (lower_role, 403, "unauthorized"),
}


CHANNEL_PAGE = "/settings/notifications/<channel_id:str>"


# --- Every route that writes for somebody ---------------------------------------------------------------------------


def _scheduled(office: ConnectSession) -> str:
    return _world(office).scheduled()


def _world(office: ConnectSession) -> RequestCast:
    return RequestCast(office.server, office.alice)


def _publish(office: ConnectSession) -> Send:
    return lambda: office.alice.api.publish(_world(office).body())


def _reschedule(office: ConnectSession) -> Send:
    post, body = _scheduled(office), {"scheduledAt": _world(office).soon(7200)}
    return lambda: office.alice.api.patch(f"/v1/posts/{post}", json=body)


def _cancel(office: ConnectSession) -> Send:
    post = _scheduled(office)
    return lambda: office.alice.api.delete(f"/v1/posts/{post}")


def _batch(office: ConnectSession, method: str, body: Any = None) -> Send:
    batch = office.alice.api.get(f"/v1/posts/{_scheduled(office)}").json()["batchId"]
    return lambda: office.alice.api.request(method, f"/v1/batches/{batch}", **({} if body is None else {"json": body}))


def _failed(office: ConnectSession) -> str:
    post = unknown(_world(office))
    assert office.alice.api.post(f"/v1/posts/{post}/settle", json={"published": False}).status_code == 200
    return post


def _retry(office: ConnectSession) -> Send:
    post, body = _failed(office), {"scheduledAt": format_instant(office.server.clock.now_ms() + 3_600_000)}
    return lambda: office.alice.api.post(f"/v1/posts/{post}/retry", json=body)


def _settle(office: ConnectSession) -> Send:
    post = unknown(_world(office))
    return lambda: office.alice.api.post(f"/v1/posts/{post}/settle", json={"published": True})


def _board(office: ConnectSession) -> Send:
    account = office.server.connect(office.alice, "pinterest")["id"]
    return lambda: office.alice.api.patch(f"/v1/accounts/{account}/pinterest/default-board", json={"boardId": "1"})


def _board_form(office: ConnectSession) -> Send:
    account = office.server.connect(office.alice, "pinterest")["id"]
    return _form(office, f"/accounts/{account}/board", board="1")


def _app(office: ConnectSession, way: str = "") -> Send:
    """A form about the app of a platform where the settings name none; where there is a way, one was typed in."""
    service, lab = office.server.service, {"threads": {"api_base": office.server.lab.origin("threads")}}
    settings = service.runtime.settings
    service.sites = PlatformSites(settings.model_copy(update={"platforms": settings.platforms | lab}))
    app = {"client_id": CLIENT_ID, "client_secret": CLIENT_SECRET}
    if way:
        assert _form(office, "/settings/apps/threads", **app)().status_code == 303
    return _form(office, f"/settings/apps/threads{way}", **app)


def _upload(office: ConnectSession) -> Send:
    return lambda: upload_media(office.alice.api)


def _delete_media(office: ConnectSession) -> Send:
    made = stored_media(office.alice.api)["id"]
    return lambda: office.alice.api.delete(f"/v1/media/{made}")


def _describe_media(office: ConnectSession) -> Send:
    made = stored_media(office.alice.api)["id"]
    return lambda: office.alice.api.patch(f"/v1/media/{made}", json={"altText": "new"})


def _start(office: ConnectSession) -> Send:
    return lambda: office.browser.post("/v1/accounts/connect/threads", json={})


def _complete(office: ConnectSession) -> Send:
    back = _back(office)
    return lambda: office.complete(code=back["code"], state=back["state"])


def _back(office: ConnectSession) -> dict[str, str]:
    office.login_exists()
    return office.visit(office.start())


def _disconnect(office: ConnectSession) -> Send:
    return lambda: office.browser.delete(f"/v1/accounts/{office.alice.bluesky}")


def _profile(office: ConnectSession, method: str) -> Send:
    made = office.browser.post("/v1/profiles", json={"name": "North"}).json()["id"]
    body = {"json": {"name": "South"}} if method == "PATCH" else {}
    return lambda: office.browser.request(method, f"/v1/profiles/{made}", **body)


def _json(office: ConnectSession, path: str) -> Send:
    return lambda: office.browser.post(path, json={"name": "new"})


def _form(office: ConnectSession, path: str, **fields: str) -> Send:
    return lambda: office.browser.post(path, data={"csrf_token": office.browser.headers["X-CSRF-Token"], **fields})


def _post_form(office: ConnectSession, make: Callable[[ConnectSession], str], way: str, **fields: str) -> Send:
    """A form about a post that stands ready for it."""
    return _form(office, f"/posts/{make(office)}/{way}", **fields)


def _move_form(office: ConnectSession) -> Send:
    """The form that moves a scheduled publication by a day."""
    office.alice.api.publish(_world(office).body(scheduledAt="2098-03-03T10:00:00Z"))
    row = office.server.rows(Post, status="queued", organization=office.alice.organization)[-1]
    seen = {"from": str(row["scheduled_at"]), "day": "2098-03-04", "clock": "10:00"}
    return _form(office, f"/publications/{row['batch']}/move", **seen)


def _edit_form(office: ConnectSession) -> Send:
    """The composer's form that gives a queued post another text."""
    post = _scheduled(office)
    return _form(office, f"/posts/{post}/edit", **(open_form(office.browser, "post", post) | {"text": "new"}))


def _media_form(office: ConnectSession) -> Send:
    file = {"file": ("a.jpg", make_picture("JPEG"), "image/jpeg")}
    data = {"csrf_token": office.browser.headers["X-CSRF-Token"]}
    return lambda: office.browser.post("/media", data=data, files=file)


def _bulk_form(office: ConnectSession) -> Send:
    """The form that cancels several publications."""
    office.alice.api.publish(_world(office).body(scheduledAt="2098-03-03T10:00:00Z"))
    row = office.server.rows(Post, status="queued", organization=office.alice.organization)[-1]
    return _form(office, "/posts/bulk", **{"do": "cancel", f"pick.{row['batch']}": ""})


def _import_form(office: ConnectSession) -> Send:
    return _form(office, "/import", file=base64.b64encode(_sheet(office)).decode())


def _import_undo_form(office: ConnectSession) -> Send:
    """The form that cancels what a file has scheduled."""
    assert _import_form(office)().status_code == 303
    return _form(office, "/import/undo", name=sheet_import.name_file(_sheet(office)))


def _sheet(office: ConnectSession) -> bytes:
    return f"account,scheduledAt,text\n{office.alice.bluesky},2098-03-03T10:00:00Z,x\n".encode()


def _unknown(office: ConnectSession) -> str:
    return unknown(_world(office))


def _credentials(office: ConnectSession) -> Send:
    handle = unused_name() + ".test"
    made = office.server.lab.lab.add_account("bluesky", handle=handle)
    return _form(office, "/connect/bluesky", handle=handle, password=made["appPassword"])


def _callback(office: ConnectSession) -> Send:
    back = _back(office)
    return lambda: office.browser.get("/connect/threads/callback", params=back)


HOOKS, HOOK = "/v1/webhook-endpoints", "/v1/webhook-endpoints/<endpoint_id:str>"


def _hook(office: ConnectSession, method: str, tail: str = "", body: Any = None) -> Send:
    """A request about an endpoint where nobody listens."""
    api = office.alice.api
    made = api.post(HOOKS, json={"url": "http://127.0.0.1:1/"}).json()["id"]
    return lambda: api.request(method, f"{HOOKS}/{made}{tail}", **({} if body is None else {"json": body}))


def _register(office: ConnectSession) -> Send:
    return lambda: office.alice.api.post(HOOKS, json={"url": "http://127.0.0.1:1/"})


def _hook_form(office: ConnectSession, way: str, **fields: str) -> Send:
    made = office.alice.api.post(HOOKS, json={"url": "http://127.0.0.1:1/"}).json()["id"]
    return _form(office, f"/webhooks/{made}/{way}", **fields)


def _channel_form(office: ConnectSession, way: str, **fields: str) -> Send:
    to = {"kind": "slack", "url": "http://127.0.0.1:1/x"}
    made = office.alice.api.post("/v1/notification-channels", json={"to": to}).json()["id"]
    return _form(office, f"/settings/notifications/{made}/{way}", **fields)


def _delivery(office: ConnectSession) -> str:
    api = office.alice.api
    api.post(HOOKS, json={"url": "http://127.0.0.1:1/"})
    _scheduled(office)
    first = lambda: api.get("/v1/webhook-deliveries").json()["data"][0]  # noqa: E731
    assert wait_for(lambda: first()["attemptCount"] == 1, 30)  # the next one is not due yet
    return str(first()["id"])


def _redeliver(office: ConnectSession) -> Send:
    delivery = _delivery(office)
    return lambda: office.alice.api.post(f"/v1/webhook-deliveries/{delivery}/redeliver")


CHANNELS, CHANNEL = "/v1/notification-channels", "/v1/notification-channels/<channel_id:str>"
NOBODY = {"to": {"kind": "slack", "url": "http://127.0.0.1:1/"}}


def _channel(office: ConnectSession, method: str, tail: str = "", body: Any = None) -> Send:
    """A request about a channel where nobody listens."""
    api = office.alice.api
    made = api.post(CHANNELS, json=NOBODY).json()["id"]
    return lambda: api.request(method, f"{CHANNELS}/{made}{tail}", **({} if body is None else {"json": body}))


DRAFT = "/v1/drafts/<draft_id:str>"


def _draft(office: ConnectSession, method: str, way: str, body: Any = None) -> Send:
    """A request about a draft that has a link."""
    api = office.alice.api
    target = {"accountId": office.alice.bluesky}
    draft = new_draft(api, targets=[target], text="x", scheduledAt="2999-01-01T00:00:00Z")["id"]
    assert api.post(f"/v1/drafts/{draft}/link").status_code == 200
    headers = seen(api, draft)
    return lambda: api.request(method, f"/v1/drafts/{draft}{way}", json=body, headers=headers)


KEYED: dict[str, Callable[[ConnectSession], Send]] = {
    "POST /v1/posts": _publish,
    "PATCH /v1/posts/<post_id:str>": _reschedule,
    "DELETE /v1/posts/<post_id:str>": _cancel,
    "POST /v1/posts/<post_id:str>/retry": _retry,
    "POST /v1/posts/<post_id:str>/settle": _settle,
    "PATCH /v1/batches/<batch_id:str>": lambda office: _batch(office, "PATCH", {"text": "new"}),
    "DELETE /v1/batches/<batch_id:str>": lambda office: _batch(office, "DELETE"),
    "PATCH /v1/accounts/<account_id:str>/pinterest/default-board": _board,
    "POST /v1/media": _upload,
    "DELETE /v1/media/<media_id:str>": _delete_media,
    "PATCH /v1/media/<media_id:str>": _describe_media,
    "PUT /v1/slots": lambda office: lambda: office.alice.api.put("/v1/slots", json={"zone": "UTC", "weekly": []}),
    "POST /v1/drafts": lambda office: lambda: office.alice.api.post("/v1/drafts", json={"text": "x"}),
    f"PATCH {DRAFT}": lambda office: _draft(office, "PATCH", "", {"title": "x"}),
    f"DELETE {DRAFT}": lambda office: _draft(office, "DELETE", ""),
    f"POST {DRAFT}/propose": lambda office: _draft(office, "POST", "/propose"),
    f"POST {DRAFT}/approve": lambda office: _draft(office, "POST", "/approve"),
    f"POST {DRAFT}/return": lambda office: _draft(office, "POST", "/return", {"note": "x"}),
    f"POST {DRAFT}/publish": lambda office: _draft(office, "POST", "/publish"),
    f"POST {DRAFT}/link": lambda office: _draft(office, "POST", "/link"),
    f"DELETE {DRAFT}/link": lambda office: _draft(office, "DELETE", "/link"),
    f"POST {HOOKS}": _register,
    f"PATCH {HOOK}": lambda office: _hook(office, "PATCH", body={"active": False}),
    f"DELETE {HOOK}": lambda office: _hook(office, "DELETE"),
    f"POST {HOOK}/test": lambda office: _hook(office, "POST", "/test", {}),
    f"POST {HOOK}/rotate-secret": lambda office: _hook(office, "POST", "/rotate-secret"),
    f"POST {HOOK}/redeliver": lambda office: _hook(office, "POST", "/redeliver", {"since": "2026-01-01T00:00:00Z"}),
    "POST /v1/webhook-deliveries/<delivery_id:str>/redeliver": _redeliver,
    f"POST {CHANNELS}": lambda office: lambda: office.alice.api.post(CHANNELS, json=NOBODY),
    f"PATCH {CHANNEL}": lambda office: _channel(office, "PATCH", body={"active": False}),
    f"DELETE {CHANNEL}": lambda office: _channel(office, "DELETE"),
    f"POST {CHANNEL}/test": lambda office: _channel(office, "POST", "/test", {}),
}


def _draft_form(office: ConnectSession, way: str) -> Send:
    """A form of the page of a draft that has a link."""
    target = {"accountId": office.alice.bluesky}
    draft = new_draft(office.alice.api, targets=[target], text="x", scheduledAt="2098-01-01T00:00:00Z")["id"]
    assert office.alice.api.post(f"/v1/drafts/{draft}/link").status_code == 200
    found = re.search(r'name="seen" value="(\w+)"', office.browser.get(f"/drafts/{draft}").text)
    assert found
    fields = {"from": "4039372800000", "day": "2098-01-02", "clock": "10:00"} if way == "move" else {"note": "x"}
    return _form(office, f"/drafts/{draft}/{way}", seen=found[1], **fields)


def _empty(office: ConnectSession) -> str:
    """A profile that may be deleted."""
    return str(office.browser.post("/v1/profiles", json={"name": "Empty"}).json()["id"])


def _answer(office: ConnectSession) -> Send:
    return _form(office, "/overview/settle", post=unknown(_world(office)), published="yes")


def _second(office: ConnectSession) -> str:
    """Another member."""
    email = f"{unused_name()}@example.com"
    add_user(office.server, office.alice, email, "member")
    return str(office.server.rows(User, email=email)[0]["id"])


def _withdraw(office: ConnectSession) -> Send:
    _form(office, "/settings/members", email="carol@example.com", role="member")()
    (made,) = office.server.rows(Invitation, organization=office.alice.organization)
    return _form(office, f"/settings/invitations/{made['id']}/withdraw")


def _password(office: ConnectSession) -> Send:
    hash_ = users.hash_password(PASSWORD)
    office.server.service.write(lambda tx: User.update(password=hash_).execute()).result()
    return _form(office, "/settings/password", password=PASSWORD, new_password=f"{PASSWORD} and more")


def _other_session(office: ConnectSession) -> Send:
    (user,) = [row["id"] for row in office.server.rows(User, organization=office.alice.organization)]
    now = office.server.clock.now_ms()
    times = {"created_at": now, "seen_at": now, "ends_at": now + 86_400_000, "proved_at": now}
    other = Session.insert(id=digest(unused_name()), user=user, csrf="csrf-other", **times)
    office.server.service.write(lambda tx: other.execute()).result()
    page = office.browser.get("/settings").text
    found = re.search(r'name="session" value="([^"]+)"', page)
    assert found, page
    return _form(office, "/settings/sessions/end", session=found[1])


def _second_factor(office: ConnectSession) -> Send:
    now = office.server.clock.stop()
    office.server.clock.stop(now - now % totp.STEP_MS + totp.STEP_MS // 2)
    secret, sealed = offered_secret(office.browser)
    return _form(office, "/settings/totp", secret=sealed, code=make_code(office.server, secret))


def _with_second_factor(office: ConnectSession, way: str) -> Send:
    assert _second_factor(office)().status_code == 303
    return _form(office, f"/settings/totp/{way}")


def _after_restore(office: ConnectSession) -> Send:
    service = office.server.service
    service.write(lambda tx: instance.pause(service, tx, instance.RESTORED)).result()
    return _form(office, "/overview/compare", overdue="publish")


def _consent(office: ConnectSession) -> Send:
    settings = office.server.service.runtime.settings.mcp
    settings.oauth, settings.url = True, ENDPOINT
    address = Assistant(office.server).address()
    given = fields_of(office.browser.get(address)) | {"decision": "approve"}
    return _form(office, "/oauth/authorize", **given)


BY_PEOPLE: dict[str, Callable[[ConnectSession], Send]] = {
    "POST /oauth/authorize": _consent,
    "POST /settings/password": _password,
    "POST /settings/sessions/end": _other_session,
    "POST /settings/totp": _second_factor,
    "POST /settings/totp/codes": lambda office: _with_second_factor(office, "codes"),
    "POST /settings/totp/off": lambda office: _with_second_factor(office, "off"),
    "POST /settings/members": lambda office: _form(
        office, "/settings/members", email="carol@example.com", role="member"
    ),
    "POST /settings/members/<member_id:str>": lambda office: _form(
        office, f"/settings/members/{_second(office)}", role="admin"
    ),
    "POST /settings/members/<member_id:str>/remove": lambda office: _form(
        office, f"/settings/members/{_second(office)}/remove"
    ),
    "POST /settings/invitations/<invitation_id:str>/withdraw": _withdraw,
    "POST /v1/accounts/connect/<platform:str>": _start,
    "POST /v1/accounts/connect/<platform:str>/complete": _complete,
    "DELETE /v1/accounts/<account_id:str>": _disconnect,
    "POST /v1/profiles": lambda office: _json(office, "/v1/profiles"),
    "PATCH /v1/profiles/<profile_id:str>": lambda office: _profile(office, "PATCH"),
    "DELETE /v1/profiles/<profile_id:str>": lambda office: _profile(office, "DELETE"),
    "POST /v1/api-keys": lambda office: _json(office, "/v1/api-keys"),
    "DELETE /v1/api-keys/<key_id:str>": lambda office: (
        lambda: office.browser.delete(f"/v1/api-keys/{office.alice.key_id}")
    ),
    "GET /connect/<platform:str>": lambda office: lambda: office.browser.get("/connect/threads"),
    "POST /connect/<platform:str>": _credentials,
    "GET /connect/<platform:str>/callback": _callback,
    "POST /accounts/<account_id:str>/disconnect": lambda office: _form(
        office, f"/accounts/{office.alice.bluesky}/disconnect"
    ),
    "POST /accounts/<account_id:str>/board": _board_form,
    "POST /settings/apps/<platform:str>": _app,
    "POST /settings/apps/<platform:str>/check": lambda office: _app(office, "/check"),
    "POST /settings/apps/<platform:str>/remove": lambda office: _app(office, "/remove"),
    "POST /settings/keys": lambda office: _form(office, "/settings/keys", name="new"),
    "POST /settings/keys/<key_id:str>/revoke": lambda office: _form(
        office, f"/settings/keys/{office.alice.key_id}/revoke"
    ),
    "POST /overview/settle": _answer,
    "POST /overview/retry": lambda office: _form(office, "/overview/retry", account=office.alice.bluesky),
    "POST /overview/cancel": lambda office: _form(office, "/overview/cancel", account=office.alice.bluesky),
    "POST /overview/resume": lambda office: _form(office, "/overview/resume"),
    "POST /overview/compare": _after_restore,
    "POST /settings/organization": lambda office: _form(office, "/settings/organization", name="new"),
    "POST /settings/organization/delete": lambda office: _form(
        office, "/settings/organization/delete", confirm=f"{office.alice.name}'s"
    ),
    "POST /settings/profiles": lambda office: _form(office, "/settings/profiles", name="new"),
    "POST /settings/profiles/<profile_id:str>": lambda office: _form(
        office, f"/settings/profiles/{office.alice.profile}", name="new"
    ),
    "POST /settings/profiles/<profile_id:str>/slots": lambda office: _form(
        office, f"/settings/profiles/{office.alice.profile}/slots", zone="UTC", slots="mon 09:30"
    ),
    "POST /settings/profiles/<profile_id:str>/delete": lambda office: _form(
        office, f"/settings/profiles/{_empty(office)}/delete"
    ),
    "POST /library/<media_id:str>/delete": lambda office: _form(
        office, f"/library/{stored_media(office.alice.api)['id']}/delete"
    ),
    "POST /library/<media_id:str>/describe": lambda office: _form(
        office, f"/library/{stored_media(office.alice.api)['id']}/describe", altText="new"
    ),
    "POST /media/unused": lambda office: _form(office, "/media/unused"),
    "POST /drafts": lambda office: _form(office, "/drafts", text="x"),
    "POST /drafts/bulk": lambda office: _form(
        office, "/drafts/bulk", **{f"pick.{new_draft(office.alice.api, text='x')['id']}": "yes"}
    ),
    **{
        f"POST /drafts/<draft_id:str>/{way}": lambda office, way=way: _draft_form(office, way)
        for way in ("propose", "approve", "return", "publish", "link", "unlink", "move", "delete")
    },
    "POST /webhooks": lambda office: _form(office, "/webhooks", url="http://127.0.0.1:1/"),
    "POST /webhooks/<endpoint_id:str>/test": lambda office: _hook_form(office, "test"),
    "POST /webhooks/<endpoint_id:str>/switch": lambda office: _hook_form(office, "switch", active="no"),
    "POST /webhooks/<endpoint_id:str>/redeliver": lambda office: _hook_form(office, "redeliver"),
    "POST /webhooks/<endpoint_id:str>/rotate": lambda office: _hook_form(office, "rotate"),
    "POST /webhooks/<endpoint_id:str>/delete": lambda office: _hook_form(office, "delete"),
    f"POST {CHANNEL_PAGE}/test": lambda office: _channel_form(office, "test"),
    f"POST {CHANNEL_PAGE}/change": lambda office: _channel_form(office, "change", description="x"),
    f"POST {CHANNEL_PAGE}/switch": lambda office: _channel_form(office, "switch", active="no"),
    f"POST {CHANNEL_PAGE}/target": lambda office: _channel_form(office, "target", secret_url="http://127.0.0.1:1/y"),
    f"POST {CHANNEL_PAGE}/delete": lambda office: _channel_form(office, "delete"),
    "POST /deliveries/<delivery_id:str>/redeliver": lambda office: _form(
        office, f"/deliveries/{_delivery(office)}/redeliver"
    ),
    "POST /posts/<post_id:str>/move": lambda office: _post_form(
        office, _scheduled, "move", day="2099-05-04", clock="12:00"
    ),
    "POST /posts/<post_id:str>/edit": _edit_form,
    "POST /posts/bulk": _bulk_form,
    "POST /posts/views": lambda office: _form(office, "/posts/views", name="Sales", query="q=sale"),
    "POST /compose/groups": lambda office: _form(
        office, "/compose/groups", group_name="All", **{f"to.{office.alice.bluesky}": "yes"}
    ),
    "POST /import": _import_form,
    "POST /import/undo": _import_undo_form,
    "POST /publications/<batch_id:str>/move": _move_form,
    "POST /media": _media_form,
    "POST /posts/<post_id:str>/cancel": lambda office: _post_form(office, _scheduled, "cancel"),
    "POST /posts/<post_id:str>/retry": lambda office: _post_form(office, _failed, "retry"),
    "POST /posts/<post_id:str>/settle": lambda office: _post_form(office, _unknown, "settle", published="yes"),
}


def _told(write: WriteRequest) -> Callable[[ConnectSession], Send]:
    return lambda office: lambda: write.ask(office.alice, office.browser)


GUARDS = {f"{route.method} {route.path}": route.guard for route in ROUTES}
TOLD = {write.name: _told(write) for write in find_writes()}  # by the tests of their own
KEYED |= {name: ask for name, ask in TOLD.items() if GUARDS[name] == "key"}
BY_PEOPLE |= {name: ask for name, ask in TOLD.items() if GUARDS[name] != "key"}
NOT_FOR_SOMEBODY = {
    "POST /v1/posts/validate": "writes nothing",
    "POST /import/check": "the same",
    "POST /login": "nobody is signed in yet",
    "POST /billing/lemonsqueezy": "whoever has its secret signs each notice",
    "POST /setup/<token:str>": "nobody is there yet",
    "POST /oauth/register": "open: a program has no authority yet; see tests/api/access/test_oauth.py",
    "POST /oauth/token": "open: the code is the authority; see tests/api/access/test_oauth.py",
    "POST /invited/<token:str>": "whoever has the link is nobody yet; see tests/dashboard/test_members.py",
    "POST /approve/<token:str>": "the same; see tests/dashboard/test_approval_links.py",
    "POST /logout": "ends what is over already; see tests/isolation/test_password_guessing.py",
    "POST /logout/everywhere": "the same",
}
NEEDS = {f"{route.method} {route.path}": route.roles for route in ROUTES}
POSTS = {f"POST /posts/<post_id:str>/{way}" for way in ("move", "edit", "cancel", "retry", "settle")}
OWNERS = {
    name
    for name in BY_PEOPLE
    if name.startswith(
        (
            "POST /settings/members",
            "POST /settings/invitations",
            "POST /settings/apps",
            "POST /settings/organization/delete",
        )
    )
}
DRAFT_DECISIONS = {f"POST /drafts/<draft_id:str>/{way}" for way in ("approve", "return", "publish", "link", "unlink")}
EVERYBODYS = {
    "POST /drafts",
    "POST /drafts/bulk",
    "POST /drafts/<draft_id:str>/propose",
    "POST /drafts/<draft_id:str>/move",
    "POST /drafts/<draft_id:str>/delete",
    # What every person may: have a dashboard of their own, and see to what they compose.
    "POST /profile",
    "POST /compose",
    "POST /compose/groups",
    "POST /compose/media",
    "POST /media",
    "POST /settings/zone",
    "POST /posts/views",
    "POST /library/<media_id:str>/describe",
    "POST /settings/password",
    "POST /settings/sessions/end",
    "POST /settings/totp",
    "POST /settings/totp/codes",
    "POST /settings/totp/off",
}
PUBLISHERS = {
    "POST /overview/settle",
    "POST /overview/retry",
    "POST /library/<media_id:str>/delete",
    "POST /media/unused",
    "POST /posts/bulk",
    "POST /import",
    "POST /import/undo",
    "POST /publications/<batch_id:str>/move",
    *POSTS,
    *DRAFT_DECISIONS,
}
AREAS: dict[str, list[tuple[str, str]]] = {}
"""By the beginning of their paths: each route, and what is taken away from it, or nothing."""
for route in KEYED | BY_PEOPLE:
    losses = ["key revoked"] if route in KEYED else ["session ended", *(["role lowered"] if NEEDS[route] else [])]
    AREAS.setdefault(route.split("/")[1], []).extend((route, taken) for taken in (*losses, ""))


def test_every_route_that_may_write_is_in_a_table() -> None:
    known = KEYED.keys() | BY_PEOPLE.keys() | NOT_FOR_SOMEBODY.keys()
    assert {f"{route.method} {route.path}" for route in ROUTES if route.method != "GET"} <= known
    assert known <= {f"{route.method} {route.path}" for route in ROUTES}


def test_every_route_says_which_roles_may_write() -> None:
    assert {NEEDS[name] for name in BY_PEOPLE.keys() - EVERYBODYS - PUBLISHERS - OWNERS} == {("owner", "admin")}
    assert {NEEDS[name] for name in PUBLISHERS} == {("owner", "admin", "member")}
    assert {NEEDS[name] for name in OWNERS} == {("owner",)}
    assert {NEEDS[name] for name in EVERYBODYS} == {()}


@pytest.fixture
def pinterest(monkeypatch: pytest.MonkeyPatch, office: ConnectSession) -> None:
    bread = Board("1", "Bread", "PUBLIC")
    monkeypatch.setitem(platforms.CONNECTORS, "pinterest", SimpleNamespace(boards=lambda up: [bread]))


def own_rows(office: ConnectSession) -> dict[str, list[dict[str, Any]]]:
    """What the organization has in each table; it shares the server with others, whose work may still go on."""
    tables, organization = office.server.stock()["tables"], office.alice.organization
    ids = [row.get("id") for rows in tables.values() for row in rows if row.get("organization") == organization]
    ours = {organization, *(each for each in ids if isinstance(each, str | bytes))}
    return {
        table: [row for row in rows if table in OF_THE_SERVER or ours.intersection(row.values())]
        for table, rows in tables.items()
    }


OF_THE_SERVER = ("OAuthClient", "PlatformApp", "VersionCheck")


@pytest.mark.usefixtures("pinterest")
@pytest.mark.parametrize("area", AREAS)
def test_what_is_taken_away_after_the_door_writes_nothing(office: ConnectSession, area: str) -> None:
    """And what is not taken away writes. Each request is of an organization of its own."""

    def check(route: str, taken: str) -> None:
        each = newcomer(office)
        send = (KEYED | BY_PEOPLE)[route](each)
        if not taken:
            before = own_rows(each)
            assert send().status_code < 400
            assert own_rows(each) != before
            return
        take, status, code = TAKEN[taken]
        work, tables, files = RequestPipeline._call_handler, [], stored_files(office.server)

        async def late(door: RequestPipeline, call: Any) -> Any:
            take(office.server)
            tables.append(own_rows(each))
            return await work(door, call)

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(RequestPipeline, "_call_handler", late)
            answer = send()
        assert (answer.status_code, error_of(answer)["code"]) == (status, code)
        assert [own_rows(each)] == tables
        assert stored_files(office.server) == files

    check_rows(AREAS[area], check)


# --- While a platform is asked ---------------------------------------------------------------------------------------


@pytest.mark.usefixtures("pinterest")
def test_authority_lost_during_a_platform_call_writes_nothing(
    office: ConnectSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    upstream, losses = connect._submit, []  # noqa: SLF001

    async def slow(service: Any, share: Any, work: Callable[[], Any]) -> Any:
        found = await upstream(service, share, work)
        losses[-1]()
        return found

    def check(prepare: Callable[[ConnectSession], Send], taken: str) -> None:
        take, status, code = TAKEN[taken]
        each, asked = newcomer(office), list[Any]()
        send = prepare(each)

        def lose() -> None:
            take(office.server)
            asked.append(own_rows(each))

        losses.append(lose)
        answer = send()
        assert (answer.status_code, error_of(answer)["code"]) == (status, code)
        assert [own_rows(each)] == asked

    monkeypatch.setattr(connect, "_submit", slow)
    people = [(prepare, taken) for prepare in (_complete, _callback, _credentials) for taken in list(TAKEN)[1:]]
    check_rows([(_board, "key revoked"), *people], check)


# --- The source ------------------------------------------------------------------------------------------------------

ELSEWHERE = {
    ("domain/access/actions.py", "write"): "the one way",
    ("domain/access/authentication.py", "authenticate_key"): "when a key was last used",
    ("domain/access/authentication.py", "authenticate_session"): "when a session was last seen",
    ("domain/posts/batches.py", "write_after_acceptance"): "what belongs to an answer about a batch that is accepted",
    ("domain/identity/users.py", "set_up_owner"): "nobody is there yet",
    ("domain/identity/signin.py", "start"): "nobody is signed in yet",
    ("domain/identity/signin.py", "finish"): "nor is anybody before the second step",
    ("domain/identity/members.py", "accept_invitation"): "whoever has the link is nobody yet",
}


def _writes(function: ast.AST) -> bool:
    return any(
        isinstance(node, ast.Call)
        and isinstance(node.func, ast.Attribute)
        and node.func.attr in ("write", "write_together")
        and getattr(node.func.value, "attr", getattr(node.func.value, "id", "")) in ("service", "db")
        for node in ast.walk(function)
    )


def _writers(folder: str) -> Iterator[tuple[str, str]]:
    """Functions of requests that open a transaction by themselves. In the domain, requests are async, jobs are not."""
    for module in find_modules(r"\bwrite(_together)?\b", folder):
        for node in parse_module(module).body:
            parts = node.body if isinstance(node, ast.ClassDef) else [node]
            kinds = (ast.AsyncFunctionDef, ast.FunctionDef) if folder == "web" else (ast.AsyncFunctionDef,)
            functions = [part for part in parts if isinstance(part, kinds)]
            yield from ((module, part.name) for part in functions if _writes(part))


def test_no_write_of_a_request_goes_another_way() -> None:
    at_once = {("domain/access/actions.py", "write")}  # it waits for nothing
    found = {*_writers("web"), *_writers("domain"), *at_once}
    assert found == ELSEWHERE.keys()


def test_the_writers_of_requests_are_found() -> None:
    made = ast.parse("async def a(call):\n    await call.service.write(lambda tx: None)\n")
    assert _writes(made)
    assert _writes(ast.parse("def a(call):\n    call.service.write_together(b, c)\n"))
    assert not _writes(ast.parse("async def a(call):\n    await call.write(lambda tx: None)\n"))
