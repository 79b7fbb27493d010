"""Write the audit log: one row per action, in the action's own transaction.

Rows hold ids and addresses only, never request content or secrets.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from socialpub.domain.context.app_context import AppContext
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import acceptance, maintenance
from socialpub.store.schema.models import RemovedUser

PURGE_BATCH = 500


class AuditContext(NamedTuple):
    """Audit context of an action. Without `key` and `user`: the operator, or unauthenticated."""

    verb: str
    organization: str | None = None
    key: str | None = None
    user: str | None = None
    address: str = ""
    request_id: str = ""


def record(service: AppContext, tx: Tx, context: AuditContext, subject: str | None) -> None:
    """Insert the audit row; `subject` is the id of the row created or changed."""
    record_all(service, tx, ((context, subject),))


def record_all(service: AppContext, tx: Tx, entries: Sequence[tuple[AuditContext, str | None]]) -> None:
    """Insert the audit rows of several actions, each with its subject."""
    rows = [
        (context.verb, context.organization, context.key, context.user, subject, context.address, context.request_id)
        for context, subject in entries
    ]
    sql.insert(acceptance.INSERT_AUDIT, rows, (service.now_ms,))


def purge(service: AppContext, tx: Tx) -> int:
    """Delete a batch of expired rows, and expired removed users; return the number of rows."""
    before = service.now_ms - int(service.runtime.settings.retention.audit * 1000)
    RemovedUser.delete().where(RemovedUser.removed_at < before).execute()
    return sql.update(maintenance.DELETE_AUDIT, (before, PURGE_BATCH))
