"""Shared parts of the forms that create API keys: accounts and expiry."""

from __future__ import annotations

from typing import Any

from socialpub import platforms
from socialpub.base.runtime import DAY_MS, format_iso
from socialpub.domain.access.authentication import Scope
from socialpub.domain.accounts import accounts
from socialpub.domain.schemas.api_keys import ACCOUNTS_MAX
from socialpub.web.http.handler import RequestContext

LIFETIMES = {30: "30 days", 90: "90 days", 365: "a year"}
FIELDS_MAX = ACCOUNTS_MAX + 50
ACCOUNT_FIELD = "account."  # and its id: a ticked account


def list_lifetimes() -> list[tuple[str, str]]:
    """List the options of the field `lifetime` with an end."""
    return [(str(days), f"in {words}") for days, words in LIFETIMES.items()]


def read_accounts(scope: Scope) -> dict[str, Any]:
    """Return the accounts of `settings/parts.html::key_accounts`."""
    rows = accounts.list_rows(scope)
    return {
        "accounts": [(row["id"], row["profile"], platforms.platform(row["platform"]).label) for row in rows],
        "account_names": {row["id"]: row["display_name"] or row["platform_account_id"] for row in rows},
    }


def parse_limits(call: RequestContext, form: dict[str, str]) -> dict[str, Any]:
    """Return the profile, accounts and expiry that a form chose."""
    listed = [name.removeprefix(ACCOUNT_FIELD) for name in form if name.startswith(ACCOUNT_FIELD)]
    days = next((days for days in LIFETIMES if str(days) == form.get("lifetime")), None)
    ends = None if days is None else format_iso(call.service.now_ms + days * DAY_MS)
    return {"profileId": form.get("profile"), "accounts": listed, "expiresAt": ends}
