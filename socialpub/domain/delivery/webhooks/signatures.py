"""Headers of a delivery: event, call, and signatures over exactly the bytes sent.

Two schemes side by side. Our own: hex HMAC-SHA256 of the body, keyed with the whole secret as text. Standard Webhooks
(github.com/standard-webhooks): HMAC-SHA256 of `id.timestamp.body`, keyed with the base64-decoded secret after `whsec_`;
its timestamp serves receivers with a replay window.
"""

from __future__ import annotations

import base64
import hashlib
import hmac


def build_headers(
    prefix: str,
    secrets: list[str],
    body: bytes,
    *,
    event: str,
    type_: str,
    delivery: str,
    request: str | None,
    at_seconds: int,
) -> dict[str, str]:
    """Build the headers of one call. `secrets`: the current one, and during rotation the old."""
    own = [f"sha256={hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()}" for secret in secrets]
    signed = f"{event}.{at_seconds}.".encode() + body
    made = {
        "Content-Type": "application/json",
        f"{prefix}-Signature": own[0],
        f"{prefix}-Event": type_,
        f"{prefix}-Event-Id": event,
        f"{prefix}-Delivery-Id": delivery,
        "webhook-id": event,
        "webhook-timestamp": str(at_seconds),
        "webhook-signature": " ".join(_sign_standard(secret, signed) for secret in secrets),
    }
    if len(own) > 1:
        made[f"{prefix}-Signature-Previous"] = own[1]
    if request:
        made[f"{prefix}-Request-Id"] = request
    return made


def _sign_standard(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
