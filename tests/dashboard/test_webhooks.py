"""Webhook pages: endpoints, secrets shown once, samples, and redelivery."""

from __future__ import annotations

import html
import re

from socialpub.store.schema.models import WebhookDelivery, WebhookEndpoint
from tests.support.app_server import ApiClient
from tests.support.connect_flow import sign_in
from tests.support.dashboard_forms import HTML, XSS, follow_notice, send_form
from tests.support.request_cast import RequestCast
from tests.support.webhook_endpoints import ENDPOINTS, list_deliveries, register_endpoint, wait_for_deliveries
from tests.support.webhook_receiver import ReceiverResponse, WebhookReceiver, sign_body


def made(browser: ApiClient, url: str, **fields: str) -> tuple[str, str]:
    """The id of a new endpoint, and the page that is seen then."""
    answer = send_form(browser, "/webhooks", url=url, **fields)
    assert answer.status_code == 303, answer.text
    return answer.headers["Location"].rpartition("/")[2], follow_notice(browser, answer)


def test_an_endpoint_is_made_and_its_secret_shown_once(
    world: RequestCast, sink: WebhookReceiver, browser: ApiClient
) -> None:
    id, seen = made(browser, sink.url, description="n8n", **{"event-2": "yes"})
    found = re.search(r"whsec_[A-Za-z0-9+/=]+", html.unescape(seen))
    assert found
    assert "whsec_" not in browser.get(f"/webhooks/{id}", headers=HTML).text
    shown = world.alice.api.get(f"{ENDPOINTS}/{id}").json()
    assert (shown["url"], shown["events"], shown["description"]) == (sink.url, ["post.published"], "n8n")
    world.published()
    (call,) = sink.wait(1)
    assert call.is_signed(found[0])
    assert f'href="/webhooks/{id}"' in browser.get("/webhooks", headers=HTML).text


def test_what_cannot_be_an_endpoint_is_said_and_what_was_typed_is_kept(world: RequestCast, browser: ApiClient) -> None:
    answer = send_form(browser, "/webhooks", url="ftp://x.example/", description="mine", **{"event-4": "yes"})
    assert answer.status_code == 400
    assert 'role="alert"' in answer.text
    assert 'value="ftp://x.example/"' in answer.text
    assert re.search(r'name="event-4" value="yes" checked><label for="event-4">post.failed<', answer.text)
    assert world.server.rows(WebhookEndpoint) == []


def test_a_sample_is_sent_and_what_came_of_it_is_said(
    world: RequestCast, sink: WebhookReceiver, browser: ApiClient
) -> None:
    id, _ = made(browser, sink.url)
    assert "Test event delivered: 204" in follow_notice(browser, send_form(browser, f"/webhooks/{id}/test"))
    sink.answer = lambda got: 500
    assert "the receiver answered 500" in follow_notice(browser, send_form(browser, f"/webhooks/{id}/test"))
    assert [call.event["type"] for call in sink.got] == ["post.published"] * 2


def test_the_page_counts_what_was_accepted_with_the_old_secret(
    world: RequestCast, sink: WebhookReceiver, browser: ApiClient
) -> None:
    endpoint = register_endpoint(world.alice, sink.url, events=["post.published"])
    page = f"/webhooks/{endpoint['id']}"
    assert "signing secret" not in browser.get(page, headers=HTML).text
    world.alice.api.post(f"{ENDPOINTS}/{endpoint['id']}/rotate-secret")
    assert "accepted with it since the rotation: 0" in browser.get(page, headers=HTML).text
    old = endpoint["signingSecret"]
    sink.answer = lambda got: 204 if got.headers["x-service-signature"] == sign_body(old, got.body) else 401
    world.published()
    wait_for_deliveries(world.server, world.alice, 1, "succeeded")
    seen = browser.get(page, headers=HTML).text
    assert "accepted with it since the rotation: 1" in seen
    assert "The receiver uses the old signing secret" in seen


def test_failed_deliveries_are_found_and_delivered_again(
    world: RequestCast, sink: WebhookReceiver, browser: ApiClient
) -> None:
    sink.answer = lambda got: ReceiverResponse(400, f"No. {XSS}".encode())
    id, _ = made(browser, sink.url)
    world.published()
    wait_for_deliveries(world.server, world.alice, 2, "failed")
    text = browser.get(f"/webhooks/{id}?status=failed", headers=HTML).text
    first, second = re.findall(r'href="/deliveries/(whd_[0-9A-Za-z]+)"', text)
    assert "in this state" in browser.get(f"/webhooks/{id}?status=succeeded", headers=HTML).text
    told = browser.get(f"/deliveries/{first}", headers=HTML).text
    assert "Attempt 1" in told
    assert "<img" not in told
    assert "&lt;img" in told
    sink.answer = lambda got: 204
    send_form(browser, f"/deliveries/{first}/redeliver")
    wait_for_deliveries(world.server, world.alice, 1, "succeeded")
    assert {row["id"]: row["status"] for row in world.server.rows(WebhookDelivery)}[second] == "failed"
    assert "Redelivering 1 delivery" in follow_notice(browser, send_form(browser, f"/webhooks/{id}/redeliver"))
    wait_for_deliveries(world.server, world.alice, 2, "succeeded")
    assert "No deliveries failed" in follow_notice(browser, send_form(browser, f"/webhooks/{id}/redeliver"))


def test_deliveries_are_paged(world: RequestCast, sink: WebhookReceiver, browser: ApiClient) -> None:
    id, _ = made(browser, sink.url)
    for number in range(14):
        world.published(text=f"Number {number}")
    wait_for_deliveries(world.server, world.alice, 28)
    text, seen = browser.get(f"/webhooks/{id}", headers=HTML).text, set[str]()
    seen |= set(re.findall(r'href="/deliveries/(\w+)"', text))
    assert len(seen) == 25
    older = re.search(r'href="([^"#]*)#deliveries" rel="next"', text)
    assert older
    text = browser.get(html.unescape(older[1]), headers=HTML).text
    assert len(seen | set(re.findall(r'href="/deliveries/(\w+)"', text))) == 28
    assert ">Newest</a>" in text


def test_an_endpoint_is_switched_off_and_on_and_deleted_after_being_asked(
    world: RequestCast, sink: WebhookReceiver, browser: ApiClient
) -> None:
    id, _ = made(browser, sink.url)
    for active, shown in (("no", False), ("yes", True)):
        send_form(browser, f"/webhooks/{id}/switch", active=active)
        assert world.alice.api.get(f"{ENDPOINTS}/{id}").json()["active"] is shown
    asked = browser.get(f"/webhooks/{id}/delete", headers=HTML).text
    assert "It gets no more deliveries" in asked
    assert "programs can list them" in asked
    world.published()
    wait_for_deliveries(world.server, world.alice, 2)
    send_form(browser, f"/webhooks/{id}/delete")
    assert browser.get(f"/webhooks/{id}", headers=HTML).status_code == 404
    assert [row["endpointId"] for row in list_deliveries(world.alice)] == [id, id]


def test_a_pending_delivery_is_sent_at_once_on_its_page(
    world: RequestCast, sink: WebhookReceiver, browser: ApiClient
) -> None:
    sink.answer = lambda got: 503
    made(browser, sink.url)
    world.published()
    delivery = wait_for_deliveries(world.server, world.alice, 2, "pending")[0]["id"]
    told = browser.get(f"/deliveries/{delivery}", headers=HTML).text
    assert "Redeliver it to send it now" in told
    assert f'action="/deliveries/{delivery}/redeliver"' in told
    sink.answer = lambda got: 204
    send_form(browser, f"/deliveries/{delivery}/redeliver")
    wait_for_deliveries(world.server, world.alice, 1, "succeeded")


def test_a_new_secret_is_shown_once(world: RequestCast, sink: WebhookReceiver, browser: ApiClient) -> None:
    id, first = made(browser, sink.url)
    assert "Set the new secret in the receiver before then" in browser.get(f"/webhooks/{id}/rotate", headers=HTML).text
    again = follow_notice(browser, send_form(browser, f"/webhooks/{id}/rotate"))
    secrets = [re.findall(r"whsec_[A-Za-z0-9+/=]+", html.unescape(text))[0] for text in (first, again)]
    assert secrets[0] != secrets[1]


def test_members_and_others_see_nothing_of_it(world: RequestCast, sink: WebhookReceiver, browser: ApiClient) -> None:
    endpoint = register_endpoint(world.alice, sink.url)["id"]
    world.published()
    delivery = wait_for_deliveries(world.server, world.alice, 2)[0]["id"]
    member = sign_in(world.server, world.alice.organization, role="member", name="mona")
    other = sign_in(world.server, world.charlie.organization, name="charlie")
    for path in (f"/webhooks/{endpoint}", f"/webhooks/{endpoint}/delete", f"/deliveries/{delivery}"):
        assert browser.get(path, headers=HTML).status_code == 200
        assert member.get(path, headers=HTML).status_code == 403
        assert other.get(path, headers=HTML).status_code == 404
    assert 'href="/webhooks"' not in member.get("/posts", headers=HTML).text
    assert endpoint not in other.get("/webhooks", headers=HTML).text
    assert send_form(other, f"/webhooks/{endpoint}/switch", active="no").status_code == 404
    assert send_form(other, f"/deliveries/{delivery}/redeliver").status_code == 404


def test_forged_forms_do_nothing(world: RequestCast, sink: WebhookReceiver, browser: ApiClient) -> None:
    endpoint = register_endpoint(world.alice, sink.url)["id"]
    for way in ("", f"/{endpoint}/switch", f"/{endpoint}/delete", f"/{endpoint}/rotate", f"/{endpoint}/test"):
        answer = browser.post(f"/webhooks{way}", data={"csrf_token": "wrong", "url": sink.url}, headers=HTML)
        assert answer.status_code == 403
    assert sink.got == []
    assert [row["active"] for row in world.server.rows(WebhookEndpoint)] == [True]
