"""Approval links: a person without a login sees one draft, and approves or returns it.

Only the digest of a link's token is stored. A draft has at most one link.
"""

from __future__ import annotations

from socialpub.base.errors import ApiError
from socialpub.base.runtime import DAY_MS, format_iso
from socialpub.base.security import crypto
from socialpub.domain.access.actor import ActionResult, Actor
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.identity import users
from socialpub.domain.posts import drafts
from socialpub.domain.schemas.common import DeletedBody
from socialpub.domain.schemas.drafts import ApprovalLink, DraftBody
from socialpub.store.database import Tx
from socialpub.store.rows import PostDraftRow
from socialpub.store.schema.models import PostDraft, find_row_where

LINK_MS = 7 * DAY_MS


def create(tx: Tx, who: Actor, draft: str) -> ActionResult:
    """Create the link of a draft, in the place of an earlier one; return it with its token.

    Its holder can approve, so the actor must be allowed to. Raises ApiError `unauthorized`, `draft.status`.
    """
    drafts.check_can_approve(who.service, who.scope)
    row = drafts.find_open(who.scope, draft)
    drafts.check_reach(who, row)
    token, ends = users.generate_link_token(who.service), who.service.now_ms + LINK_MS
    _set(tx, row["id"], crypto.digest(token), ends)
    link: ApprovalLink = {"url": f"{who.service.base_url}/approve/{token}", "expiresAt": format_iso(ends)}
    return ActionResult(link, subject=draft, secret=True)


def revoke(tx: Tx, who: Actor, draft: str) -> DeletedBody:
    """Revoke the link of a draft. Raises ApiError `not_found` if there is none."""
    drafts.check_can_approve(who.service, who.scope)
    row = drafts.find(who.scope, draft)
    if row["link_digest"] is None:
        raise ApiError("not_found", "This draft has no approval link.")
    _set(tx, row["id"], None, None)
    return {"id": row["id"], "deleted": True}


def _set(tx: Tx, draft: str, digest: str | None, ends_at: int | None) -> None:
    PostDraft.update(link_digest=digest, link_ends_at=ends_at).where(PostDraft.id == draft).execute()


def find_end(row: PostDraftRow, now: int) -> str | None:
    """Return when the link of a draft ends, or None without a valid one."""
    ends = row["link_ends_at"]
    return format_iso(ends) if ends is not None and ends > now else None


def find_draft(service: AppContext, token: str) -> PostDraftRow:
    """Load the draft of a link. Raises ApiError `not_found` if wrong, expired or revoked."""
    row = find_row_where(PostDraft, PostDraft.link_digest == crypto.digest(token))
    if row is None or find_end(row, service.now_ms) is None:
        message = "This link does not work: it has expired, or was withdrawn."
        raise ApiError("not_found", message, remediation="Ask the person who sent it for another.")
    return row


def approve(tx: Tx, who: Actor, token: str, seen: str) -> DraftBody:
    """Approve the draft of a link. `seen`: the digest of what was shown."""
    return drafts.approve(tx, who, find_draft(who.service, token)["id"], seen)


def send_back(tx: Tx, who: Actor, token: str, note: str | None) -> DraftBody:
    """Return the draft of a link with a note."""
    return drafts.send_back(tx, who, find_draft(who.service, token)["id"], note)
