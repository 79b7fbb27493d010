"""People: users of an organization, their passwords, and who is the first."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any

from socialpub.base import crypto
from socialpub.base.errors import ApiError
from socialpub.domain.core.service import Service
from socialpub.domain.people import audit, profiles, sessions
from socialpub.domain.people.actor import Actor, Done
from socialpub.domain.people.sessions import Browser, SignedIn
from socialpub.domain.shapes.common import ORGANIZATION_MAX
from socialpub.domain.shapes.issues import parse_object
from socialpub.domain.shapes.profiles import OrganizationRequest
from socialpub.store.db import Tx
from socialpub.store.models import User

if TYPE_CHECKING:
    from argon2 import PasswordHasher

ROLES = ("owner", "admin", "member")
PASSWORD_MIN, PASSWORD_MAX = 10, 1024
_EMAIL = re.compile(r"[^@\s\x00-\x1f]{1,64}@[^@\s\x00-\x1f]{1,255}")

# Of their own: each thread that ever hashed keeps its 19 MiB.
hashing = ThreadPoolExecutor(2, "hashing")


@cache
def _hasher() -> PasswordHasher:
    """By OWASP's first recommendation for argon2id; a start does without."""
    from argon2 import PasswordHasher

    return PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


# --- Users -------------------------------------------------------------------------------------------------------


def hashed(password: str) -> str:
    """The password's argon2id hash; ApiError for one that is too short or too long. Takes a while: not on the loop."""
    if not PASSWORD_MIN <= len(password) <= PASSWORD_MAX:
        raise wrong("password", f"A password has {PASSWORD_MIN} to {PASSWORD_MAX} characters.")
    return _hasher().hash(password)


async def hashed_aside(password: str) -> str:
    """The same, in a thread that is there for it."""
    return await asyncio.get_running_loop().run_in_executor(hashing, hashed, password)


def verify(stored: str | None, password: str) -> bool:
    """Whether it is the password of this hash. Without one it is not, which takes as long to find out."""
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        return _hasher().verify(stored or _nobody(), password[: PASSWORD_MAX + 1])
    except (VerificationError, InvalidHashError):
        return False


@cache
def _nobody() -> str:
    return _hasher().hash("nobody has this password")


def create(tx: Tx, who: Actor, email: str, role: str, password_hash: str) -> dict[str, Any]:
    """`{id, email, role}` of a new user; ApiError `not_found` for the organization, 409 for a taken e-mail address."""
    address = address_of(email)
    check_role(role)
    profiles.check_organization(who.scope.organization)
    if User.select().where(User.email == address).exists():
        raise wrong("email", "A user with this e-mail address exists.", status=409)
    row = {"id": who.service.runtime.ids.uuid(), "email": address, "role": role}
    here = {"organization": who.scope.organization, "created_at": who.service.now_ms}
    User.insert(password=password_hash, **here, **row).execute()
    return row


def address_of(email: str) -> str:
    """The e-mail address as it is stored; ApiError for what is none."""
    address = email.strip().lower()
    if not _EMAIL.fullmatch(address):
        raise wrong("email", "This is not an e-mail address.")
    return address


def check_role(role: str) -> None:
    """ApiError for a role that there is not."""
    if role not in ROLES:
        raise wrong("role", f"A role is one of {', '.join(ROLES)}.")


def list_users(organization: str | None) -> list[dict[str, Any]]:
    """`{id, email, role}` of the users of an organization, or of all, oldest first."""
    query = User.select(User.id, User.email, User.role)
    if organization is not None:
        query = query.where(User.organization == organization)
    return list(query.order_by(User.created_at, User.id).dicts())


def set_password(tx: Tx, who: Actor, email: str, password_hash: str) -> dict[str, Any]:
    """`{id, email, role}`; every session of the user ends, and no device of theirs is known any more."""
    row = User.select(User.id, User.email, User.role).where(User.email == email.strip().lower()).dicts().first()
    if row is None:
        raise ApiError("not_found", "There is no user with this e-mail address.")
    User.update(password=password_hash).where(User.id == row["id"]).execute()
    sessions.end_all(tx, row["id"])
    return dict(row)


def change_password(tx: Tx, who: Actor, password_hash: str) -> Done:
    """Whoever acts has a new password; their other sessions end, and no device of theirs is known any more."""
    scope = who.scope
    mine = (User.id == scope.user) & (User.organization == scope.organization)
    User.update(password=password_hash).where(mine).execute()
    sessions.end_others(tx, who)
    return Done({}, subject=scope.user)


def wrong(field: str, message: str, status: int = 400) -> ApiError:
    """What was given for a field of a person cannot be."""
    return ApiError("validation_failed", message, rule=field, status=status)


# --- First start -------------------------------------------------------------------------------------------------


def offer_setup(service: Service) -> str | None:
    """A one-time token for the first owner; None when there are users already."""
    if service.read(lambda: User.select().exists()).result():
        return None
    token = link_token(service)
    service.setup_digest = crypto.digest(token)
    return token


def link_token(service: Service) -> str:
    """What makes a link that works once: 256 random bits."""
    return crypto.base62(int.from_bytes(service.runtime.entropy(32), "big"), 43)


def setup_is_open(service: Service, token: str) -> bool:
    """Whether this is the token that was offered and not used."""
    offered = service.setup_digest
    return offered is not None and crypto.same(offered.encode(), crypto.digest(token).encode())


async def set_up(
    who: Actor, token: str, organization: str, email: str, password: str, here: Browser | None = None
) -> SignedIn:
    """Make the first owner, once, and sign them in; `here`: what their browser says.

    Where a command has made an organization, and only one, it is theirs, under the name that they give; else a new one.
    """
    service = who.service
    if not setup_is_open(service, token):
        raise ApiError("not_found", "This set-up link has been used, or belongs to an earlier start of the server.")
    if not organization.strip():
        raise wrong("organization", "The organization needs a name.")
    request = parse_object(OrganizationRequest, {"name": organization.strip()[:ORGANIZATION_MAX]})
    hash_ = await hashed_aside(password)

    def make(tx: Tx) -> SignedIn:
        if User.select().exists():
            raise ApiError("not_found", "This server is already set up.")
        made = profiles.first_organization(tx, who, request)
        user = create(tx, who.within(made["id"]), email, "owner", hash_)
        audit.record(service, tx, who.act._replace(organization=made["id"], user=user["id"]), user["id"])
        return sessions.begin(service, tx, user["id"], here=here)

    signed_in = await service.write(make)
    service.setup_digest = None
    return signed_in
