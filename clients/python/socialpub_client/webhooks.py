"""Verification of webhooks: Standard Webhooks, and the signature of the body alone."""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import re
import time
from collections.abc import Mapping, Sequence

from socialpub_client.errors import SignatureError
from socialpub_client.events import Event

_TIMESTAMP = re.compile(r"[0-9]{1,12}")


def verify(
    headers: Mapping[str, str],
    body: bytes | str,
    secrets: str | Sequence[str],
    *,
    tolerance: float = 300,
    now: float | None = None,
) -> Event:
    """Return the event of a delivery that one of the secrets signed.

    `body`: exactly the bytes received. `tolerance`: how many seconds a timestamp may differ from now. Raises
    SignatureError; a delivery without `webhook-signature` has no timestamp, so a copy of it cannot be told apart.
    """
    known = [secrets] if isinstance(secrets, str) else list(secrets)
    if not known or not all(secret.removeprefix("whsec_") for secret in known):
        raise SignatureError("There is no secret to verify with.")
    content = body.encode() if isinstance(body, str) else body
    lower = {name.lower(): value for name, value in headers.items()}
    if "webhook-signature" in lower:
        _verify_standard(
            lower, content, list(map(decode_secret, known)), tolerance, time.time() if now is None else now
        )
    else:
        _verify_body(lower, content, known)
    try:
        return Event.parse(json.loads(content))
    except (ValueError, KeyError, TypeError):
        raise SignatureError("The signature is right, but the body is no event.") from None


def decode_secret(secret: str) -> bytes:
    """Return the key of a secret.

    Raises SignatureError unless it is `whsec_` and base64, and not empty.
    """
    try:
        key = base64.b64decode(secret.removeprefix("whsec_"), validate=True)
    except (binascii.Error, ValueError):
        key = b""
    if not key:  # anyone could sign with an empty one
        raise SignatureError("A secret is `whsec_` and base64.")
    return key


def _verify_standard(
    headers: Mapping[str, str], body: bytes, keys: Sequence[bytes], tolerance: float, now: float
) -> None:
    """Raise SignatureError unless one of the keys signed id, time and body (`v1`)."""
    id_, sent = headers.get("webhook-id", ""), headers.get("webhook-timestamp", "")
    if not id_ or not _TIMESTAMP.fullmatch(sent):
        raise SignatureError("`webhook-id` or `webhook-timestamp` is missing or malformed.")
    signed = f"{id_}.{sent}.".encode() + body
    given = [text.encode() for text in headers["webhook-signature"].split(" ") if text.startswith("v1,")]
    expected = [b"v1," + base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()) for key in keys]
    if not _any_equal(given, expected):
        raise SignatureError("No secret has made this signature.")
    if abs(now - int(sent)) > tolerance:
        raise SignatureError("The delivery is too old, or the clocks differ.")


def _verify_body(headers: Mapping[str, str], body: bytes, secrets: Sequence[str]) -> None:
    """Raise SignatureError unless a signature of the body alone is by one of the secrets."""
    given = [value.encode() for name, value in headers.items() if name.endswith(("-signature", "-signature-previous"))]
    expected = [b"sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest().encode() for secret in secrets]
    if not given:
        raise SignatureError("The delivery has no signature.")
    if not _any_equal(given, expected):
        raise SignatureError("No secret has made this signature.")


def _any_equal(given: Sequence[bytes], expected: Sequence[bytes]) -> bool:
    """Return whether two signatures are equal; the time taken depends on their numbers alone."""
    matches = [hmac.compare_digest(one, other) for one in given for other in expected]
    return any(matches)
