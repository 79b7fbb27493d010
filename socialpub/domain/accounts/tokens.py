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
from socialpub.base import fault_injection
from socialpub.base.errors import ApiError, Outcome, rule_error
from socialpub.base.observability import redaction
from socialpub.base.runtime import DAY_MS, format_iso
from socialpub.base.security import crypto
from socialpub.domain.accounts import attention
from socialpub.domain.context import upstreams
from socialpub.domain.context.app_context import AppContext, TokenRefreshState
from socialpub.domain.events import events
from socialpub.domain.schemas.events import TokenEvent, TokenExpiring, TokenRevoked
from socialpub.domain.server import instance
from socialpub.platforms.contract import ConnectorAccount, RefreshPolicy, SigningContext, Tokens, Upstream
from socialpub.platforms.kit import oauth
from socialpub.store.database import Tx
from socialpub.store.rows import AccountRow
from socialpub.store.schema.models import Account, Intent, find_row, get_row

log = logging.getLogger("socialpub.tokens")

HOUR_MS = 3600 * 1000
REFRESHES_PER_HOUR_MAX = 2  # per account and hour: refused ones, and those of tokens that were not about to expire
CLAIM_MS = 300_000  # longer than all calls of a refresh may take
POLL_SECONDS = 0.2  # polling interval for another process's refresh
REASON_MAX = 500
EXPIRY_MARGIN_MS = 60_000  # an access token that expires sooner is not used


# --- Encryption --------------------------------------------------------------------------------------------------


def encode(tokens: Tokens) -> dict[str, Any]:
    """Encode tokens as JSON, for encryption only."""
    return {
        "access": tokens.access,
        "refresh": tokens.refresh,
        "expiresAtMs": tokens.expires_at_ms,
        "private": dict(tokens.private),
    }


def decode(packed: dict[str, Any]) -> Tokens:
    return Tokens(packed["access"], packed["refresh"], packed["expiresAtMs"], packed["private"])


def encrypt(service: AppContext, account: str, tokens: Tokens) -> str:
    """Encrypt tokens for the account's row."""
    return service.runtime.vault.seal(json.dumps(encode(tokens)).encode(), _get_seal_place(account))


def decrypt(service: AppContext, account: str, sealed: str) -> Tokens:
    """Decrypt an account's tokens. Raises ApiError `account.reconnect_required` if impossible."""
    try:
        return decode(json.loads(service.runtime.vault.open(sealed, _get_seal_place(account))))
    except crypto.SealError as error:
        raise rule_error("account.reconnect_required", "The account's stored authorization cannot be read.") from error


def _get_seal_place(account: str) -> tuple[str, str, str]:
    return ("account", "secret", account)


def _is_same(one: str | None, other: str | None) -> bool:
    """Compare encrypted tokens under any master key (`keys rotate` may run beside us)."""
    return crypto.get_nonce(one or "") == crypto.get_nonce(other or "")


def _match_secret(sealed: str | None) -> Any:
    """Build the SQL condition that the row still has these encrypted tokens."""
    nonce = fn.SUBSTR(Account.secret, crypto.NONCE_POSITION, crypto.NONCE_CHARS)
    return nonce == crypto.get_nonce(sealed or "")


def _update_unless_replaced(tx: Tx, row: AccountRow, *conditions: Any, **columns: Any) -> bool:
    """Update the account while it still has the tokens of `row`; return whether it was done."""
    has_same_tokens = _match_secret(row["secret"])
    return bool(Account.update(**columns).where(Account.id == row["id"], has_same_tokens, *conditions).execute())


def build_columns(
    service: AppContext, account: str, platform: str, tokens: Tokens, before: AccountRow | None = None
) -> dict[str, Any]:
    """Build the columns for new tokens; `before` is the refreshed row, None for a new consent."""
    now, ends = service.now_ms, _get_authorization_end(platforms.platform(platform).refresh_policy, tokens)
    # A refresh that does not move the end is no reason to warn again.
    warned = before is not None and before["status"] == "expiring" and _is_expiring(service, ends)
    return {
        "secret": encrypt(service, account, tokens),
        "token_expires_at": tokens.expires_at_ms,
        "ends_at": ends,
        "renewed_at": now,
        "renewal_at": None,
        "renewing": None,
        "renewing_until": None,
        "renewals": _count_successful(service, before) if before else None,
        "renewal_refused_at": None,
        "status": "expiring" if warned else "active",
        "revoked_reason": None,
        "updated_at": now,
    }


def _get_authorization_end(upkeep: RefreshPolicy, tokens: Tokens) -> int | None:
    """Return when the owner must reconnect at the latest; None: tokens refresh forever."""
    if tokens.refresh is None or not upkeep.renewable:
        return tokens.expires_at_ms
    return tokens.private.get("refreshExpiresAtMs")


def _is_expiring(service: AppContext, ends: int | None) -> bool:
    return ends is not None and ends <= service.now_ms + get_warning_ms(service)


def get_warning_ms(service: AppContext) -> int:
    return int(service.runtime.settings.tokens.expiring * 1000)


# --- Refresh -----------------------------------------------------------------------------------------------------


def refresh_tokens(service: AppContext, account: str, stale: Tokens) -> Tokens:
    """Refresh and store `stale` tokens; concurrent callers of an account share one refresh.

    A refusal marks the account revoked (event `token.revoked`) and raises rule `account.reconnect_required`; any other
    error is raised as it is and leaves the account unchanged.
    """
    mine = service.upstream.renewals.setdefault(account, TokenRefreshState())
    seen = _get_refresh_state(_get_connected(service, account), mine)
    with mine.lock:
        while True:
            row = _get_connected(service, account)
            state, rescued = _get_refresh_state(row, mine), _find_unsaved(service, row, mine)
            assert row["secret"] is not None, "`_connected` has seen it"
            current = rescued or decrypt(service, account, row["secret"])
            # Tokens alone do not tell: some platforms return the same access token again.
            if current != stale or state != seen:
                return current
            row = _get_connected(service, account) if rescued else row
            if _claim(service, row, current):
                return _refresh_and_store(service, row, current, mine)
            _wait_for_others(service)


def _log_refresh(service: AppContext, row: AccountRow, began: float, error: BaseException | None) -> None:
    """Log a refresh; of an error only the code, since a platform's text may contain anything."""
    why = f": {error.code}" if isinstance(error, ApiError) else ": the process stopped" if error else ""
    took = (service.runtime.clock.monotonic() - began) * 1000
    fields = (row["id"], row["platform"], "not refreshed" if error else "refreshed", took, why)
    log.log(logging.WARNING if error else logging.INFO, _REFRESH_LINE, *fields, extra=_LOG_FIELDS)


_REFRESH_LINE = "account %s, %s: its tokens were %s, %.0f ms%s"
_LOG_FIELDS = {"names": ("account", "platform", "outcome", "ms", "why")}


def _get_connected(service: AppContext, account: str) -> AccountRow:
    row = service.read(lambda: find_row(Account, account)).result()
    if row is None or row["secret"] is None:
        raise rule_error("account.disconnected")
    return row


def _get_refresh_state(row: AccountRow, mine: TokenRefreshState) -> object:
    """Return a value that changes with each refresh, by any process: nonces never repeat."""
    return crypto.get_nonce(row["secret"] or ""), mine.unsaved


def _wait_for_others(service: AppContext) -> None:
    """Wait while another process refreshes. Raises ApiError when this server stops."""
    if service.process.stopping.wait(POLL_SECONDS):
        message = "Another process is refreshing the account's tokens, and this one is stopping."
        raise ApiError("platform_unavailable", message, outcome=Outcome.NOT_SENT)


def _refresh_and_store(service: AppContext, row: AccountRow, current: Tokens, mine: TokenRefreshState) -> Tokens:
    fault_injection.hit("tok.after_intent")
    began = service.runtime.clock.monotonic()
    try:
        fresh = _refresh_upstream(service, row, current)
    except BaseException as error:
        _log_refresh(service, row, began, error)
        with contextlib.suppress(ApiError):  # nothing can be written: the claim expires
            service.write(lambda tx: _release_claim(service, tx, row["id"])).result()
        if isinstance(error, ApiError) and (newer := _find_newer(service, row)):
            return newer
        raise
    fault_injection.hit("tok.after_reply")
    _log_refresh(service, row, began, None)
    assert row["secret"] is not None, "it was opened"
    mine.unsaved = (row["secret"], fresh)
    if _try_save(service, row, mine):
        fault_injection.hit("tok.after_commit")
    return (_find_newer(service, row) if mine.unused else None) or fresh


def _find_newer(service: AppContext, row: AccountRow) -> Tokens | None:
    """Return the tokens of a new connection of the account since `row`; None without one.

    Raises ApiError `account.disconnected`.
    """
    found = _get_connected(service, row["id"])
    assert found["secret"] is not None, "`_get_connected` has seen it"
    return None if _is_same(found["secret"], row["secret"]) else decrypt(service, row["id"], found["secret"])


def _refresh_upstream(service: AppContext, row: AccountRow, current: Tokens) -> Tokens:
    site = service.sites[row["platform"]]
    try:
        fresh = _call_platform(service, row, current)
    except ApiError as error:
        fault_injection.hit("tok.after_send")
        if error.outcome is Outcome.REJECTED and service.sites[row["platform"]] is not site:
            return _refresh_upstream(service, row, current)  # the refused app has been replaced
        raise _record_failure(service, row, current, error) from error
    fault_injection.hit("tok.after_send")
    return fresh


def _release_claim(service: AppContext, tx: Tx, account: str) -> None:
    Account.update(renewing=None, renewing_until=None).where(
        Account.id == account, Account.renewing == service.process.run
    ).execute()


def release_all(tx: Tx) -> None:
    """Release all refresh claims. Only for a process that has just become the only server."""
    Account.update(renewing=None, renewing_until=None).where(Account.renewing.is_null(False)).execute()


def is_rotating(platform: str, tokens: Tokens) -> bool:
    """Return whether the refresh token works only once, by platform or by token."""
    return platforms.platform(platform).refresh_policy.rotates or tokens.private.get("rotates") is True


def is_at_risk(service: AppContext, row: AccountRow) -> bool:
    """Return whether a refresh token may be used up while the access token still works."""
    if row["renewal_at"] is None or (row["token_expires_at"] or 0) <= service.now_ms + EXPIRY_MARGIN_MS:
        return False
    assert row["secret"] is not None, "a connected account has tokens"
    try:
        return is_rotating(row["platform"], decrypt(service, row["id"], row["secret"]))
    except ApiError:
        return False  # unreadable tokens are reported when used


def _claim(service: AppContext, row: AccountRow, current: Tokens) -> bool:
    """Claim and record a refresh about to be sent; False if another run has the claim.

    Raises ApiError if it must not be sent, or the claim cannot be written.
    """
    now, mine = service.now_ms, Account.renewing.is_null() | (Account.renewing == service.process.run)
    # A claim that ends later than possible was written before the clock was set back.
    over = (Account.renewing_until <= now) | (Account.renewing_until > now + CLAIM_MS)

    def begin(tx: Tx) -> bool:
        if is_rotating(row["platform"], current) and instance.get_pause_reason() == instance.RESTORED:
            # The original may have used this refresh token already; a second use may end the whole session.
            raise ApiError("platform_unavailable", "This is a restored copy: no token is renewed until it is resumed.")
        until = now + CLAIM_MS
        return _update_unless_replaced(
            tx, row, mine | over, renewal_at=now, renewing=service.process.run, renewing_until=until
        )

    _check_frequency(service, row)
    return service.write(begin).result()


def _call_platform(service: AppContext, row: AccountRow, current: Tokens) -> Tokens:
    """Call the platform; repeat after a lost response where a second use is harmless."""
    try:
        return _call_platform_once(service, row, current)
    except ApiError as error:
        if error.outcome is not Outcome.AMBIGUOUS or is_rotating(row["platform"], current):
            raise
    return _call_platform_once(service, row, current)


def _call_platform_once(service: AppContext, row: AccountRow, current: Tokens) -> Tokens:
    with open_upstream(service, row["platform"], row, current) as up:
        return platforms.CONNECTORS[row["platform"]].refresh(up, service.now_ms)


def _record_failure(service: AppContext, row: AccountRow, current: Tokens, error: ApiError) -> ApiError:
    """Record the effects of a failed refresh; return the error to raise."""
    error.platform_response = redact_reply(error.platform_response, current)
    if error.outcome is Outcome.REJECTED:
        service.write(lambda tx: _update_unless_replaced(tx, row, renewals=_append_refresh(service, row))).result()
    if error.app_in_doubt:
        error = service.write(lambda tx: _attribute_refusal(service, tx, row, error)).result()
    if error.code == "platform_auth_failed" and error.token_refused:
        reason = redact_reply(error.message, current)
        service.write(lambda tx: mark_revoked(service, tx, row["id"], reason, secret=row["secret"])).result()
        ended = rule_error("account.reconnect_required", platform_response=error.platform_response)
        ended.platform = error.platform
        return ended
    if attention.is_fixable_by_owner(error):
        service.write(lambda tx: _save_attention(service, tx, row, error)).result()
    if error.outcome not in (None, Outcome.AMBIGUOUS):  # the platform cannot have acted
        service.write(lambda tx: _update_unless_replaced(tx, row, renewal_at=row["renewal_at"])).result()
    return error


def _save_attention(service: AppContext, tx: Tx, row: AccountRow, error: ApiError) -> None:
    found = find_row(Account, row["id"])
    if found is not None and _is_same(found["secret"], row["secret"]):
        attention.save(service, tx, row["id"], error)


def _attribute_refusal(service: AppContext, tx: Tx, row: AccountRow, error: ApiError) -> ApiError:
    """Decide whether an unexplained refusal is due to the app or to the account.

    The app, if refreshes of other accounts are refused too. The account, if it is the only one, another one was
    refreshed within the hour, or no other one was refused within it.
    """
    now, hour = service.now_ms, service.now_ms - HOUR_MS
    here = (Account.platform == row["platform"]) & Account.disconnected_at.is_null() & (Account.id != row["id"])
    others = here & (Account.status != "revoked")
    first = row["renewal_refused_at"]
    _update_unless_replaced(tx, row, renewal_refused_at=first if first and first > hour else now)
    if Account.select().where(here, Account.renewal_refused_at > hour).exists():
        log.error(
            "%s refuses the token refresh of several accounts: the credentials of its app are wrong", row["platform"]
        )
        return oauth.build_misconfigured_error(platforms.platform(row["platform"]), error.message)
    proved = Account.select().where(here, Account.renewed_at > hour).exists()
    waited = first is not None and first <= hour
    error.token_refused = proved or waited or not Account.select().where(others).exists()
    return error


def _check_frequency(service: AppContext, row: AccountRow) -> None:
    """Raise ApiError after two counted refreshes of the account within the hour."""
    recent = _list_recent(service, row)
    if len(recent) >= REFRESHES_PER_HOUR_MAX:
        wait = (recent[-REFRESHES_PER_HOUR_MAX] + HOUR_MS - service.now_ms) // 1000 + 1
        message = "The account's tokens were refreshed twice within the hour, so they are not refreshed again yet."
        raise ApiError("platform_unavailable", message, outcome=Outcome.NOT_SENT, retry_after=wait)


def _list_recent(service: AppContext, row: AccountRow) -> list[int]:
    """List the times of the account's counted refreshes within the hour."""
    return [at for at in json.loads(row["renewals"] or "[]") if at > service.now_ms - HOUR_MS]


def _count_successful(service: AppContext, before: AccountRow) -> str:
    """Count a successful refresh, unless its time had come.

    Tokens that live for minutes are refreshed for each post.
    """
    seconds, ends = platforms.platform(before["platform"]).refresh_policy.refresh_before, before["token_expires_at"]
    is_due = ends is not None and ends <= service.now_ms + int(seconds * 1000)
    if is_due and seconds * 1000 < DAY_MS:
        return json.dumps(_list_recent(service, before))
    return _append_refresh(service, before)


def _append_refresh(service: AppContext, row: AccountRow) -> str:
    return json.dumps([*_list_recent(service, row), service.now_ms])


def _try_save(service: AppContext, row: AccountRow, mine: TokenRefreshState) -> bool:
    """Store the tokens that are only in memory; return False if that fails.

    They stay unused if the account was reconnected or disconnected meanwhile.
    """
    assert mine.unsaved is not None, "the caller has just set or seen it"
    _, fresh = mine.unsaved

    def store(tx: Tx) -> bool:
        return _update_unless_replaced(tx, row, **build_columns(service, row["id"], row["platform"], fresh, row))

    try:
        is_stored = service.write(store).result()
    except ApiError as error:
        log.error("account %s: its new tokens could not be stored yet and stay in memory: %s", row["id"], error.message)
        return False
    mine.unsaved, mine.unused = None, None if is_stored else mine.unsaved
    return True


def _find_unsaved(service: AppContext, row: AccountRow, mine: TokenRefreshState) -> Tokens | None:
    """Return unsaved tokens of an earlier refresh; None without any, or if replaced since."""
    if mine.unsaved is None:
        return None
    old, fresh = mine.unsaved
    if not _is_same(old, row["secret"]):
        mine.unsaved, mine.unused = None, mine.unsaved
        return None
    _try_save(service, row, mine)
    return fresh


def take_newest(service: AppContext, row: AccountRow, held: Tokens) -> Tokens:
    """Return what a refresh has made of the tokens `held` of a replaced row, or `held`.

    Blocks until a refresh in progress has ended.
    """
    mine = service.upstream.renewals.get(row["id"])
    if mine is None:
        return held
    with mine.lock:
        for known in (mine.unsaved, mine.unused):
            if known is not None and _is_same(known[0], row["secret"]):
                mine.unused = None
                return known[1]
    return held


def has_unsaved(service: AppContext) -> bool:
    """Return whether new tokens are still to be stored."""
    return any(state.unsaved for state in list(service.upstream.renewals.values()))


def save_unsaved(service: AppContext) -> int:
    """Retry to store unsaved tokens; return how many accounts remain."""
    waiting = [(account, state) for account, state in list(service.upstream.renewals.items()) if state.unsaved]
    for account, state in waiting:
        if not state.lock.acquire(blocking=False):
            continue  # a refresh holds it, and stores them first
        try:
            row = service.read(functools.partial(find_row, Account, account)).result()
            if row is not None:
                _find_unsaved(service, row, state)
        finally:
            state.lock.release()
    return sum(state.unsaved is not None for _, state in waiting)


def mark_revoked(service: AppContext, tx: Tx, account: str, reason: str, *, secret: str | None = None) -> None:
    """Mark an account revoked, once, with event `token.revoked`.

    `secret`: only while the account still has these encrypted tokens.
    """
    now = service.now_ms
    mine = (Account.id == account) & (Account.status != "revoked") & Account.disconnected_at.is_null()
    if secret is not None:
        mine &= _match_secret(secret)
    if Account.update(status="revoked", revoked_reason=reason[:REASON_MAX], updated_at=now).where(mine).execute():
        tx.after_commit(lambda: service.upstream.revoked.add(account))
        sent = Intent.select(Intent.post).where(Intent.account == account, Intent.outcome.is_null())
        service.jobs.hasten(tx, sent, now)  # a later lookup would show no more
        emit_revoked(service, tx, account, now, reason)


def record_refusal(service: AppContext, tx: Tx, before: AccountRow, error: ApiError) -> None:
    """Mark the account revoked or store a refusal on it, unless it was reconnected since.

    `before` is the row from the start of the run; its tokens count where no call was made.
    """
    is_ended = error.rule == "account.reconnect_required"
    if not is_ended and not attention.is_fixable_by_owner(error):
        return
    row = find_row(Account, before["id"])
    if row is None or row["secret"] is None:
        return
    is_current = (
        _has_secret(service, row["id"], row["secret"], error.used)
        if error.used
        else _is_same(row["secret"], before["secret"])
    )
    if is_current and is_ended:
        mark_revoked(service, tx, row["id"], error.message, secret=row["secret"])
    elif is_current:
        attention.save(service, tx, row["id"], error)


def _has_secret(service: AppContext, account: str, secret: str, used: str) -> bool:
    try:
        return digest(decrypt(service, account, secret)) == used
    except ApiError:
        return False  # unreadable tokens are reported when used


def digest(tokens: Tokens) -> str:
    """Digest tokens, telling apart those with the same access token; "" for anonymous."""
    return crypto.digest(f"{tokens.access} {tokens.refresh}") if tokens.access else ""


def emit_revoked(service: AppContext, tx: Tx, account: str, at_ms: int, reason: str) -> None:
    row = get_row(Account, account)
    fields = (account, row["platform"])
    tx.after_commit(
        lambda: log.warning(
            "account %s, %s: its access has expired or was revoked; its owner has to reconnect it", *fields
        )
    )
    data: TokenRevoked = {**_build_common(row), "revokedAt": format_iso(at_ms), "reason": reason}
    events.emit(service, tx, "token.revoked", row["organization"], data, profile=row["profile"])


def emit_expiring(service: AppContext, tx: Tx, account: str, ends_ms: int) -> None:
    row, days = get_row(Account, account), (ends_ms - service.now_ms) // DAY_MS
    fields = (account, row["platform"], format_iso(ends_ms))
    tx.after_commit(
        lambda: log.warning("account %s, %s: its access expires at %s unless its owner reconnects it", *fields)
    )
    data: TokenExpiring = {**_build_common(row), "expiresAt": format_iso(ends_ms), "daysUntilExpiry": days}
    events.emit(service, tx, "token.expiring", row["organization"], data, profile=row["profile"])


def _build_common(row: AccountRow) -> TokenEvent:
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
    service: AppContext,
    platform: str,
    row: AccountRow | None = None,
    tokens: Tokens | None = None,
    bound: Container[str] = frozenset(),
) -> Iterator[Upstream]:
    """Open an upstream connection for one thread, to an account or, without `row`, for a login.

    `bound`: remote ids of other posts.
    """
    runtime, tokens = service.runtime, tokens or Tokens("")
    account = upstreams.build_connector_account(row) if row else ConnectorAccount("")
    with (
        runtime.open_http(runtime.http_policy(guarded=False), upstreams.build_breaker(service, platform)) as http,
        runtime.open_http(
            runtime.http_policy(guarded=True), upstreams.build_custom_host_breaker(service, platform, account)
        ) as guarded,
    ):
        signing = SigningContext(runtime.clock.now_ms, runtime.entropy)
        try:
            yield Upstream(
                http, guarded, service.sites[platform], account, tokens, bound, signing, service.upstream.notes
            )
        except ApiError as error:
            error.platform = error.platform or platform
            raise


def redact_reply(value: Any, tokens: Tokens) -> Any:
    """Redact secrets, including the account's, from an upstream response."""
    return redaction.redact_json(value, _list_secrets(tokens), redaction.RESPONSE_MAX)


def _list_secrets(tokens: Tokens) -> list[str]:
    private = [item for item in tokens.private.values() if isinstance(item, str)]
    return [secret for secret in (tokens.access, tokens.refresh, *private) if secret]
