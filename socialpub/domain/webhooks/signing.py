"""What a delivery's headers carry: the event, the call, and signatures over exactly the bytes that are sent.

Two schemes side by side. The service's own: hex HMAC-SHA256 of the body, keyed with the whole secret as text. And
Standard Webhooks (github.com/standard-webhooks): HMAC-SHA256 of `id.timestamp.body`, keyed with the bytes that the
secret's part after `whsec_` encodes; a receiver that wants a replay window has its time there.
"""

from __future__ import annotations

import base64
import hashlib
import hmac


def headers(
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
    """The headers of one call. `secrets`: the endpoint's, and the one before it while that signs too."""
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
        "webhook-signature": " ".join(_standard(secret, signed) for secret in secrets),
    }
    if len(own) > 1:
        made[f"{prefix}-Signature-Previous"] = own[1]
    if request:
        made[f"{prefix}-Request-Id"] = request
    return made


def _standard(secret: str, signed: bytes) -> str:
    key = base64.b64decode(secret.removeprefix("whsec_"))
    return "v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
