"""Actions of people on a pause of publishing, and on a move of the server to another place."""

from __future__ import annotations

from typing import Any

from socialpub.base.errors import ApiError
from socialpub.base.runtime import format_iso
from socialpub.domain.access.actor import Actor
from socialpub.domain.access.authentication import Scope
from socialpub.domain.organizations import profiles
from socialpub.domain.publishing import overdue_rule, transactions
from socialpub.domain.server import instance
from socialpub.store.database import Tx

SKIPPED_MAX = 200  # overdue posts failed per transaction: other writers wait for it


def end_pause(tx: Tx, who: Actor, reason: str) -> dict[str, Any]:
    """End the pause with this reason; return `{was}`."""
    instance.resume(tx, reason)
    return {"was": reason}


def hand_over(tx: Tx, who: Actor) -> dict[str, Any]:
    """Hand the database over to another place (`instance.hand_over`); return `{handedOverAt}`."""
    return {"handedOverAt": format_iso(instance.hand_over(who.service, tx).at)}


def cancel_handover(tx: Tx, who: Actor) -> dict[str, Any]:
    """Cancel a handover; return `{was}`: whether there was one."""
    return {"was": instance.cancel_handover(tx)}


def trust_clock(tx: Tx, who: Actor) -> dict[str, Any]:
    """Confirm the clock and end its pause; return `{was}`. Raises ApiError `unauthorized`."""
    _check_may_resume(who.scope)
    return end_pause(tx, who, instance.CLOCK)


def resume_after_restore(tx: Tx, who: Actor, *, skip: bool) -> dict[str, Any]:
    """End the pause after a restore; return `{was, skipped}`.

    `skip`: overdue posts fail instead of being published late. Raises ApiError for another pause, more than SKIPPED_MAX
    overdue posts (use the command), or an actor who may not resume.
    """
    _check_may_resume(who.scope)
    if instance.get_pause_reason() != instance.RESTORED:
        raise ApiError("validation_failed", "Publishing is not paused for a restore.", rule="state", status=409)
    rows = overdue_rule.list_overdue(who.service.now_ms, SKIPPED_MAX + 1) if skip else []
    if len(rows) > SKIPPED_MAX:
        command = f"{instance.get_resume_command(instance.RESTORED)} --skip-overdue"
        words = f"More than {SKIPPED_MAX} posts are overdue. Run: {command}"
        raise ApiError("validation_failed", words)
    for row in rows:
        transactions.fail_overdue(who.service, tx, row)
    return end_pause(tx, who, instance.RESTORED) | {"skipped": len(rows)}


def _check_may_resume(scope: Scope) -> None:
    if not may_resume(scope):
        command = instance.get_resume_command(instance.get_pause_reason())
        raise ApiError("unauthorized", f"Only the operator of this server can end its pause: {command}")


def may_resume(scope: Scope) -> bool:
    """Return whether the organization is the only one; then its members may end a pause."""
    return profiles.is_only_organization(scope.organization)
