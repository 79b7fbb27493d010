"""Account tokens: stored encrypted, refreshed one at a time, never lost in between.

A refresh is recorded before it is sent (`renewal_at`), and the old tokens stay until the new ones are committed. After
a lost response the old refresh token may or may not work: where a second use is harmless it is used again at once,
otherwise only when the access token has expired and nothing can be lost.
"""

from __future__ import annotations

import contextlib
import functools
import json
import logging
from collections.abc import Container, Iterator
from typing import Any

from peewee import fn

from socialpub import platforms
from socialpub.base import crypto, faults, redact
from socialpub.base.errors import ApiError, Outcome, refuse
from socialpub.base.runtime import DAY_MS, iso
from socialpub.domain.accounts import attention
from socialpub.domain.core import events, instance, upstreams
from socialpub.domain.core.service import Renewal, Service
from socialpub.domain.shapes.events import TokenEvent, TokenExpiring, TokenRevoked
from socialpub.platforms.contract import ConnectorAccount as Who
from socialpub.platforms.contract import RefreshPolicy, SigningContext, Tokens, Upstream
from socialpub.platforms.kit import oauth
from socialpub.store.db import Tx
from socialpub.store.models import Account, Intent, row_of, the_row
from socialpub.store.rows import AccountRow

log = logging.getLogger("socialpub.tokens")

HOUR_MS = 3600 * 1000
RENEWALS_MAX = 2  # per account and hour, counting those that the platform answered
RENEWING_MS = 300_000  # longer than all calls of a refresh may take
OTHERS_SECONDS = 0.2  # polling interval for another process's refresh
REASON_MAX = 500
MARGIN_MS = 60_000  # an access token that expires sooner is not used


# --- Encryption --------------------------------------------------------------------------------------------------


def pack(tokens: Tokens) -> dict[str, Any]:
    """Encode tokens as JSON, for encryption only."""
    return {
        "access": tokens.access,
        "refresh": tokens.refresh,
        "expiresAtMs": tokens.expires_at_ms,
        "private": dict(tokens.private),
    }


def unpack(packed: dict[str, Any]) -> Tokens:
    return Tokens(packed["access"], packed["refresh"], packed["expiresAtMs"], packed["private"])


def sealed(service: Service, account: str, tokens: Tokens) -> str:
    """Encrypt tokens for the account's row."""
    return service.runtime.vault.seal(json.dumps(pack(tokens)).encode(), _place(account))


def open_tokens(service: Service, account: str, sealed: str) -> Tokens:
    """Decrypt an account's tokens. Raises ApiError `account.reconnect_required` if impossible."""
    try:
        return unpack(json.loads(service.runtime.vault.open(sealed, _place(account))))
    except crypto.SealError as error:
        raise refuse("account.reconnect_required", "The account's stored authorization cannot be read.") from error


def _place(account: str) -> tuple[str, str, str]:
    return ("account", "secret", account)


def _same(one: str | None, other: str | None) -> bool:
    """Compare encrypted tokens under any master key (`keys rotate` may run beside us)."""
    return crypto.nonce_of(one or "") == crypto.nonce_of(other or "")


def _holds_still(sealed: str | None) -> Any:
    """Build the SQL condition that the row still has these encrypted tokens."""
    nonce = fn.SUBSTR(Account.secret, crypto.NONCE_AT, crypto.NONCE_CHARS)
    return nonce == crypto.nonce_of(sealed or "")


def columns(
    service: Service, account: str, platform: str, tokens: Tokens, before: AccountRow | None = None
) -> dict[str, Any]:
    """Build the columns for new tokens; `before` is the refreshed row, None for a new consent."""
    now, ends = service.now_ms, _ends_at(platforms.platform(platform).upkeep, tokens)
    # A refresh that does not move the end is no reason to warn again.
    warned = before is not None and before["status"] == "expiring" and _is_near(service, ends)
    return {
        "secret": sealed(service, account, tokens),
        "token_expires_at": tokens.expires_at_ms,
        "ends_at": ends,
        "renewed_at": now,
        "renewal_at": None,
        "renewing": None,
        "renewing_until": None,
        "renewals": _with_one(service, before) if before else None,
        "renewal_refused_at": None,
        "status": "expiring" if warned else "active",
        "revoked_reason": None,
        "updated_at": now,
    }


def _ends_at(upkeep: RefreshPolicy, tokens: Tokens) -> int | None:
    """Return when the owner must reconnect at the latest; None: tokens refresh forever."""
    if tokens.refresh is None or not upkeep.renewable:
        return tokens.expires_at_ms
    return tokens.private.get("refreshExpiresAtMs")


def _is_near(service: Service, ends: int | None) -> bool:
    return ends is not None and ends <= service.now_ms + expiring_ms(service)


def expiring_ms(service: Service) -> int:
    return int(service.runtime.settings.tokens.expiring * 1000)


# --- Refresh -----------------------------------------------------------------------------------------------------


def renewed(service: Service, account: str, stale: Tokens) -> Tokens:
    """Refresh and store `stale` tokens; concurrent callers of an account share one refresh.

    A refusal marks the account revoked (event `token.revoked`) and raises rule `account.reconnect_required`; any other
    error is raised as it is and leaves the account unchanged.
    """
    mine = service.upstream.renewals.setdefault(account, Renewal())
    seen = _state(_connected(service, account), mine)
    with mine.lock:
        while True:
            row = _connected(service, account)
            state, rescued = _state(row, mine), _rescued(service, row, mine)
            assert row["secret"] is not None, "`_connected` has seen it"
            current = rescued or open_tokens(service, account, row["secret"])
            # Tokens alone do not tell: some platforms return the same access token again.
            if current != stale or state != seen:
                return current
            row = _connected(service, account) if rescued else row
            if _begun(service, row, current):
                return _renew(service, row, current, mine)
            _wait_for_others(service)


def _tell_renewal(service: Service, row: AccountRow, began: float, error: BaseException | None) -> None:
    """Log a refresh; of an error only the code, since a platform's text may contain anything."""
    why = f": {error.code}" if isinstance(error, ApiError) else ": it stopped" if error else ""
    took = (service.runtime.clock.monotonic() - began) * 1000
    known = (row["id"], row["platform"], "not renewed" if error else "renewed", took, why)
    log.log(logging.WARNING if error else logging.INFO, _RENEWAL, *known, extra=_NAMES)


_RENEWAL = "account %s, %s: its tokens were %s, %.0f ms%s"
_NAMES = {"names": ("account", "platform", "outcome", "ms", "why")}


def _connected(service: Service, account: str) -> AccountRow:
    row = service.read(lambda: _row(account)).result()
    if row is None or row["secret"] is None:
        raise refuse("account.disconnected")
    return row


def _row(account: str) -> AccountRow | None:
    return row_of(Account, account)


def _state(row: AccountRow, mine: Renewal) -> object:
    """Return a value that changes with each refresh, by any process: nonces never repeat."""
    return crypto.nonce_of(row["secret"] or ""), mine.unsaved


def _wait_for_others(service: Service) -> None:
    """Wait while another process refreshes. Raises ApiError when this server stops."""
    if service.process.stopping.wait(OTHERS_SECONDS):
        said = "The account's authorization is being renewed by another process, and this one ends."
        raise ApiError("platform_unavailable", said, outcome=Outcome.NOT_SENT)


def _renew(service: Service, row: AccountRow, current: Tokens, mine: Renewal) -> Tokens:
    faults.hit("tok.after_intent")
    began = service.runtime.clock.monotonic()
    try:
        fresh = _asked(service, row, current)
    except BaseException as error:
        _tell_renewal(service, row, began, error)
        with contextlib.suppress(ApiError):  # nothing can be written: the claim expires
            service.write(lambda tx: _release(service, tx, row["id"])).result()
        raise
    faults.hit("tok.after_reply")
    _tell_renewal(service, row, began, None)
    assert row["secret"] is not None, "it was opened"
    mine.unsaved = (row["secret"], fresh)
    if _saved(service, row, mine):
        faults.hit("tok.after_commit")
    return fresh


def _asked(service: Service, row: AccountRow, current: Tokens) -> Tokens:
    site = service.sites[row["platform"]]
    try:
        fresh = _ask(service, row, current)
    except ApiError as error:
        faults.hit("tok.after_send")
        if error.outcome is Outcome.REJECTED and service.sites[row["platform"]] is not site:
            return _asked(service, row, current)  # the refused app has been replaced
        raise _unrenewed(service, row, current, error) from error
    faults.hit("tok.after_send")
    return fresh


def _release(service: Service, tx: Tx, account: str) -> None:
    Account.update(renewing=None, renewing_until=None).where(
        Account.id == account, Account.renewing == service.process.run
    ).execute()


def release_all(tx: Tx) -> None:
    """Release all refresh claims. Only for a process that has just become the only server."""
    Account.update(renewing=None, renewing_until=None).where(Account.renewing.is_null(False)).execute()


def rotates(platform: str, tokens: Tokens) -> bool:
    """Return whether the refresh token works only once, by platform or by token."""
    return platforms.platform(platform).upkeep.rotates or tokens.private.get("rotates") is True


def is_at_risk(service: Service, row: AccountRow) -> bool:
    """Return whether a refresh token may be used up while the access token still works."""
    if row["renewal_at"] is None or (row["token_expires_at"] or 0) <= service.now_ms + MARGIN_MS:
        return False
    assert row["secret"] is not None, "a connected account has tokens"
    try:
        return rotates(row["platform"], open_tokens(service, row["id"], row["secret"]))
    except ApiError:
        return False  # unreadable tokens are reported when used


def _begun(service: Service, row: AccountRow, current: Tokens) -> bool:
    """Claim and record a refresh about to be sent; False if another run has the claim.

    Raises ApiError if it must not be sent, or the claim cannot be written.
    """
    now, mine = service.now_ms, Account.renewing.is_null() | (Account.renewing == service.process.run)
    # A claim that ends later than possible was written before the clock was set back.
    over = (Account.renewing_until <= now) | (Account.renewing_until > now + RENEWING_MS)

    def begin(tx: Tx) -> bool:
        if rotates(row["platform"], current) and instance.paused() == instance.RESTORED:
            # The original may have used this refresh token already; a second use may end the whole session.
            raise ApiError("platform_unavailable", "This is a restored copy: no token is renewed until it is resumed.")
        claimed = Account.update(renewal_at=now, renewing=service.process.run, renewing_until=now + RENEWING_MS)
        return bool(claimed.where(Account.id == row["id"], _holds_still(row["secret"]), mine | over).execute())

    _check_often(service, row)
    return service.write(begin).result()


def _ask(service: Service, row: AccountRow, current: Tokens) -> Tokens:
    """Call the platform; repeat after a lost response where a second use is harmless."""
    try:
        return _ask_once(service, row, current)
    except ApiError as error:
        if error.outcome is not Outcome.AMBIGUOUS or rotates(row["platform"], current):
            raise
    return _ask_once(service, row, current)


def _ask_once(service: Service, row: AccountRow, current: Tokens) -> Tokens:
    who = Who(row["platform_account_id"], row["display_name"], json.loads(row["extra"]))
    with open_upstream(service, row["platform"], who, current) as up:
        return platforms.CONNECTORS[row["platform"]].refresh(up, service.now_ms)


def _unrenewed(service: Service, row: AccountRow, current: Tokens, error: ApiError) -> ApiError:
    """Record the effects of a failed refresh; return the error to raise."""
    error.platform_response = scrub(error.platform_response, current)
    if error.outcome is Outcome.REJECTED:
        service.write(lambda tx: _count(service, tx, row)).result()
    if error.app_in_doubt:
        error = service.write(lambda tx: _blamed(service, tx, row, error)).result()
    if error.code == "platform_auth_failed" and error.token_refused:
        reason = scrub(error.message, current)
        service.write(lambda tx: mark_revoked(service, tx, row["id"], reason, secret=row["secret"])).result()
        gone = refuse("account.reconnect_required", platform_response=error.platform_response)
        gone.platform = error.platform
        return gone
    if attention.is_meant(error):
        service.write(lambda tx: attention.remember(service, tx, row["id"], error)).result()
    if error.outcome not in (None, Outcome.AMBIGUOUS):
        _write_back(service, row)
    return error


def _blamed(service: Service, tx: Tx, row: AccountRow, error: ApiError) -> ApiError:
    """Decide whether an unexplained refusal is due to the app or to the account.

    The app, if refreshes of other accounts are refused too. The account, if it is the only one, another one was
    refreshed within the hour, or no other one was refused within it.
    """
    now, hour = service.now_ms, service.now_ms - HOUR_MS
    here = (Account.platform == row["platform"]) & Account.disconnected_at.is_null() & (Account.id != row["id"])
    others = here & (Account.status != "revoked")
    first = row["renewal_refused_at"]
    Account.update(renewal_refused_at=first if first and first > hour else now).where(Account.id == row["id"]).execute()
    if Account.select().where(here, Account.renewal_refused_at > hour).exists():
        log.error("%s refuses the renewals of several accounts: its client credentials are wrong", row["platform"])
        return oauth.build_misconfigured_error(platforms.platform(row["platform"]), error.message)
    proved = Account.select().where(here, Account.renewed_at > hour).exists()
    waited = first is not None and first <= hour
    error.token_refused = proved or waited or not Account.select().where(others).exists()
    return error


def _check_often(service: Service, row: AccountRow) -> None:
    """Raise ApiError after two answered refreshes of the account within the hour."""
    recent = _recent(service, row)
    if len(recent) >= RENEWALS_MAX:
        wait = (recent[-RENEWALS_MAX] + HOUR_MS - service.now_ms) // 1000 + 1
        said = "The account's authorization was renewed twice within the hour; it is not asked for again so soon."
        raise ApiError("platform_unavailable", said, outcome=Outcome.NOT_SENT, retry_after=wait)


def _recent(service: Service, row: AccountRow) -> list[int]:
    """List the times of the account's answered refreshes within the hour."""
    return [at for at in json.loads(row["renewals"] or "[]") if at > service.now_ms - HOUR_MS]


def _with_one(service: Service, row: AccountRow) -> str:
    return json.dumps([*_recent(service, row), service.now_ms])


def _count(service: Service, tx: Tx, row: AccountRow) -> None:
    Account.update(renewals=_with_one(service, row)).where(
        Account.id == row["id"], _holds_still(row["secret"])
    ).execute()


def _write_back(service: Service, row: AccountRow) -> None:
    """Restore `renewal_at`: the platform cannot have acted."""
    service.write(
        lambda tx: (
            Account.update(renewal_at=row["renewal_at"])
            .where(Account.id == row["id"], _holds_still(row["secret"]))
            .execute()
        )
    ).result()


def _saved(service: Service, row: AccountRow, mine: Renewal) -> bool:
    """Store the tokens kept in memory; return False, and keep them, if that fails."""
    assert mine.unsaved is not None, "the caller has just set or seen it"
    old, fresh = mine.unsaved
    try:
        service.write(lambda tx: _store(service, tx, row, old, fresh)).result()
    except ApiError as error:
        log.error("account %s: its new tokens could not be written yet: %s", row["id"], error.message)
        return False
    mine.unsaved = None
    return True


def _store(service: Service, tx: Tx, row: AccountRow, old: str, fresh: Tokens) -> None:
    """Store the tokens, unless the account was reconnected or disconnected meanwhile."""
    Account.update(**columns(service, row["id"], row["platform"], fresh, row)).where(
        Account.id == row["id"], _holds_still(old)
    ).execute()


def _rescued(service: Service, row: AccountRow, mine: Renewal) -> Tokens | None:
    """Return unsaved tokens of an earlier refresh; None without any, or if replaced since."""
    if mine.unsaved is None:
        return None
    old, fresh = mine.unsaved
    if not _same(old, row["secret"]):
        mine.unsaved = None
        return None
    _saved(service, row, mine)
    return fresh


def has_unsaved(service: Service) -> bool:
    """Return whether new tokens are still to be stored."""
    return any(known.unsaved for known in list(service.upstream.renewals.values()))


def save_unsaved(service: Service) -> int:
    """Retry to store unsaved tokens; return how many accounts remain."""
    waiting = [(account, known) for account, known in list(service.upstream.renewals.items()) if known.unsaved]
    for account, known in waiting:
        if not known.lock.acquire(blocking=False):
            continue  # a refresh holds it, and stores them first
        try:
            row = service.read(functools.partial(_row, account)).result()
            if row is not None:
                _rescued(service, row, known)
        finally:
            known.lock.release()
    return sum(known.unsaved is not None for _, known in waiting)


def mark_revoked(service: Service, tx: Tx, account: str, reason: str, *, secret: str | None = None) -> None:
    """Mark an account revoked, once, with event `token.revoked`.

    `secret`: only while the account still has these encrypted tokens.
    """
    now = service.now_ms
    mine = (Account.id == account) & (Account.status != "revoked") & Account.disconnected_at.is_null()
    if secret is not None:
        mine &= _holds_still(secret)
    if Account.update(status="revoked", revoked_reason=reason[:REASON_MAX], updated_at=now).where(mine).execute():
        tx.after_commit(lambda: service.upstream.revoked.add(account))
        sent = Intent.select(Intent.post).where(Intent.account == account, Intent.outcome.is_null())
        service.jobs.hasten(tx, sent, now)  # a later lookup would show no more
        tell_revoked(service, tx, account, now, reason)


def refused(service: Service, tx: Tx, before: AccountRow, error: ApiError) -> None:
    """Mark the account revoked after its tokens were refused, unless it was reconnected since.

    `before` is the row from the start of the run; its tokens count where no call was made.
    """
    row = _row(before["id"])
    if row is None or row["secret"] is None:
        return
    if _holds(service, row["id"], row["secret"], error.used) if error.used else _same(row["secret"], before["secret"]):
        mark_revoked(service, tx, row["id"], error.message, secret=row["secret"])


def _holds(service: Service, account: str, secret: str, used: str) -> bool:
    try:
        return digest_of(open_tokens(service, account, secret)) == used
    except ApiError:
        return False  # unreadable tokens are reported when used


def digest_of(tokens: Tokens) -> str:
    """Digest tokens, telling apart those with the same access token; "" for anonymous."""
    return crypto.digest(f"{tokens.access} {tokens.refresh}") if tokens.access else ""


def tell_revoked(service: Service, tx: Tx, account: str, at_ms: int, reason: str) -> None:
    row = the_row(Account, account)
    named = (account, row["platform"])
    tx.after_commit(
        lambda: log.warning("account %s, %s: its authorization has ended; it has to be connected again", *named)
    )
    data: TokenRevoked = {**_common(row), "revokedAt": iso(at_ms), "reason": reason}
    events.emit(service, tx, "token.revoked", row["organization"], data, profile=row["profile"])


def tell_expiring(service: Service, tx: Tx, account: str, ends_ms: int) -> None:
    row, days = the_row(Account, account), (ends_ms - service.now_ms) // DAY_MS
    named = (account, row["platform"], iso(ends_ms))
    tx.after_commit(
        lambda: log.warning("account %s, %s: its authorization ends at %s unless it is connected again", *named)
    )
    data: TokenExpiring = {**_common(row), "expiresAt": iso(ends_ms), "daysUntilExpiry": days}
    events.emit(service, tx, "token.expiring", row["organization"], data, profile=row["profile"])


def _common(row: AccountRow) -> TokenEvent:
    return {
        "accountId": row["id"],
        "platform": row["platform"],
        "profileId": row["profile"],
        "platformAccountId": row["platform_account_id"],
        "displayName": row["display_name"],
    }


# --- Calls -------------------------------------------------------------------------------------------------------


@contextlib.contextmanager
def open_upstream(
    service: Service, platform: str, account: Who, tokens: Tokens, bound: Container[str] = frozenset()
) -> Iterator[Upstream]:
    """Open an upstream connection for one thread. `bound`: remote ids of other posts."""
    runtime = service.runtime
    with (
        runtime.open_http(runtime.http_policy(guarded=False), upstreams.configured(service, platform)) as http,
        runtime.open_http(runtime.http_policy(guarded=True), upstreams.named(service, platform, account)) as guarded,
    ):
        mint = SigningContext(runtime.clock.now_ms, runtime.entropy)
        yield Upstream(http, guarded, service.sites[platform], account, tokens, bound, mint, service.upstream.notes)


def scrub(value: Any, tokens: Tokens) -> Any:
    """Redact secrets, including the account's, from an upstream response."""
    return redact.value(value, _secrets(tokens), redact.ANSWER_MAX)


def _secrets(tokens: Tokens) -> list[str]:
    private = [item for item in tokens.private.values() if isinstance(item, str)]
    return [secret for secret in (tokens.access, tokens.refresh, *private) if secret]
