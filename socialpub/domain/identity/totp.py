"""Second factor: TOTP (RFC 6238) and recovery codes.

The secret is encrypted. Each code works once: the last accepted time step is stored, and earlier ones are refused.
Recovery codes are stored as digests and deleted when used.
"""

from __future__ import annotations

import base64

from typing_extensions import TypedDict

from socialpub.base.errors import ApiError
from socialpub.base.security import crypto
from socialpub.domain.access.actor import ActionResult, Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.context.app_context import AppContext
from socialpub.store.database import Tx
from socialpub.store.schema.models import RecoveryCode, User

ISSUER = "socialpub"
STEP_MS = 30_000
SKEW_STEPS = 1  # time steps of tolerated clock skew, either way
RECOVERY_CODE_COUNT = 10
CODE, RECOVERY_CODE = "code", "recovery code"
_CODE_BYTES = 10


class RecoveryCodesBody(TypedDict):
    """New recovery codes, shown once."""

    codes: list[str]


class SecondFactorUserBody(TypedDict):
    """User whose second factor changed."""

    id: str
    email: str


# --- Setup -------------------------------------------------------------------------------------------------------


def generate_secret(service: AppContext) -> str:
    """Generate 160 random bits in base32."""
    return base64.b32encode(service.runtime.entropy(20)).decode()


def build_uri(secret: str, email: str) -> str:
    """Return the otpauth URI for the QR code."""
    import pyotp  # imported late: only second factors need it

    return pyotp.TOTP(secret).provisioning_uri(name=email, issuer_name=ISSUER)


def turn_on(tx: Tx, who: Actor, secret: str, code: str) -> ActionResult:
    """Turn on the second factor; return `{codes}`. Raises ApiError for a wrong code, 409 if on."""
    if is_enabled(who.scope):
        raise ApiError("validation_failed", "Two-factor authentication is already on.", rule="code", status=409)
    step = _find_step(who.service, secret, code, 0)
    if step is None:
        raise ApiError("validation_failed", "This is not the current code of the app.", rule="code")
    user = str(who.scope.user)
    sealed = who.service.runtime.vault.seal(secret.encode(), _get_seal_place(user))
    User.update(totp=sealed, totp_step=step).where(who.scope.user_filter).execute()
    return _replace_codes(tx, who)


def renew_codes(tx: Tx, who: Actor) -> ActionResult:
    """Replace the recovery codes; return `{codes}`. Raises ApiError `not_found` if off."""
    if not is_enabled(who.scope):
        raise ApiError("not_found", "Two-factor authentication is off.")
    return _replace_codes(tx, who)


def turn_off(tx: Tx, who: Actor) -> ActionResult:
    """Turn off the second factor of the actor."""
    delete(tx, str(who.scope.user))
    return ActionResult({}, subject=who.scope.user)


def reset(tx: Tx, who: Actor, email: str) -> SecondFactorUserBody:
    """Turn off the second factor of a user, by the operator. Raises ApiError `not_found`."""
    row = User.select(User.id, User.email).where(User.email == email.strip().lower()).tuples().first()
    if row is None:
        raise ApiError("not_found", "There is no user with this e-mail address.")
    delete(tx, row[0])
    return {"id": row[0], "email": row[1]}


def delete(tx: Tx, user: str) -> None:
    """Delete a user's TOTP secret and recovery codes."""
    User.update(totp=None, totp_step=0).where(User.id == user).execute()
    RecoveryCode.delete().where(RecoveryCode.user == user).execute()


def _replace_codes(tx: Tx, who: Actor) -> ActionResult:
    user = str(who.scope.user)
    codes = [_format_code(who.service.runtime.entropy(_CODE_BYTES)) for _ in range(RECOVERY_CODE_COUNT)]
    RecoveryCode.delete().where(RecoveryCode.user == user).execute()
    RecoveryCode.insert_many([{"id": _digest(user, code), "user": user} for code in codes]).execute()
    body: RecoveryCodesBody = {"codes": codes}
    return ActionResult(body, subject=user, secret=True)


# --- State -------------------------------------------------------------------------------------------------------


def is_enabled(scope: Scope) -> bool:
    """Return whether the user of this scope has a second factor."""
    return bool(User.select().where(scope.user_filter, User.totp.is_null(False)).exists())


def is_required(user: str) -> bool:
    """Return whether a user id has a second factor."""
    return bool(User.select().where(User.id == user, User.totp.is_null(False)).exists())


def count_codes(scope: Scope) -> int:
    """Count the unused recovery codes of the user."""
    return int(RecoveryCode.select().where(RecoveryCode.user == scope.user).count())


# --- Sign-in -----------------------------------------------------------------------------------------------------


def use_code(service: AppContext, tx: Tx, user: str, given: str) -> str | None:
    """Use up a code at sign-in; return CODE, RECOVERY_CODE, or None if wrong or already used."""
    code = "".join(given.split())
    row = User.select(User.totp, User.totp_step).where(User.id == user).tuples().first()
    if row is None or row[0] is None:
        return None
    secret = service.runtime.vault.open(row[0], _get_seal_place(user)).decode()
    step = _find_step(service, secret, code, row[1])
    if step is not None:
        User.update(totp_step=step).where(User.id == user).execute()
        return CODE
    used = RecoveryCode.delete().where(RecoveryCode.id == _digest(user, code), RecoveryCode.user == user).execute()
    return RECOVERY_CODE if used else None


def _find_step(service: AppContext, secret: str, given: str, after: int) -> int | None:
    """Find the time step of a code: near now, and later than `after`."""
    import pyotp

    code, now = "".join(given.split()).encode(), service.now_ms // STEP_MS
    app = pyotp.TOTP(secret)
    for step in range(max(after + 1, now - SKEW_STEPS), now + SKEW_STEPS + 1):
        if crypto.is_equal(app.generate_otp(step).encode(), code):
            return step
    return None


def _format_code(random: bytes) -> str:
    """Format a recovery code as four groups of four."""
    text = base64.b32encode(random).decode().lower()
    return "-".join(text[place : place + 4] for place in range(0, len(text), 4))


def _digest(user: str, code: str) -> str:
    return crypto.digest(f"{user} {code.lower().replace('-', '')}")


def _get_seal_place(user: str) -> tuple[str, str, str]:
    return ("user", "totp", user)
