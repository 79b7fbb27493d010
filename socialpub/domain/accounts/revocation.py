"""Revocation of unused authorizations upstream, where the platform supports it.

Best effort: the account or its old tokens are already gone here, so a failure is only logged.
"""

from __future__ import annotations

import logging
from typing import cast

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.domain.accounts import tokens
from socialpub.domain.context import upstreams
from socialpub.domain.context.app_context import AppContext
from socialpub.domain.server import instance
from socialpub.platforms.contract import SupportsRevocation, Tokens
from socialpub.store.database import Tx
from socialpub.store.rows import AccountRow
from socialpub.store.schema.models import Account, find_rows

log = logging.getLogger("socialpub.grants")


def can_revoke(platform: str) -> bool:
    return hasattr(platforms.CONNECTORS.get(platform), "revoke")


def revoke(service: AppContext, row: AccountRow, held: Tokens) -> bool:
    """Revoke the tokens of a replaced row at the platform; return whether that succeeded.

    Blocks. If a refresh has renewed the tokens `held` meanwhile, the new ones are revoked.
    """
    connector = cast(SupportsRevocation, platforms.CONNECTORS[row["platform"]])
    held = tokens.take_newest(service, row, held)
    try:
        with tokens.open_upstream(service, row["platform"], row, held) as up:
            connector.revoke(up)
    except ApiError as error:
        log.warning("account %s: its authorization could not be revoked at the platform: %s", row["id"], error.code)
        return False
    return True


def revoke_replaced(service: AppContext, tx: Tx, row: AccountRow, fresh: Tokens) -> None:
    """Revoke the row's old session upstream once its new tokens are committed.

    Only where each login is a session, no other account here uses it, and this is no restored copy.
    """
    own = platforms.platform(row["platform"]).has_separate_sessions and can_revoke(row["platform"])
    if row["secret"] is None or not own or instance.get_pause_reason() == instance.RESTORED:
        return
    try:
        held = tokens.decrypt(service, row["id"], row["secret"])
        used = _is_in_use(service, row, held, fresh)
    except ApiError as error:
        log.warning("account %s: its replaced session could not be revoked at the platform: %s", row["id"], error.code)
        return

    share = upstreams.get_share_key(service, row)

    def later() -> None:
        upstreams.choose_executor(service, share).submit_for(share, revoke, service, row, held)

    if not used:
        tx.after_commit(later)


def _is_in_use(service: AppContext, row: AccountRow, held: Tokens, fresh: Tokens) -> bool:
    """Return whether the new tokens or another row of the account share the old session."""
    others = find_rows(
        Account,
        Account.platform == row["platform"],
        Account.platform_account_id == row["platform_account_id"],
        Account.id != row["id"],
        Account.secret.is_null(False),
    )
    sealed = [(other["id"], other["secret"]) for other in others]
    alive = [fresh, *(tokens.decrypt(service, id, secret) for id, secret in sealed if secret is not None)]
    return any(_get_session_id(held) == _get_session_id(each) for each in alive)


def _get_session_id(held: Tokens) -> str:
    """Identify a session; two of the same second may share an access token (PDS 0.5.35)."""
    return held.refresh or held.access
