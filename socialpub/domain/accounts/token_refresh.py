"""Background token refresh, warnings before an authorization ends, and its end.

A periodic task runs it every minute, so that publishing finds valid tokens.
"""

from __future__ import annotations

import itertools
import logging
import threading
from collections.abc import Container, Iterable
from dataclasses import dataclass
from typing import Any

from peewee import SQL, fn

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.base.runtime import DAY_MS
from socialpub.domain.accounts import tokens
from socialpub.domain.context import upstreams
from socialpub.domain.context.app_context import AppContext
from socialpub.platforms.contract import Platform, Site
from socialpub.store.database import Tx
from socialpub.store.queries import maintenance
from socialpub.store.rows import AccountRow
from socialpub.store.schema.models import Account

log = logging.getLogger("socialpub.tokens")

CONCURRENT_REFRESHES = 64  # refreshes started per run; accounts warned per transaction
BACKOFF_SECONDS, BACKOFF_MAX_SECONDS = 60.0, 3600.0  # after a failure, doubling


@dataclass(frozen=True)
class _RefreshBackoff:
    """Failures in a row and the earliest next try (monotonic); a new app resets them."""

    count: int
    until: float
    platform: str
    site: Site


class TokenRefresher:
    """Token refresh of one server. `run` is quick; refreshes run in the service's executors."""

    def __init__(self, service: AppContext) -> None:
        self._service = service
        self._lock = threading.Lock()
        self._running: set[str] = set()
        self._failures: dict[str, _RefreshBackoff] = {}

    def run(self) -> None:
        """Warn, end expired authorizations, and start the refreshes that are due."""
        service = self._service
        warn_ending(service)
        busy = self._list_busy()
        for row in service.read(lambda: list_due(service, busy)).result():
            if self._try_start(row["id"]):
                share = upstreams.get_share_key(service, row)
                upstreams.choose_executor(service, share).submit_for(share, self._refresh, row)

    def _list_busy(self) -> set[str]:
        """List the accounts being refreshed or waiting after a failure."""
        with self._lock:
            return self._running | {account for account, failure in self._failures.items() if self._is_waiting(failure)}

    def _is_waiting(self, failure: _RefreshBackoff) -> bool:
        now = self._service.runtime.clock.monotonic()
        return failure.until > now and failure.site is self._service.sites[failure.platform]

    def _try_start(self, account: str) -> bool:
        with self._lock:
            if account in self._running or len(self._running) >= CONCURRENT_REFRESHES:
                return False
            self._running.add(account)
            return True

    def _refresh(self, row: AccountRow) -> None:
        account, site = row["id"], self._service.sites[row["platform"]]
        assert row["secret"] is not None, "a connected account has tokens"
        try:
            stale = tokens.decrypt(self._service, account, row["secret"])
            if stale.refresh is not None:
                tokens.refresh_tokens(self._service, account, stale)
            self._failures.pop(account, None)
        except ApiError as error:
            log.warning("account %s: its tokens could not be refreshed and will be retried: %s", account, error.message)
            self._record_failure(row, site, error)
        except Exception:  # noqa: BLE001 - a pool thread has no caller; the next run retries
            log.exception("account %s: a bug in refreshing its tokens; the refresh is retried", account)
            self._record_failure(row, site, None)
        finally:
            with self._lock:
                self._running.discard(account)

    def _record_failure(self, row: AccountRow, site: Site, error: ApiError | None) -> None:
        before = self._failures.get(row["id"])
        count = before.count + 1 if before and before.site is site else 1
        retry_after = (error.retry_after or 0) if error else 0
        wait = max(min(BACKOFF_SECONDS * 2 ** (count - 1), BACKOFF_MAX_SECONDS), retry_after)
        until = self._service.runtime.clock.monotonic() + wait
        self._failures[row["id"]] = _RefreshBackoff(count, until, row["platform"], site)


def list_due(service: AppContext, busy: Container[str] = ()) -> list[AccountRow]:
    """Select the accounts to refresh now, most urgent first per platform, without `busy` ones."""
    due: list[AccountRow] = []
    for name in platforms.CONNECTORS:
        platform = platforms.platform(name)
        if platform.refresh_policy.renewable and service.sites[name].enabled:
            rows = (row for row in _select_due(service, platform) if row["id"] not in busy)
            due += itertools.islice((row for row in rows if not tokens.is_at_risk(service, row)), CONCURRENT_REFRESHES)
    return due


def _select_due(service: AppContext, platform: Platform) -> Iterable[AccountRow]:
    now, policy = service.now_ms, platform.refresh_policy
    before = int(policy.refresh_before * 1000)
    ends_soon = Account.token_expires_at <= now + before
    if before < DAY_MS:
        # Short-lived tokens are refreshed only for posts that need them, not around the clock, and in the second half
        # of their life.
        ends_soon &= (Account.token_expires_at - now) * 2 <= Account.token_expires_at - Account.renewed_at
        ends_soon &= SQL(f'"t1"."id" IN ({maintenance.FIND_DUE_ACCOUNTS})', (now + before,))
    idle = Account.renewed_at <= now - int(policy.keep_alive * 1000) if policy.keep_alive else None
    query = Account.select().where(
        Account.platform == platform.name,
        Account.disconnected_at.is_null(),
        Account.status != "revoked",
        Account.ends_at.is_null() | (Account.token_expires_at.is_null()) | (Account.ends_at > Account.token_expires_at),
        ends_soon | idle if idle is not None else ends_soon,
    )
    if policy.rotates:
        # A lost response may have used up the refresh token: do not risk a valid access token.
        lost = Account.renewal_at.is_null(False)
        query = query.where(~(lost & (Account.token_expires_at > now + tokens.EXPIRY_MARGIN_MS)))
    return query.order_by(Account.token_expires_at).dicts().iterator()  # type: ignore[no-any-return]


# --- Authorizations that only the owner can renew ----------------------------------------------------------------


def warn_ending(service: AppContext) -> None:
    """Emit `token.expiring` once per ending authorization; mark ended ones revoked."""
    while service.read(lambda: _list_ending(service) + _list_ended(service)).result():
        service.write(lambda tx: _emit_warnings(service, tx)).result()


def _emit_warnings(service: AppContext, tx: Tx) -> None:
    for account in _list_ended(service)[:CONCURRENT_REFRESHES]:
        tokens.mark_revoked(service, tx, account, "The authorization has expired.")
    for account in _list_ending(service)[:CONCURRENT_REFRESHES]:
        Account.update(status="expiring", updated_at=service.now_ms).where(Account.id == account).execute()
        ends = Account.select(Account.ends_at).where(Account.id == account).scalar()
        tokens.emit_expiring(service, tx, account, ends)


def _list_ending(service: AppContext) -> list[str]:
    near = Account.ends_at <= service.now_ms + tokens.get_warning_ms(service)
    return _select_ids(near & (Account.status == "active") & (Account.ends_at > service.now_ms))


def _list_ended(service: AppContext) -> list[str]:
    last = fn.MAX(Account.ends_at, fn.COALESCE(Account.token_expires_at, 0))
    return _select_ids(Account.ends_at.is_null(False) & (last <= service.now_ms) & (Account.status != "revoked"))


def _select_ids(condition: Any) -> list[str]:
    query = Account.select(Account.id).where(
        condition, Account.disconnected_at.is_null(), Account.secret.is_null(False)
    )
    return [row[0] for row in query.tuples()]
