"""Verification of webhooks: signatures of the server and of Standard Webhooks; forgeries."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from standardwebhooks import Webhook

from socialpub_client import SignatureError
from socialpub_client.webhooks import verify
from tests.support.signed_deliveries import BODY, NOW, OLD, OTHER, SECRET, delivery, own_only


def test_deliveries_of_the_server_are_accepted() -> None:
    for headers in (delivery(SECRET), delivery(SECRET, OLD), own_only(delivery(SECRET, OLD))):
        for secrets in (SECRET, [OTHER, SECRET]):
            event = verify(headers, BODY, secrets, now=NOW)
            assert (event.id, event.type, event.data) == ("evt_1", "post.published", {"id": "p"})
    for headers in (delivery(SECRET, OLD), own_only(delivery(SECRET, OLD))):  # while the secret is being changed
        assert verify(headers, BODY, OLD, now=NOW).id == "evt_1"


def test_signatures_of_the_standard_library_are_accepted() -> None:
    at = datetime.fromtimestamp(NOW, UTC)
    signed = Webhook(SECRET).sign("msg_1", at, BODY.decode())
    headers = {"Webhook-Id": "msg_1", "Webhook-Timestamp": str(NOW), "Webhook-Signature": f"v1a,zzz {signed}"}
    assert verify(headers, BODY.decode(), SECRET, now=NOW).id == "evt_1"


@pytest.mark.parametrize(
    "headers, body, secrets",
    [
        (delivery(OTHER), BODY, SECRET),
        (own_only(delivery(OTHER)), BODY, SECRET),
        (delivery(SECRET), BODY + b" ", SECRET),
        (own_only(delivery(SECRET)), BODY + b" ", SECRET),
        (delivery(SECRET, at=NOW - 301), BODY, SECRET),
        (delivery(SECRET, at=NOW + 301), BODY, SECRET),
        (delivery(SECRET) | {"webhook-timestamp": str(NOW + 1)}, BODY, SECRET),
        (delivery(SECRET) | {"webhook-timestamp": "soon"}, BODY, SECRET),
        (delivery(SECRET) | {"webhook-signature": ""}, BODY, SECRET),
        (delivery(SECRET) | {"webhook-signature": "v1,é"}, BODY, SECRET),
        (delivery(SECRET) | {"webhook-id": "evt_2"}, BODY, SECRET),
        (delivery(SECRET), BODY, [OTHER, OLD]),
        (delivery(SECRET), BODY, []),
        (delivery(SECRET), BODY, ""),
        (delivery(SECRET), BODY, "whsec_no base64"),
        (delivery("whsec_"), BODY, "whsec_"),
        (own_only(delivery("whsec_")), BODY, [SECRET, "whsec_"]),
        ({}, BODY, SECRET),
        (delivery(SECRET, body=b"[]"), b"[]", SECRET),
    ],
)
def test_forgeries_are_refused(headers: dict[str, str], body: bytes, secrets: str | list[str]) -> None:
    with pytest.raises(SignatureError) as refused:
        verify(headers, body, secrets, now=NOW)
    assert SECRET not in str(refused.value)
