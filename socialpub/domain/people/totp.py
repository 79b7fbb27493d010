"""The second factor of signing in: the codes that an app shows anew every half minute (TOTP, RFC 6238), and recovery
codes for whoever has lost it.

The secret of an app is sealed. Each code is taken once: the step of the last one is kept, and no earlier one counts
again. Of a recovery code the digest is here, until it was used.
"""

from __future__ import annotations

import base64

from typing_extensions import TypedDict

from socialpub.base import crypto
from socialpub.base.errors import ApiError
from socialpub.domain.core.service import Service
from socialpub.domain.people.actor import Actor, Done
from socialpub.domain.people.tenancy import Scope
from socialpub.store.db import Tx
from socialpub.store.models import RecoveryCode, User

ISSUER = "socialpub"
STEP_MS = 30_000
AROUND = 1  # steps that a clock may be off, either way
CODES = 10
CODE, RECOVERY_CODE = "code", "recovery code"
_CODE_BYTES = 10


class CodesBody(TypedDict):
    """Recovery codes, shown this once."""

    codes: list[str]


class PersonBody(TypedDict):
    """Whose second factor it was."""

    id: str
    email: str


# --- Setting it up -----------------------------------------------------------------------------------------------


def new_secret(service: Service) -> str:
    """160 random bits in base32, as apps take them."""
    return base64.b32encode(service.runtime.entropy(20)).decode()


def uri_of(secret: str, email: str) -> str:
    """What the picture for an app says."""
    import pyotp  # by whoever has a second factor

    return pyotp.TOTP(secret).provisioning_uri(name=email, issuer_name=ISSUER)


def turn_on(tx: Tx, who: Actor, secret: str, code: str) -> Done:
    """`{codes}`: signing in wants a code from now on. ApiError for a wrong code, 409 where it is on already."""
    if is_on(who.scope):
        raise ApiError("validation_failed", "The second factor is on already.", rule="code", status=409)
    step = _step(who.service, secret, code, 0)
    if step is None:
        raise ApiError("validation_failed", "This is not the code that the app shows now.", rule="code")
    user = str(who.scope.user)
    sealed = who.service.runtime.vault.seal(secret.encode(), _place(user))
    User.update(totp=sealed, totp_step=step).where(_me(who.scope)).execute()
    return _with_new_codes(tx, who)


def renew_codes(tx: Tx, who: Actor) -> Done:
    """`{codes}`: new recovery codes, in place of all those before."""
    if not is_on(who.scope):
        raise ApiError("not_found", "The second factor is off.")
    return _with_new_codes(tx, who)


def turn_off(tx: Tx, who: Actor) -> Done:
    """Signing in wants the password alone again."""
    forget(tx, str(who.scope.user))
    return Done({}, subject=who.scope.user)


def reset(tx: Tx, who: Actor, email: str) -> PersonBody:
    """`{id, email}`: the same for somebody who has lost app and codes, by the operator; ApiError `not_found`."""
    row = User.select(User.id, User.email).where(User.email == email.strip().lower()).tuples().first()
    if row is None:
        raise ApiError("not_found", "There is no user with this e-mail address.")
    forget(tx, row[0])
    body: PersonBody = {"id": row[0], "email": row[1]}
    return body


def forget(tx: Tx, user: str) -> None:
    """Nothing of somebody's second factor is left."""
    User.update(totp=None, totp_step=0).where(User.id == user).execute()
    RecoveryCode.delete().where(RecoveryCode.user == user).execute()


def _with_new_codes(tx: Tx, who: Actor) -> Done:
    user = str(who.scope.user)
    codes = [_written(who.service.runtime.entropy(_CODE_BYTES)) for _ in range(CODES)]
    RecoveryCode.delete().where(RecoveryCode.user == user).execute()
    RecoveryCode.insert_many([{"id": _digest(user, code), "user": user} for code in codes]).execute()
    body: CodesBody = {"codes": codes}
    return Done(body, subject=user, secret=True)


# --- What is so ----------------------------------------------------------------------------------------------------


def is_on(scope: Scope) -> bool:
    """Whether whoever asks signs in with a second factor."""
    return bool(User.select().where(_me(scope), User.totp.is_null(False)).exists())


def is_wanted(user: str) -> bool:
    """The same of somebody who signs in."""
    return bool(User.select().where(User.id == user, User.totp.is_null(False)).exists())


def codes_left(scope: Scope) -> int:
    """How many recovery codes of whoever asks were not used."""
    return int(RecoveryCode.select().where(RecoveryCode.user == scope.user).count())


# --- Signing in ----------------------------------------------------------------------------------------------------


def spend(service: Service, tx: Tx, user: str, given: str) -> str | None:
    """Take a code that somebody signs in with: CODE or RECOVERY_CODE, which it was; None: it is none of theirs,
    or was used before.
    """
    code = "".join(given.split())
    row = User.select(User.totp, User.totp_step).where(User.id == user).tuples().first()
    if row is None or row[0] is None:
        return None
    secret = service.runtime.vault.open(row[0], _place(user)).decode()
    step = _step(service, secret, code, row[1])
    if step is not None:
        User.update(totp_step=step).where(User.id == user).execute()
        return CODE
    used = RecoveryCode.delete().where(RecoveryCode.id == _digest(user, code), RecoveryCode.user == user).execute()
    return RECOVERY_CODE if used else None


def _step(service: Service, secret: str, given: str, after: int) -> int | None:
    """The step whose code this is: about now, and later than `after`."""
    import pyotp

    code, now = "".join(given.split()).encode(), service.now_ms // STEP_MS
    app = pyotp.TOTP(secret)
    for step in range(max(after + 1, now - AROUND), now + AROUND + 1):
        if crypto.same(app.generate_otp(step).encode(), code):
            return step
    return None


def _written(random: bytes) -> str:
    """A recovery code as it is copied: four groups of four."""
    text = base64.b32encode(random).decode().lower()
    return "-".join(text[place : place + 4] for place in range(0, len(text), 4))


def _digest(user: str, code: str) -> str:
    return crypto.digest(f"{user} {code.lower().replace('-', '')}")


def _me(scope: Scope) -> object:
    return (User.id == scope.user) & (User.organization == scope.organization)


def _place(user: str) -> tuple[str, str, str]:
    return ("user", "totp", user)
