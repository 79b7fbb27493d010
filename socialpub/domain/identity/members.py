"""Members of an organization: list, invite, change roles, remove.

An invitation is a single-use link; only the digest of its token is stored.
"""

from __future__ import annotations

from dataclasses import dataclass

from typing_extensions import TypedDict

from socialpub.base.errors import ApiError
from socialpub.base.runtime import DAY_MS, format_iso
from socialpub.base.security import crypto
from socialpub.domain.access import audit_log
from socialpub.domain.access.actor import ActionResult, Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.identity import sessions, users
from socialpub.domain.identity.sessions import BrowserState, NewSession
from socialpub.store.database import Tx
from socialpub.store.rows import UserRow
from socialpub.store.schema.models import (
    AuditEntry,
    Invitation,
    Organization,
    RecoveryCode,
    RemovedUser,
    User,
    find_row_where,
    find_rows,
)

INVITATION_MS = 7 * DAY_MS
OPEN_INVITATIONS_MAX = 20
INVITATIONS_PER_DAY_MAX = 100  # each may send mail to a stranger


class MemberBody(TypedDict):
    """Member, as the pages show it."""

    id: str
    email: str
    role: str
    createdAt: str


class InvitationBody(TypedDict):
    """Open invitation, as the pages show it."""

    id: str
    email: str
    role: str
    invitedBy: str
    endsAt: str


class NewInvitationBody(TypedDict):
    """New invitation with its token, shown once."""

    id: str
    email: str
    role: str
    token: str


class ChangedMemberBody(TypedDict):
    """Member that an action changed."""

    id: str
    email: str
    role: str


@dataclass(frozen=True)
class InvitationView:
    """Invitation as its recipient sees it."""

    organization: str
    email: str
    role: str


# --- Members -----------------------------------------------------------------------------------------------------


def list_members(scope: Scope) -> list[MemberBody]:
    """List the members of the organization, oldest first."""
    query = User.select(User.id, User.email, User.role, User.created_at).where(User.organization == scope.organization)
    rows = query.order_by(User.created_at, User.id).tuples()
    return [{"id": id, "email": email, "role": role, "createdAt": format_iso(at)} for id, email, role, at in rows]


def get_member(scope: Scope, member: str) -> MemberBody:
    """Load a member of the organization. Raises ApiError `not_found`."""
    row = _find_row(scope, member)
    return {"id": row["id"], "email": row["email"], "role": row["role"], "createdAt": format_iso(row["created_at"])}


def is_last_owner(scope: Scope, member: str) -> bool:
    """Return whether this member is the organization's only owner."""
    query = User.select(User.id).where(User.organization == scope.organization, User.role == "owner").limit(2)
    return [row[0] for row in query.tuples()] == [member]


def _find_row(scope: Scope, member: str) -> UserRow:
    row: UserRow | None = find_row_where(User, User.id == member, User.organization == scope.organization)
    if row is None:
        raise ApiError("not_found", "There is no member with this id.")
    return row


# --- Invitations -------------------------------------------------------------------------------------------------


def invite(tx: Tx, who: Actor, email: str, role: str) -> ActionResult:
    """Create an invitation, replacing one to the same address; return it with its token.

    Raises ApiError `validation_failed` for a bad address or role; 409 for a member or too many members or invitations.
    """
    service, organization, now = who.service, who.scope.organization, who.service.now_ms
    address = users.normalize_email(email)
    users.check_role(role)
    if User.select().where(User.email == address, User.organization == organization).exists():
        raise users.build_field_error("email", "This person is already a member.", status=409)
    users.check_room(organization)
    Invitation.delete().where(Invitation.ends_at <= now).execute()
    Invitation.delete().where(Invitation.organization == organization, Invitation.email == address).execute()
    if _count_recent(who) >= INVITATIONS_PER_DAY_MAX:
        raise users.build_field_error(
            "email", f"{INVITATIONS_PER_DAY_MAX} invitations were made within a day. Wait until tomorrow.", status=409
        )
    if Invitation.select().where(Invitation.organization == organization).count() >= OPEN_INVITATIONS_MAX:
        raise users.build_field_error(
            "email", f"{OPEN_INVITATIONS_MAX} invitations are open. Withdraw one first.", status=409
        )
    token = users.generate_link_token(service)
    made: NewInvitationBody = {"id": service.runtime.ids.uuid(), "email": address, "role": role, "token": token}
    Invitation.insert(
        id=made["id"],
        organization=organization,
        email=address,
        role=role,
        digest=crypto.digest(token),
        invited_by=who.scope.user,
        created_at=now,
        ends_at=now + INVITATION_MS,
    ).execute()
    return ActionResult(made, 201, secret=True)


def _count_recent(who: Actor) -> int:
    """Count the invitations of the last day, including used and withdrawn ones."""
    mine = (AuditEntry.organization == who.scope.organization) & (AuditEntry.verb == who.audit.verb)
    return int(AuditEntry.select().where(mine, AuditEntry.at > who.service.now_ms - DAY_MS).count())


def list_invitations(scope: Scope, now: int) -> list[InvitationBody]:
    """List the open invitations of the organization, newest first."""
    query = (
        Invitation.select(Invitation.id, Invitation.email, Invitation.role, User.email, Invitation.ends_at)
        .join(User, on=(Invitation.invited_by == User.id))
        .where(Invitation.organization == scope.organization, Invitation.ends_at > now)
        .order_by(Invitation.created_at.desc(), Invitation.id.desc())
        .limit(OPEN_INVITATIONS_MAX)
    )
    return [
        {"id": id, "email": email, "role": role, "invitedBy": by, "endsAt": format_iso(at)}
        for id, email, role, by, at in query.tuples()
    ]


def withdraw_invitation(tx: Tx, who: Actor, invitation: str) -> ActionResult:
    """Delete an open invitation. Raises ApiError `not_found`."""
    mine = (Invitation.id == invitation) & (Invitation.organization == who.scope.organization)
    if not Invitation.delete().where(mine).execute():
        raise ApiError("not_found", "There is no open invitation with this id.")
    return ActionResult({}, subject=invitation)


# --- Joining -----------------------------------------------------------------------------------------------------


def load_invitation(service: AppContext, token: str) -> InvitationView:
    """Load an invitation by token.

    Raises ApiError `not_found` if used or expired, and 409 if the address has a user. The inviting organization is not
    told, since the user may be another organization's.
    """
    query = (
        Invitation.select(Organization.name, Invitation.email, Invitation.role)
        .join(Organization, on=(Invitation.organization == Organization.id))
        .where(Invitation.digest == crypto.digest(token), Invitation.ends_at > service.now_ms)
    )
    row = query.tuples().first()
    if row is None:
        raise _build_gone_error()
    invited = InvitationView(*row)
    users.check_new(invited.email)
    return invited


async def accept_invitation(who: Actor, token: str, password: str, browser: BrowserState | None = None) -> NewSession:
    """Join by invitation and sign in. Raises ApiError `not_found`, `validation_failed`."""
    service = who.service
    await service.read(lambda: load_invitation(service, token))
    hash_ = await users.hash_password_in_pool(password)

    def join(tx: Tx) -> NewSession:
        organization, email, role = _use_invitation(tx, service, token)
        user = users.create(tx, who.within(organization), email, role, hash_)["id"]
        audit_log.record(service, tx, who.audit._replace(organization=organization, user=user), user)
        return sessions.start(service, tx, user, browser=browser)

    return await service.write(join)


def _use_invitation(tx: Tx, service: AppContext, token: str) -> tuple[str, str, str]:
    """Delete an invitation; return its organization, address and role."""
    mine = (Invitation.digest == crypto.digest(token)) & (Invitation.ends_at > service.now_ms)
    row = Invitation.select(Invitation.organization, Invitation.email, Invitation.role).where(mine).tuples().first()
    if row is None:
        raise _build_gone_error()
    Invitation.delete().where(mine).execute()
    return row[0], row[1], row[2]


def _build_gone_error() -> ApiError:
    return ApiError(
        "not_found",
        "This invitation was used or withdrawn, or has expired.",
        remediation="Ask an owner of the organization for a new one.",
    )


# --- Roles and removal -------------------------------------------------------------------------------------------


def change_role(tx: Tx, who: Actor, member: str, role: str) -> ChangedMemberBody:
    """Change a role. Raises ApiError `not_found`, 409 for the last owner."""
    row = _find_row(who.scope, member)
    users.check_role(role)
    if role != "owner":
        _check_owner_stays(who.scope, member)
        _withdraw_invitations(tx, member)
    User.update(role=role).where(User.id == member, User.organization == who.scope.organization).execute()
    return {"id": member, "email": row["email"], "role": role}


def remove(tx: Tx, who: Actor, member: str) -> ChangedMemberBody:
    """Remove a member and end their sessions. Raises `not_found`, 409 for the last owner."""
    row = _find_row(who.scope, member)
    _check_owner_stays(who.scope, member)
    return _remove_user(tx, who, row)


def remove_all(tx: Tx, who: Actor) -> None:
    """Remove all members and invitations of an organization that is being deleted."""
    for row in find_rows(User, User.organization == who.scope.organization):
        _remove_user(tx, who, row)


def _remove_user(tx: Tx, who: Actor, row: UserRow) -> ChangedMemberBody:
    member = row["id"]
    _withdraw_invitations(tx, member)
    sessions.end_all(tx, member)
    RecoveryCode.delete().where(RecoveryCode.user == member).execute()
    organization, now = who.scope.organization, who.service.now_ms
    RemovedUser.insert(id=member, organization=organization, email=row["email"], removed_at=now).execute()
    User.delete().where(User.id == member, User.organization == organization).execute()
    return {"id": member, "email": row["email"], "role": row["role"]}


def _check_owner_stays(scope: Scope, member: str) -> None:
    if is_last_owner(scope, member):
        raise users.build_field_error(
            "role", "This is the last owner. Give another member the role Owner first.", status=409
        )


def _withdraw_invitations(tx: Tx, member: str) -> None:
    """Withdraw the invitations of a member who may no longer invite."""
    Invitation.delete().where(Invitation.invited_by == member).execute()
