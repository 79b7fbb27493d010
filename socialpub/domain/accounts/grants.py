"""What accounts were allowed upstream, once nobody needs it: ended there, where the platform can.

Best effort: here the account or its old tokens are gone already, so a failure is only logged.
"""

from __future__ import annotations

import json
import logging
from typing import cast

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.domain.accounts import tokens
from socialpub.domain.core import instance, upstreams
from socialpub.domain.core.service import Service
from socialpub.platforms.contract import Account as Who
from socialpub.platforms.contract import Revokes, Tokens
from socialpub.store.db import Tx
from socialpub.store.models import Account, rows_where
from socialpub.store.rows import AccountRow

log = logging.getLogger("socialpub.grants")


def can_end(platform: str) -> bool:
    return hasattr(platforms.CONNECTORS.get(platform), "revoke")


def end(service: Service, row: AccountRow, held: Tokens) -> bool:
    """End at the platform what these tokens of an account may do; whether that was possible. Blocks."""
    connector = cast(Revokes, platforms.CONNECTORS[row["platform"]])
    who = Who(row["platform_account_id"], row["display_name"], json.loads(row["extra"]))
    try:
        with tokens.open_upstream(service, row["platform"], who, held) as up:
            connector.revoke(up)
    except ApiError as error:
        log.warning("account %s: its authorization was not ended upstream: %s", row["id"], error.code)
        return False
    return True


def replaced(service: Service, tx: Tx, row: AccountRow, fresh: Tokens) -> None:
    """New tokens are about to take the place of the row's: the session of the old ones is ended, once that is stored.

    Only where each login is a session of its own, nobody else here acts by it, and no restored copy asks.
    """
    own = platforms.platform(row["platform"]).own_sessions and can_end(row["platform"])
    if row["secret"] is None or not own or instance.paused() == instance.RESTORED:
        return
    try:
        held = tokens.open_tokens(service, row["id"], row["secret"])
        used = _is_used(service, row, held, fresh)
    except ApiError as error:
        log.warning("account %s: the session that was replaced was not ended: %s", row["id"], error.code)
        return

    share = upstreams.share_of(service, row)

    def later() -> None:
        upstreams.threads(service, share).submit_for(share, end, service, row, held)

    if not used:
        tx.after_commit(later)


def _is_used(service: Service, row: AccountRow, held: Tokens, fresh: Tokens) -> bool:
    """Whether the new tokens, or another row of the same account, are of the same session."""
    others = rows_where(
        Account,
        Account.platform == row["platform"],
        Account.platform_account_id == row["platform_account_id"],
        Account.id != row["id"],
        Account.secret.is_null(False),
    )
    sealed = [(other["id"], other["secret"]) for other in others]
    alive = [fresh, *(tokens.open_tokens(service, id, secret) for id, secret in sealed if secret is not None)]
    return any(_session(held) == _session(each) for each in alive)


def _session(held: Tokens) -> str:
    """What tells sessions apart: two that began in the same second may have the same access token (PDS 0.5.35)."""
    return held.refresh or held.access
