"""Who did what, on what, when and from where: a row for each act, written in the act's own transaction.

Ids and addresses only: never what was sent, never a secret.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from socialpub.domain.core.service import Service
from socialpub.store import sql
from socialpub.store.db import Tx
from socialpub.store.models import FormerUser
from socialpub.store.statements import accepting, sweeps

PURGED_AT_ONCE = 500


class Act(NamedTuple):
    """What somebody is about to do. Neither `key` nor `user`: the operator, at the command line, or nobody known."""

    verb: str
    organization: str | None = None
    key: str | None = None
    user: str | None = None
    address: str = ""
    request_id: str = ""


def record(service: Service, tx: Tx, act: Act, subject: str | None) -> None:
    """Write the row of an act; `subject`: the id of what it was done to, or what it made."""
    record_all(service, tx, ((act, subject),))


def record_all(service: Service, tx: Tx, acts: Sequence[tuple[Act, str | None]]) -> None:
    """The same for some at once, each with its subject."""
    rows = [
        (act.verb, act.organization, act.key, act.user, subject, act.address, act.request_id) for act, subject in acts
    ]
    sql.insert(accepting.AUDIT, rows, (service.now_ms,))


def purge(service: Service, tx: Tx) -> int:
    """Forget rows that are past their time, some hundred at once, and the names of who was removed before; how many."""
    before = service.now_ms - int(service.runtime.settings.retention.audit * 1000)
    FormerUser.delete().where(FormerUser.removed_at < before).execute()
    return sql.change(sweeps.FORGET_AUDIT, (before, PURGED_AT_ONCE))
