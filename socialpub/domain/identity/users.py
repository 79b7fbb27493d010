"""Users of an organization, their passwords, and setup of the first owner."""

from __future__ import annotations

import asyncio
import re
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any

from socialpub.base.errors import ApiError
from socialpub.base.security import crypto
from socialpub.domain.access import audit_log
from socialpub.domain.access.actor import ActionResult, Actor
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.identity import sessions
from socialpub.domain.identity.sessions import BrowserState, NewSession
from socialpub.domain.organizations import profiles
from socialpub.domain.schemas.common import ORGANIZATION_MAX
from socialpub.domain.schemas.profiles import OrganizationRequest
from socialpub.domain.schemas.validation import parse_object
from socialpub.store.database import Tx
from socialpub.store.schema.models import User

if TYPE_CHECKING:
    from argon2 import PasswordHasher

ROLES = ("owner", "admin", "member", "author")
MEMBERS_MAX = 500  # of an organization
PASSWORD_MIN, PASSWORD_MAX = 10, 1024
_EMAIL = re.compile(r"[^@\s\x00-\x1f]{1,64}@[^@\s\x00-\x1f]{1,255}")

# Separate pool: each thread that has hashed keeps its 19 MiB.
HASHING_POOL = ThreadPoolExecutor(2, "hashing")


@cache
def _get_hasher() -> PasswordHasher:
    """Create the argon2id hasher with OWASP's first recommendation, on first use."""
    from argon2 import PasswordHasher

    return PasswordHasher(time_cost=2, memory_cost=19 * 1024, parallelism=1)


# --- Users -------------------------------------------------------------------------------------------------------


def hash_password(password: str) -> str:
    """Hash with argon2id; slow, not for the loop. Raises ApiError for a wrong length."""
    if not PASSWORD_MIN <= len(password) <= PASSWORD_MAX:
        raise build_field_error("password", f"A password has {PASSWORD_MIN} to {PASSWORD_MAX} characters.")
    return _get_hasher().hash(password)


async def hash_password_in_pool(password: str) -> str:
    """Hash a password in the hashing pool. Raises as `hash_password`."""
    return await asyncio.get_running_loop().run_in_executor(HASHING_POOL, hash_password, password)


def verify_password(stored: str | None, password: str) -> bool:
    """Verify a password. None as hash fails after the same time."""
    from argon2.exceptions import InvalidHashError, VerificationError

    try:
        return _get_hasher().verify(stored or _make_dummy_hash(), password[: PASSWORD_MAX + 1])
    except (VerificationError, InvalidHashError):
        return False


@cache
def _make_dummy_hash() -> str:
    return _get_hasher().hash("not the password of any user")


def create(tx: Tx, who: Actor, email: str, role: str, password_hash: str) -> dict[str, Any]:
    """Create a user; return `{id, email, role}`.

    Raises ApiError `not_found`; 409 if the address is taken, or the organization has MEMBERS_MAX members.
    """
    address = normalize_email(email)
    check_role(role)
    profiles.check_organization(who.scope.organization)
    check_new(address)
    check_room(who.scope.organization)
    row = {"id": who.service.runtime.ids.uuid(), "email": address, "role": role}
    columns = {"organization": who.scope.organization, "created_at": who.service.now_ms}
    User.insert(password=password_hash, **columns, **row).execute()
    return row


def normalize_email(email: str) -> str:
    """Normalize an e-mail address. Raises ApiError if invalid."""
    address = email.strip().lower()
    if not _EMAIL.fullmatch(address):
        raise build_field_error("email", "This is not an e-mail address.")
    return address


def check_new(address: str) -> None:
    """Raise ApiError, a 409, if there is a user with this address, in any organization."""
    if User.select().where(User.email == address).exists():
        message = "There is already a user with this e-mail address, and a user belongs to one organization."
        raise build_field_error("email", message, status=409)


def check_room(organization: str) -> None:
    """Raise ApiError, a 409, if the organization has MEMBERS_MAX members."""
    if User.select().where(User.organization == organization).count() >= MEMBERS_MAX:
        message = f"The organization has {MEMBERS_MAX} members, the maximum. One has to be removed first."
        raise build_field_error("email", message, status=409)


def check_role(role: str) -> None:
    """Raise ApiError for an unknown role."""
    if role not in ROLES:
        raise build_field_error("role", f"A role is one of {', '.join(ROLES)}.")


def list_users(organization: str | None) -> list[dict[str, Any]]:
    """List `{id, email, role}` of an organization's users, or of all if None; oldest first."""
    query = User.select(User.id, User.email, User.role)
    if organization is not None:
        query = query.where(User.organization == organization)
    return list(query.order_by(User.created_at, User.id).dicts())


def set_password(tx: Tx, who: Actor, email: str, password_hash: str) -> dict[str, Any]:
    """Set a user's password, end all sessions, forget devices. Raises ApiError `not_found`."""
    row = User.select(User.id, User.email, User.role).where(User.email == email.strip().lower()).dicts().first()
    if row is None:
        raise ApiError("not_found", "There is no user with this e-mail address.")
    User.update(password=password_hash).where(User.id == row["id"]).execute()
    sessions.end_all(tx, row["id"])
    return dict(row)


def change_password(tx: Tx, who: Actor, password_hash: str) -> ActionResult:
    """Set the actor's password, end their other sessions and forget their devices."""
    User.update(password=password_hash).where(who.scope.user_filter).execute()
    sessions.end_others(tx, who)
    return ActionResult({}, subject=who.scope.user)


def build_field_error(field: str, message: str, status: int = 400) -> ApiError:
    """Build the ApiError for an invalid field of a user."""
    return ApiError("validation_failed", message, rule=field, status=status)


# --- First start -------------------------------------------------------------------------------------------------


def create_setup_token(service: AppContext) -> str | None:
    """Create a one-time setup token for the first owner; None if there are users."""
    if service.read(lambda: User.select().exists()).result():
        return None
    token = generate_link_token(service)
    service.process.setup_digest = crypto.digest(token)
    return token


def generate_link_token(service: AppContext) -> str:
    """Generate a link token of 256 random bits."""
    return crypto.encode_base62(int.from_bytes(service.runtime.entropy(32), "big"), 43)


def is_setup_token(service: AppContext, token: str) -> bool:
    """Return whether this is the unused setup token."""
    offered = service.process.setup_digest
    return offered is not None and crypto.is_equal(offered.encode(), crypto.digest(token).encode())


def build_setup_error() -> ApiError:
    """Return the error for a setup link that does not work."""
    message = "This setup link was used already, or is from an earlier start of the server."
    return ApiError("not_found", message, remediation="Sign in, or open the link that the server printed last.")


async def set_up_owner(
    who: Actor, token: str, organization: str, email: str, password: str, browser: BrowserState | None = None
) -> NewSession:
    """Create the first owner, once, and sign them in.

    If exactly one organization exists (made by a command), it is renamed and theirs; else a new one is created.
    """
    service = who.service
    if not is_setup_token(service, token):
        raise build_setup_error()
    if not organization.strip():
        raise build_field_error("organization", "The organization needs a name.")
    request = parse_object(OrganizationRequest, {"name": organization.strip()[:ORGANIZATION_MAX]})
    hash_ = await hash_password_in_pool(password)

    def make(tx: Tx) -> NewSession:
        if User.select().exists():
            raise build_setup_error()
        made = profiles.create_first_organization(tx, who, request)
        user = create(tx, who.within(made["id"]), email, "owner", hash_)
        audit_log.record(service, tx, who.audit._replace(organization=made["id"], user=user["id"]), user["id"])
        return sessions.start(service, tx, user["id"], browser=browser)

    signed_in = await service.write(make)
    service.process.setup_digest = None
    return signed_in
