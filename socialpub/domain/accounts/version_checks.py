"""Daily check whether platforms still serve the pinned API version, and already the next.

Each platform with a connected account gets one harmless call per version. The result is one row per platform, for
metrics, `doctor` and the server page; the end of the pinned version emits `version.deprecated`. A call refused for any
other reason counts as served.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from socialpub import platforms
from socialpub.base.errors import ApiError
from socialpub.base.http import UpstreamResponse
from socialpub.base.runtime import DAY_MS
from socialpub.domain.accounts import api_versions
from socialpub.domain.accounts.api_versions import VersionCheckResult, VersionVerdict
from socialpub.domain.accounts.tokens import decrypt, open_upstream
from socialpub.domain.context.app_context import AppContext
from socialpub.platforms.contract import Platform
from socialpub.platforms.contract import VersionProbe as Call
from socialpub.store.rows import AccountRow
from socialpub.store.schema.models import Account, find_row_where

log = logging.getLogger("socialpub.versions")

FIRST_CHECK_SECONDS = 600.0  # after a start, so that restarts do not repeat the check
CHECK_SECONDS = 3600.0
ENDED_STATUSES = (410, 426)


def check_due(service: AppContext, is_stopping: Callable[[], bool]) -> None:
    """Check each platform that is due."""
    for platform in platforms.PLATFORMS.values():
        if not is_stopping():
            check_platform(service, platform)


def check_platform(service: AppContext, platform: Platform) -> None:
    """Check a platform that is due, and store the result."""
    site, call = service.sites[platform.name], platform.version_probe
    account = service.read(lambda: _pick_account(platform.name)).result() if call and site.enabled else None
    if call is None or account is None or not _is_due(service, platform):
        return
    pin, newer = platform.pinned(site), platform.find_next_version(site)
    verdict, reason = _call_version(service, account, call, pin)
    next_verdict = _call_version(service, account, call, newer)[0] if newer else None
    check = VersionCheckResult(platform.name, pin, verdict, newer, next_verdict, reason, service.now_ms)
    service.write(lambda tx: api_versions.save_check(tx, check)).result()
    if verdict == "ended":
        log.error("%s no longer supports version %s of its API (%s)", platform.label, pin, reason)
        api_versions.notify_all(service, platform)
    else:
        log.info(
            "%s: check of API version %s: %s; of version %s: %s", platform.label, pin, verdict, newer, next_verdict
        )


def _pick_account(platform: str) -> AccountRow | None:
    """Pick an account whose token may make the call; the response is not about the account."""
    connected = Account.disconnected_at.is_null() & Account.secret.is_null(False) & (Account.status != "revoked")
    found: AccountRow | None = find_row_where(Account, (Account.platform == platform) & connected)
    return found


def _is_due(service: AppContext, platform: Platform) -> bool:
    last = service.read(lambda: api_versions.find_check(platform.name)).result()
    if last is None or last.pin != platform.pinned(service.sites[platform.name]):
        return True
    return abs(service.now_ms - last.at) >= DAY_MS


def _call_version(service: AppContext, account: AccountRow, call: Call, version: str) -> tuple[VersionVerdict, str]:
    """Call one version; return the verdict and its reason."""
    platform = account["platform"]
    try:
        tokens = decrypt(service, account["id"], account["secret"] or "")
        with open_upstream(service, platform, account, tokens) as up:
            headers = {"Authorization": f"Bearer {tokens.access}"}
            headers |= {name: text.format(version=version) for name, text in call.headers.items()}
            url = f"{up.site.api_base}/{call.path.format(version=version)}"
            return judge_response(call, version, up.http.request("GET", url, headers=headers))
    except ApiError as error:
        return "unknown", error.message


def judge_response(call: Call, version: str, reply: UpstreamResponse) -> tuple[VersionVerdict, str]:
    """Judge a response: a version refused for another reason counts as served."""
    served = reply.headers.get(call.served, version) if call.served else version
    if served != version:
        return "ended", f"it answered with {served}"
    if reply.status_code in ENDED_STATUSES or (reply.status_code == 404 and "{version}" in call.path):
        return "ended", f"status {reply.status_code}"
    return ("unknown" if reply.status_code >= 500 else "good"), f"status {reply.status_code}"
