import hashlib
import hmac


def is_genuine(body: bytes, headers: dict[str, str], secret: str) -> bool:
    """Whether a delivery is signed with this secret. body: as it came; headers: by their names in small letters."""
    expected = "sha256=" + hmac.new(secret.encode(), body, hashlib.sha256).hexdigest()
    # The second one is there for a day after the secret was exchanged.
    sent = [headers.get("x-service-signature", ""), headers.get("x-service-signature-previous", "")]
    return any(hmac.compare_digest(expected.encode(), one.encode()) for one in sent)
