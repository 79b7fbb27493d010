"""Webhook signatures, checked by gidgethub and standardwebhooks."""

from __future__ import annotations

from collections.abc import Mapping

import pytest
from gidgethub import ValidationFailure
from gidgethub.sansio import validate_event
from standardwebhooks import Webhook, WebhookVerificationError

from tests.support.request_cast import RequestCast
from tests.support.webhook_endpoints import ENDPOINTS, register_endpoint
from tests.support.webhook_receiver import ReceivedCall, WebhookReceiver

SIGNATURE, PREVIOUS = "x-service-signature", "x-service-signature-previous"
UNUSUAL = 'naïve 🎉 \u2028 line\nbreak \\ "quoted" </script>'  # the bytes are signed, however they read


def hub_style(got: ReceivedCall, secret: str, header: str = SIGNATURE) -> None:
    """GitHub's scheme, as gidgethub checks it."""
    validate_event(got.body, signature=got.headers[header], secret=secret)


def standard(got: ReceivedCall, secret: str) -> object:
    """Standard Webhooks, as its own package checks it; it also wants a time of the last five minutes."""
    return Webhook(secret).verify(got.body, dict(got.headers))


def test_gidgethub_and_standardwebhooks_accept_every_delivery(world: RequestCast, sink: WebhookReceiver) -> None:
    secret = register_endpoint(world.alice, sink.url)["signingSecret"]
    world.published()
    world.published(text=UNUSUAL)
    for got in sink.wait(4):
        hub_style(got, secret)
        assert standard(got, secret) == got.event


def test_both_refuse_another_secret_and_a_changed_byte(world: RequestCast, sink: WebhookReceiver) -> None:
    secret = register_endpoint(world.alice, sink.url)["signingSecret"]
    stranger = register_endpoint(world.charlie, sink.url)["signingSecret"]
    world.published()
    got = sink.wait(2)[0]
    changed = ReceivedCall(got.path, got.headers, got.body.replace(b"post.validated", b"post.published"))
    assert changed.body != got.body
    for call, key in ((got, stranger), (changed, secret)):
        with pytest.raises(ValidationFailure):
            hub_style(call, key)
        with pytest.raises(WebhookVerificationError):
            standard(call, key)


def test_standardwebhooks_refuses_a_delivery_replayed_under_another_id(
    world: RequestCast, sink: WebhookReceiver
) -> None:
    secret = register_endpoint(world.alice, sink.url)["signingSecret"]
    world.published()
    got = sink.wait(1)[0]
    at = int(got.headers["webhook-timestamp"])
    changes: tuple[Mapping[str, str], ...] = (
        {"webhook-id": "evt_" + "0" * 22},
        {"webhook-timestamp": str(at + 1)},
        {"webhook-timestamp": str(at - 600)},
    )
    for change in changes:
        with pytest.raises(WebhookVerificationError):
            standard(ReceivedCall(got.path, {**got.headers, **change}, got.body), secret)


def test_while_a_secret_is_exchanged_receivers_with_either_one_accept(
    world: RequestCast, sink: WebhookReceiver
) -> None:
    endpoint = register_endpoint(world.alice, sink.url)
    rotated = world.alice.api.post(f"{ENDPOINTS}/{endpoint['id']}/rotate-secret").json()
    old, new = endpoint["signingSecret"], rotated["signingSecret"]
    world.published()
    for got in sink.wait(2):
        hub_style(got, new)
        hub_style(got, old, PREVIOUS)
        assert standard(got, new) == standard(got, old) == got.event
        with pytest.raises(ValidationFailure):
            hub_style(got, old)  # the header that the specification names is the new secret's alone


def test_after_a_second_exchange_the_first_secret_is_worth_nothing(world: RequestCast, sink: WebhookReceiver) -> None:
    endpoint = register_endpoint(world.alice, sink.url)
    second, third = (
        world.alice.api.post(f"{ENDPOINTS}/{endpoint['id']}/rotate-secret").json()["signingSecret"] for _ in range(2)
    )
    world.published()
    got = sink.wait(1)[0]
    hub_style(got, third)
    hub_style(got, second, PREVIOUS)
    assert standard(got, second) == standard(got, third)
    with pytest.raises(WebhookVerificationError):
        standard(got, endpoint["signingSecret"])


def test_a_sample_is_signed_as_a_delivery_is(world: RequestCast, sink: WebhookReceiver) -> None:
    endpoint = register_endpoint(world.alice, sink.url)
    world.alice.api.post(f"{ENDPOINTS}/{endpoint['id']}/test", json={"data": {"text": UNUSUAL}})
    (got,) = sink.wait(1)
    hub_style(got, endpoint["signingSecret"])
    assert standard(got, endpoint["signingSecret"]) == got.event
