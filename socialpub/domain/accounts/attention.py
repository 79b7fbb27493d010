"""Refusals despite a valid token, shown on the account until a post succeeds."""

from __future__ import annotations

import json
from collections.abc import Sequence

from socialpub.base.errors import ApiError
from socialpub.base.runtime import format_iso
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.schemas.accounts import Attention
from socialpub.store.database import Tx
from socialpub.store.engine import sql
from socialpub.store.queries import publish_runs
from socialpub.store.rows import AccountRow
from socialpub.store.schema.models import Account


def is_fixable_by_owner(error: ApiError) -> bool:
    """Return whether the owner can fix this refusal without a new token."""
    return error.code == "platform_auth_failed" and not (error.rule or "").startswith("account.")


def save(service: AppContext, tx: Tx, account: str, error: ApiError) -> None:
    """Store a refusal on the account, replacing an earlier one."""
    now = service.now_ms
    refusal = json.dumps({"code": error.code, "message": error.message, "at": now}, ensure_ascii=False)
    Account.update(attention=refusal, updated_at=now).where(Account.id == account).execute()


def clear(service: AppContext, tx: Tx, accounts: Sequence[str]) -> None:
    """Clear the refusals of accounts that have just published."""
    sql.execute(publish_runs.CLEAR_ATTENTION, (service.now_ms, sql.dump_json(list(accounts))))


def to_body(row: AccountRow) -> Attention | None:
    """Build the `attention` of an account; None if there is none."""
    if row["attention"] is None:
        return None
    refusal = json.loads(row["attention"])
    return {"code": refusal["code"], "message": refusal["message"], "at": format_iso(refusal["at"])}
